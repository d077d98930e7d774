"""Reads what two replicas, two tensor parallel ranks and the requests of one group really drew with the launch's
seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rldoctor.api import Case, Evidence, NotApplicable, NotChecked, dataclass

from ...exceptions import root_of
from ...observed.rollout import NEVER, Completion, Job, log_probability, records

SHOWN = 12
SOURCE = "seeds scenario"
UNKNOWN_GROUP = "how the launch's requests draw a group is not known"


@dataclass(frozen=True)
class Drawn:
    """Completions of two sides, compared in their order: ``same`` of ``total`` are token for token equal, which
    ``chance`` (log-probability that they would be) does not explain. ``apart`` says whether every pair was drawn with
    two different seeds, or without any; ``told`` shows the first pair."""

    same: int
    total: int
    chance: float
    apart: bool
    reported: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Whether the second side repeats the first one, and not by chance."""
        return self.same > 0 and self.chance < NEVER

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        return tuple(Evidence(text=text, source=SOURCE) for text in self.reported)

    def summary(self) -> str:
        return f"{self.total - self.same} of {self.total} completions differ"


def replicas(case: Case) -> Drawn:
    """What two replicas drew for the same prompt. Raises :class:`NotApplicable` where one was enough."""
    jobs = case.observations["seeds"]
    if "second" not in jobs:
        raise NotApplicable("two replicas with the launch's seeds draw nothing that could be wrong")
    first, second = (_required(jobs[name], "group") for name in ("first", "second"))
    asked = [records(jobs[name]).get("requests") for name in ("first", "second")]
    seeds = [records(jobs[name]).get("seed") for name in ("first", "second")]
    if all(rows and rows[0]["seed"] is not None for rows in asked):
        # The requests' own seeds decide. Without any, what an engine draws depends on what it drew before.
        first, second = asked[0] or [], asked[1] or []
    names = [_named(jobs[name]) for name in ("first", "second")]
    return compared(first, second, seeds[0] != seeds[1], names)


def ranks(case: Case) -> Drawn | None:
    """What two tensor parallel ranks, each with an engine object of its own, answered; None where they never came to an
    end. Raises :class:`NotChecked` where they did not come so far."""
    reported = case.observations["peers"].get("peers", {})
    answers = records(reported).get("ranks", [])
    if records(reported).get("ended") == "done":
        first, second = (answer["completions"] for answer in answers[:2])
        names = [f"rank {answer['rank']}, seed {answer['asked'].get('seed')}" for answer in answers[:2]]
        return compared(first, second, False, names)
    if records(reported).get("ended") == "timed-out" and any(answer.get("waiting") for answer in answers):
        return None
    raised = [root_of(answer["exceptions"]) for answer in answers if answer.get("exceptions")]
    first = f"{raised[0]['type']}: {raised[0]['message']}" if raised and raised[0] else records(reported).get("ended")
    said = " ".join(str(first or "").split())[:200]
    raise NotChecked(f"two ranks with an engine object each do not come up here: {said or reported.get('ended')}")


def requests(case: Case) -> list[list[Completion]]:
    """One group as the launch asks for it, the completions of each request. Raises :class:`NotApplicable` where it is
    not known how."""
    job = case.observations["seeds"].get("first")
    if job is None:
        raise NotApplicable(UNKNOWN_GROUP)
    _required(job, "group")
    by_request: dict[str, list[Completion]] = {}
    for row in records(job).get("requests") or ():
        by_request.setdefault(row["request"], []).append(row)
    if not by_request:
        raise NotApplicable(UNKNOWN_GROUP)
    return list(by_request.values())


def repeated(group: list[list[Completion]]) -> Drawn:
    """The first request of a group against the others, each completion with the one of the same number; where one
    request draws all, its first completion against the others, for which vLLM changes the seed."""
    alone = len(group) == 1
    first, *others = [[row] for row in group[0]] if alone else group
    pairs = [compared(first, other, True, ["first", "another"]) for other in others]
    return Drawn(
        same=sum(pair.same for pair in pairs),
        total=sum(pair.total for pair in pairs),
        chance=sum(pair.chance for pair in pairs),
        apart=alone or all(pair.apart for pair in pairs),
        reported=pairs[0].reported if pairs else (),
    )


def compared(one: Sequence[Completion], other: Sequence[Completion], apart: bool, names: Iterable[str]) -> Drawn:
    pairs = list(zip(one, other, strict=False))
    same = [left for left, right in pairs if left["token_ids"] == right["token_ids"]]
    chances = [log_probability(row) for row in same]
    if None in chances:
        raise NotApplicable("the outputs are corrupt (RLD404): log-probabilities are no numbers")
    seeded = [left["seed"] != right["seed"] for left, right in pairs if left["seed"] is not None]
    shown = next(((left, right) for left, right in pairs if left in same), pairs[0] if pairs else None)
    return Drawn(
        same=len(same),
        total=len(pairs),
        chance=sum(value for value in chances if value is not None),
        apart=all(seeded) if seeded else apart,
        reported=() if shown is None else tuple(f"{n}: {_shown(row)}" for n, row in zip(names, shown, strict=True)),
    )


def _named(job: Job) -> str:
    seed, effective = records(job).get("seed"), records(job).get("engine", {}).get("seed")
    return f"seed {'none' if seed is None else seed} (the engine has {effective})"


def _shown(row: Completion) -> str:
    own = "" if row["seed"] is None else f"request seed {row['seed']}: "
    return own + " ".join(str(token) for token in row["token_ids"][:SHOWN])


def _required(job: Job, name: str) -> list[Completion]:
    found = records(job).get(name)
    if not found:
        raise NotChecked(f"an engine with the launch's seeds {job.get('ended', 'was not run')} before it drew a group")
    return list(found)
