"""How well tokens that a running engine drew fit the distribution that they were to be drawn from: a G-test for each
sampling parameter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rldoctor.api import Case, NotApplicable, NotChecked

from .agreement import between, noise_of
from .rollout import Job, records, require, runs

# In standard deviations. A healthy engine passes it once in three million settings, so once in half a million runs.
CRITICAL = 5.0


@dataclass(frozen=True)
class Draws:
    """One setting of the sampler: how far the draws are from what was asked for (``off``) and from what the engine
    would draw without the parameter (``off_plain``), in standard deviations of the statistic; ``excluded`` counts draws
    of tokens that the parameter rules out."""

    name: str
    parameters: Mapping[str, float]
    count: int
    excluded: int
    off: float
    off_plain: float
    worst: str
    shift: float | None

    @property
    def wrong(self) -> bool:
        return self.excluded > 0 or self.off > CRITICAL

    @property
    def ignored(self) -> bool:
        """Whether the draws are those of an engine that was not given the parameter."""
        return self.wrong and self.off_plain <= CRITICAL

    def __str__(self) -> str:
        asked = ", ".join(f"{name} {value:.3g}" for name, value in self.parameters.items())
        return f"{self.count} draws at {asked}: {self.off:.1f} standard deviations from the distribution asked for" + (
            f", {self.excluded} of tokens that it excludes" if self.excluded else ""
        )


def draws(job: Job) -> list[Draws]:
    """Every setting of a run. Raises :class:`NotChecked` where there is none."""
    return [_draws(row) for row in require(job, "settings")]


def sampled(case: Case) -> Iterator[Job]:
    """The runs whose draws may be judged. Raises :class:`NotApplicable` where the engine's distribution is another one
    already: then no draw can fit."""
    for other in case.observations.get("agreement", {}).values():
        reported = records(other)
        if {"plain", "trainer"} <= reported.keys() and between(reported["plain"], "engine", "trainer").beyond(
            noise_of(other)
        ):
            raise NotApplicable("engine and trainer disagree on the distribution itself (RLD403)")
    yield from runs(case, "sampling")


def power(found: list[Draws]) -> str:
    """What so many draws would have shown."""
    shifts = [one.shift for one in found if one.shift is not None]
    return f"a temperature off by {min(shifts):.0%} would show" if shifts else "a parameter that is ignored would show"


def _draws(row: Mapping[str, Any]) -> Draws:
    bins, count = row["bins"], row["draws"]
    if len(bins) < 2 or not count:
        raise NotChecked(f"the distribution at {row['name']} has one token: nothing is drawn")
    worst = max(
        bins, key=lambda one: abs(one["observed"] - count * one["expected"]) / math.sqrt(count * one["expected"])
    )
    return Draws(
        name=row["name"],
        parameters=row["parameters"],
        count=count,
        excluded=row["excluded"],
        off=_deviations(bins, "expected", count),
        off_plain=_deviations(bins, "plain", count) if row["excluded"] == 0 else _with_excluded(row),
        worst=f"token {worst['tokens'][0]}: {worst['observed']} draws, {count * worst['expected']:.1f} expected",
        shift=row["shift"],
    )


def _with_excluded(row: Mapping[str, Any]) -> float:
    """Against the distribution without the parameter, in which the excluded tokens have their share."""
    rest = 1.0 - sum(one["plain"] for one in row["bins"])
    bins = [*row["bins"], {"observed": row["excluded"], "plain": rest, "tokens": []}]
    return _deviations(bins, "plain", row["draws"])


def _deviations(bins: list[Mapping[str, Any]], column: str, count: int) -> float:
    """The G statistic as standard deviations of a normal one (Wilson and Hilferty 1931, doi:10.1073/pnas.17.12.684)."""
    freedom = len(bins) - 1
    total = sum(one[column] for one in bins)
    statistic = 2 * sum(
        one["observed"] * math.log(one["observed"] / (count * one[column] / total)) for one in bins if one["observed"]
    )
    width = 2 / (9 * freedom)
    return float(((max(statistic, 0.0) / freedom) ** (1 / 3) - (1 - width)) / math.sqrt(width))


def unseeded(job: Job) -> tuple[list[int], list[int]]:
    """Seeds whose request was answered otherwise the second time, and seeds that share their answer with another."""
    first: dict[int, list[int]] = {}
    second: dict[int, list[int]] = {}
    for row in require(job, "seeds"):
        (second if row["batch"] else first)[row["seed"]] = row["token_ids"]
    changed = [seed for seed, tokens in first.items() if second.get(seed) != tokens]
    shared = [seed for seed, tokens in first.items() if list(first.values()).count(tokens) > 1]
    return changed, shared
