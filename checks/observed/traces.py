"""Reads the trace of traffic that a scenario drove step by step: what became of each request, and where two engines
that were asked the same part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rldoctor.api import Case, NotChecked, dataclass

from .agreement import Difference, difference, noise_of
from .rollout import Job, records, require

Trace = Mapping[str, Any]
Answer = Mapping[str, Any]

# A token that was under way when its request was aborted may still arrive.
UNDER_WAY = 2
# Nats by which a greedy token may be less likely than another: they are numbers of one and the same step.
CLOSE = 1e-3


def unscheduled(trace: Trace) -> dict[str, Answer]:
    """Requests that never got a token, though nobody aborted them."""
    return {n: a for n, a in trace["answers"].items() if not a["token_ids"] and not a["aborted"]}


def beyond_the_budget(trace: Trace, engine: Mapping[str, Any]) -> dict[str, Answer]:
    """Requests that a step of this engine has no room for."""
    budget = engine.get("max_num_batched_tokens")
    if budget is None or engine.get("enable_chunked_prefill") is not False:
        return {}
    return {name: answer for name, answer in unscheduled(trace).items() if answer["prompt_tokens"] > budget}


def faults(trace: Trace) -> Iterator[str]:
    """What one caller must never see, a line each."""
    never = unscheduled(trace)
    for name, answer in trace["answers"].items():
        tokens, at = len(answer["token_ids"]), answer["aborted_at"]
        if answer["wrong_prompt"]:
            yield f"{name}: its answer carries another prompt"
        if at is None and answer["finish_reason"] is None and name not in never:
            yield f"{name}: never finished, {tokens} tokens in {trace['steps']} steps"
        if at is not None and tokens > at + UNDER_WAY:
            yield f"{name}: aborted after {at} tokens, went on to {tokens}"
    yield from (f"{name}: an answer that nobody had asked for" for name in dict.fromkeys(trace["strangers"]))
    yield from (f"{name}: finished more than once" for name in dict.fromkeys(trace["twice"]))


def overtaken(trace: Trace, engine: Mapping[str, Any]) -> list[str]:
    """Requests whose first token came after that of one that had come later, a line each; none where the engine is to
    choose otherwise than by arrival, or where it or older bundles do not tell."""
    if engine.get("scheduling_policy") != "fcfs" or engine.get("long_prefill_token_threshold"):
        return []
    told, later = [], None
    begun = [(name, answer["begun"]) for name, answer in trace["answers"].items() if answer.get("begun") is not None]
    for name, step in reversed(begun):
        if later is not None and step > later[1]:
            told.append(f"{name}: its first token came in step {step}, that of {later[0]} in step {later[1]}")
        if later is None or step < later[1]:
            later = name, step
    return told[::-1]


def other_lengths(trace: Trace) -> Iterator[str]:
    """Answers that have another number of tokens than they were to have, a line each."""
    for name, answer in trace["answers"].items():
        tokens, length = len(answer["token_ids"]), answer.get("length")
        if length is not None and answer["finish_reason"] is not None and not answer["aborted"] and tokens != length:
            yield f"{name}: {tokens} tokens, {length} were asked for"


def not_the_likeliest(trace: Trace) -> Iterator[str]:
    """Tokens of greedy answers that are less likely, by the numbers that come with them, than another, a line for each
    answer that has some; none where the likeliest ones do not come."""
    for name, answer in trace["answers"].items():
        told = zip(answer["token_ids"], answer["logprobs"], answer["tops"], strict=False)
        wrong = [place for place, one in enumerate(told, 1) if _less_likely(*one)]
        if wrong:
            yield f"{name}: greedy, and {len(wrong)} of its tokens are not the likeliest, first token {wrong[0]}"


def _less_likely(token: int, logprob: float | str | None, tops: list[tuple[int, float | str]]) -> bool:
    """Numbers that are none are told elsewhere (RLD404)."""
    if not tops or token == tops[0][0] or logprob is None:
        return bool(tops) and logprob is None
    best = tops[0][1]
    return not isinstance(best, str) and not isinstance(logprob, str) and best - logprob > CLOSE


@dataclass(frozen=True)
class Parting:
    """Where two engines chose different tokens after the same ones. ``gaps``: how much likelier each held its own
    token than the other's, at least; both are rounding where the two tokens were about equally likely."""

    request: str
    place: int
    tokens: tuple[int, int]
    gaps: tuple[float, float]

    def __str__(self) -> str:
        one, other = self.gaps
        return (
            f"{self.request}: equal for {self.place} tokens, then {self.tokens[0]} and {self.tokens[1]}, which each "
            f"engine holds to be likelier by {one:.3g} and {other:.3g} nats"
        )


@dataclass(frozen=True)
class Comparison:
    """The answers of two engines to the same requests: those ``equal`` to the end, where the others part, and the
    log-probabilities of the tokens before that."""

    equal: int
    partings: tuple[Parting, ...]
    agreed: Difference

    @property
    def requests(self) -> int:
        return self.equal + len(self.partings)


def compared(one: Trace, other: Trace) -> Comparison:
    """Raises :class:`NotChecked` where the two were not asked the same, or told no log-probabilities."""
    equal, partings = 0, []
    here: list[Any] = []
    there: list[Any] = []
    for name, mine in one["answers"].items():
        its = other["answers"].get(name)
        if its is None or its["prompt_tokens"] != mine["prompt_tokens"]:
            raise NotChecked(f"the two engines were not asked the same: {name}")
        # An aborted one may have come further on one side.
        pairs = list(zip(mine["token_ids"], its["token_ids"], strict=False))
        place = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
        here += mine["logprobs"][:place]
        there += its["logprobs"][:place]
        if place == len(pairs):
            equal += 1
        else:
            partings.append(_parting(name, place, mine, its))
    return Comparison(equal, tuple(partings), difference(here, there))


@dataclass(frozen=True)
class Against:
    """Answers beside what the trainer gives for the same tokens: how many ``requests``, how far the ``wrong`` ones are
    off, by name, and how far ``all`` tokens together."""

    requests: int
    wrong: Mapping[str, Difference]
    all: Difference

    @property
    def worst(self) -> Difference:
        return max(self.wrong.values(), key=lambda one: one.mean)


def against_trainer(job: Job) -> Against:
    """Raises :class:`NotChecked` where one of the two was not recorded."""
    answers, trainer = require(job, "trace")["answers"], require(job, "trainer")
    pairs = {name: (answers[name]["logprobs"], values) for name, values in trainer.items()}
    apart = {name: difference(*pair) for name, pair in pairs.items()}
    every = difference(*([value for pair in pairs.values() for value in pair[side]] for side in (0, 1)))
    noise = noise_of(job)
    return Against(len(apart), {name: one for name, one in apart.items() if one.beyond(noise)}, every)


def decided_by_chunks(case: Case) -> bool:
    """Whether the engine that prefills in chunks answers otherwise than the trainer, and the one that does not as it
    would; False where they were not both run beside it."""
    jobs = case.observations.get("chunked_prefill", {})
    if not all("trainer" in records(jobs.get(name, {})) for name in ("on", "off")):
        return False
    return bool(against_trainer(jobs["on"]).wrong) and not against_trainer(jobs["off"]).wrong


def _parting(name: str, place: int, one: Answer, other: Answer) -> Parting:
    tokens = (one["token_ids"][place], other["token_ids"][place])
    return Parting(name, place, tokens, (_gap(one, place, tokens[1]), _gap(other, place, tokens[0])))


def _gap(answer: Answer, place: int, rival: int) -> float:
    """How much likelier an engine held the token that it chose than another; where that is not among those told, than
    the last of them."""
    reported = {int(token): value for token, value in answer["tops"][place]} if place < len(answer["tops"]) else {}
    chosen = answer["logprobs"][place]
    against = reported.get(rival, min(reported.values(), default=chosen))
    return float(chosen - against)
