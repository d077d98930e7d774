"""The planner of live probes: as few engines as the runs allow, and never one that spoils a comparison."""

from __future__ import annotations

from typing import Any

from rldoctor.api import Case, Level
from rldoctor.api.probes import Basis, Engine, Request, Run, Scenario
from rldoctor.probes.boots import BOOT_VOCABULARY_SECONDS, Asked, plan_boots
from rldoctor.probes.scenarios.mixed import mixed
from rldoctor.probes.scenarios.sampling import sampling

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


def test_a_large_vocabulary_is_asked_for_fewer_requests_and_given_more_time() -> None:
    for scenario, of in ((sampling, "penalties"), (mixed, "each")):
        (small,) = scenario.runs(Case(), Request(), Basis()).values()
        (large,) = scenario.runs(Case(), Request(), Basis(vocabulary=151936)).values()
        assert large.arguments[of] < small.arguments[of] and large.time_limit > small.time_limit
        (device,) = scenario.runs(Case(), Request(), Basis(vocabulary=151936, device="cuda")).values()
        assert device == small
