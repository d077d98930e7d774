"""What mends a compiled extension that does not fit: another build of it, or of what it was built against."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Applicability, Case, Fix

from ...observed.imports import applies, install, named, requirements, version_of
from ...observed.misfits import Mismatch
from .companions import TORCHVISION, companion

# GCC's first release with each symbol version: https://gcc.gnu.org/onlinedocs/libstdc++/manual/abi.html
GCC = {"3.4.29": "11", "3.4.30": "12", "3.4.31": "13.1", "3.4.32": "13.2", "3.4.33": "14.1", "3.4.34": "15.1"}


# What comes with the system or its image, not with a package.
_RUNTIMES = ("libstdc++", "glibc", "libgomp")
_OWN_NCCL = Fix(
    title="take the other NCCL out of LD_LIBRARY_PATH and LD_PRELOAD, so that torch loads its own",
    commands=("unset LD_LIBRARY_PATH LD_PRELOAD",),
)


def mending(found: Mismatch, case: Case) -> tuple[Fix, ...]:
    """The fixes for one misfit, the most likely first."""
    if found.against == "NCCL":
        return (_OWN_NCCL,)
    if found.against in _RUNTIMES:
        return (_newer_runtime(found),)
    if found.against == "numpy":
        return _other_numpy(found.package, case)
    if found.package in ("torchvision", "torchaudio"):
        return companion_fixes(found.package, case)
    if found.package == "vllm":
        return (_vllm_and_its_torch(case),)
    return _built_again(found.package, case)


def _newer_runtime(found: Mismatch) -> Fix:
    gcc = GCC.get(found.detail.rpartition("_")[2])
    newer = f" (GCC {gcc} or newer)" if gcc else ""
    conda = ("conda install -c conda-forge libstdcxx-ng", 'export LD_LIBRARY_PATH="$CONDA_PREFIX/lib"')
    return Fix(
        title=f"use an image or a conda environment with a newer {found.against}{newer}",
        commands=conda if found.against == "libstdc++" else (),
    )


def _other_numpy(name: str, case: Case) -> tuple[Fix, ...]:
    return (
        Fix(
            title=f"a {name} release that was built against this numpy",
            applicability=Applicability.UNSAFE,
            commands=(install(case, "--upgrade", name),),
        ),
        Fix(
            title=f"or the numpy 1 that {name} was built against",
            applicability=Applicability.UNSAFE,
            commands=(install(case, "'numpy<2'"),),
            side_effects="other packages may need numpy 2",
        ),
    )


def _vllm_and_its_torch(case: Case) -> Fix:
    pin = next(iter(pins("vllm", case)), None)
    if pin:
        return Fix(
            title=f"the torch that this vLLM was built with ({pin}), or a vLLM built for {named('torch', case)}",
            applicability=Applicability.UNSAFE,
            commands=(install(case, f"torch=={pin}"),),
            side_effects="torchvision, torchaudio and compiled extensions follow torch",
        )
    version = version_of("vllm", case)
    return Fix(
        title="install vLLM again together with the torch that it pins, or a vLLM built for the installed torch",
        applicability=Applicability.UNSAFE,
        commands=(install(case, "--force-reinstall", f"vllm=={version}" if version else "vllm"),),
        side_effects="torch is replaced; torchvision, torchaudio and compiled extensions follow it",
    )


def _built_again(name: str, case: Case) -> tuple[Fix, ...]:
    version = version_of(name, case)
    anew = "--force-reinstall --no-deps --no-cache-dir --no-build-isolation"
    return (
        Fix(
            title=f"build or install {name} again for the installed torch",
            applicability=Applicability.UNSAFE,
            commands=(install(case, anew, f"{name}=={version}" if version else name),),
        ),
        Fix(title=f"or remove {name} where nothing needs it", commands=(install(case, name, verb="uninstall"),)),
    )


def companion_fixes(name: str, case: Case) -> tuple[Fix, ...]:
    """The torchvision or torchaudio that belongs to the torch at hand, or none at all."""
    release = companion(name, version_of("torch", case))
    remove = Fix(
        title=f"remove {name} where nothing needs it (text-only training does not)",
        applicability=Applicability.UNSAFE,
        commands=(install(case, name, verb="uninstall"),),
        side_effects="image processors that use it are not available then",
    )
    if release is None:
        return (*_companions_by_torch(name, case), remove)
    return (
        Fix(
            title=f"the {name} that belongs to {named('torch', case)}, from the index that torch came from",
            applicability=Applicability.UNSAFE,
            commands=(install(case, "--force-reinstall", "--no-deps", f"{name}=={release}"),),
            valid_for=f"torch {version_of('torch', case)}",
        ),
        remove,
    )


def _companions_by_torch(name: str, case: Case) -> Iterator[Fix]:
    """Where torch's version is not known: the pairs."""
    known = [(torch, companion(name, torch)) for torch in TORCHVISION]
    pairs = [f"{release} for torch {torch}" for torch, release in known if release is not None]
    if pairs and not version_of("torch", case):
        yield Fix(
            title=f"install the {name} that belongs to the installed torch, from the index that torch came from: "
            + ", ".join(reversed(pairs[-8:])),
            applicability=Applicability.UNSAFE,
            commands=(
                'python -c "import torch; print(torch.__version__)"',
                install(case, "--force-reinstall", "--no-deps", f"{name}==RELEASE"),
            ),
        )


def pins(package: str, case: Case) -> list[str]:
    """The exact torch releases that a package declares here."""
    torch = [r for r in requirements(package, case) if r.name == "torch" and applies(r)]
    return [part.version for requirement in torch for part in requirement.specifier if part.operator == "=="]
