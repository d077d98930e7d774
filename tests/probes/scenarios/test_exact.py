"""The engine in float32 beside the launch's own precision on a GPU, and what a real H200 showed of both."""

from __future__ import annotations

import copy
import json
import lzma
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.sync import logprob_mismatch

from rldoctor.api import Case, Grade, NotApplicable, Outcome
from rldoctor.api.facts import ModelFiles
from rldoctor.api.probes import Request
from rldoctor.catalogue.scenario import MINIATURE, Basis
from rldoctor.judge import judge, judge_one
from rldoctor.probes.boots import Asked, plan_boots
from rldoctor.probes.rollout import rollout
from rldoctor.probes.scenarios.agreement import agreement
from rldoctor.probes.scenarios.exact import exact
from tests.loaded import REGISTRY
from tests.observations import packages
from tests.plans import QWEN2_7B
from tests.plans import case as planned

RECORDED = Path(__file__).parent / "recorded" / "h200.json.xz"
CASE = Case(packages=packages(vllm="0.26.0"))
LINEAR = {"layer_types": ["full_attention", "linear_attention"]}


def basis(**options: Any) -> Basis:
    return Basis(device="cuda", options=options, prompt=64, response=16, model_len=256)


@pytest.fixture(scope="module")
def h200() -> Case:
    """A healthy vLLM 0.26 on an H200: bfloat16 on FlashAttention 3, and float32 on Triton's attention."""
    return Case(observations=json.loads(lzma.decompress(RECORDED.read_bytes()))["observations"])


class TestWhere:
    @pytest.mark.parametrize(
        ("case", "on", "why"),
        [
            (CASE, Basis(device="cpu"), "as it is"),
            (CASE, basis(dtype="float32"), "own precision is float32"),
            (Case(packages=packages(vllm="0.25.1")), basis(), "0.26 and later"),
            (Case(), basis(), "0.26 and later"),
            (CASE, replace(basis(), environ={"VLLM_ATTENTION_BACKEND": "FLASH_ATTN"}), "is not known"),
            (replace(CASE, model=ModelFiles(path="m", config={"num_experts": 8})), basis(), "is not known"),
            (replace(CASE, model=ModelFiles(path="m", config=LINEAR)), basis(), "is not known"),
            (
                replace(CASE, model=ModelFiles(path="m", config={"text_config": {"kv_lora_rank": 512}})),
                basis(),
                "is not known",
            ),
        ],
    )
    def test_it_is_left_out(self, case: Case, on: Basis, why: str) -> None:
        with pytest.raises(NotApplicable, match=why):
            exact.runs(case, Request(), on)

    def test_options_of_16_bits_are_taken_back(self) -> None:
        case = replace(CASE, model=ModelFiles(path="m", config=QWEN2_7B))
        on = basis(dtype="bfloat16", attention_backend="FLASH_ATTN", kv_cache_dtype="fp8", enforce_eager=False)
        (run,) = exact.runs(case, Request(), on).values()
        assert run.engine.options == {"dtype": "float32", "attention_backend": None, "kv_cache_dtype": "auto"}
        # Nor are products of the reference computed in TF32, whatever the launch's surroundings say.
        assert run.engine.environ["NVIDIA_TF32_OVERRIDE"] == "0"
        (plain,) = agreement.runs(case, Request(), on).values()
        assert run.arguments == plain.arguments

    def test_what_else_is_played_keeps_the_launchs_precision(self) -> None:
        on, request = basis(dtype="bfloat16"), Request()
        asked = [
            Asked(one, name, run)
            for one in (rollout, agreement, exact)
            for name, run in one.runs(CASE, request, on).items()
        ]
        first, second = plan_boots(asked, on)
        assert (first.name, {one.scenario.name for one in first.asked}) == (MINIATURE, {"rollout", "agreement"})
        assert ([one.scenario.name for one in second.asked], second.options) == (["exact"], {"dtype": "float32"})


def live(case: Case) -> list[str]:
    results = judge(REGISTRY.checks.values(), case)
    return [f"{f.code} {f.message}" for result in results for f in result.findings if f.grade is Grade.OBSERVED]


def test_a_healthy_gpu_is_quiet_in_both_precisions(h200: Case) -> None:
    assert live(h200) == []
    result = judge_one(logprob_mismatch.check, h200)
    assert result.outcome is Outcome.PASS
    assert "on cuda and transformers: mean 0.028, largest 0.15" in str(result.reason)
    assert "in float32, which hides less, mean 0.0017, largest 0.0099" in str(result.reason)


def moved(case: Case, scenario: str, by: Iterable[float], column: str = "plain") -> Case:
    """The same where the engine's log-probabilities lie elsewhere by these."""
    observations = copy.deepcopy(dict(case.observations))
    (job,) = observations[scenario].values()
    steps = iter(by)
    for row in job["records"][column]:
        for name in ("engine", "prefill"):
            if name in row:
                row[name] = [value - next(steps) for value in row[name]]
    return replace(case, observations=observations)


def endless(step: float) -> Iterable[float]:
    while True:
        yield step


def test_a_small_defect_shows_in_float32_alone(h200: Case) -> None:
    """One hundredth of a nat: less than a tenth of what bfloat16 hides."""
    both = moved(moved(h200, "exact", endless(0.012)), "agreement", endless(0.012))
    (found,) = live(both)
    assert found.startswith("RLD403 ") and "differ in float32 on the tokens that it samples" in found
    assert live(moved(h200, "agreement", endless(0.012))) == []


@pytest.mark.parametrize("column", ["plain", "cached"])
def test_a_large_one_is_one_finding(h200: Case, column: str) -> None:
    both = moved(moved(h200, "exact", endless(0.3), column), "agreement", endless(0.3), column)
    (found,) = live(both)
    assert found.startswith("RLD403 ") and "float32" not in found


def exact_as(case: Case, **more: Any) -> Case:
    observations = copy.deepcopy(dict(case.observations))
    (job,) = observations["exact"].values()
    job.update(more)
    return replace(case, observations=observations)


def test_an_engine_that_does_not_do_float32_is_no_finding(h200: Case) -> None:
    """The launch does not run in it. What was not compared is said, and is no pass."""
    never = exact_as(h200, ended="not-run", why="its engine did not come up: OutOfMemoryError", records={})
    assert live(never) == []
    result = judge_one(logprob_mismatch.check, never)
    assert result.outcome is Outcome.NOT_CHECKED
    assert str(result.reason).startswith("the exact scenario was not reached: its engine did not come up: OutOfMemory")
    assert "on cuda and transformers: mean 0.028" in str(result.reason)


def test_without_transformers_nothing_is_compared(h200: Case) -> None:
    observations = copy.deepcopy(dict(h200.observations))
    (job,) = observations["exact"].values()
    del job["records"]["trainer"], job["records"]["vocabulary"]
    job["records"]["unread"] = {"trainer": "transformers does not have this architecture"}
    result = judge_one(logprob_mismatch.check, replace(h200, observations=observations))
    assert result.outcome is Outcome.NOT_CHECKED
    assert "transformers does not have this architecture" in str(result.reason)


def test_no_backend_is_blamed_that_did_not_run(h200: Case) -> None:
    """In float32 vLLM chooses the attention backend."""
    plan = planned(engine__attention_backend="FLASHINFER").plan
    result = judge_one(logprob_mismatch.check, replace(moved(h200, "exact", endless(0.012)), plan=plan))
    (found,) = result.findings
    assert found.grade is Grade.OBSERVED
    assert not any(edit.option == "engine.attention_backend" for fix in found.fixes for edit in fix.edits)
