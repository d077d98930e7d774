"""The exhibits as values; a report draws them and computes nothing."""

from __future__ import annotations

from rldoctor.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Length:
    """One length of the chain in tokens; None where it is not known, with the reason in ``note``. ``parts`` is what it
    is the sum of. ``source`` is where it is from."""

    name: str
    tokens: int | None
    note: str = ""
    source: str = ""
    parts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Part:
    """Something on a device, in bytes. What is ``likely`` comes with long responses; all else is certain."""

    name: str
    size: float
    assumes: str = ""
    likely: bool = False


@dataclass(frozen=True, kw_only=True)
class Phase:
    """What is on one device in one phase of a step."""

    name: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, kw_only=True)
class Memory:
    """The phases against the device's bytes; without phases, ``unknown`` says why."""

    device: float | None
    phases: tuple[Phase, ...] = ()
    unknown: str = ""


@dataclass(frozen=True, kw_only=True)
class Rank:
    """One rank of an engine replica; a seed of None is drawn at random."""

    rank: int
    node: int
    seed: int | None


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """The replicas with their ranks, and how their seeds come about; without replicas, ``unknown`` says why."""

    replicas: tuple[tuple[Rank, ...], ...] = ()
    formula: str = ""
    left_out: int = 0
    unknown: str = ""


@dataclass(frozen=True, kw_only=True)
class Version:
    """One package: ``met`` and ``refused`` are the demands of others that this version meets, and does not meet."""

    name: str
    version: str
    met: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    unknown: str = ""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One metric over the steps; a value of None is no number. ``marked`` are steps that a finding names."""

    name: str
    key: str
    steps: tuple[int, ...]
    values: tuple[float | None, ...]
    marked: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Log-probabilities of the same ``tokens``: (trainer's, engine's) of those that are shown, and the mean and the
    largest absolute difference of all, in nats."""

    points: tuple[tuple[float, float], ...]
    tokens: int
    mean: float
    largest: float


@dataclass(frozen=True, kw_only=True)
class Exhibits:
    """All that can be shown of one case. None, or nothing, is what the case does not speak of."""

    title: str
    lengths: tuple[Length, ...] = ()
    memory: Memory | None = None
    ranks: Ranks | None = None
    versions: tuple[Version, ...] = ()
    metrics: tuple[Curve, ...] = ()
    agreement: Agreement | None = None

    @property
    def empty(self) -> bool:
        held = (self.lengths, self.memory, self.ranks, self.versions, self.metrics, self.agreement)
        return not any(held)
