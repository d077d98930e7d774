"""Which package is absent where an import fails: its distribution, and the operating system's package for a library."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

from rldoctor.api import Case, dataclass, find
from rldoctor.api.packages import canonical

from .imports import Failure, distribution, owner, requirements

_LIBRARY = re.compile(r"(lib[\w+.-]+?\.so[.\d]*): cannot open shared object file")
# A shared library's name -> the package that brings it, on Debian and Ubuntu.
SYSTEM_LIBRARIES = {
    "libGL.so": "libgl1",
    "libEGL.so": "libegl1",
    "libgthread-2.0.so": "libglib2.0-0",
    "libglib-2.0.so": "libglib2.0-0",
    "libsndfile.so": "libsndfile1",
    "libmpi.so": "libopenmpi3",
    "libnuma.so": "libnuma1",
    "libibverbs.so": "libibverbs1",
    "libgomp.so": "libgomp1",
    "libxcb.so": "libxcb1",
    "libaio.so": "libaio1",
    "libpython": "libpython3-dev",
}
# What torch's CUDA builds take from NVIDIA's packages, by the stem of the library: the Requires-Dist of torch,
# https://github.com/pytorch/pytorch/blob/v2.7.1/.github/scripts/generate_binary_build_matrix.py
CUDA_LIBRARIES = {
    "libcudart": "nvidia-cuda-runtime",
    "libcublas": "nvidia-cublas",
    "libcublasLt": "nvidia-cublas",
    "libcudnn": "nvidia-cudnn",
    "libcufft": "nvidia-cufft",
    "libcufile": "nvidia-cufile",
    "libcupti": "nvidia-cuda-cupti",
    "libcurand": "nvidia-curand",
    "libcusolver": "nvidia-cusolver",
    "libcusparse": "nvidia-cusparse",
    "libcusparseLt": "nvidia-cusparselt",
    "libnccl": "nvidia-nccl",
    "libnvJitLink": "nvidia-nvjitlink",
    "libnvrtc": "nvidia-cuda-nvrtc",
    "libnvshmem_host": "nvidia-nvshmem",
}

# One name for several distributions, of which one is present and the other is not.
NAMESPACES = frozenset({"azure", "backports", "google", "nvidia", "opentelemetry", "ruamel"})
# How libraries say by themselves that a package is absent, and what they call it.
SAID = re.compile(
    r"the package (?:for )?(?P<attention>FlashAttention\d?|flash_attn\w*) "
    r"(?:doesn't seem to be|seems to be not) installed"
    r"|requires (?:the )?(?:latest version of )?`?(?:\U0001f917 )?(?P<needed>[A-Za-z][\w. -]*?)`? library but it was "
    r"not found in (?:your|the) environment"
    r"|requires (?:the latest version of )?(?P<tool>[A-Za-z][\w-]*)(?:: | \()`pip install"
    r"|[`'\"](?P<quoted>[A-Za-z][\w-]*)[`'\"] (?:library |package )?is not (?:installed|available and `?use_vllm)"
    r"|(?P<absent>[A-Za-z][\w-]*) (?:library |package )?is not (?:installed|available and `?use_vllm)"
    r"|Callback requires (?:the )?[`'\"]?(?P<reporter>[A-Za-z][\w-]*)(?: client library)?(?:>=[\w.]+)?[`'\"]? "
    r"to be installed"
    r"|[Pp]lease install (?P<advised>bitsandbytes|deepspeed|timm)\W",
)
# Modules that newer releases of their distribution do not bring any more:
# https://setuptools.pypa.io/en/latest/pkg_resources.html
NEEDED = {"pkg_resources": "<81"}
# What a sentence may call absent without quotation marks: any other word there ("the package is not installed", "a
# driver is not installed") is no name.
OPTIONAL = frozenset(
    re.findall(
        r"\S+",
        "accelerate apex av awq bitsandbytes datasets decord deepspeed diffusers fastapi flash-attn "
        "flash-attn-3 flashinfer "
        "flashinfer-python gptqmodel liger-kernel math-verify megatron-core mindspeed mlflow modelscope "
        "ms-swift ninja nltk "
        "openai opencv-python-headless optimum peft pynvml qwen-vl-utils ray sentencepiece sglang swanlab "
        "sympy tensorboard "
        "tensordict tiktoken timm torch torchaudio torchcodec torchvision transformer-engine transformers triton trl "
        "unsloth unsloth-zoo uvloop vllm wandb xformers zmq",
    )
)
# What they call otherwise than its distribution.
CALLED = {
    "beautiful-soup": "beautifulsoup4",
    "flashattention": "flash-attn",
    "flashattention2": "flash-attn",
    "flashattention3": "flash-attn-3",
    "flashattention4": "flash-attn-4",
    "liger": "liger-kernel",
    "opencv": "opencv-python-headless",
    "pytorch": "torch",
    "pyav": "av",
}


@dataclass(frozen=True)
class Missing:
    """What is absent: ``package`` to install, ``module`` or library as the import named it, ``system`` whether it is
    the operating system's, and the distribution that asked for it."""

    package: str
    module: str
    importer: str
    system: bool = False


def in_namespace(found: Missing | None, case: Case) -> Missing | None:
    """A dotted name is absent below a parent that is there: another package only where several share the parent."""
    if found is None or "." not in found.module or ".so" in found.module:
        return found
    parent, _, rest = found.module.partition(".")
    if parent not in NAMESPACES:
        return None
    package = (
        distribution(parent, case.packages) if found.module == "google.protobuf" else canonical(f"{parent}-{rest}")
    )
    return replace(found, package=package)


def missing(failure: Failure, case: Case) -> Missing | None:
    """The absent package behind a failed import, or None where the failure is of another kind."""
    root = failure.root
    if root is None:
        return None
    importer = owner(root["frames"], case) or failure.package
    if root.get("name") and root["type"] in ("ModuleNotFoundError", "importlib.metadata.PackageNotFoundError"):
        module = str(root["name"]).partition(".")[0]
        package = distribution(module, case.packages)
        if package == canonical(module) and module in sys.stdlib_module_names:
            return None  # another Python, or one that was built without it: nothing to install
        present = case.packages is not None and find(case.packages, package) is not None
        # With a frame of its own, the package is there and only a part of it is not.
        inside = any(frame.get("package") == module for frame in root["frames"])
        return None if present or inside else Missing(package, str(root["name"]), importer)
    if match := _LIBRARY.search(str(root["message"])):
        return _library(match[1], importer, case)
    return None


def _library(library: str, importer: str, case: Case) -> Missing | None:
    stem = library.partition(".so")[0]
    system = next((p for name, p in SYSTEM_LIBRARIES.items() if library.startswith(name)), None)
    if system is not None:
        return Missing(system, library, importer, system=True)
    package = CUDA_LIBRARIES.get(stem)
    torch = find(case.packages, "torch") if case.packages else None
    if package is None or importer != "torch" or torch is None:
        return None  # an extension that asks for another CUDA than torch's is no missing package
    declared = [r.name for r in requirements("torch", case) if r.name.startswith(package)]
    absent = next((name for name in declared if case.packages and find(case.packages, canonical(name)) is None), None)
    return Missing(absent, library, importer) if absent else None
