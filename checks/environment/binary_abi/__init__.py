"""A compiled extension was built for another torch, CUDA or C++ library than the one it is loaded into.

What it looks for
    Observed: each heavy package is imported in a process of its own, and the exception that began the failure names the
    misfit: an operator that was never registered (``operator torchvision::nms does not exist``), an undefined symbol, a
    ``GLIBCXX_...`` that is not there, a CUDA library of another release, a changed ``numpy.dtype``, a crash in native
    code while a library is loaded. The blame goes to the package that owns the extension, not to the one whose import
    failed because of it, and several failed imports with one cause are one finding. Libraries whose failure the package
    swallows (vLLM's ``_C``) count too. Declared, where nothing was imported: torchvision and torchaudio of a release
    that belongs to another torch. In a log: the same messages, in the exception that ended the run.

Why it hurts
    ``import transformers`` or ``from vllm import LLM`` fails with a message that names a third package, or the process
    dies without a word, usually on every rank and after the queue for the GPUs was waited for.

How sure it is
    An import that fails is a fact; the message decides who is blamed. A crash while a library is loaded is most often
    such a misfit, or instructions that this CPU lacks (``SIGILL``); a crash elsewhere is not reported here. Without the
    import probe a torchvision of another minor release of torch is reported from versions alone; patch releases of one
    minor share their interface.

The fix and its cost
    Install the build that belongs to the installed torch, from the index that torch came from (PyPI's torchvision for
    Linux is a CUDA build and does not fit ``torch+cpu``), or remove a package that nothing needs. An extension that
    compiles itself (flash-attn) has to be built again. ``GLIBCXX``: a newer libstdc++ (conda's, or a newer base image)
    in front of the system's.

References
    https://github.com/pytorch/vision#installation
    https://github.com/pytorch/vision/blob/v0.22.1/torchvision/extension.py
    https://numpy.org/doc/stable/dev/depending_on_numpy.html#numpy-2-abi-handling
    https://gcc.gnu.org/onlinedocs/libstdc++/manual/abi.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from packaging.version import Version

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    Grade,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    Severity,
    find,
    version_within,
)
from rldoctor.api.facts import Distribution

from ...observed.imports import (
    CORE,
    Failure,
    failures,
    imports,
    named,
    reached,
    requirements,
    rollout_failure,
    stopped,
    swallowed,
    version_of,
)
from ...observed.logged_imports import as_logged, failure_of
from ...observed.misfits import CRASHES, Mismatch, mismatch
from .companions import built_for
from .fixes import companion_fixes, mending
from .fixes import pins as declared_pins

check = Check("RLD105", "binary-abi-mismatch", __doc__)

# What a build for CUDA asks the loader for.
CUDA_BUILD = re.compile(r"lib(?:cudart|c10_cuda|torch_cuda|nvrtc)[\w-]*\.so")


@check.observed(needs=["observations.imports"])
def imports_fail(case: Case) -> Iterator[Finding | Reach]:
    """An import failed on a misfit, or swallowed one of the package's own libraries."""
    yield from _judge((*failures(case), *swallowed(case)), case)
    yield reached(case, "imports", "stack", f"{len(imports(case))} packages imported or tried")


@check.observed(needs=["observations.rollout"])
def rollout_fails(case: Case) -> Iterator[Finding | Reach]:
    """The rollout ended at an extension that is loaded late."""
    failure = rollout_failure(case)
    yield from _judge((failure,) if failure else (), case)
    yield reached(case, "rollout", "miniature", "a rollout loaded its extensions")


@check.declared(needs=["packages.torch"])
def another_release(case: Case) -> Iterator[Finding | Reach]:
    """torchvision or torchaudio of a release that was built for another torch."""
    torch = find(case.packages, "torch") if case.packages else None
    # What was imported is judged by what came of it.
    names = [name for name in ("torchvision", "torchaudio") if name not in imports(case)]
    found = {name: find(case.packages, name) for name in names} if case.packages else {}
    if torch is None or not any(found.values()):
        raise NotApplicable("neither torchvision nor torchaudio is installed unimported")
    fits: list[str] = []
    unknown: list[str] = []
    for name, package in found.items():
        if package is None:
            continue
        wanted = _wanted_torch(package, case)
        if wanted is None:
            unknown.append(f"{name} {package.version}")
            continue
        if _belongs(wanted, torch.version):
            fits.append(f"{name} {package.version} with torch {torch.version}")
            continue
        yield check.finding(
            f"{name} {package.version} was built for torch {wanted.removeprefix('==')}, "
            f"torch {torch.version} is installed",
            evidence=(
                Evidence(text=f"Requires-Dist: torch{wanted}", source=f"{name} {package.version}"),
                Evidence(text=f"torch {torch.version}", source="installed distributions"),
            ),
            fixes=companion_fixes(name, case),
        )
    if unknown and not fits:
        raise NotChecked(f"which torch {' and '.join(unknown)} was built for is not known", how="--level imports")
    yield Reach("; ".join((*fits, *(f"not judged: {text}" for text in unknown))))


@check.logged(
    "undefined symbol: ",
    "'_OpNamespace' '",
    "operator torchvision::",
    "operator torchaudio::",
    "RuntimeError: operator ",
    "' not found (required by ",
    ": cannot open shared object file",
    "compiled with different CUDA",
    "size changed, may indicate binary incompatibility",
    "compiled using NumPy 1.x cannot be run in",
    "numpy.core.multiarray failed to import",
    "_ARRAY_API not found",
    "module compiled against ABI version",
    "module compiled against API version",
    ": invalid ELF header",
    ": wrong ELF class",
    ".so: file too short",
)
def logged(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The same misfits as a log tells them."""
    failure = failure_of(event, case)
    found = mismatch(failure, case) if failure is not None else None
    if failure is not None and found is not None and found.package and not _in_front(found):
        yield as_logged(_finding([(failure, found)], case), event)


# All that is left of the loader's line where the library's name before it was cut off.
check.signature(
    "undefined symbol: ",
    pattern=r"(?m)^(?:\w+: )?undefined symbol: (?P<symbol>_Z\w*?(?:3c10|2at|5torch|6caffe2)\w*)",
    says="a compiled extension asks torch for {symbol}, which the installed release does not have: it was built for "
    "another torch",
    fixes=(
        Fix(
            title="see whose library it is in the line that the loader printed (NAME.so: undefined symbol), and "
            "install a build of it for this torch, or build it anew",
            commands=("pip install --no-build-isolation --no-cache-dir --force-reinstall --no-deps PACKAGE",),
        ),
    ),
    url="https://github.com/Dao-AILab/flash-attention/issues/919",
)


# The loader's line alone, without the import that it ended.
check.signature(
    ": cannot open shared object file",
    pattern=r"(?m)^(?:ImportError|OSError): (?P<library>lib(?:torch|c10|cudart|cublas|cusparse|cusolver|cufft|curand"
    r"|nvrtc|nvJitLink)\w*\.so(?:\.(?P<major>\d+))?[.\d]*): cannot open",
    when=lambda case, event: not event.frames,
    says="a compiled package asks for {library}, which is not there: it was built for another torch or CUDA[[, with "
    "CUDA {major}]]",
    fixes=(
        Fix(
            title="see whose import asks for it (the frames above the line), and install that package's build for the "
            "installed torch and its CUDA",
            commands=("python -c 'import torch; print(torch.__version__, torch.version.cuda)'",),
        ),
    ),
    url="https://docs.vllm.ai/en/latest/getting_started/installation/gpu.html",
)


# vllm/_custom_ops.py up to 0.5.0 goes on without the names that its extension has; the import's own reason is a warning
# at the engine's start.
check.signature(
    "_ops' is not defined",
    pattern=r"NameError: name '(?P<name>\w+_ops)' is not defined",
    exception="NameError",
    when=lambda case, event: bool(event.frames) and event.frames[-1].file.endswith("/vllm/_custom_ops.py"),
    says="vLLM runs without its compiled extension ({name}), which did not load",
    fixes=(
        Fix(title="see why it does not load", commands=("python -c 'import vllm._C'",)),
        Fix(
            title="install vLLM again together with the torch that it pins, where no other copy of it is",
            commands=("python -m pip install --force-reinstall vllm",),
        ),
    ),
    url="https://github.com/vllm-project/vllm/issues/4229",
)


# Its __init__ goes on without the half whose extension does not load.
check.signature(
    "module 'transformer_engine' has no attribute '",
    pattern=r"AttributeError: module 'transformer_engine' has no attribute '(?P<name>pytorch|jax)'",
    says="transformer_engine.{name} does not load: its extension is absent or was built for another torch or CUDA, and "
    "the package hides why",
    fixes=(
        Fix(title="see why it does not load", commands=("python -c 'import transformer_engine.pytorch'",)),
        Fix(
            title="build it for the installed torch",
            commands=(
                "pip install --no-build-isolation --no-cache-dir --force-reinstall 'transformer-engine[pytorch]'",
            ),
        ),
    ),
    url="https://github.com/NVIDIA/TransformerEngine/issues/1014",
)


def _in_front(found: Mismatch) -> bool:
    """Whether torch's own libraries meet another NCCL or CUDA: a library path puts it there (RLD109)."""
    nccl = found.against == "NCCL" or found.detail.startswith("libnccl")
    return nccl or (found.against == "CUDA" and found.package in ("torch", "nvidia"))


def _judge(failed: Iterable[Failure], case: Case) -> Iterator[Finding]:
    """One finding for each misfit, however many imports it stopped."""
    groups: dict[tuple[str, str], list[tuple[Failure, Mismatch]]] = {}
    for failure in failed:
        found = mismatch(failure, case)
        if found is not None:
            groups.setdefault((found.package, found.against), []).append((failure, found))
    for members in groups.values():
        yield _finding(members, case)


def _finding(members: list[tuple[Failure, Mismatch]], case: Case) -> Finding:
    found = members[0][1]
    others = stopped([failure for failure, _ in members], but=found.package)
    texts = dict.fromkeys(f"{failure.package}: {m.text}" for failure, m in members)
    reasons = dict.fromkeys(
        f"{entry['path']}: {entry['message']}"
        for failure, _ in members
        for entry in failure.native
        if entry.get("package") == found.package.replace("-", "_") and entry["message"] not in found.text
    )
    torch = version_of("torch", case)
    pins = [
        Evidence(text=f"{found.package} declares torch=={pin}", source="installed metadata")
        for pin in declared_pins(found.package, case)
        if not _same_minor(pin, torch)
    ]
    sentence = _sentence(found, case)
    if found.against == "torch" and torch.endswith("+cpu") and any(CUDA_BUILD.search(reason) for reason in reasons):
        sentence = (
            f"{named(found.package, case)} is a build for CUDA, the installed {named('torch', case)} one for the CPU"
        )
    return check.finding(
        sentence + (f"; it stops {others}" if others else ""),
        # An optional package that is broken and stops nothing else is no more than a warning.
        severity=Severity.ERROR if others or found.package in CORE else Severity.WARNING,
        grade=Grade.OBSERVED,
        evidence=(
            *(Evidence(text=text, source=members[0][0].source) for text in texts),
            *(Evidence(text=text, source="dynamic loader") for text in reasons),
            *pins,
        ),
        fixes=mending(found, case),
    )


def _sentence(found: Mismatch, case: Case) -> str:
    package, torch = named(found.package, case), named("torch", case)
    if found.against in CRASHES:
        cause = (
            "instructions that this CPU lacks" if found.against == "SIGILL" else "native code that does not fit here"
        )
        return f"{package} crashes the process with {found.against} while it is imported: {cause}"
    sentences = {
        "torch": f"{package} was not built for the installed {torch}",
        "CUDA": f"{package} was built for another CUDA than the one of {torch}",
        "NCCL": f"{package} finds an NCCL in front of its own that lacks {found.detail}",
        "libstdc++": f"{package} needs a newer libstdc++ ({found.detail})",
        "glibc": f"{package} needs a newer system C library ({found.detail})",
        "numpy": f"{package} was compiled against another numpy than the installed {named('numpy', case)}",
        "Python": f"{package} was compiled for another Python",
        "the file": f"{package} holds a library that is damaged or for another platform",
    }
    return sentences.get(found.against, f"{package} does not fit a library that it loads ({found.detail})")


def _wanted_torch(package: Distribution, case: Case) -> str | None:
    """The torch that a package was built for, as a specifier: by its metadata, or else by the table."""
    declared = [r for r in requirements(package.name, case) if r.name == "torch"]
    if declared:
        pinned = declared_pins(package.name, case)
        return f"=={pinned[0]}" if pinned else str(declared[0].specifier) or None
    known = built_for(package.name, package.version)
    return f"=={known}" if known else None


def _belongs(wanted: str, torch: str) -> bool:
    if wanted.startswith("=="):
        return _same_minor(wanted.removeprefix("=="), torch)
    return version_within(torch, wanted) is not False


def _same_minor(one: str, other: str) -> bool:
    """Whether two releases share major and minor; a version that cannot be read is not held against anyone."""
    try:
        return Version(one).release[:2] == Version(other).release[:2]
    except ValueError:
        return True


# Packages that look for their own library, by the name of torch's CUDA or of their own part.
check.signature(
    "CUDA Setup failed despite GPU being available",
    "CUDA Setup failed despite CUDA being available",
    "Configured CUDA binary not found at ",
    "Configured ROCm binary not found at ",
    details=(r"libbitsandbytes_(?P<what>\w+?)\.so",),
    says="bitsandbytes has no library for this torch's CUDA[[ ({what})]]",
    fixes=(
        Fix(
            title="take the bitsandbytes that has it",
            commands=("pip install --upgrade bitsandbytes", "python -m bitsandbytes"),
        ),
    ),
    url="https://huggingface.co/docs/bitsandbytes/installation",
)
check.signature(
    "Could not find shared object file for Transformer Engine",
    says="Transformer Engine was installed without its part for torch, or for another torch",
    fixes=(
        Fix(
            title="build it against the installed torch",
            commands=("pip install --no-build-isolation --no-cache-dir 'transformer_engine[pytorch]'",),
        ),
    ),
    url="https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/installation.html",
)
