"""The planner of live probes: as few engines as the runs allow, and never one that spoils a comparison."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.observed.rollout import describe

from rldoctor.api import Case, Level
from rldoctor.api.facts import ModelFiles
from rldoctor.api.probes import Basis, Engine, Request, Run, Scenario
from rldoctor.judge import judge
from rldoctor.probes.boots import BOOT_VOCABULARY_SECONDS, Asked, plan_boots
from rldoctor.probes.scenarios.agreement import agreement
from rldoctor.probes.scenarios.chunked_prefill import chunked_prefill
from rldoctor.probes.scenarios.mixed import mixed
from rldoctor.probes.scenarios.sampling import sampling
from tests.live import scenario_case
from tests.loaded import REGISTRY
from tests.observations import packages
from tests.plans import QWEN2_7B

BASIS = Basis(options={"max_model_len": 2048, "seed": 0})


def asked(name: str, run: str = "run", disturbs: bool = False, **engine: Any) -> Asked:
    scenario = Scenario(name=name, level=Level.COMPARE, runs=lambda *_: {}, disturbs=disturbs)
    return Asked(scenario, run, Run(engine=Engine(**engine)))


def booted(*runs: Asked) -> dict[str, list[str]]:
    return {boot.name: [one.key for one in boot.asked] for boot in plan_boots(runs, BASIS)}


def test_runs_without_wishes_share_the_plain_engine() -> None:
    assert booted(asked("b"), asked("a"), asked("c", options={"seed": 0})) == {
        "miniature": ["a: run", "b: run", "c: run"]
    }


def test_a_comparison_boots_the_engines_that_it_compares_and_nothing_more() -> None:
    on, off = asked("chunked", "on", alone=True), asked("chunked", "off", alone=True, options={"chunked": False})
    assert booted(on, off, asked("rollout"), asked("weights")) == {
        "miniature": ["chunked: on", "rollout: run", "weights: run"],
        "chunked: off": ["chunked: off"],
    }


def test_wishes_that_agree_share_an_engine_beside_the_plain_one() -> None:
    lora, sleep = asked("lora", options={"enable_lora": True}), asked("sleep", options={"enable_sleep_mode": True})
    assert booted(lora, sleep) == {"lora: run": ["lora: run", "sleep: run"]}
    # An engine that is compared with another gets no options that the comparison does not have.
    assert len(booted(lora, asked("chunked", alone=True))) == 2


def test_wishes_that_contradict_each_other_do_not() -> None:
    one, other = asked("a", options={"dtype": "float32"}), asked("b", options={"dtype": "bfloat16"})
    assert len(booted(one, other)) == 2
    assert len(booted(asked("a", environ={"X": "1"}), asked("b", environ={"X": "2"}))) == 2


def test_replicas_and_asynchronous_engines_are_engines_of_their_own() -> None:
    first, second = asked("seeds", "0"), asked("seeds", "1", replica=1)
    assert len(booted(first, second)) == 2
    assert len(booted(first, asked("requests", kind="async"))) == 2


def test_a_reference_is_an_engine_of_its_own_and_comes_after_the_launchs() -> None:
    reference, other = asked("a", reference=True), asked("b", reference=True)
    assert list(booted(reference, other, asked("c", replica=1), asked("d")).items()) == [
        ("miniature", ["d: run"]),
        ("c: run", ["c: run"]),
        ("a: run", ["a: run", "b: run"]),
    ]


def test_what_may_spoil_the_engine_comes_last() -> None:
    assert booted(asked("a", disturbs=True), asked("b")) == {"miniature": ["b: run", "a: run"]}


def test_a_large_vocabulary_takes_longer() -> None:
    scenario = Scenario(name="a", level=Level.COMPARE, runs=lambda *_: {}, seconds=6.0, vocabulary_seconds=30.0)
    (small,) = plan_boots([Asked(scenario, "run", Run())], BASIS)
    (large,) = plan_boots([Asked(scenario, "run", Run(), vocabulary=200_000)], BASIS)
    assert large.seconds - small.seconds == 2 * (30.0 + BOOT_VOCABULARY_SECONDS)


def test_draws_of_a_large_vocabulary_are_played_on_an_engine_of_few_tokens() -> None:
    base = replace(BASIS, vocabulary=151936)
    played = (sampling, mixed, chunked_prefill, agreement)
    case = Case(packages=packages(vllm="0.32.0"))

    def boots(base: Basis) -> dict[str, list[str]]:
        asked = [Asked(one, name, run) for one in played for name, run in one.runs(case, Request(), base).items()]
        return {boot.name: [one.scenario.name for one in boot.asked] for boot in plan_boots(asked, base)}

    draws = ["chunked_prefill", "mixed", "sampling"]
    assert boots(base) == {
        "miniature": ["agreement"],
        "chunked_prefill: off": ["chunked_prefill"],
        "chunked_prefill: on": draws,
    }
    # A GPU draws from many tokens as quickly as from few.
    for quick in (BASIS, replace(base, device="cuda")):
        quickest_first = ["chunked_prefill", "agreement", "mixed", "sampling"]
        assert boots(quick) == {"miniature": quickest_first, "chunked_prefill: off": ["chunked_prefill"]}


@pytest.mark.engine
def test_an_engine_of_few_tokens_has_the_models_architecture_and_a_tokenizer(patient: Path) -> None:
    model = ModelFiles(path="model", config={**QWEN2_7B, "vocab_size": 151936, "eos_token_id": 151645})
    reported = scenario_case(patient, mixed, model=model)
    (job,) = reported.observations["mixed"].values()
    made = job["records"]["miniature"]
    assert (made["like"], made["tokenizer"], made["few_tokens"]) == ("Qwen2ForCausalLM", True, True)
    assert made["config"]["vocab_size"] < 1000 and {"bad_words"} <= {row["name"] for row in job["records"]["kinds"]}
    assert "with a miniature Qwen2ForCausalLM of few tokens" in describe(job)
    assert [one.message for result in judge(REGISTRY.checks.values(), reported) for one in result.findings] == []
