"""What published CUDA builds of torch and vLLM were built for: toolkit, GPU architectures, driver, NCCL.

torch's architectures are the flags compiled into ``libtorch_python.so`` of the PyPI wheels, vLLM's are the kernels
found in the fat binaries of its PyPI wheels, both read on the date in ``cuda.json`` (of vLLM two or more releases of
each range). The toolkit's own limits are in NVIDIA's release notes (CUDA 12.8 is the first with compute capability 10.0
and 12.0, CUDA 13 dropped everything before 7.5), the driver's in
https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html."""

from __future__ import annotations

import re
from fnmatch import fnmatch

from rldoctor.case import Distribution
from rldoctor.knowledge import table
from rldoctor.tables import declarations
from rldoctor.versions import parsed, version_within

_TOOLKIT = re.compile(r"(?:nvidia-cuda-runtime(?:-cu\d+)?|cuda-toolkit(?:\[[^\]]*\])?)\s*\(?==\s*(\d+\.\d+)")
_NCCL = re.compile(r"nvidia-nccl-cu\d+\s*\(?==\s*([\d.]+)")


def toolkit_of(torch: Distribution) -> str | None:
    """The CUDA that a torch was built with (``12.8``): by its local label, else by the CUDA packages that it pins. None
    for a build without CUDA, or where it is not known."""
    label = torch.version.partition("+")[2]
    if label:
        reported = re.fullmatch(r"cu(\d+)(\d)", label)
        return f"{reported.group(1)}.{reported.group(2)}" if reported else None
    return _pinned(torch, _TOOLKIT)


def nccl_of(torch: Distribution) -> str | None:
    """The NCCL that a torch pins, like ``2.27.3``, or None where it pins none."""
    return _pinned(torch, _NCCL)


def architectures_of(package: Distribution) -> tuple[str, ...] | None:
    """The compute capabilities with kernels in a published wheel of torch or vLLM; None for other builds (another
    index's, a development build) and for releases that were not looked into."""
    if "+" in package.version or package.editable:
        return None
    rows = table("cuda").get(package.name, ())
    found = next((row for row in rows if version_within(package.version, row["versions"])), None)
    return tuple(found["architectures"]) if found else None


def runs_on(architectures: tuple[str, ...], capability: str) -> bool:
    """Whether kernels for these architectures run on a device: those of its own major and no newer minor do."""
    major, minor = _split(capability)
    return any(_split(a)[0] == major and _split(a)[1] <= minor for a in architectures)


def toolkit_knows(toolkit: str, capability: str) -> bool:
    """Whether a CUDA toolkit can compile for a device at all."""
    rows = [row for row in table("cuda")["toolkit"] if fnmatch(capability, row["capability"])]
    return all(version_within(toolkit, row["needs"]) for row in rows)


def driver_for(toolkit: str) -> str | None:
    """The oldest branch of the NVIDIA driver that runs programs built with a CUDA toolkit, like ``525``."""
    branch = table("cuda")["driver"].get(toolkit.partition(".")[0])
    return None if branch is None else str(branch)


def _pinned(torch: Distribution, pattern: re.Pattern[str]) -> str | None:
    lines = torch.requires
    if not lines:
        published = declarations.release("torch", torch.version) if parsed(torch.version) else None
        lines = published.requires if published else ()
    return next((match.group(1) for line in lines if (match := pattern.match(line))), None)


def _split(capability: str) -> tuple[int, int]:
    major, _, minor = capability.partition(".")
    return int(major), int(minor or 0)
