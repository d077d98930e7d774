"""Which native libraries the loader would find: the C++ runtime's age, and what is put in front of a wheel's own."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Mapping
from pathlib import Path

# Where the loader looks last, by distribution.
_SYSTEM_DIRECTORIES = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib", "lib64", "lib")
_GLIBCXX = re.compile(rb"GLIBCXX_(\d+(?:\.\d+)+)\0")
# The sonames that torch, vLLM and NCCL load; wheels bring their own, and one of these in front takes their place.
_RUNTIME = re.compile(
    r"lib(?:nccl|cudnn\w*|cudart|cublas(?:Lt)?|cusparse(?:Lt)?|cusolver|cufft|curand|nvrtc|nvJitLink|cuda|nvidia-ml|stdc\+\+)"
    r"\.so\.\d+"
)


def libc_version() -> str | None:
    """``glibc 2.36``, or None with another C library."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, AttributeError):
        return None


def newest_glibcxx(root: Path = Path("/")) -> str | None:
    """The newest symbol version of the system's libstdc++ (``3.4.30``), or None where there is no such library."""
    for directory in _SYSTEM_DIRECTORIES:
        try:
            with (
                (root / directory / "libstdc++.so.6").open("rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
            ):
                versions: list[str] = [match.decode() for match in _GLIBCXX.findall(content)]
        except (OSError, ValueError):
            continue
        if versions:
            return max(versions, key=lambda version: [int(part) for part in version.split(".")])
    return None


def in_front(environ: Mapping[str, str]) -> dict[str, str]:
    """Libraries that LD_PRELOAD and LD_LIBRARY_PATH put before all others, in the loader's order: path -> file behind
    its links. Of several with one name the first counts and the others are left out."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    for path in _candidates(environ):
        if _RUNTIME.fullmatch(path.name) and path.name not in seen:
            seen.add(path.name)
            found[str(path)] = os.path.realpath(path)
    return found


def _candidates(environ: Mapping[str, str]) -> list[Path]:
    paths = [Path(entry) for entry in re.split(r"[:\s]+", environ.get("LD_PRELOAD", "")) if entry]
    for directory in re.split("[:;]", environ.get("LD_LIBRARY_PATH", "")):
        if directory:  # an empty entry is the current directory, which no run relies on
            try:
                paths += sorted(Path(directory).iterdir())
            except OSError:
                continue
    return paths
