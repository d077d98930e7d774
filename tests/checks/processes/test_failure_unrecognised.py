"""RLD900: what nothing else explains, and only that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rldoctor_checks.processes.failure_unrecognised import check

from rldoctor.api import Case, Outcome, Severity
from rldoctor.judge import judge_one
from tests.observations import died, failed, imported, imports_case, link, packages, rollout_case

STACK = packages(vllm="0.11.0", torch="2.8.0", transformers="5.0")
AIMV2 = link("ValueError", "'aimv2' is already used by a Transformers config, pick another name.", "vllm/ovis.py:7")


def test_an_import_failure_without_a_name_is_told_once_with_its_frames() -> None:
    case = imports_case(STACK, vllm=failed(AIMV2), trl=failed(AIMV2), torch=imported())
    (finding,) = judge_one(check, case).findings
    assert finding.message.startswith("the import of trl, vllm fails: ValueError: 'aimv2' is already used")
    assert [e.text for e in finding.evidence][1].endswith("vllm/ovis.py:7 in <module>")
    assert finding.evidence[-1].source == "/tmp/log.txt"


def test_an_optional_package_that_does_not_import_is_a_warning() -> None:
    error = link("AttributeError", "module 'triton' has no attribute 'x'", "bitsandbytes/x.py")
    (finding,) = judge_one(check, imports_case(STACK, bitsandbytes=failed(error))).findings
    assert finding.severity is Severity.WARNING


def test_an_import_that_was_killed_or_hangs() -> None:
    (killed,) = judge_one(check, imports_case(STACK, vllm=died(-9))).findings
    (hangs,) = judge_one(check, imports_case(STACK, vllm={**died(-9), "ended": "timed-out"})).findings
    assert "its process died" in killed.message and killed.severity is Severity.ERROR
    assert "did not end in time" in hangs.message and hangs.severity is Severity.WARNING


@pytest.mark.parametrize(
    "told",
    [
        failed(link("RuntimeError", "operator torchvision::nms does not exist", "torchvision/x.py")),
        failed(link("ModuleNotFoundError", "No module named 'cbor2'", "vllm/x.py", name="cbor2")),
        failed(link("ImportError", "libcuda.so.1: cannot open shared object file", "vllm/x.py")),
        died(-11, "Current thread 0x0 (most recent call first):", '  File "/x/site-packages/vllm/y.py", line 3 in z'),
    ],
    ids=["a misfit", "an absent package", "no GPU driver", "a native crash"],
)
def test_an_import_failure_with_a_code_of_its_own(told: dict[str, Any]) -> None:
    assert judge_one(check, imports_case(STACK, vllm=told)).outcome is Outcome.PASS


def test_a_rollout_that_raised_tells_stage_root_and_frames() -> None:
    root = link("AssertionError", "len(running) == 0", "vllm/core/scheduler.py:9", link="cause")
    wrapper = link("RuntimeError", "Engine core initialization failed. See root cause above.", "vllm/x.py")
    (finding,) = judge_one(check, rollout_case("raised", exceptions=[wrapper, root], stage="boot")).findings
    assert finding.message.endswith("failed with AssertionError: len(running) == 0 at stage boot")
    assert finding.evidence[0].text.endswith("vllm/core/scheduler.py:9 in <module>")
    assert "/tmp/log.txt" in {evidence.source for evidence in finding.evidence}


def test_a_rollout_that_died_or_hangs() -> None:
    memory = rollout_case("died", job={"signal": "SIGKILL", "exit_code": -9}, stage="boot", out_of_memory_kills=1)
    (finding,) = judge_one(check, memory).findings
    assert finding.message.endswith("was ended by SIGKILL at stage boot")
    assert any("want of memory" in evidence.text for evidence in finding.evidence)
    (slow,) = judge_one(check, rollout_case("timed-out", stage="generate")).findings
    assert slow.severity is Severity.WARNING


@pytest.mark.parametrize(
    "error",
    [
        link("RuntimeError", "Expected all tensors to be on the same device, but found two", "torch/x.py"),
        link("KeyError", "'original_max_position_embeddings'", "vllm/x.py"),
        link(
            "ModuleNotFoundError",
            "No module named 'intel_extension_for_pytorch'",
            "vllm/x.py",
            name="intel_extension_for_pytorch",
        ),
    ],
)
def test_a_rollout_failure_with_a_code_of_its_own(error: dict[str, Any]) -> None:
    assert judge_one(check, rollout_case("raised", exceptions=[error])).findings == ()


def test_an_interpreter_that_could_not_be_started_is_unknown() -> None:
    error = {"type": "FileNotFoundError", "message": "no such file: /absent/python", "frames": []}
    result = judge_one(check, rollout_case("not-started", job={"error": error}))
    assert result.outcome is Outcome.NOT_CHECKED
    assert "/absent/python" in str(result.reason)


@pytest.mark.engine
def test_a_healthy_rollout_says_what_it_did(rollout: Callable[..., Case]) -> None:
    result = judge_one(check, rollout())
    assert result.outcome is Outcome.PASS
    assert "18 completions" in str(result.reason)


@pytest.mark.engine
@pytest.mark.parametrize(
    ("fault", "ending"),
    [
        ("assertion", "failed with AssertionError: len(self.running) == 0 at stage generate"),
        ("crash", "was ended by SIGSEGV at stage generate"),
        ("killed", "was ended by SIGKILL at stage boot"),
    ],
)
def test_a_broken_engine(rollout: Callable[..., Case], fault: str, ending: str) -> None:
    case = rollout(fault)
    (finding,) = judge_one(check, case).findings
    assert finding.message.endswith(ending)
    # What the child had delivered before is there.
    assert case.observations["rollout"]["miniature"]["records"]["versions"]["vllm"]


@pytest.mark.engine
def test_an_engine_that_does_not_start(rollout: Callable[..., Case]) -> None:
    (finding,) = judge_one(check, rollout(tensor_parallel_size=0)).findings
    assert "at stage boot" in finding.message


def test_both_probes_count() -> None:
    case = imports_case(STACK, vllm=failed(AIMV2))
    observations = {**case.observations, **rollout_case("died", stage="boot").observations}
    assert len(judge_one(check, replace(case, observations=observations)).findings) == 2
