"""Options that a live engine accepted and did not apply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rldoctor.api import Case, Evidence, Finding, Fix, Grade, NotApplicable, Reach, Severity, Source, cite, plan_of

from ...observed import answers
from ...observed.draws import judged, power, sampled, seeded, without_effect, wrong_by_themselves
from ...observed.known_defects import fixes_here
from ...observed.rollout import describe, records, require, rollouts, runs
from . import check

# The engine that has nothing but what the launch asks for.
MINIATURE = "miniature"
# What requests call a grammar, by release. Before https://github.com/vllm-project/vllm/pull/49227 xgrammar knew only
# the tokenizer's own end: another one of generation_config.json broke it off (finish reason ``error``, as in 0.26).
GRAMMARS = ("structured_outputs", "guided_decoding")

_NO_SEEDS = "another release of vLLM; until then do not count on seeds of requests"


@check.observed(needs=["plan", "observations.rollout"])
def accepted_and_not_applied(case: Case) -> Iterator[Finding | Reach]:
    """The running engine has another value than the launch gave."""
    plan = plan_of(case)
    compared = 0
    for name, job in rollouts(case).items():
        if name != MINIATURE:
            continue  # the other engines differ from the launch on purpose
        asked, engine = require(job, "asked"), require(job, "engine")
        for option in sorted(asked.keys() & engine.keys()):
            setting = plan.get(f"engine.{option}")
            if setting is None or setting.source is not Source.GIVEN or not isinstance(asked[option], bool | int):
                continue  # a name such as a dtype has several spellings
            compared += 1
            if asked[option] != engine[option]:
                yield check.finding(
                    f"{describe(job)} was given {option}={asked[option]} and runs with {engine[option]}",
                    severity=Severity.WARNING,
                    grade=Grade.OBSERVED,
                    evidence=(
                        *cite(plan, f"engine.{option}"),
                        Evidence(text=f"{option} of the running engine: {engine[option]}", source="rollout probe"),
                    ),
                    fixes=(Fix(title=f"do not count on {option}: take it out, or move to a release that applies it"),),
                )
    yield Reach(f"{compared} engine options of the launch compared with those of the running engine")


@check.observed(needs=["observations.sampling"])
def sampling_parameter_not_applied(case: Case) -> Iterator[Finding | Reach]:
    """Tokens are drawn as if a parameter of the request had not been there."""
    for job in sampled(case):
        found = judged(job)
        ignored = [one for one in found if one.ignored]
        if ignored:
            names = ", ".join(one.name for one in ignored)
            yield check.finding(
                f"{describe(job)} does not apply {names}: its tokens are drawn as without it",
                grade=Grade.OBSERVED,
                evidence=tuple(
                    Evidence(text=text, source="sampling scenario") for one in ignored for text in (str(one), one.worst)
                ),
                fixes=(Fix(title=f"another release of vLLM; until then do not count on {names}"),),
            )
        yield Reach(
            f"{describe(job)} applies {', '.join(one.name for one in found if one.name != 'temperature 1')}; "
            f"{power(job)}"
        )


@check.observed(needs=["observations.answers"])
def request_not_answered_as_asked(case: Case) -> Iterator[Finding | Reach]:
    """Forced answers that are longer, shorter or of another text than a parameter of the request asks for."""
    for job in answers.judged(case):
        for name, rows in answers.not_applied(job, without_effect(case)).items():
            yield check.finding(
                f"{describe(job)} does not apply {name} as it is asked for, in {len(rows)} answers",
                severity=Severity.ERROR if name not in GRAMMARS or _guided(case) else Severity.WARNING,
                grade=Grade.OBSERVED,
                evidence=(
                    Evidence(text=f"{name} {rows[0]['asked']!r}", source="answers scenario"),
                    Evidence(text=f"expected {_shown(rows[0]['expected'])}", source="answers scenario"),
                    Evidence(text=f"got {_shown(rows[0]['got'])}", source="answers scenario"),
                ),
                fixes=(Fix(title=f"another release of vLLM; until then do not count on {name}"),),
            )
        wrong = answers.not_greedy(job)
        if wrong:
            yield check.finding(
                f"{describe(job)} does not apply temperature 0: {wrong} tokens of greedy answers are not the likeliest "
                "by its own log-probabilities",
                grade=Grade.OBSERVED,
                evidence=(Evidence(text=f"{wrong} tokens beside likelier ones", source="answers scenario"),),
                fixes=(Fix(title="another release of vLLM: greedy answers are not greedy"),),
            )
        names = dict.fromkeys(row["about"] for row in answers.rows(job))
        without = records(job).get("no_grammars")
        yield Reach(
            f"forced answers of {describe(job)} are as asked for: {', '.join(names)}, temperature 0"
            + (f"; no grammars were asked for: {without}" if without else "")
        )


def _guided(case: Case) -> bool:
    """Whether the launch asks for a grammar; one that does not may run on an engine whose grammars are broken."""
    return case.plan is not None and case.plan.value("sampling.guided") is not None


def _shown(answer: Mapping[str, Any]) -> str:
    """An answer in one line."""
    text = f", text {answer['text'][:60]!r}" if "text" in answer else ""
    return f"{len(answer['token_ids'])} tokens {answer['token_ids'][:8]}, {answer['finish_reason']}{text}"


@check.observed(needs=["observations.sampling"])
def seed_not_applied(case: Case) -> Iterator[Finding | Reach]:
    """Requests with a seed of their own that draw something else the second time, or the same as with another seed."""
    answers.require_own(case)
    for job in runs(case, "sampling"):
        drawn = seeded(job)
        if drawn.changed and wrong_by_themselves(job):
            raise NotApplicable("draws are wrong without any parameter already (RLD404)")
        # The first of these kinds is what is told.
        seeds = drawn.changed or drawn.shared or drawn.preempted or drawn.beside
        if seeds:
            said, severity = f"{len(drawn.shared)} of them draw the same tokens", Severity.ERROR
            fixes: tuple[Fix, ...] = (Fix(title=_NO_SEEDS),)
            if drawn.changed:
                said = f"{len(drawn.changed)} of them draw other tokens the second time"
            elif drawn.preempted and not drawn.shared:
                said = f"{len(drawn.preempted)} of them draw other tokens when they are preempted"
            elif drawn.beside and not drawn.shared:
                said = f"{len(drawn.beside)} of them draw other tokens beside a request without a seed"
                # Its sampler of the CPU gives up all seeds of such a batch; that of GPUs keeps them.
                if records(job).get("engine", {}).get("device") == "cpu":
                    severity, fixes = Severity.NOTE, fixes_here("vllm-cpu-seeds-beside-none", case, _NO_SEEDS)
            yield check.finding(
                f"{describe(job)} does not apply the seeds of requests: {said}",
                severity=severity,
                grade=Grade.OBSERVED,
                evidence=(Evidence(text=f"seeds {seeds}", source="sampling scenario"),),
                fixes=fixes,
            )
        yield Reach(f"requests with a seed of their own repeat on {describe(job)}")
