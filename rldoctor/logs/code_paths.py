"""Whose code a frame is: installed packages' and frameworks', or the user's own."""

from __future__ import annotations

from rldoctor.expressions import expression
from rldoctor.frameworks import trainers

_GENERATED = "".join(rf"|/{f.words.generated}/" for f in trainers() if f.words.generated)
_WRITTEN = tuple((f"/{f.words.generated}/", f.modules[0]) for f in trainers() if f.words.generated)
# Environments and the standard library, wherever they lie.
_INSTALLED = expression(
    r"site-packages/|dist-packages/|/lib(?:64)?/python\d|/(?:mini|ana)conda\d?/|/(?:opt|usr/local|usr)/(?:venv|conda|lib)/"
    r"|/\.?venv[^/]*/|/envs/[^/]+/lib/|^<frozen|^<(?:string|stdin|template|attrs|__array_function__)|\.pyx$|\.pxi$"
    r"|/python3\.\d+/|^/tmp/ray/session|torchinductor_|^/(?:root|home/[^/]+)/\.cache/|\.cache/huggingface/"
    r"|/(?:envs|\w*conda\d?|\.?venv\w*|usr|local|\.local)/(?:[^/]+/)?bin/[\w-]+$" + _GENERATED
)
# Ray copies the folder from which a job was submitted to each node.
_SUBMITTED = expression(r"^.*/working_dir_files/[^/]+/")
# Programs that a checkout brings beside its package: who runs one has its copy, and changes it.
_PROGRAMS = expression(r"^.*/(?:examples?|recipes?)/")
# A checkout's root and the package in it: what lies below is that package's own, whatever its folders are called.
_DOUBLED = expression(r"/(?P<name>[A-Za-z]\w*)/(?P=name)/")
# Frameworks have folders that are called like what they adapt (``NAME/models/generation/vllm/``).
_TRAINERS = frozenset(module for framework in trainers() for module in framework.modules)
# Trainers that no dialect reads.
_OTHERS = (
    "agentlightning|coati|colossalai|cosmos_rl|dschat|llamafactory|llmtuner|lmflow|miles|nemo_aligner|nemo_automodel|"
    "oat|open_instruct|realhf|rlinf|rllm|trinity|trlx|xtuner"
)
# What engines and trainers are made of, in checkouts of its own: devices' plugins, kernels, bridges, transports.
_PARTS = (
    "checkpoint_engine|deep_ep|deep_gemm|flashinfer|fla|kernels|liger_kernel|lmcache|mbridge|mindspeed|mindspeed_llm|"
    "tensordict|torch_npu|torchtitan|transformer_engine|verifiers|vllm_ascend|vllm_omni"
)
# They are often run from a checkout, whose files lie beside the user's own.
_CHECKOUT = expression(
    rf"(?:^|/)(?:{'|'.join(_TRAINERS)}|{_OTHERS}|{_PARTS}|vllm|torch|torchvision|transformers|accelerate|deepspeed|ray|peft|datasets|sglang|flash_attn|megatron|"
    r"apex|xformers|bitsandbytes|triton|safetensors|huggingface_hub|tokenizers|numpy|pandas|hydra|omegaconf)/"
)
_HOME = expression(r"^/(?:home|Users|data|mnt|workspace)/[^/]+/")
# Where an installed file's path names its package: below site-packages, below an environment that holds packages
# directly (pip install --target), and in the name of a frame that Cython wrote (``init pandas._libs.interval``).
_SITE = expression(r"(?:site|dist)-packages/(?P<name>[^/]+)|/(?:venv|\.venv)/(?!lib(?:64)?/|bin/)(?P<target>[^/]+)/")
_LIBRARY = expression(r"/lib(?:64)?/python\d[^/]*/|^<frozen|/python3\d+\.zip/")
_CYTHON = expression(r"(?:init )?(?P<name>\w+)\.")


def is_installed(file: str) -> bool:
    """Whether a frame's file lies in an environment or in the standard library."""
    return _INSTALLED.search(_SUBMITTED.sub("", file)) is not None


def is_users(file: str) -> bool:
    """Whether a frame's file is neither installed nor part of a framework's checkout."""
    return not is_installed(file) and not _checkouts(file)


def _checkouts(file: str) -> list[str]:
    """The packages whose checkouts a path goes through, outermost first."""
    # A user or a volume may be called like a package.
    path = _HOME.sub("/", _SUBMITTED.sub("", file))
    if _DOUBLED.search(path) is None:
        path = _PROGRAMS.sub("/", path)
    found = [match[0].strip("/") for match in _CHECKOUT.finditer(path)]
    doubled = _DOUBLED.search(path)
    if doubled is None or any(f"/{name}/{name}/" in path for name in found):
        return found
    return [name for name in found if f"/{name}/" in path[: doubled.end()]]


def package_of(file: str, function: str = "") -> str | None:
    """The top-level package that a frame's or a library's file belongs to, ``python`` for the standard library, or
    None where the path names none (the user's own code)."""
    if file.endswith((".pyx", ".pxi", ".pxd")) and not file.startswith("/"):
        match = _CYTHON.match(function)
        return match["name"] if match is not None else None
    *_, site = [None, *_SITE.finditer(file)]
    if site is not None:
        return (site["name"] or site["target"]).partition(".")[0]
    if _LIBRARY.search(file):
        return "python"
    written = next((module for folder, module in _WRITTEN if folder in file), None)
    if written is not None:
        return written
    folders = _checkouts(file)
    doubled = [name for name in folders if f"/{name}/{name}/" in file]  # a checkout's root and its package
    trainers = [name for name in folders if name in _TRAINERS]
    return next(iter([*doubled[-1:], *trainers, *folders[-1:]]), None)


def module_of(file: str) -> str:
    """The module of an installed package or a checkout that a frame's file holds (``vllm.v1.engine.core``), or empty
    where the path names none."""
    package = package_of(file)
    if package in (None, "python") or not file.endswith(".py") or any(folder in file for folder, _ in _WRITTEN):
        return ""
    parts = file.removesuffix(".py").removesuffix("/__init__").split("/")
    sites = [position for position, part in enumerate(parts) if part in ("site-packages", "dist-packages")]
    start = sites[-1] + 1 if sites else parts.index(str(package))
    while not sites and parts[start + 1 : start + 2] == [package]:
        start += 1  # a checkout's root and its package
    return ".".join(parts[start:])
