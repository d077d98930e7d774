"""The installed wheels hold no kernels for this GPU.

What it looks for
    Each device's compute capability against the architectures in the published wheels of torch and vLLM, and against
    what the CUDA of a labelled build (``+cu126``) can compile for. Kernels run on their own major version and its newer
    minors: 8.6 on 8.9, 12.0 on 12.1, but not 9.0 on 10.0. In a log: a kernel image that is not available, or a compiler
    that does not know the device.

Why it hurts
    ``CUDA error: no kernel image is available for execution on the device``, at the first kernel of the model, of vLLM
    or of an optimizer. Blackwell (10.0, 12.0) with a torch before 2.8 from PyPI, whose CUDA 12.6 does not know it,
    although vLLM 0.9 has kernels for it; Volta (7.0) from torch 2.11 and vLLM 0.20 on, whose CUDA 13 dropped it.

How sure it is
    The lists were read from the wheels on PyPI themselves. A build from another index is judged only by its CUDA, a
    build from source not at all. Pascal and older had no kernels in any vLLM that was looked into.

The fix and its cost
    For a new GPU a newer vLLM with its torch, or the same torch built with CUDA 12.8; for an old one the last releases
    that still had its kernels. Rebuild compiled extensions after torch moved.

References
    https://github.com/vllm-project/vllm/issues/14452
    https://github.com/vllm-project/vllm/blob/v0.9.1/CMakeLists.txt
    https://github.com/pytorch/pytorch/blob/v2.7.0/RELEASE.md
    https://docs.nvidia.com/cuda/archive/13.0.0/cuda-toolkit-release-notes/index.html
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from rldoctor.api import (
    Applicability,
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    find,
    version_within,
)
from rldoctor.api.cuda import architectures_of, runs_on, toolkit_knows, toolkit_of
from rldoctor.api.facts import Distribution
from rldoctor.api.packages import needs_of, published_demands
from rldoctor.api.releases import acceptable_releases, release_specifier

from ..observed.imports import install, named
from ..observed.logged_imports import link_of, weight

check = Check("RLD107", "gpu-arch-unsupported", __doc__)


@check.declared(needs=["packages.torch", "gpus.devices"])
def no_kernels(case: Case) -> Iterator[Finding | Reach]:
    """A device of a compute capability that torch or vLLM has no kernels for."""
    assert case.packages is not None and case.gpus is not None
    if case.gpus.vendor != "nvidia":
        raise NotApplicable("there is no NVIDIA device")
    devices = {d.compute_capability: d.name for d in case.gpus.devices if d.compute_capability}
    if not devices:
        raise NotChecked("no device tells its compute capability")
    judged, open_questions = [], []
    found = False
    for package in (find(case.packages, "torch"), find(case.packages, "vllm")):
        if package is None:
            continue
        for capability, name in devices.items():
            why = _missing(package, capability)
            if why is None:
                open_questions.append(f"{package.name} {package.version}")
            elif why:
                found = True
                yield _finding(case, package, capability, name, why)
            else:
                judged.append(f"{package.name} {package.version} on {name} ({capability})")
    if not found and not judged:
        raise NotChecked(f"which GPUs {' and '.join(dict.fromkeys(open_questions))} was built for is not known")
    yield Reach(", ".join(judged))
    if open_questions:
        yield Reach(f"not judged: {', '.join(dict.fromkeys(open_questions))}")


def _missing(package: Distribution, capability: str) -> str | None:
    """Why a package has no kernels for a device: empty where it has, None where that is not known."""
    architectures = architectures_of(package)
    if architectures is not None:
        return "" if runs_on(architectures, capability) else f"built for {', '.join(architectures)}"
    toolkit = toolkit_of(package) if package.name == "torch" else None
    if toolkit is None:
        return None
    return "" if toolkit_knows(toolkit, capability) else f"CUDA {toolkit} cannot compile for it"


def _finding(case: Case, package: Distribution, capability: str, device: str, why: str) -> Finding:
    return check.finding(
        f"{package.name} {package.version} has no kernels for {device} (compute capability {capability}): {why}",
        evidence=(
            Evidence(text=f"{package.name} {package.version}: {why}", source=package.location or None),
            Evidence(text=f"{device}: compute capability {capability}"),
        ),
        fixes=tuple(_fixes(case, package, capability)),
        url="https://github.com/vllm-project/vllm/issues/14452",
    )


def _fixes(case: Case, package: Distribution, capability: str) -> Iterator[Fix]:
    release = package.version.partition("+")[0]
    blackwell = int(capability.partition(".")[0]) >= 10
    if package.name == "torch" and blackwell and version_within(release, ">=2.7"):
        yield Fix(
            title=f"install the same torch built with CUDA 12.8: torch=={release}+cu128",
            commands=(f"uv pip install 'torch=={release}' --torch-backend=cu128 --reinstall",),
            applicability=Applicability.UNSAFE,
            side_effects="torchvision, torchaudio and compiled extensions have to follow",
        )
    versions = [
        version
        for version in acceptable_releases(case, "vllm", needs_of(case).on("vllm"))
        if _serves(case, version, capability)
    ]
    if versions:
        wanted = release_specifier("vllm", tuple(versions[:1] if len(versions) == 1 else (versions[0], versions[-1])))
        yield Fix(
            title=f"install a vLLM whose kernels and torch are built for {capability}: {wanted}",
            commands=(install(case, shlex.quote(wanted)),),
            applicability=Applicability.UNSAFE,
            side_effects="pip replaces torch by the one that this vLLM pins",
        )


def _serves(case: Case, version: str, capability: str) -> bool:
    """Whether a published vLLM and the torch that it pins both have kernels for a device."""
    pins = [d for d in published_demands(case, "vllm", version) if d.on == "torch" and d.exact]
    parts = [Distribution(name="vllm", version=version)]
    parts += [Distribution(name="torch", version=pin.specifier.removeprefix("==")) for pin in pins]
    return all(runs_on(architectures_of(part) or (), capability) for part in parts)


@check.logged(
    "no kernel image is available for execution on the device",
    "is not compatible with the current PyTorch installation",
    "CUDA error: invalid device function",
    "HIP error: invalid device function",
    "' is not defined for option 'gpu-name'",
    "PTXASError: PTXAS error: ",
    "ptxas fatal   : Value 'sm_",
    "/ptxas', ",
    "Unsupported gpu architecture 'compute_",
)
def refused_by_the_device(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``no kernel image is available for execution on the device``."""
    if event.exception is not None and link_of(event) is None:
        return
    around = "\n".join((*event.before, event.text))
    if event.literal.startswith("PTXASError") and "gpu-name" not in around:
        return
    if event.literal.startswith("/ptxas") and re.search(r"'--gpu-name=.*non-zero exit status", event.line) is None:
        return
    reported = re.search(r"(?:sm_|compute_|CUDA capability )(\d+)(\d)a?\b(?= is not|' is not|')", event.line + around)
    capability = f"{reported[1]}.{reported[2]}" if reported else None
    device = f"a GPU of compute capability {capability}" if capability else "this GPU"
    package = find(case.packages, "torch") if case.packages else None
    fixes = tuple(_fixes(case, package, capability)) if package is not None and capability else ()
    compiler = event.literal.startswith(("Unsupported gpu", "PTXASError", "ptxas", "/ptxas")) or (
        "gpu-name" in event.literal
    )
    yield check.finding(
        f"Triton's or CUDA's compiler does not know {device}"
        if compiler
        else f"{named('torch', case)}, vLLM or an extension holds no kernels for {device}",
        severity=weight(event),
        fixes=_OF_AMD
        if "HIP error" in event.line
        else (*(fixes or _OF_EITHER_AGE), *((_OWN_PTXAS,) if "ptxas" in event.literal.lower() else ())),
        url="https://github.com/vllm-project/vllm/issues/14452",
    )


_OWN_PTXAS = Fix(
    title="or let Triton take the ptxas of an installed CUDA toolkit that knows this GPU (13 for 10.3, 11.0 and 12.1)",
    commands=("export TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas",),
)
_OF_EITHER_AGE = (
    Fix(
        title="on a new GPU (Blackwell: 10.0, 12.0): a vLLM from 0.10 on with its torch (CUDA 12.8 or newer), or the "
        "same torch built with CUDA 12.8; then build flash-attn and other extensions again",
        commands=("uv pip install vllm --torch-backend=auto",),
        applicability=Applicability.UNSAFE,
        valid_for="compute capability 10.0 and newer",
        side_effects="torch is replaced, compiled extensions have to follow",
    ),
    Fix(
        title="on an old GPU: the last releases that had its kernels (7.0: torch before 2.11, vLLM before 0.20)",
        commands=("uv pip install 'vllm<0.20' --torch-backend=auto",),
        applicability=Applicability.UNSAFE,
        valid_for="compute capability 7.0",
    ),
    Fix(
        title="see what was built for what",
        commands=('python -c "import torch; print(torch.cuda.get_device_capability(), torch.cuda.get_arch_list())"',),
    ),
)

_OF_AMD = (
    Fix(
        title="take wheels or an image that were built for this GPU's architecture",
        commands=("rocminfo | grep gfx",),
    ),
    Fix.unsafe(
        "or let a near relative's kernels run (10.3.0, 11.0.0)",
        {"env.HSA_OVERRIDE_GFX_VERSION": "11.0.0"},
        side_effects="unsupported: kernels may fault",
    ),
)

_OLD_GPU = re.compile(r"Volta and Turing|V100|\bT4\b|compute capability [67]\.\d|\bsm_?[67]\d")


def _on_an_old_gpu(case: Case, event: LogEvent) -> bool:
    return bool(_OLD_GPU.search("\n".join((*event.run.tail, *event.before, event.text))))


_OLD_KERNELS = (
    Fix.unsafe(
        "keep to kernels that need no newer GPU: no chunked prefill and no prefix cache (they are written in "
        "Triton), float16",
        {"engine.enable_chunked_prefill": False, "engine.enable_prefix_caching": False, "engine.dtype": "float16"},
        valid_for="compute capability 7.0 and 7.5",
        side_effects="max_num_batched_tokens has to reach max_model_len",
    ),
    Fix(
        title="or take the last releases that supported this GPU (7.0: torch before 2.11, vLLM before 0.20), or GPUs "
        "of compute capability 8.0"
    ),
)
check.signature(
    "LLVM ERROR: ",
    "IndexError: map::at",
    when=_on_an_old_gpu,
    says="Triton cannot compile a kernel for this GPU of compute capability 7.x (V100, T4): {line}",
    fixes=_OLD_KERNELS,
    silent=True,
    url="https://github.com/verl-project/verl/issues/985",
)
check.signature(
    "Feature '.bf16' requires .target sm_80",
    "requires .target sm_80 or higher",
    "which is too old to be supported by the triton GPU compiler",
    details=(r"Found (?P<gpu>.{3,60}) which is too old",),
    says="Triton compiles for compute capability 8.0 and newer (for some kernels 7.0), and this GPU[[ "
    "({gpu})]] is older",
    fixes=_OLD_KERNELS,
    url="https://github.com/vllm-project/vllm/issues/2147",
)
# AMD's libraries keep a file of kernels for each architecture.
check.signature(
    "rocBLAS error: Cannot read ",
    "rocblaslt error: Could not load ",
    "rocblaslt error: Cannot read ",
    details=(r"for GPU arch ?: (?P<gpu>gfx\w+)", r"TensileLibrary\w*?_(?P<gpu_2>gfx\w+?)\.dat"),
    says="the installed ROCm libraries hold no kernels for this GPU[[ ({gpu})]], or cannot read them",
    fixes=_OF_AMD,
    silent=True,
    url="https://rocm.docs.amd.com/projects/install-on-linux/en/latest/reference/system-requirements.html",
)
check.signature(
    "Device compute capability 8.9 or higher required for FP8",
    "Device compute capability 10.0 or higher required for",
    pattern=r"Device compute capability (?P<least>[\d.]+) or (?:higher )?required for (?P<what>[\w ]{3,40})",
    says="{what} needs a GPU of compute capability {least}, and this one is older",
    fixes=(Fix(title="train in bfloat16 on this GPU: leave fp8 (--fp8-format, fp8_recipe) out"),),
    url="https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/examples/fp8_primer.html",
)
check.signature(
    " not implemented for Blackwell",
    " not supported on Blackwell",
    " not supported for Blackwell",
    " not implemented for Hopper",
    " not supported on Hopper",
    pattern=r"(?P<what>[A-Za-z][\w -]{2,60}?) (?:is|are) (?:currently )?not (?:implemented|supported) (?:for|on) "
    r"(?P<gpu>Blackwell|Hopper)",
    exception=("RuntimeError", "NotImplementedError", "ValueError", "AssertionError"),
    says="the installed kernels have no {what} for this GPU ({gpu})",
    fixes=(
        Fix(
            title="take a newer release of the engine with its torch: kernels follow a new GPU over several releases",
            commands=("uv pip install --upgrade vllm --torch-backend=auto",),
            applicability=Applicability.UNSAFE,
            side_effects="torch is replaced, compiled extensions have to follow",
        ),
        Fix(title="or weights in bfloat16, or in a quantization that this release has kernels for on this GPU"),
    ),
    url="https://github.com/vllm-project/vllm/issues/16515",
)
# What bitsandbytes' own CUDA code prints before it ends the process.
check.signature(
    "Error named symbol not found at line ",
    "Error no kernel image is available for execution on the device at line ",
    "Error invalid device function at line ",
    pattern=r"Error (?P<why>named symbol not found|no kernel image is available[\w ]*|invalid device function) "
    r"at line \d+ in file \S*?/csrc/\w+\.cu",
    says="the compiled library of bitsandbytes holds no kernels for this GPU ({why})",
    fixes=(
        Fix(
            title="take a release of bitsandbytes that was built for this GPU and CUDA (compute capability 7.5 and "
            "newer for all of it)",
            commands=("pip install --upgrade bitsandbytes", "python -m bitsandbytes"),
        ),
        Fix(title="or build it for this GPU: cmake -DCOMPUTE_BACKEND=cuda -DCOMPUTE_CAPABILITY=61 -S ."),
    ),
    silent=True,
    url="https://github.com/bitsandbytes-foundation/bitsandbytes/issues/374",
)
check.signature(
    "triton.runtime.errors.OutOfResources: out of resource: shared memory",
    pattern=r"Required: (?P<needed>\d+), Hardware limit: (?P<limit>\d+)",
    says="a Triton kernel needs {needed} bytes of shared memory per block, and this GPU has {limit}",
    fixes=(
        Fix(title="take a release of the package in the innermost frame that has block sizes for this GPU"),
        Fix.unsafe(
            "or another attention backend, where the kernel is an attention kernel",
            {"env.VLLM_ATTENTION_BACKEND": "FLASHINFER"},
            side_effects="FlashInfer has to be installed",
        ),
    ),
    url="https://github.com/triton-lang/triton/issues/2120",
)


# The compiler knows the device, and a kernel was written for another of the same generation.
check.signature(
    "' not supported on .target 'sm_",
    pattern=r"Feature '(?P<feature>[^'\n]{1,120})' not supported on \.target 'sm_(?P<number>\d+)[af]?'",
    says="a kernel uses an instruction ({feature}) that a GPU of sm_{number} does not have: it was written for another "
    "device",
    fixes=(
        Fix(title="install a vLLM and a Triton that choose their kernels for this GPU: later releases of both"),
        Fix(title="or take another backend for the layer that the traceback names (attention, MoE, quantization)"),
    ),
    url="https://github.com/vllm-project/vllm/issues/27542",
)
