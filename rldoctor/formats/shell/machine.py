"""What a script asks the machine that runs it: the devices that ``nvidia-smi`` lists, the modules that Python finds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import field

from rldoctor.records import dataclass

_IMPORT = re.compile(r"\s*import\s+([A-Za-z_]\w*)[\w.]*\s*;?\s*")
_COUNT = re.compile(
    r"\s*import\s+torch\s*[;\n]\s*print\(\s*(?:int\()?\s*torch\.cuda\.device_count\(\)\s*\)?\s*\)\s*;?\s*"
)
_FINDS_DEVICES = frozenset((*find, "nvidia-smi") for find in (("command", "-v"), ("which",), ("hash",), ("type",)))
_PYTHON = re.compile(r"(?:.*/)?python(?:\d(?:\.\d+)?)?")


@dataclass(frozen=True)
class Device:
    """One device as ``nvidia-smi`` names it; memory in MiB, None where it is not known."""

    name: str
    memory: int | None = None
    compute_capability: str | None = None


@dataclass(frozen=True)
class Machine:
    """The machine on which a script is to run, as far as it is known. ``has_module`` says whether Python finds a
    module, None where that is not known; no ``devices`` means that none are known. ``nodes`` are the machines like this
    one that the run has, None where that is not known."""

    devices: Sequence[Device] = ()
    has_module: Callable[[str], bool | None] = field(default=lambda name: None)
    nodes: int | None = None

    @property
    def has_one_device(self) -> bool:
        """Whether there is one device for the whole run, and so one process to train on it."""
        return len(self.devices) == 1 and self.nodes in (None, 1)

    def succeeds(self, words: Sequence[str]) -> bool | None:
        """Whether a command succeeds, or None where that is not known: ``python3 -c 'import torch_npu'``, ``command -v
        nvidia-smi``."""
        if tuple(words) in _FINDS_DEVICES:
            return True if self.devices else None
        found = _IMPORT.fullmatch(words[2]) if len(words) == 3 and _is_python(words[0]) and words[1] == "-c" else None
        return None if found is None else self.has_module(found[1])

    def prints(self, words: Sequence[str]) -> str | None:
        """What a command prints about the devices, or None where reading does not tell."""
        if not self.devices or not words:
            return None
        if words[0] == "nvidia-smi":
            return self._lists(words[1:])
        if len(words) == 3 and _is_python(words[0]) and words[1] == "-c" and _COUNT.fullmatch(words[2]):
            return f"{len(self.devices)}\n"
        return None

    def _lists(self, words: Sequence[str]) -> str | None:
        """``nvidia-smi -L`` and ``nvidia-smi --query-gpu=name --format=csv,noheader``."""
        if list(words) in (["-L"], ["--list-gpus"]):
            return "".join(f"GPU {index}: {device.name}\n" for index, device in enumerate(self.devices))
        options = dict(word.partition("=")[::2] for word in words if word.startswith("--"))
        shown = options.pop("--format", "").split(",")
        fields = options.pop("--query-gpu", "").split(",")
        if options or len(words) != 2 or "noheader" not in shown:
            return None
        rows = [[self._value(device, index, name) for name in fields] for index, device in enumerate(self.devices)]
        if any(value is None for row in rows for value in row):
            return None
        unit = "" if "nounits" in shown else " MiB"
        return "".join(
            ", ".join(f"{v}{unit}" if name == "memory.total" else f"{v}" for name, v in zip(fields, row, strict=True))
            + "\n"
            for row in rows
        )

    def _value(self, device: Device, index: int, name: str) -> str | int | None:
        known: dict[str, str | int | None] = {
            "name": device.name,
            "gpu_name": device.name,
            "index": index,
            "memory.total": device.memory,
            "compute_cap": device.compute_capability,
        }
        return known.get(name)


def _is_python(word: str) -> bool:
    return _PYTHON.fullmatch(word) is not None
