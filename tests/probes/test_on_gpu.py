"""The live suite on an NVIDIA GPU: healthy engines and ranks are quiet, faults are found, and nothing of them is left
on the device. Without a GPU it is skipped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rldoctor_checks.devices import collective_timeout, communicator_init, gpu_shared, nccl_settings
from rldoctor_checks.rollout import allocator, sleep_wake

from rldoctor.api import Case, Grade, Level, Outcome
from rldoctor.api.facts import Gpus
from rldoctor.api.probes import Request
from rldoctor.api.results import CheckResult
from rldoctor.facts import nvml, packages
from rldoctor.flow import examination
from rldoctor.judge import judge_one
from rldoctor.probes.collectives import collectives
from rldoctor.probes.feasible import free_gpus
from rldoctor.probes.rollout import rollout
from rldoctor.probes.runner import run_job
from rldoctor.probes.scenarios.agreement import agreement
from rldoctor.probes.scenarios.answers import answers
from rldoctor.probes.scenarios.chunked_prefill import chunked_prefill
from rldoctor.probes.scenarios.exact import exact
from rldoctor.probes.scenarios.interrupted import interrupted
from rldoctor.probes.scenarios.lengths import lengths
from rldoctor.probes.scenarios.lora import lora
from rldoctor.probes.scenarios.requests import requests
from rldoctor.probes.scenarios.sampling import sampling
from rldoctor.probes.scenarios.sleep import CYCLES, sleep
from rldoctor.probes.scenarios.tokens import tokens
from rldoctor.probes.scenarios.weights import weights
from tests.live import scenario_case
from tests.loaded import REGISTRY
from tests.plans import case as planned

pytestmark = pytest.mark.gpu

MIB = 1 << 20
RANKS = (gpu_shared.check, communicator_init.check, collective_timeout.check, nccl_settings.check)
ASLEEP = planned("vLLM", engine__enable_sleep_mode=True).plan
# What other processes on the device may allocate meanwhile.
UNSTEADY = 512 * MIB


@pytest.fixture(scope="module")
def gpus() -> Gpus:
    """The devices before anything of this suite runs."""
    if not Path("/dev/nvidiactl").exists():
        pytest.skip("no NVIDIA GPU here")
    found = nvml.read()
    if not free_gpus(Case(gpus=found), Request()):
        pytest.skip("every GPU here is in use")
    return found


@pytest.fixture(scope="module")
def healthy(patient: Path, gpus: Gpus) -> Case:
    """Everything that shares four engines: the plain one, one that does not chunk, one in float32, and an asynchronous
    one."""
    shared = (
        *(rollout, lengths, tokens, chunked_prefill, agreement, exact, answers, sampling),
        *(weights, interrupted, requests),
    )
    return scenario_case(patient, *shared, gpus=gpus)


def jobs(case: Case) -> Iterable[tuple[str, dict[str, Any]]]:
    for name, runs in case.observations.items():
        yield from ((f"{name}: {run}", job) for run, job in runs.items())


def records(case: Case, scenario: str, run: str | None = None) -> dict[str, Any]:
    """What a run recorded; it has to have come to its end."""
    job = case.observations[scenario][run or scenario]
    assert job["ended"] == "done", how(job)
    return dict(job["records"])


def how(job: dict[str, Any]) -> tuple[Any, ...]:
    """How a job ended, for people."""
    return job["ended"], job["records"].get("stage"), job["records"].get("exceptions"), job["tail"][-20:]


def seen(case: Case) -> list[str]:
    """What every check makes of what was observed. The environment is another matter."""
    found = examination.report(case, REGISTRY.checks.values(), REGISTRY).findings
    live = (Grade.OBSERVED, Grade.REPRODUCED)
    return [f"{one.code} {one.message}" for one in found if one.grade in live and not one.code.startswith("RLD1")]


def test_healthy_engines_come_to_their_end_and_are_quiet(healthy: Case) -> None:
    broken = {name: how(job) for name, job in jobs(healthy) if job["ended"] != "done"}
    assert not broken
    assert seen(healthy) == []


def test_what_is_recorded_of_a_gpu_engine(healthy: Case, gpus: Gpus) -> None:
    reported = records(healthy, "rollout", "miniature")
    device = next(gpu for gpu in gpus.devices if gpu.name == reported["versions"]["device_name"])
    assert reported["versions"]["cuda"] and reported["engine"]["device"] == "cuda"
    assert reported["engine"]["gpu_memory_utilization"] * device.memory_total < 9 << 30
    placed = reported["devices"]
    assert placed["expected"] == "cuda:0"
    for kind in ("parameters", "kv_cache"):
        assert placed[kind]["count"].keys() == {"cuda:0"} and not placed[kind]["elsewhere"]
    assert reported["rotary"][0]["rows"] >= 2048 and reported["engine"]["attention_backend"]
    assert not {"vllm_config", "devices.expected", "rotary", "attention_backend"} & reported["unread"].keys()


def test_the_trainer_is_on_the_gpu_too(healthy: Case) -> None:
    reported = records(healthy, "agreement")
    assert (reported["trainer"]["device"], reported["trainer"]["dtype"]) == ("cuda:0", reported["engine"]["dtype"])
    reported = records(healthy, "weights")
    assert reported["way"]["name"].startswith("model.load_weights") and reported["change"]["moved"] > 0.5
    assert all(refusal["exceptions"] for refusal in reported["refusals"].values())
    reported = records(healthy, "lengths")["trainer_side"]
    assert {one["ended"] for one in reported["attempts"]} == {"done"}
    assert reported["compared"].keys() == {"short", "to the limit"}


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_other_precisions_agree_with_the_trainer_within_their_noise(patient: Path, gpus: Gpus, dtype: str) -> None:
    case = scenario_case(patient, agreement, plan=planned("vLLM", engine__dtype=dtype).plan, gpus=gpus)
    assert records(case, "agreement")["engine"]["dtype"] == dtype
    assert seen(case) == []


def test_cuda_graphs_where_the_launch_leaves_them_on(patient: Path, gpus: Gpus) -> None:
    plan = planned("vLLM", engine__enforce_eager=False).plan
    case = scenario_case(patient, rollout, agreement, plan=plan, gpus=gpus)
    reported = records(case, "agreement")["engine"]
    assert reported["enforce_eager"] is False and reported["cudagraph_mode"] not in (None, False, "NONE")
    assert seen(case) == []


@pytest.mark.parametrize("fault", ["small:bias_dropped", "small:decode_one_late", "small:keys_off_at_block_ends"])
def test_what_an_engine_computes_otherwise_is_found(patient: Path, gpus: Gpus, fault: str) -> None:
    case = scenario_case(patient, agreement, fault=fault, gpus=gpus)
    assert "RLD403" in [one.partition(" ")[0] for one in seen(case)]


def test_adapters(patient: Path, gpus: Gpus) -> None:
    plan = planned("vLLM", engine__enable_lora=True, engine__max_lora_rank=16, lora__rank=8, lora__alpha=32).plan
    case = scenario_case(patient, lora, plan=plan, gpus=gpus)
    assert records(case, "lora")["adapters"]["modules"] == 14
    assert seen(case) == []


class TestSleep:
    """Both levels, twenty cycles."""

    def test_memory_is_given_back_and_the_answers_stay(self, patient: Path, gpus: Gpus) -> None:
        case = scenario_case(patient, sleep, plan=ASLEEP, gpus=gpus)
        reported = records(case, "sleep")
        assert "failed" not in reported and len(reported["cycles"]) == CYCLES
        assert {cycle["level"] for cycle in reported["cycles"]} == {1, 2}
        assert {row["parts"] for row in reported["after"]} == {False, True}
        assert reported["held"] > 64 * MIB
        before = reported["free"]["before"]
        assert min(cycle["asleep"] - before for cycle in reported["cycles"]) > reported["held"] / 2
        assert seen(case) == []

    def test_an_engine_that_keeps_its_memory_and_wakes_up_wrong(self, patient: Path, gpus: Gpus) -> None:
        case = scenario_case(patient, sleep, plan=ASLEEP, gpus=gpus, fault="sleep:sleepless,sleep:woken_wrong")
        assert "gives back" in reproduced(judge_one(allocator.check, case))
        assert "not the same after sleep level 1" in reproduced(judge_one(sleep_wake.check, case))


def reproduced(result: CheckResult) -> str:
    return "\n".join(one.message for one in result.findings if one.grade is Grade.REPRODUCED)


@pytest.fixture(scope="module")
def ranks(patient: Path, gpus: Gpus) -> Callable[[tuple[int, ...]], Case]:
    """A small job with a rank for each of these devices."""

    def run(devices: tuple[int, ...]) -> Case:
        request = Request(python=patient, level=Level.DEVICES, devices=devices)
        case = Case(packages=packages.collect(request), gpus=gpus)
        reported = {
            name: msgspec.to_builtins(run_job(collectives.child, job, name, request))
            for name, job in collectives.jobs(case, request).items()
        }
        return replace(case, observations={"collectives": reported})

    return run


def test_two_ranks_on_one_gpu(ranks: Callable[[tuple[int, ...]], Case], gpus: Gpus) -> None:
    (device, *_) = free_gpus(Case(gpus=gpus), Request())
    case = ranks((device.index, device.index))
    reported = case.observations["collectives"]["ranks"]["records"]["runs"][0]["ranks"]
    uuids = {rank["device"]["uuid"] for rank in reported}
    assert {str(uuid).removeprefix("GPU-") for uuid in uuids} == {str(device.uuid).removeprefix("GPU-")}
    results = {check.code: judge_one(check, case) for check in RANKS}
    (finding,) = results.pop("RLD302").findings
    assert "ranks 0,1 are on one physical GPU" in finding.message
    assert not any(result.findings for result in results.values())


def test_ranks_with_gpus_of_their_own(ranks: Callable[[tuple[int, ...]], Case], gpus: Gpus) -> None:
    free = [gpu.index for gpu in free_gpus(Case(gpus=gpus), Request())]
    if len(free) < 2:
        pytest.skip("one free GPU")
    case = ranks(tuple(free[:2]))
    for check in RANKS:
        assert judge_one(check, case).outcome is Outcome.PASS
    reported = case.observations["collectives"]["ranks"]["records"]["runs"][0]["ranks"]
    assert all(rank["bandwidth"]["gb_per_s"] > 1 and rank["peer"]["wrong"] == 0 for rank in reported)


def test_nothing_is_left_on_the_device(gpus: Gpus) -> None:
    """Comes last."""
    deadline = time.monotonic() + 10
    while (left := _grown(gpus)) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert not left


def _grown(before: Gpus) -> dict[int, int]:
    """The devices that have more memory in use than before, in MiB."""
    used = {gpu.index: gpu.memory_used or 0 for gpu in before.devices}
    now = {gpu.index: gpu.memory_used or 0 for gpu in nvml.read().devices}
    return {index: (now[index] - used[index]) // MIB for index in used if now[index] - used[index] > UNSTEADY}
