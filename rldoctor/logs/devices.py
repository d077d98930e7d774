"""The GPUs and the driver of the machine that a log was written on, as programs print them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from rldoctor.case import Gpu, Gpus
from rldoctor.logs.reveals import Reveal, reveal
from rldoctor.logs.runs import Slice
from rldoctor.model import Evidence

_NAME, _COUNT, _GIB, _MIB, _DRIVER, _CUDA, _CUDA_NUMBER = (
    f"gpus.{what}" for what in ("name", "count", "gib", "mib", "driver", "cuda", "cuda number")
)
# Names of rows: gpus.row 3. A node has no more.
_ROW, _MOST_ROWS = "gpus.row ", 16
_OF_NVIDIA = r"(?:NVIDIA|Tesla|GeForce|Quadro) ?[\w -]{1,60}?"


# nvidia-smi's table and its list, torch's collect_env; NCCL's and torch's number of the CUDA that a driver serves;
# unsloth's banner, AReaL's first line, verl's scripts/diagnose.py; torch's own words where memory is short.
DEVICES: tuple[Reveal, ...] = (
    reveal("| NVIDIA-SMI ", r"\| NVIDIA-SMI [\d.]+ +(?:Driver|KMD) Version: (\d[\d.]+)", _DRIVER),
    reveal("| NVIDIA-SMI ", r"CUDA (?:UMD )?Version: (\d+\.\d+)", _CUDA),
    *(
        reveal(f"|{number:>4}  ", rf"^\|{number:>4}  ({_OF_NVIDIA})\s+(?:On|Off|N/A)\s*\|", f"{_ROW}{number}")
        for number in range(_MOST_ROWS)
    ),
    reveal("MiB / ", r"\|\s*\d+MiB / +(\d{4,7})MiB\s*\|", _MIB),
    *(
        reveal(f"GPU {number}: ", rf"(?:^|: )GPU {number}: ({_OF_NVIDIA})(?: \(UUID: |$)", f"{_ROW}{number}")
        for number in range(_MOST_ROWS)
    ),
    reveal("Nvidia driver version: ", r"^Nvidia driver version: (\d[\d.]+)$", _DRIVER),
    reveal("cudaDriverVersion ", r"\bcudaDriverVersion (\d{5})\b", _CUDA_NUMBER),
    reveal("driver on your system is too old (found version ", r"too old \(found version (\d{5})\)", _CUDA_NUMBER),
    reveal(". Num GPUs = ", rf"({_OF_NVIDIA})\. Num GPUs = \d", _NAME),
    reveal(". Num GPUs = ", r"\. Num GPUs = (\d{1,2})\.", _COUNT),
    reveal(". Num GPUs = ", r"\. Max memory: (\d[\d.]+) GB\.", _GIB),
    reveal("Detected CUDA device: ", rf"Detected CUDA device: ({_OF_NVIDIA})$", _NAME),
    reveal("GPU Count", r"^GPU Count\s*: (\d{1,2})$", _COUNT),
    reveal("Type    : NVIDIA ", rf"^GPU \d{{1,2}}\s+Type\s+: ({_OF_NVIDIA})$", _NAME),
    reveal("has a total capacity of ", r"\bGPU \d+ has a total capacity of (\d[\d.]+) GiB", _GIB),
)
TERMS = frozenset(one.what for one in DEVICES)


def devices(pieces: Sequence[Slice]) -> Gpus | None:
    """What the lines of one run agree on; None where they tell nothing. Devices of which name or number is not
    known, or that differ from node to node, are left out."""
    said = list(_said(pieces))
    if not said:
        return None
    cuda = _only({value for what, value in said if what == _CUDA}) or _served(_only(_values(said, _CUDA_NUMBER)))
    names = {value for what, value in said if what == _NAME or what.startswith(_ROW)}
    rows = {what for what, _ in said if what.startswith(_ROW)}
    counts = {int(value) for value in _values(said, _COUNT)} or ({len(rows)} if rows else set())
    name = _only(names)
    found: tuple[Gpu, ...] = ()
    if name is not None and len(counts) == 1:
        memory, capability = _of_kind(name)
        sizes = {float(v) * 1024 for v in _values(said, _GIB)} | {float(v) for v in _values(said, _MIB)}
        total = round(max(sizes, default=memory or 0) * 2**20)
        if total:
            found = tuple(
                Gpu(index=index, name=name, memory_total=total, compute_capability=capability)
                for index in range(counts.pop())
            )
    driver = _only(_values(said, _DRIVER))
    return Gpus(vendor="nvidia", devices=found, driver=driver, cuda=cuda) if found or driver or cuda else None


def device_lines(pieces: Sequence[Slice], found: Gpus) -> Iterator[tuple[str, Evidence]]:
    """The first line of each fact in ``found``, by the fact's dotted name."""
    names = [term for term in TERMS if term == _NAME or term.startswith(_ROW)]
    facts = (
        ("gpus.devices", f"{len(found.devices)} x {found.devices[0].name}" if found.devices else None, names),
        ("gpus.driver", found.driver and f"driver {found.driver}", (_DRIVER,)),
        ("gpus.cuda", found.cuda and f"CUDA {found.cuda}", (_CUDA, _CUDA_NUMBER)),
    )
    for fact, text, terms in facts:
        lines = (
            Evidence(text=text, source=piece.record.name, line=number)
            for piece in pieces
            for number, what, _ in piece.record.devices
            if text and number in piece and what in terms
        )
        yield from ((fact, first) for first in islice(lines, 1))


def _said(pieces: Sequence[Slice]) -> Iterator[tuple[str, str]]:
    for piece in pieces:
        for number, what, value in piece.record.devices:
            if number in piece:
                yield what, value


def _values(said: Sequence[tuple[str, str]], term: str) -> set[str]:
    return {value for what, value in said if what == term}


def _only(values: set[str]) -> str | None:
    return next(iter(values)) if len(values) == 1 else None


def _served(number: str | None) -> str | None:
    """CUDA's number of a release (12040) as it is written (12.4)."""
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}" if number else None


def _of_kind(name: str) -> tuple[int | None, str | None]:
    """Memory in MiB and compute capability of a device by the driver's name for it."""
    from rldoctor.knowledge import machines

    known = next((kind for kind in machines.devices().values() if kind.name == name), None)
    return (known.memory_mib, known.compute_capability) if known is not None else (None, None)
