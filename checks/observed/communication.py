"""Reads what the collectives probe recorded: which ranks met, what they exchanged, and what stopped them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rldoctor.api import Applicability, Case, Edit, Evidence, Fix, NotApplicable, NotChecked, cite, dataclass

from ..exceptions import root_of

Row = Mapping[str, Any]

PROBE = "collectives probe"
# torchrun ends the other ranks by this signal once one has failed.
ENDED_BY_LAUNCHER = -15
SHOWN = 4
# A rank that takes twice as long as any other, by more than a scheduler's turn (seconds), in every round but one of
# each six: another rank is held up in one, too. Where equal ranks are last by chance, one of three is named in at most
# 3 of 1,000 runs of nine rounds, one of four in 5 of 10,000, one of eight in 4 of a million.
LATE, NOTICED, LOST = 2.0, 0.02, 6
# Links of one host differ (NVLink, PCIe, sockets); that every link of one rank is so much slower than any other is a
# fault of that rank.
APART = 0.25


@dataclass(frozen=True)
class Late:
    """A slow rank: how many times as long as any other it took at least, in so many of the rounds, and by how many
    seconds it was the last to come to the collective."""

    rank: int
    times: float
    rounds: int
    of: int
    waited: float


@dataclass(frozen=True)
class Links:
    """What pairs of nodes exchange, in 10^9 bytes per second, by the numbers of the two: at the best of several times,
    and at the worst of them."""

    rates: Mapping[tuple[int, int], float]
    worst: Mapping[tuple[int, int], float]

    @property
    def fastest(self) -> float:
        return max(self.rates.values())

    @property
    def slowest(self) -> float:
        return min(self.rates.values())

    @property
    def slow(self) -> list[tuple[int, int]]:
        """The pairs that at their best are far below what the others do at any time: a busy host holds up whomever it
        may, a slow link the same pair always."""
        fast = min(self.worst[pair] for pair, rate in self.rates.items() if rate >= APART * self.fastest)
        return [pair for pair, rate in self.rates.items() if rate < APART * fast]

    def at_fault(self) -> tuple[int, ...]:
        """The node that all slow pairs share, and the two of a pair that is slow by itself. Empty where none is slow,
        and where so many are that the nodes stand in groups, as racks do."""
        slow = self.slow
        shared = set(slow[0]).intersection(*slow) if slow else set()
        alone = [node for node in sorted(shared) if len(slow) == sum(node in pair for pair in self.rates)]
        if alone and len(self.rates) > len(slow) > 1:
            return (alone[0],)
        return slow[0] if len(slow) == 1 and len(self.rates) > 2 else ()


class Run:
    """One job of several ranks, on this host or over ``hosts``, which have a number each."""

    def __init__(self, row: Row, hosts: Mapping[str, str] | None = None) -> None:
        self.row = row
        self.hosts = dict(hosts or {})
        self.ranks: list[Row] = list(row["ranks"])
        self.without: tuple[str, ...] = tuple(row["without"])

    @property
    def done(self) -> bool:
        return bool(self.row["ended"] == "done")

    @property
    def where(self) -> str:
        """Where its ranks are, as words."""
        return f"on {len(self.hosts)} nodes" if self.hosts else "on this host"

    def at(self, *ranks: int) -> str:
        """``, on node 1 (gpu07),`` of ranks; empty where all are here."""
        nodes = self._nodes()
        named = [node_named(node, self.hosts) for node in sorted({nodes[rank] for rank in ranks if rank in nodes})]
        return f", on {' and '.join(named)}," if named else ""

    @property
    def failed(self) -> list[Row]:
        """The ranks that ended by themselves and not well; those that torchrun then ended are not among them."""
        bad = [rank for rank in self.ranks if rank["ended"] not in ("done", "absent")]
        return [rank for rank in bad if rank["exit_code"] != ENDED_BY_LAUNCHER or rank["ended"] == "raised"] or bad

    @property
    def waiting(self) -> Row | None:
        """The first collective that not every rank has finished, as the rank that called it tells."""
        for number in range(max((len(calls(rank)) for rank in self.ranks), default=0)):
            rows = [calls(rank)[number] if number < len(calls(rank)) else None for rank in self.ranks]
            called = next((row for row in rows if row is not None), None)
            if called is not None and any(row is None or row["state"] != "done" for row in rows):
                return called
        return None

    def absent_from(self, call: Row) -> list[int]:
        """The ranks that did not call a collective which another one waits in."""
        same = (call["backend"], call["name"])
        return [
            rank["rank"] for rank in self.ranks if same not in [(row["backend"], row["name"]) for row in calls(rank)]
        ]

    def unfinished(self, call: Row) -> list[Row]:
        """The ranks without it first, then those that failed in it."""
        missing = self.absent_from(call)
        waited = [rank for rank in self.failed if rank["rank"] not in missing]
        return [rank for rank in self.ranks if rank["rank"] in missing] + waited

    def wrong(self) -> list[str]:
        """What came out wrong, one phrase each."""
        found = [
            f"rank {rank['rank']}: {row['wrong']} of {row['numbers']} numbers of {row['name']} ({row['backend']})"
            for rank in self.ranks
            for row in calls(rank)
            if row.get("wrong")
        ]
        copies = (rank["peer"] for rank in self.ranks if rank.get("peer", {}).get("wrong"))
        return found + [f"{p['wrong']} bytes of a copy from GPU {p['devices'][0]} to {p['devices'][1]}" for p in copies]

    def shared(self) -> dict[str, list[int]]:
        """The ranks of each GPU, by UUID, that more than one has."""
        by_uuid: dict[str, list[int]] = {}
        for rank in self.ranks:
            uuid = rank.get("device", {}).get("uuid")
            if uuid is not None:
                by_uuid.setdefault(uuid, []).append(rank["rank"])
        return {uuid: ranks for uuid, ranks in by_uuid.items() if len(ranks) > 1}

    def late(self) -> Late | None:
        """The rank that took much longer than any other for the same work, in nearly every round."""
        took = {rank["rank"]: _took(rank) for rank in self.ranks if rank.get("measured")}
        if len(took) < 3 or len({len(one) for one in took.values()}) > 1:
            return None
        for slow, times in took.items():
            others = [max(row) for row in zip(*(one for rank, one in took.items() if rank != slow), strict=True)]
            behind = [
                mine / most
                for mine, most in zip(times, others, strict=True)
                if mine >= max(LATE * most, most + NOTICED)
            ]
            if behind and len(times) - len(behind) <= len(times) // LOST:
                return Late(slow, min(behind), len(behind), len(times), self._after_the_first(slow))
        return None

    def _after_the_first(self, slow: int) -> float:
        from statistics import median  # which brings fractions and decimals along

        # All begin as the collective before ends; the clocks of two nodes cannot be compared.
        took = {rank["rank"]: _took(rank) for rank in self.ranks}
        return float(
            median(mine - min(row) for mine, row in zip(took[slow], zip(*took.values(), strict=True), strict=True))
        )

    def apart(self) -> tuple[int, float, float] | None:
        """The rank whose every exchange is much slower than any between the others: its fastest, and the slowest of the
        others, in 10^9 bytes per second."""
        rates, nodes = self._rates(), self._nodes()
        ranks = {rank for pair in rates for rank in pair}
        # A rank that is alone on its node has no other links than those between nodes.
        if any(sum(nodes.get(one) == node for one in ranks) < 2 for node in set(nodes.values())):
            return None
        for rank in (row["rank"] for row in self.ranks):
            its = [rate for pair, rate in rates.items() if rank in pair]
            others = [rate for pair, rate in rates.items() if rank not in pair]
            # Of three ranks two are a pair that may have a link of its own.
            if len(others) > 2 and its and max(its) < APART * min(others):
                return rank, max(its), min(others)
        return None

    def links(self) -> Links | None:
        """What the nodes exchange, by the fastest of their ranks; None where fewer than two did."""
        nodes, worst = self._nodes(), self._rates("worst")
        found: dict[tuple[int, int], tuple[float, float]] = {}
        for pair, rate in self._rates().items():
            first, second = sorted(nodes.get(rank, 0) for rank in pair)
            if first != second:
                found[first, second] = max((rate, worst.get(pair, rate)), found.get((first, second), (0.0, 0.0)))
        best = {pair: rate for pair, (rate, _) in found.items()}
        return Links(best, {pair: rate for pair, (_, rate) in found.items()}) if found else None

    def _rates(self, which: str = "pairs") -> dict[frozenset[int], float]:
        return {
            frozenset(map(int, pair.split("-"))): rate
            for rank in self.ranks
            for pair, rate in rank.get("measured", {}).get(which, {}).items()
        }

    def _nodes(self) -> dict[int, int]:
        return {rank["rank"]: rank["node"] for rank in self.ranks if "node" in rank}

    def describe(self) -> str:
        """How far it reached, in one phrase."""
        finished = [(row["backend"], row["name"]) for row in calls(self.ranks[0]) if row["state"] == "done"]
        if not finished:
            raise NotChecked("no collective that came to its end was recorded")
        names = ", ".join(dict.fromkeys(name for _, name in finished))
        backends = " and ".join(dict.fromkeys(backend for backend, _ in finished))
        rates = [rank["bandwidth"]["gb_per_s"] for rank in self.ranks if "bandwidth" in rank]
        speed = f", {min(rates):g} GB/s" if rates else ""
        # Releases of torch before 2.4 do not tell the UUID.
        where = "GPUs" if str(self.ranks[0].get("device", {}).get("device")).startswith("cuda") else "the CPU"
        links = self.links()
        spread = (
            ""
            if links is None
            else f"; {len(self.hosts)} nodes, of which pairs exchange {links.slowest:g} to {links.fastest:g} GB/s"
        )
        return f"{names} between {len(self.ranks)} ranks on {where} through {backends}{speed}{spread}"


def node_named(number: int, hosts: Mapping[str, str]) -> str:
    """``node 1 (gpu07)``; the name is left out where it does not tell the nodes apart."""
    name = hosts.get(str(number))
    return f"node {number}" + (f" ({name})" if name and list(hosts.values()).count(name) == 1 else "")


def _took(rank: Row) -> list[float]:
    return [one["arrived"] - one["began"] for one in rank["measured"]["rounds"]]


def calls(rank: Row) -> list[Row]:
    return list(rank.get("collectives", ()))


def meeting(case: Case) -> Row | None:
    """Of a command that ran on several nodes at once: which of them came to where they meet, as this one saw it."""
    (job,) = case.observations["collectives"].values()
    met: Row | None = job.get("records", {}).get("nodes")
    return met


def runs(case: Case) -> list[Run]:
    """The probe's runs, the first with all settings. Raises :class:`NotChecked` where no rank came to meet others, and
    :class:`NotApplicable` where another node tells of them."""
    found: list[Run] = []
    met = meeting(case)
    hosts = met.get("hosts", {}) if met is not None else {}
    for job in case.observations["collectives"].values():
        found += [Run(row, hosts) for row in job.get("records", {}).get("runs", ())]
        if not found and met is not None:
            if met.get("problem") or len(hosts) < met["count"]:
                raise NotChecked(met.get("problem") or f"of {met['count']} nodes {len(hosts)} came to meet")
            if met["number"]:
                raise NotApplicable(f"{node_named(0, hosts)} tells what the ranks of all {met['count']} nodes did")
        if not found:
            raise NotChecked(f"the collectives probe {job.get('ended')} before a run was over")
    first = found[0]
    if not first.done and all(rank["ended"] == "absent" for rank in first.ranks):
        last = (first.row["launcher"] or ["without a word"])[-1]
        raise NotChecked(f"torchrun started no rank here: {last}")
    unable = [rank for rank in first.failed if rank.get("stage") == "import"]
    if not first.done and unable:
        raise NotChecked(f"rank {unable[0]['rank']} did not get beyond importing torch: {said(unable[0])}")
    return found


def settings(case: Case) -> dict[str, str]:
    """The communication settings under which the first run was made."""
    (job,) = case.observations["collectives"].values()
    found = job["records"].get("settings")
    if found is None:
        raise NotChecked("the collectives probe did not record its settings")
    return dict(found)


def cured_without(found: list[Run]) -> tuple[str, ...]:
    """The fewest settings without which a job succeeds that fails with them; empty where none does."""
    if found[0].done:
        return ()
    cures = sorted((run.without for run in found[1:] if run.done), key=len)
    return cures[0] if cures else ()


def origin(case: Case, names: tuple[str, ...]) -> tuple[Evidence, ...]:
    """Where settings come from: the launch, or the shell in which rldoctor runs."""
    planned, given = _planned(case, names), settings(case)
    shell = [Evidence(text=f"{name} = {given[name]}", source="environment") for name in names if name not in planned]
    return (*(cite(case.plan, *(f"env.{name}" for name in planned)) if case.plan is not None else ()), *shell)


def for_elsewhere(case: Case, names: tuple[str, ...]) -> bool:
    """Whether settings are a launch's for machines with GPUs: what they name need not exist on one without."""
    return set(_planned(case, names)) == set(names) and (case.gpus is None or not case.gpus.devices)


def unset(case: Case, names: tuple[str, ...], safe: bool) -> Fix:
    """To leave settings away, which the probe has shown to help."""
    planned = _planned(case, names)
    return Fix(
        title=f"leave {', '.join(names)} unset",
        applicability=Applicability.SAFE if safe and len(names) == len(planned) == 1 else Applicability.UNSAFE,
        edits=tuple(Edit(option=f"env.{name}", value=None) for name in planned),
        commands=tuple(f"unset {name}" for name in names if name not in planned),
        proven=f"collectives: without {', '.join(names)} the ranks on this host work together",
    )


def _planned(case: Case, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if case.plan is not None and case.plan.get(f"env.{name}") is not None]


def said(rank: Row) -> str:
    """The error that a rank ended with, in one line, or its last words."""
    error = root_of(rank.get("exceptions", ()))
    if error is not None:
        lines = str(error["message"]).splitlines() or [""]
        return f"{error['type']}: {lines[0]}"[:400]
    last = next((line for line in reversed(rank["tail"]) if "NCCL WARN" in line), None) or (rank["tail"] or [""])[-1]
    return f"exit code {rank['exit_code']} at stage {rank.get('stage')}{f', {last}' if last else ''}"


def evidence(ranks: list[Row]) -> tuple[Evidence, ...]:
    """What the ranks said, each in a line."""
    return tuple(Evidence(text=f"rank {rank['rank']}: {said(rank)}", source=PROBE) for rank in ranks[:SHOWN])


def arrivals(run: Run) -> tuple[Evidence, ...]:
    """How long each rank took for the same work, a line each."""
    measured = [rank for rank in run.ranks if rank.get("measured")]
    return tuple(
        Evidence(text=f"rank {rank['rank']}: {', '.join(f'{one:.3f}' for one in _took(rank))} s", source=PROBE)
        for rank in measured[: 2 * SHOWN]
    )


def warnings(ranks: list[Row]) -> Iterator[Evidence]:
    """NCCL's own warnings, each once."""
    reported = dict.fromkeys(line.partition("NCCL WARN")[2].strip() for r in ranks for line in r["tail"])
    yield from (Evidence(text=f"NCCL: {line}", source=PROBE) for line in list(reported)[:SHOWN] if line)
