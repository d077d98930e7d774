"""RLD301 judges a forward pass of the trainer's model on pretended devices, in the placements of the launch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.devices.device_mismatch import check

from rldoctor.api import Case, Finding, Grade, Outcome, Severity
from rldoctor.api.results import CheckResult
from rldoctor.judge import judge_one
from tests.checks import launches
from tests.checks.devices.ranks import mixed, placements
from tests.probes.ranks import placement_case, plan

DONE = {"ended": "done"}
ALONE: dict[str, Any] = {"process__launcher": "none", "process__total": 1}


def judged(case: Case) -> CheckResult:
    result = judge_one(check, case)
    assert result.traceback is None, result.traceback
    return result


def only(case: Case) -> Finding:
    (finding,) = judged(case).findings
    return finding


def test_a_tensor_on_the_host_is_named_with_module_and_line() -> None:
    found = only(placements(Case(), one_device=mixed("cuda:0", "cpu")))
    assert "mixes cuda:0 and cpu in model.layers.1.mlp (Qwen2MLP)" in found.message
    assert (found.severity, found.grade) == (Severity.ERROR, Grade.SIMULATED)
    assert (found.evidence[0].source, found.evidence[0].line) == ("/venv/transformers/models/m/modeling_m.py", 77)
    assert found.evidence[1].text == "aten.mul.Tensor of cuda:0 [2, 16], cpu [2, 16]"


@pytest.mark.parametrize(
    ("version", "said"),
    [("0.25.0", "DataParallel replicas"), ("0.26.0", 'device_map="auto"'), ("1.16.0", 'device_map="auto"')],
)
def test_several_devices_without_a_launcher(version: str, said: str) -> None:
    # https://github.com/huggingface/trl/issues/3181
    launch = launches.launch(version=version, gpus=2, **ALONE, model__path="m")
    rows: dict[str, Any] = {"one_device": DONE, "data_parallel": mixed("cuda:1", "cuda:0")}
    assert said in only(placements(launch, **rows, device_map=mixed("cuda:0", "cuda:1"))).message


def test_a_number_in_the_code_shows_in_a_launcher_s_second_process() -> None:
    launch = launches.launch(version="0.25.0", gpus=2, process__launcher="torchrun", process__total=2)
    found = only(placements(launch, one_device=DONE, second_device=mixed("cuda:1", "cuda:0")))
    assert "in a launcher's second process mixes cuda:1 and cuda:0" in found.message
    workers = launches.launch("verl", version="0.5.0", gpus=2, process__launcher="ray", process__total=2)
    assert judged(placements(workers, one_device=DONE, second_device=mixed("cuda:1", "cuda:0"))).outcome is Outcome.PASS


def test_a_placement_that_the_launch_does_not_bring_about_is_not_judged() -> None:
    rows: dict[str, Any] = {"one_device": DONE, "data_parallel": mixed("cuda:1", "cuda:0")}
    rows["device_map"] = mixed("cuda:0", "cuda:1")
    for launch in (
        Case(),
        launches.launch(version="0.25.0", gpus=1, **ALONE),
        launches.launch(version="0.25.0", gpus=2, process__launcher="torchrun", process__total=1),
        launches.launch(version="0.25.0", gpus=2, **ALONE, trainer__deepspeed="ds.json"),
        launches.launch("verl", version="0.5.0", gpus=2, **ALONE),
    ):
        result = judged(placements(launch, **rows))
        assert result.outcome is Outcome.PASS
        assert "231 operations of a small Qwen2ForCausalLM with one device for each process" in str(result.reason)


def test_what_could_not_be_tried_is_left_open() -> None:
    kernel = {"type": "NotImplementedError", "message": "no kernel\nmore", "frames": []}
    result = judged(placements(Case(), one_device={"ended": "failed", "error": kernel}))
    assert result.outcome is Outcome.NOT_CHECKED
    assert "NotImplementedError: no kernel" in str(result.reason)


@pytest.mark.engine
def test_a_broken_model(patient: Path) -> None:
    found = only(placement_case(patient, "host_buffer"))
    assert str(found.evidence[0].source).endswith("broken_placement.py")
    launch = plan("TRL", "0.21.0", process__launcher="none", process__total=1, env__CUDA_VISIBLE_DEVICES="0,1")
    assert "DataParallel replicas" in only(placement_case(patient, "first_device", launch=launch)).message


@pytest.mark.engine
def test_a_healthy_model(patient: Path) -> None:
    launch = plan("TRL", "0.21.0", process__launcher="none", process__total=1, env__CUDA_VISIBLE_DEVICES="0,1")
    result = judged(placement_case(patient, launch=launch))
    assert result.outcome is Outcome.PASS
    assert "replicas on two devices, simulated" in str(result.reason)
