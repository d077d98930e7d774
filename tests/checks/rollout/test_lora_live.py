"""What RLD214 makes of adapters on a running engine."""

from __future__ import annotations

from typing import Any

from rldoctor_checks.rollout.lora import check

from rldoctor.api import Case, Finding, Grade, Outcome, Severity
from rldoctor.judge import judge_one
from tests.observations import link, scenario_case
from tests.plans import case as planned

TOKENS = 8
# What the trainer tells of the same tokens with these weights.
TOLD = {"base": -1.0, "first": -2.0, "renewed": -2.5, "second": -3.0, "unscaled": -1.5}
SERVED: dict[str, Any] = {"engine__enable_lora": True, "engine__max_lora_rank": 16, "lora__rank": 8}
REFUSED = [link("ValueError", "LoRA rank 32 is greater than max_lora_rank 16.")]
PYDANTIC = "1 validation error for LoRAConfig\nmax_lora_rank\n  Input should be 1, 8, 16, 32, 64, 128, 256, 320 or 512"


def row(case: str, engine: float) -> dict[str, Any]:
    reported = {name: [value] * TOKENS for name, value in TOLD.items()}
    return {"case": case, "token_ids": list(range(TOKENS)), "engine": [engine] * TOKENS, **reported}


def reported(
    none: float = -1.0,
    first: float = -2.0,
    second: float = -3.0,
    renewed: float = -2.5,
    refused: Any = REFUSED,
    again: float = -1.0,
    beside: float = -1.0,
) -> Case:
    adapters = [row("none", none), row("first", first), row("renewed", renewed), row("second", second)]
    rows = [*adapters, row("none again", again), row("beside", beside)]
    above = {"rank": 32, "exceptions": refused}
    asked = {"max_lora_rank": 16}
    return scenario_case(
        "lora", plan=planned(**SERVED).plan, trainer={"class": "Q"}, rows=rows, refused=above, asked=asked
    )


def observed(case: Case) -> list[Finding]:
    return [finding for finding in judge_one(check, case).findings if finding.grade is not Grade.DECLARED]


def test_adapters_that_are_applied() -> None:
    result = judge_one(check, reported())
    assert result.outcome is Outcome.PASS
    assert "applies the second adapter" in str(result.reason) and "get none after others" in str(result.reason)
    assert "rank 32 above 16 is refused" in str(result.reason)


def test_what_the_engine_uses_instead() -> None:
    for first, second, said in (
        (-1.0, -3.0, "it ignores the adapter"),
        (-1.5, -3.0, "without its scale"),
        (-2.0, -2.0, "it still uses an earlier adapter"),
        (-2.0, -4.0, "neither the base model nor another adapter"),
    ):
        (finding,) = observed(reported(first=first, second=second))
        assert said in finding.message


def test_an_adapter_that_reaches_requests_without_one() -> None:
    (finding,) = observed(reported(again=-3.0, beside=-3.0))
    assert "ask for none, after others that did" in finding.message
    (finding,) = observed(reported(beside=-3.0))
    assert "ask for none, in a batch with one that does" in finding.message


def test_an_engine_that_differs_without_an_adapter_is_another_matter() -> None:
    assert not observed(reported(none=-5.0, first=-5.0))


def test_an_adapter_above_the_limit_that_is_taken() -> None:
    (finding,) = observed(reported(refused=None))
    assert finding.severity is Severity.WARNING and finding.fixes[0].edits[0].value == 32


def test_a_limit_with_which_the_engine_does_not_start() -> None:
    plan = planned(**{**SERVED, "engine__max_lora_rank": 24, "lora__rank": 24}).plan
    exceptions = [link("pydantic_core.ValidationError", PYDANTIC)]
    case = scenario_case("lora", ended="not-run", plan=plan, exceptions=exceptions)
    (finding,) = judge_one(check, case).findings
    assert finding.grade is Grade.REPRODUCED and "max_lora_rank 24" in finding.message
    assert finding.fixes[0].edits[0].value == 32
    job = case.observations["lora"]["lora"]
    assert any(knows({**job, "ended": "raised"}) for knows in check.known_by)
