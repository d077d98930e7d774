"""What RLD206, RLD207 and RLD208 make of sleep and wake-up. The observations are written by hand, after the sources of
the scenario and of vLLM's sleep allocator: sleep mode needs a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rldoctor_checks.rollout import allocator, memory_overcommitted, sleep_wake

from rldoctor.api import Case, Check, Finding, Grade, Outcome
from rldoctor.judge import judge_one
from tests.observations import link, scenario_case
from tests.plans import case as planned

MIB = 1 << 20
BEFORE = 70_000 * MIB


def seen(first: int = 5, logprob: float = -0.5) -> dict[str, Any]:
    """A greedy continuation: a first token, held for about as likely as token 6, and three sure ones."""
    tops = [[[first, logprob], [6 if first == 5 else 5, logprob - 0.1]], *([[7, -0.1], [8, -3.0]] for _ in range(3))]
    return {"token_ids": [first, 7, 7, 7], "logprobs": [top[0][1] for top in tops], "tops": tops}


SAME = {"scores": [-2.0] * 8, "seen": seen()}
OTHER = {"scores": [-9.0] * 8, "seen": seen()}
STALE = {"scores": [-2.0] * 8, "seen": seen(logprob=-4.0)}
ANOTHER_TOKEN = {"scores": [-2.0] * 8, "seen": seen(9, logprob=-0.01)}
NO_NUMBERS = {"scores": ["nan"] * 8, "seen": seen()}
# Rounding may choose the other one of two tokens that are about equally likely, and what follows is another text.
NEAR_TIE = {
    "scores": [-2.01] * 8,
    "seen": {**seen(6, logprob=-0.55), "token_ids": [6, 1, 2, 3], "logprobs": [-0.55, -4.0, -4.0, -4.0]},
}
VARIABLE = "env__PYTORCH_CUDA_ALLOC_CONF"
ASLEEP: dict[str, Any] = {
    "engine__enable_sleep_mode": True,
    "sleep__level": 2,
    VARIABLE: "expandable_segments:True",
}


def cycles(freed: int = 60, leak: int = 0) -> list[dict[str, Any]]:
    return [
        {"level": 2, "asleep": BEFORE + (freed - leak * i) * MIB, "awake": BEFORE - leak * i * MIB} for i in range(20)
    ]


def after(*answers: dict[str, Any], level: int = 2) -> list[dict[str, Any]]:
    """Of the first cycle, and of others where weights and cache woke up one after the other."""
    return [{"level": level, "cycle": n + 1, "parts": n > 0, **answer} for n, answer in enumerate(answers)]


def reported(**records: Any) -> Case:
    healthy: dict[str, Any] = {
        "held": 66 * MIB,
        "free": {"before": BEFORE},
        "start": SAME,
        "cycles": cycles(),
        "after": after(SAME),
    }
    return scenario_case("sleep", plan=planned(**ASLEEP).plan, **{**healthy, **records})


def undeclared(case: Case) -> Case:
    """With nothing for the declared sides to find."""
    return replace(case, plan=planned(**{**ASLEEP, VARIABLE: ""}).plan, packages=planned().packages)


def observed(check: Check, case: Case) -> list[Finding]:
    return [finding for finding in judge_one(check, case).findings if finding.grade is not Grade.DECLARED]


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (sleep_wake.check, "level 2 changes nothing, 20 cycles in all"),
        (allocator.check, "gives back 60 MiB, holding 66"),
        (memory_overcommitted.check, "20 cycles of sleep cost 0 MiB"),
    ],
    ids=["RLD208", "RLD207", "RLD206"],
)
def test_an_engine_that_sleeps_well(check: Check, said: str) -> None:
    result = judge_one(check, undeclared(reported()))
    assert result.outcome is Outcome.PASS and said in str(result.reason)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (OTHER, "what it computes"),
        (STALE, "cached prompts"),
        (ANOTHER_TOKEN, "cached prompts"),
        (NO_NUMBERS, "no numbers"),
    ],
)
def test_an_engine_that_wakes_up_another(other: dict[str, Any], said: str) -> None:
    (finding,) = observed(sleep_wake.check, reported(after=after(SAME, other)))
    assert said in finding.message and finding.grade is Grade.REPRODUCED
    assert finding.message.endswith("(cycle 2, weights and cache woken one after the other)")
    assert finding.fixes[0].edits[0].option == "sleep.level"


def test_what_it_wakes_up_with_is_held_against_the_weights_that_were_sent() -> None:
    second = after({**OTHER, "weights": 1}, {**SAME, "weights": 0})
    assert not observed(sleep_wake.check, reported(second=OTHER, after=second))
    lost = after({**SAME, "weights": 1})
    (finding,) = observed(sleep_wake.check, reported(second=OTHER, after=lost))
    assert "what it computes differs (cycle 1" in finding.message


def test_an_engine_whose_random_numbers_begin_anew() -> None:
    drawn = [{**SAME, "drawn": [first, *range(20)]} for first in (7, 8, 7)]
    (finding,) = observed(sleep_wake.check, reported(after=after(*drawn)))
    assert "draws the same completion after two wakings (cycles 1 and 3)" in finding.message
    assert not observed(sleep_wake.check, reported(after=after(*drawn[:2])))
    # Few tokens of few kinds come twice by themselves.
    assert not observed(sleep_wake.check, reported(after=after(*[{**SAME, "drawn": [1, 2] * 10}] * 3)))


def test_an_engine_that_wakes_up_with_fewer_free_blocks() -> None:
    start, woken = ({**SAME, "free_blocks": count} for count in (2047, 1983))
    (finding,) = observed(sleep_wake.check, reported(start=start, after=after(start, woken)))
    assert "blocks of its KV cache are lost (cycle 2" in finding.message
    assert any("2047 were free while nothing ran, and 1983 are" in one.text for one in finding.evidence)
    # An engine that does not tell, or one that has more of them than before.
    assert not observed(sleep_wake.check, reported(start=start, after=after({**SAME, "free_blocks": None})))
    assert not observed(sleep_wake.check, reported(start=woken, after=after(start)))


def test_a_near_tie_that_rounding_turns_is_no_change() -> None:
    assert not observed(sleep_wake.check, reported(after=after(NEAR_TIE, SAME)))


def test_a_level_that_could_not_be_played_is_reported() -> None:
    case = undeclared(reported(unread={"level 2": "the engine made up its own weights"}, after=after(SAME, level=1)))
    assert "level 2 was not played: the engine made up" in str(judge_one(sleep_wake.check, case).reason)
    unchanged = undeclared(reported(unread={"update": "it takes no new weights"}, after=after(SAME)))
    assert "the weights were those of the boot: it takes no" in str(judge_one(sleep_wake.check, unchanged).reason)
    nothing = dict.fromkeys(("start", "held", "free", "cycles", "after"))
    why = dict.fromkeys(("level 2", *nothing), "the engine made up its own weights")
    for check in (sleep_wake.check, allocator.check):
        assert not observed(check, reported(unread=why, **nothing))


def test_an_engine_that_fails_in_a_cycle() -> None:
    failed = {"level": 2, "cycle": 3, "exceptions": [link("RuntimeError", "CUDA error: invalid argument")]}
    (finding,) = observed(sleep_wake.check, reported(failed=failed))
    assert "fails in cycle 3 of sleep level 2: RuntimeError: CUDA error" in finding.message


def test_an_allocator_that_refuses_expandable_segments() -> None:
    exceptions = [link("AssertionError", "Expandable segments are not compatible with memory pool.")]
    case = scenario_case("sleep", ended="not-run", plan=planned(**ASLEEP).plan, exceptions=exceptions)
    (finding,) = observed(allocator.check, case)
    assert finding.fixes[0].edits[0].value == "expandable_segments:False"
    assert not observed(sleep_wake.check, case)


def test_sleep_that_frees_nothing() -> None:
    (finding,) = observed(allocator.check, reported(cycles=cycles(freed=2)))
    assert "gives back 2 MiB when it sleeps, and holds 66 MiB" in finding.message
    assert not observed(allocator.check, reported(held=3 * MIB, cycles=cycles(freed=0)))


def test_cycles_that_cost_memory() -> None:
    (finding,) = observed(memory_overcommitted.check, reported(cycles=cycles(leak=12)))
    assert "keeps 12 MiB more with every cycle" in finding.message
    assert not observed(memory_overcommitted.check, reported(cycles=cycles(leak=2)))
