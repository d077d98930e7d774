"""RLD208: sleep and wake-up that crash or corrupt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rldoctor_checks.rollout.sleep_wake import check

from rldoctor.api import Outcome, Severity
from rldoctor.api.results import CheckResult
from rldoctor.judge import judge_one
from tests.logs.asking import finding, findings, raised
from tests.plans import case, edits

ASLEEP: dict[str, Any] = {"engine__enable_sleep_mode": True, "sleep__level": 1}


def under(python: str, vllm: str = "0.8.5", framework: str = "ms-swift", **settings: Any) -> CheckResult:
    asked = case(framework, versions={"vllm": vllm}, **settings)
    assert asked.packages is not None
    return judge_one(check, replace(asked, packages=replace(asked.packages, python=python)))


def test_none_is_freed_before_python_3_12() -> None:
    # https://github.com/modelscope/ms-swift/issues/5231
    for python in ("3.10", "3.11.9"):
        result = under(python, **ASLEEP)
        assert python in result.findings[0].message
        assert any("python=3.12" in command for fix in result.findings[0].fixes for command in fix.commands)
        assert {"sleep.level": 0} in edits(result)
    assert under("3.12.3", **ASLEEP).outcome is Outcome.PASS


def test_a_short_run_and_an_engine_that_stays_awake_are_quiet() -> None:
    assert under("3.10", trainer__steps=100, **ASLEEP).outcome is Outcome.PASS
    (risk,) = under("3.10", trainer__steps=1000, **ASLEEP).findings
    (sure,) = under("3.10", trainer__steps=2000, **ASLEEP).findings
    assert (risk.severity, sure.severity) == (Severity.WARNING, Severity.ERROR)
    assert under("3.10", engine__enable_sleep_mode=False).findings == ()
    assert under("3.10", engine__enable_sleep_mode=True, sleep__level=0).findings == ()


def test_level_2_loses_buffers_before_0_8_5() -> None:
    # https://github.com/vllm-project/vllm/pull/16889
    deep: dict[str, Any] = {"engine__enable_sleep_mode": True, "sleep__level": 2}
    assert edits(under("3.12", vllm="0.8.4", **deep))[0] == {"sleep.level": 1}
    assert under("3.12", vllm="0.8.5", **deep).outcome is Outcome.PASS
    assert under("3.12", vllm="0.8.4", **ASLEEP).outcome is Outcome.PASS
    # ROLL's workers put them back: roll/third_party/vllm/worker_helper.py
    assert under("3.12", vllm="0.8.4", framework="ROLL", **deep).outcome is Outcome.PASS


def test_the_interpreters_last_words() -> None:
    # https://github.com/OpenRLHF/OpenRLHF/issues/1052
    text = (
        "Fatal Python error: none_dealloc: deallocating None: bug likely caused by a refcount error in a C extension\n"
        "Python runtime state: initialized\n\n"
        "Thread 0x00007f1 (most recent call first):\n"
        '  File "/x/site-packages/vllm/device_allocator/cumem.py", line 204 in sleep\n'
        '  File "/x/site-packages/vllm/v1/worker/gpu_worker.py", line 76 in sleep\n'
    )
    assert "freed None" in finding(check, text).message


@pytest.mark.parametrize(
    ("kind", "message", "said"),
    [
        ("AssertionError", "Sleep mode can only be used for one instance per process.", "two engines"),
        ("ValueError", "Sleep mode is not supported on current platform.", "not available"),
    ],
)
def test_the_engines_own_conditions(kind: str, message: str, said: str) -> None:
    assert said in finding(check, raised(kind, message)).message


def test_an_illegal_access_counts_only_after_sleep() -> None:
    # https://github.com/vllm-project/vllm/issues/28714
    fault = raised("torch.AcceleratorError", "CUDA error: an illegal memory access was encountered")
    slept = "INFO 11-20 21:24:36 [cumem.py:228] CuMemAllocator: sleep freed 43.82 GiB memory in total\n"
    assert "fell asleep" in findings(check, slept + fault)[0].message
    assert findings(check, fault) == []


def test_a_mapping_that_an_earlier_cycle_left() -> None:
    # https://github.com/vllm-project/vllm/pull/45565
    error = "CUDA Error: invalid argument at /workspace/csrc/cumem_allocator.cpp:169"
    assert "cannot map" in finding(check, raised("RuntimeError", error)).message
    assert findings(check, raised("RuntimeError", "CUDA Error: invalid argument at kernel.cu:3")) == []


def test_sglangs_memory_saver_cannot_resume() -> None:
    # https://github.com/fzyzcjy/torch_memory_saver/issues/35
    line = "[torch_memory_saver.cpp] CUresult error  result={}  file=csrc/torch_memory_saver.cpp func=resume line=214\n"
    assert "cannot resume its memory" in finding(check, line.format(1)).message
    assert findings(check, line.format(2)) == []  # want of memory: RLD206
