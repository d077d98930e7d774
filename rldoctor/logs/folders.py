"""Which files of a folder are logs: torchrun and Ray session folders, and whatever a launcher left per rank."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

from rldoctor.errors import InputError
from rldoctor.formats.source import is_private
from rldoctor.io import untrusted

# More files than this are not opened: 64 ranks with a few files each and a Ray session stay far below.
MOST_FILES = 4096

# What stands beside logs and is none.
_NO_LOG = re.compile(
    r"\.(?:py|pyc|yaml|yml|toml|cfg|ini|json|jsonl|safetensors|bin|pt|pth|ckpt|gguf|npy|npz|parquet|arrow|csv|tsv|md|rst|"
    r"html|css|js|png|jpg|jpeg|gif|svg|pdf|so|o|a|c|cc|cpp|cu|cuh|h|hpp|whl|lock|pid|sock|sh|db|sqlite|pickle|pkl|wandb)$",
    re.IGNORECASE,
)
_NO_LOG_NAMES = re.compile(r"^(?:events\.out\.tfevents\.|\.)")

# What others have installed, or what a program keeps for itself, below the folder of a run.
_NO_LOG_FOLDERS = frozenset((".git", "site-packages", "dist-packages", "node_modules", "__pycache__"))
# Of the system: what stands there are its programs and its state, without an end.
_SYSTEM = frozenset(
    map(Path, ("/", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr"))
)

# torch.distributed.elastic writes the exception of a rank there: https://pytorch.org/docs/stable/elastic/errors.html
ERROR_FILE = "error.json"


def log_files(folder: Path) -> tuple[list[Path], list[str]]:
    """The log files below a folder in natural order, and notes on what was left out. Links are followed sideways and
    down, each folder and file once. Raises :class:`InputError` for a folder of the system."""
    if _of_the_system(whole := folder.resolve()):
        raise InputError(f"{folder} is a folder of the system: name the one that holds the logs of the run")
    left: list[Path] = []

    def follows(path: Path) -> bool:
        """Whether a link stays among logs: the folder may be a stranger's."""
        if not path.is_symlink():
            return True
        real = path.resolve()
        out = real in whole.parents or _of_the_system(real) or is_private(real, whole)
        left.extend([path] if out else ())
        return not out

    notes: list[str] = []
    seen: set[tuple[int, int]] = set()
    found: list[Path] = []

    def unreadable(error: OSError) -> None:
        notes.append(f"cannot read {error.filename}: {error.strerror}")

    for where, folders, names in os.walk(folder, followlinks=True, onerror=unreadable):
        kept = [name for name in sorted(folders, key=natural) if name not in _NO_LOG_FOLDERS]
        folders[:] = [name for name in kept if follows(path := Path(where, name)) and _first_visit(path, seen)]
        for name in sorted(names, key=natural):
            path = Path(where, name)
            if is_log(name) and untrusted.is_file(path) and follows(path) and _first_visit(path, seen):
                found.append(path)
        if len(found) > MOST_FILES:
            notes.append(f"{folder} holds more than {MOST_FILES} logs: only the first {MOST_FILES} were read")
            found = found[:MOST_FILES]
            break
    if left:
        more = f", and {len(left) - 1} more links" if left[1:] else ""
        notes.append(f"{left[0]}{more}: leads upwards, to the system or to what is hidden, not followed")
    return found, notes


def is_log(name: str) -> bool:
    """Whether a file of that name may be a log; what it holds is seen when it is read."""
    return name == ERROR_FILE or not (_NO_LOG.search(name) or _NO_LOG_NAMES.match(name))


def elastic_traceback(data: bytes) -> bytes:
    """The traceback in a rank's error file, with the time of its failure, as a log would have it."""
    try:
        said = json.loads(data)["message"]
        extra = said["extraInfo"]
        lines = str(extra["py_callstack"]).rstrip().splitlines()
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(int(extra["timestamp"])))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return data
    return "".join(f"{stamp} | {line}\n" for line in lines).encode()


def natural(name: str) -> list[tuple[int, int, str]]:
    """A sort key under which ``rank_10`` comes after ``rank_9``."""
    return [(0, int(p), "") if p[0] in "0123456789" else (1, 0, p) for p in re.findall(r"[0-9]{1,18}|[^0-9]+", name)]


def _of_the_system(real: Path) -> bool:
    return real in _SYSTEM or any(Path(kept) in real.parents for kept in ("/proc", "/sys"))


def _first_visit(path: Path, seen: set[tuple[int, int]]) -> bool:
    try:
        info = path.stat()
    except OSError:
        return False
    key = (info.st_dev, info.st_ino)
    if key in seen:
        return False
    seen.add(key)
    return True
