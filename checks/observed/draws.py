"""How well tokens that a running engine drew fit the distribution that they were to be drawn from: a G-test for each
sampling parameter, the sums of long completions, and whether draws are independent.

No test uses an approximation that needs many draws: each bound holds for any number of them, so that the rate of false
alarms of a run is at most ``ALARMS``, shared out over its tests."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rldoctor.api import Case, NotApplicable, NotChecked, dataclass

from .agreement import Noise, between, in_batch, masked, noise_of
from .answers import not_applied, not_greedy, require_own
from .rollout import Job, records, require, runs

# Of a healthy engine: one run in a million. The tests of a run are never more than ``TESTS``.
ALARMS, TESTS = 1e-6, 1000
NATS = math.log(TESTS / ALARMS)
# Draws that are wrong are those of an engine that ignores the parameter, unless they are as improbable for that one.
UNLIKELY = math.log(1000)
# What a loss takes for another policy: a temperature that is off by so much, so many draws of another token.
MATTERS = 0.1

# Settings that are the model as it is, and no parameter that could be ignored.
PLAIN = ("temperature 1", "ends of answers")


@dataclass(frozen=True)
class Draws:
    """One setting of the sampler: how improbable so bad a fit is for what was asked for (``off``) and for what the
    engine would draw without the parameter (``off_plain``), as nats below certainty; ``excluded`` counts draws of
    tokens that the parameter rules out."""

    name: str
    parameters: Mapping[str, Any]
    count: int
    excluded: int
    off: float
    off_plain: float
    worst: str

    @property
    def wrong(self) -> bool:
        return self.excluded > 0 or self.off > NATS

    @property
    def ignored(self) -> bool:
        """Whether the draws are those of an engine that was not given the parameter."""
        return self.wrong and self.off_plain <= UNLIKELY and self.name not in PLAIN

    def __str__(self) -> str:
        asked = ", ".join(f"{name} {_short(value)}" for name, value in self.parameters.items())
        return f"{self.count} draws at {asked}: {_odds(self.off)} for so bad a fit" + (
            f", {self.excluded} draws of tokens that it excludes" if self.excluded else ""
        )


@dataclass(frozen=True)
class Score:
    """A function of the drawn token summed over long completions, and how improbable a sum so far off is (in nats)."""

    name: str
    observed: float
    expected: float
    off: float

    def __str__(self) -> str:
        return f"{self.name}: {self.observed:.0f} over all tokens, {self.expected:.1f} expected, {_odds(self.off)}"


@dataclass(frozen=True)
class Long:
    """Long completions at one setting: their sums, against the distribution that was asked for and (``plain``) the one
    without the parameter."""

    name: str
    count: int
    scores: tuple[Score, ...]
    plain: tuple[Score, ...]

    @property
    def worst(self) -> str:
        return str(max(self.scores, key=lambda one: one.off))

    @property
    def wrong(self) -> bool:
        return any(one.off > NATS for one in self.scores)

    @property
    def ignored(self) -> bool:
        return self.wrong and self.name not in PLAIN and not any(one.off > UNLIKELY for one in self.plain)

    def __str__(self) -> str:
        return f"{self.count} tokens of long completions, {self.name}"


def draws(job: Job) -> list[Draws]:
    """Every setting of a run that can be judged: one that rests on another is left out where that one is wrong, so that
    one cause gives one finding. Raises :class:`NotApplicable` where the draws are not independent, and
    :class:`NotChecked` where there are none."""
    if dependent(job):
        raise NotApplicable("the draws of one batch are not independent (RLD311)")
    noise = noise_of(job)
    rows = [row for row in require(job, "settings") if _cut_is_clear(row, noise) and _varies(row)]
    if not rows:
        raise NotChecked("the distribution has one token only, or its tokens are too near each other: nothing is drawn")
    found = {row["name"]: _draws(row, noise) for row in rows}
    grounds = {row["name"]: row["rests_on"] for row in rows}
    off = {name for name, one in found.items() if one.wrong}
    return [one for name, one in found.items() if not off & set(_below(name, grounds))]


def without_effect(case: Case) -> set[str]:
    """The parameters that draws show to be ignored; none where they tell nothing."""
    try:
        return {one.name for job in sampled(case) for one in draws(job) if one.ignored}
    except (NotApplicable, NotChecked):
        return set()


def wrong_by_themselves(job: Job) -> bool:
    """Whether draws are wrong without any parameter; False where they tell nothing."""
    try:
        return any(one.wrong for one in judged(job) if one.name == PLAIN[0])
    except (NotApplicable, NotChecked):
        return False


def _below(name: str, grounds: Mapping[str, str | None]) -> Iterator[str]:
    """What a setting rests on, down to the ground."""
    while (ground := grounds.get(name)) is not None:
        yield ground
        name = ground


def long(job: Job) -> list[Long]:
    """Long completions by setting; only those without a parameter where these are wrong already."""
    noise, found = noise_of(job), []
    for row in require(job, "long"):
        told = [
            tuple(_score(name, one, row["tokens"], noise) for name, one in row[k].items()) for k in ("scores", "plain")
        ]
        scores, plain = told
        found.append(Long(row["name"], row["tokens"], (*scores, *_single(row, noise), *_mixtures(row, noise)), plain))
        if found[0].wrong:
            break
    return found


def _score(name: str, one: Mapping[str, float], tokens: int, noise: Noise) -> Score:
    slack = tokens * noise.mean * one["largest"]
    off = _bernstein(abs(one["observed"] - one["expected"]) - slack, one["variance"], one["largest"])
    if one["largest"] == 1.0:  # counts
        off = max(off, _chernoff(one["observed"], one["expected"], slack)) - math.log(2)
    return Score(name, one["observed"], one["expected"], max(off, 0.0))


def _single(row: Mapping[str, Any], noise: Noise) -> Iterator[Score]:
    """The tokens that fit least, of all that there are: each may be the one that chance makes so. Older bundles have
    none."""
    for one in row.get("single", ()):
        observed, expected = one["observed"], one["expected"]
        off = _chernoff(observed, expected, expected * noise.largest) - math.log(row["vocabulary"])
        yield Score(f"token {one['token']}", observed, expected, max(off, 0.0))


def _mixtures(row: Mapping[str, Any], noise: Noise) -> Iterator[Score]:
    """Draws that follow another distribution, a share of them. With that share the whole is likelier by so much than
    without: that much a healthy engine comes by with the inverse chance at most, however many were drawn (Ville 1939: a
    martingale). Older bundles have none."""
    for name, shares in row.get("mixtures", {}).items():
        told = [(one, one["observed"] - _slack(one["share"], row["tokens"], noise)) for one in shares]
        one, off = max(told, key=lambda pair: pair[1])
        yield Score(f"draws of {name}", row["tokens"] * one["share"], 0.0, max(off - math.log(len(told)), 0.0))


def _slack(share: float, tokens: int, noise: Noise) -> float:
    """What rounding adds to the logarithm: the engine's own probabilities may all be higher by so much."""
    return tokens * math.log1p(share * math.expm1(noise.largest))


def dependent(job: Job) -> list[str]:
    """Pairs of draws that are equal more often than chance makes them."""
    told = []
    for row in require(job, "pairs"):
        share = row["equal"] / row["pairs"]
        if share > row["chance"] and row["pairs"] * _divergence(share, row["chance"]) > NATS:
            told.append(
                f"{row['name']}: {row['equal']} of {row['pairs']} pairs of draws are equal, "
                f"{row['pairs'] * row['chance']:.0f} expected"
            )
    return told


def sampled(case: Case) -> Iterator[Job]:
    """The runs whose draws may be judged. Raises :class:`NotApplicable` where the engine's distribution is another one
    already, or answers are another request's: then no draw can fit."""
    require_own(case)
    for other in case.observations.get("agreement", {}).values():
        reported = records(other)
        if {"plain", "trainer"} <= reported.keys() and between(reported["plain"], "engine", "trainer").beyond(
            noise_of(other)
        ):
            raise NotApplicable("engine and trainer disagree on the distribution itself (RLD403)")
    yield from runs(case, "sampling")


def judged(job: Job) -> list[Draws | Long]:
    """All that was drawn, as far as it can be judged; where draws are wrong without any parameter only those."""
    found: list[Draws | Long] = [*draws(job)]
    # What a run drew wrongly before it was cut short is as wrong.
    if records(job).get("long") is not None or not any(one.wrong for one in found):
        found += long(job)
    plain = [one for one in found if one.name == PLAIN[0]]
    return plain if any(one.wrong for one in plain) else found


@dataclass(frozen=True)
class Kind:
    """Requests of one kind in a batch of many: tokens that may not come, and sums as for long completions."""

    name: str
    count: int
    outside: tuple[Mapping[str, Any], ...]
    scores: tuple[Score, ...]

    @property
    def wrong(self) -> bool:
        return bool(self.outside) or any(one.off > NATS for one in self.scores)

    @property
    def worst(self) -> str:
        if self.outside:
            first = self.outside[0]
            return f"{first['request']}: token {first['token']} at place {first['place']} is ruled out by what it asks"
        return str(max(self.scores, key=lambda one: one.off))

    def __str__(self) -> str:
        return f"{self.count} tokens of requests with {self.name}, {len(self.outside)} of them ruled out"


def mixed(case: Case) -> Iterator[tuple[Job, list[Kind]]]:
    """What requests of different kinds drew in one batch. Raises :class:`NotApplicable` where a kind is wrong by
    itself, or requests are answered otherwise in batches."""
    for other in sampled(case):
        if any(one.wrong for one in judged(other)):
            raise NotApplicable("draws are wrong one parameter at a time already (RLD219, RLD404)")
    for other in case.observations.get("answers", {}).values():
        if {"rows", "logprobs"} <= records(other).keys() and (not_applied(other) or not_greedy(other)):
            raise NotApplicable("a parameter is not applied by itself already (RLD219)")
    for other in case.observations.get("agreement", {}).values():
        if "greedy" in records(other) and in_batch(other).beyond:
            raise NotApplicable("answers depend on the batch (RLD405)")
        if "vocabulary" in records(other) and masked(other):
            raise NotApplicable("the engine gives some tokens no probability (RLD404)")
    for job in runs(case, "mixed"):
        noise = noise_of(job)
        yield job, [_kind(row, noise) for row in require(job, "kinds")]


def _kind(row: Mapping[str, Any], noise: Noise) -> Kind:
    clear = tuple(one for one in row["outside"] if one["by"] is None or one["by"] > noise.largest)
    scores = tuple(_score(name, one, row["tokens"], noise) for name, one in row["scores"].items())
    others = _mixtures(row, noise.over(row.get("temperature") or 1.0))
    return Kind(row["name"], row["tokens"], clear, (*scores, *others))


def power(job: Job) -> str:
    """What so many draws would have shown. Raises :class:`NotChecked` where that is more than what matters."""
    told = require(job, "long")[0]
    tokens, slack = told["tokens"], noise_of(job).mean
    second, whole = told["scores"]["the second"], told["scores"]["log-probability"]
    share = _least(second["variance"], second["largest"]) / tokens + slack
    # A temperature that is off by a share changes the mean log-probability by that share of its variance.
    heat = (_least(whole["variance"], whole["largest"]) + tokens * slack * whole["largest"]) / max(
        whole["variance"], 1e-9
    )
    if max(share, heat) > MATTERS:
        raise NotChecked(
            f"{tokens} tokens of so flat or so peaked a distribution show a temperature that is off by {heat:.0%} "
            f"and {share:.0%} of wrong draws, no less"
        )
    strays = _visible(told, "any token", noise_of(job))
    also = f", or {strays:.1%} that are of any token," if strays is not None else ""
    return f"a temperature off by {heat:.1%}, {share:.1%} of wrong draws{also} would show"


def _visible(row: Mapping[str, Any], name: str, noise: Noise) -> float | None:
    """The least share of draws of another distribution that would show, whatever chance made of them: on average they
    say twice as much as has to be said. None where none is known to."""
    shares = row.get("mixtures", {}).get(name, ())
    needed = 2 * (NATS + math.log(max(len(shares), 1)))
    clear = [one["share"] for one in shares if one["growth"] - _slack(one["share"], row["tokens"], noise) > needed]
    return min(clear, default=None)


@dataclass(frozen=True)
class Seeded:
    """Seeds whose request was answered otherwise the second time (``changed``), those for which that is so only when it
    was preempted (``preempted``) or beside a request without a seed (``beside``), and those that share their answer
    with another, or give several completions of one request the same (``shared``)."""

    changed: list[int]
    preempted: list[int]
    beside: list[int]
    shared: list[int]


def seeded(job: Job) -> Seeded:
    batches: list[dict[int, list[int]]] = [{}, {}, {}, {}]
    for row in require(job, "seeds"):
        batches[row["batch"]][row["seed"]] = row["token_ids"]
    first, again, mixed_batch, amid = batches
    siblings = require(job, "siblings")
    changed = [seed for seed, tokens in first.items() if again.get(seed) != tokens]
    preempted = [seed for seed, tokens in amid.items() if seed not in changed and first.get(seed) != tokens]
    beside = [seed for seed, tokens in first.items() if mixed_batch and mixed_batch.get(seed) != tokens]
    shared = [seed for seed, tokens in first.items() if list(first.values()).count(tokens) > 1]
    if any(siblings.count(tokens) > 1 for tokens in siblings):
        shared += [seed for seed in list(first)[:1] if seed not in shared]
    return Seeded(changed, preempted, [seed for seed in beside if seed not in changed], shared)


def _draws(row: Mapping[str, Any], noise: Noise) -> Draws:
    places = [place for place in row["places"] if place["draws"]]
    bins = [(one, place["draws"]) for place in places for one in place["bins"] if one["expected"] > 0]
    worst, count = max(bins, key=lambda one: abs(one[0]["observed"] - one[1] * one[0]["expected"]) / math.sqrt(one[1]))
    what = "the other tokens" if worst["token"] is None else f"token {worst['token']}"
    return Draws(
        name=row["name"],
        parameters=row["parameters"],
        count=row["draws"],
        excluded=row["excluded"],
        off=_misfit(places, "expected", noise),
        off_plain=_misfit(places, "plain", noise),
        worst=f"{what}: {worst['observed']} of {count} draws, {count * worst['expected']:.1f} expected",
    )


def _misfit(places: list[Mapping[str, Any]], column: str, noise: Noise) -> float:
    """How improbable it is that draws fit so badly, in nats. For ``n`` draws from ``k`` bins the divergence of what was
    observed from what is expected has ``E exp(t n D) <= (1 - t) ** (1 - k)`` (Agrawal 2020, arXiv:1904.02291, theorem
    1.3), whatever ``n`` is; at several places the bounds multiply. What rounding changes is taken off."""
    divergence, freedom, draws = 0.0, 0, 0
    for place in places:
        bins = place["bins"]
        freedom += max(sum(one[column] > 0 for one in bins) - 1, 0)
        draws += place["draws"]
        for one in bins:
            if one["observed"]:
                share = place["draws"] * one[column]
                divergence += one["observed"] * math.log(one["observed"] / share) if share > 0 else math.inf
    if divergence == math.inf:
        return math.inf
    # Log-probabilities that differ by so much on average differ by this in divergence, twice over.
    beyond = divergence - 2 * draws * noise.mean**2
    if beyond <= freedom or not freedom:
        return 0.0
    return beyond - freedom - freedom * math.log(beyond / freedom)


def _bernstein(distance: float, variance: float, largest: float) -> float:
    """How improbable it is, in nats, that a sum of bounded terms is so far from its mean on either side, whatever terms
    came before (Freedman 1975, doi:10.1214/aop/1176996452)."""
    if distance <= 0:
        return 0.0
    spread = 2 * (variance + largest * distance / 3)
    return max(distance**2 / spread - math.log(2), 0.0) if spread > 0 else math.inf


def _chernoff(count: float, expected: float, slack: float) -> float:
    """The same for a count, whatever came before, by the moments of Poisson's distribution, which bound those of a sum
    of indicators from above: tighter than the variance where few are expected."""
    fewer = count < expected
    mean = expected - slack if fewer else expected + slack
    if mean <= 0 or fewer != (count < mean):
        return 0.0
    whole = (count * math.log(count / mean) if count else 0.0) - count + mean
    return max(whole - math.log(2), 0.0)


def _least(variance: float, largest: float) -> float:
    """The least distance from the mean that would show."""
    nats = NATS + math.log(2)
    half = nats * largest / 3
    return half + math.sqrt(half**2 + 2 * nats * variance)


def _divergence(share: float, chance: float) -> float:
    """Of a share of equal pairs from its chance: with Chernoff's bound, the nats for each pair."""
    parts = ((share, chance), (1 - share, 1 - chance))
    return sum(p * math.log(p / max(q, 1e-12)) for p, q in parts if p > 0)


def _cut_is_clear(row: Mapping[str, Any], noise: Noise) -> bool:
    """Whether rounding cannot change which tokens a parameter keeps."""
    return row["gap"] is None or bool(row["gap"] > 2 * noise.largest)


def _varies(row: Mapping[str, Any]) -> bool:
    return row["draws"] > 0 and any(len(place["bins"]) > 1 for place in row["places"])


def _odds(nats: float) -> str:
    return "no surprise" if nats <= 0 else f"a chance below 1e-{min(nats / math.log(10), 999):.0f}"


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
