"""Recognises, in a failed import, a compiled extension that does not fit what it was loaded into, and names the
misfit."""

from __future__ import annotations

import re
import signal

from rldoctor.api import Case, dataclass

from ..exceptions import Link, fatal_frames
from .imports import Failure, distribution, owner

# A process that ends by one of these fell in native code; SIGKILL and SIGTERM come from outside.
CRASHES = ("SIGSEGV", "SIGILL", "SIGABRT", "SIGBUS", "SIGFPE")

_OPERATOR = re.compile(r"operator (\w+)::\w+ does not exist|'_OpNamespace' '(\w+)' object has no attribute")
# A repr may stand around what the loader says: ImportError('/x/_C.abi3.so: undefined symbol: ...').
_SYMBOL = re.compile(r"([^\s'\"(]+\.so[.\d]*): undefined symbol: (\w+)")
_VERSION = re.compile(r"version [`'](GLIBCXX|CXXABI|GLIBC|GOMP|NCCL)_([\d.]+)' not found \(required by ([^)]+)\)")
_ABSENT_LIBRARY = re.compile(r"(lib[\w+.-]+?\.so[.\d]*): cannot open shared object file")
_CUDA_MAJOR = re.compile(r"compiled with different CUDA (?:major )?versions")
_NUMPY = re.compile(
    r"numpy\.\w+ size changed, may indicate binary incompatibility|compiled using NumPy 1\.x cannot be run in"
    r"|numpy\.core\.multiarray failed to import|_ARRAY_API not found|module compiled against (?:ABI|API) version"
)
_FORMAT = re.compile(r"([^\s'\"(]+\.so[.\d]*): (?:invalid ELF header|wrong ELF class\S*|file too short)")

# Operators are registered under a name that need not be the package's.
_NAMESPACES = {"_C": "vllm", "_moe_C": "vllm", "_C_cache_ops": "vllm", "_vllm_fa2_C": "vllm", "_vllm_fa3_C": "vllm"}
# Whose interface a missing symbol belongs to: C++ names are mangled with their namespaces.
_SYMBOLS = (
    (re.compile(r"_Z\w*?(?:3c10|2at|5torch|6caffe2)|aoti_torch|torch_"), "torch"),
    (re.compile(r"nccl"), "NCCL"),
    (re.compile(r"_*(?:cuda|cu[A-Z]|cublas|cudnn|cusparse|cufft|curand|cusolver|nvJitLink|nvrtc|cupti)"), "CUDA"),
    (re.compile(r"_?Py[A-Z_]"), "Python"),
)
_DRIVER = re.compile(r"lib(?:cuda|nvidia-\w+|nvcuvid)\.so")
_TORCH_LIBRARY = re.compile(r"lib(?:torch|c10|caffe2|shm)\w*\.so")
_CUDA_LIBRARY = re.compile(r"lib(?:cu[a-z]+|nvrtc|nvJitLink|nvToolsExt|nccl|nvshmem\w*)[\w-]*\.so")


@dataclass(frozen=True)
class Mismatch:
    """A misfit. ``package`` is the distribution to blame, ``against`` what its build disagrees with (``torch``,
    ``CUDA``, ``NCCL``, ``libstdc++``, ``glibc``, ``numpy``, ``Python``, ``the file``, or a signal for a native crash),
    ``detail`` what is missing there, ``text`` the line that shows it."""

    package: str
    against: str
    text: str
    detail: str = ""


def mismatch(failure: Failure, case: Case) -> Mismatch | None:
    """What does not fit, or None where the failure is of another kind."""
    if failure.ended == "died":
        return _crash(failure, case)
    links = [failure.root, *failure.links] if failure.root else []
    found = (_recognise(link, case) for link in links if link.get("link") != "suppressed")
    return next((m for m in found if m is not None), None)


def needs_driver(failure: Failure) -> bool:
    """Whether the import only misses the GPU driver's own libraries, as on a machine without a GPU."""
    match = _ABSENT_LIBRARY.search(failure.text)
    return bool(match and _DRIVER.match(match[1]))


def _recognise(link: Link, case: Case) -> Mismatch | None:
    message = str(link["message"])
    line = _telling_line(message)
    importer = owner(link["frames"], case)
    if match := _OPERATOR.search(message):
        name = match[1] or match[2]
        return Mismatch(_NAMESPACES.get(name) or distribution(name, case.packages), "torch", line, match[0])
    if match := _SYMBOL.search(message):
        side = next((side for pattern, side in _SYMBOLS if pattern.match(match[2])), "another library")
        return Mismatch(_library_owner(match[1], link, case) or importer, side, line, match[2])
    if match := _VERSION.search(message):
        side = {"GLIBC": "glibc", "NCCL": "NCCL", "GOMP": "libgomp"}.get(match[1], "libstdc++")
        return Mismatch(_library_owner(match[3], link, case) or importer, side, line, f"{match[1]}_{match[2]}")
    if match := _FORMAT.search(message):
        return Mismatch(_library_owner(match[1], link, case) or importer, "the file", line, match[0])
    if match := _ABSENT_LIBRARY.search(message):
        return _absent_library(match[1], importer, line)
    if _CUDA_MAJOR.search(message):
        return Mismatch(importer, "CUDA", line)
    if _NUMPY.search(message):
        others = [frame for frame in link["frames"] if frame.get("package") != "numpy"]
        return Mismatch(owner(others, case), "numpy", line)
    return None


def _absent_library(library: str, importer: str, line: str) -> Mismatch | None:
    """A library of torch or CUDA by the name it had in the release that the importer was built with. torch's own CUDA
    libraries are packages: where one is absent nothing is built wrongly, and a driver is no package at all."""
    if _DRIVER.match(library) or importer in ("torch", ""):
        return None
    if _TORCH_LIBRARY.match(library):
        return Mismatch(importer, "torch", line, library)
    return Mismatch(importer, "CUDA", line, library) if _CUDA_LIBRARY.match(library) else None


def _crash(failure: Failure, case: Case) -> Mismatch | None:
    name = signal_name(failure.exit_code)
    if name not in CRASHES:
        return None
    frames = fatal_frames(failure.tail)
    loading = failure.loading or {}
    # The probe's own frame stands innermost while a library is being loaded.
    if frames and "native_loading.py" not in str(frames[0]["text"]):
        module = next((frame["package"] for frame in frames if frame["package"]), None)
        package, detail = distribution(module, case.packages), str(frames[0]["text"])
    else:
        package, detail = distribution(loading.get("package"), case.packages), str(loading.get("path") or "")
    return Mismatch(
        package or failure.package, name, f"the process ended by {name} at {detail or 'an unknown place'}", detail
    )


def signal_name(exit_code: int | None) -> str:
    """The name of the signal that ended a process; empty for an ordinary exit."""
    try:
        return signal.Signals(-exit_code).name if exit_code is not None and exit_code < 0 else ""
    except ValueError:
        return ""


def _library_owner(file: str, link: Link, case: Case) -> str:
    for library in link.get("libraries", ()):
        if library["file"] == file and library.get("package"):
            return distribution(library["package"], case.packages)
    return ""


def _telling_line(message: str) -> str:
    """Of a long message the line that was recognised is enough."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    patterns = (_OPERATOR, _SYMBOL, _VERSION, _FORMAT, _ABSENT_LIBRARY, _CUDA_MAJOR, _NUMPY)
    return next((line for line in lines if any(p.search(line) for p in patterns)), lines[0] if lines else message)[:400]
