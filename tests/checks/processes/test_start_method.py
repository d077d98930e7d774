"""RLD605: fork after CUDA, spawn without a guard."""

from __future__ import annotations

from typing import Any

import pytest
from rldoctor_checks.processes.start_method import check

from rldoctor.api import Outcome
from tests.checks import launches
from tests.logs.asking import finding, findings, raised


def test_fork_after_cuda() -> None:
    text = "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use 'spawn'"
    found = finding(check, raised("RuntimeError", text))
    assert found.fixes[0].edits[0].option == "env.VLLM_WORKER_MULTIPROC_METHOD"


def test_no_main_guard_names_the_line() -> None:
    text = "\n        An attempt has been made to start a new process before the\n        current process has finished"
    found = finding(
        check, raised("RuntimeError", text, "/opt/venv/lib/python3.11/multiprocessing/spawn.py get_preparation_data")
    )
    assert "/home/user/rl/train.py:7" in found.message


def test_another_runtime_error() -> None:
    assert findings(check, raised("RuntimeError", "CUDA error: invalid device ordinal")) == []


SPAWNED: dict[str, Any] = {"dialect": "vLLM", "env__VLLM_WORKER_MULTIPROC_METHOD": "spawn"}
IN_RAY: dict[str, Any] = {"process__launcher": "ray", "engine__distributed_executor_backend": "ray"}


def test_spawned_without_a_guard() -> None:
    found = launches.finding(check, "vLLM", **SPAWNED, process__main_guard=False)
    assert "__main__" in found.fixes[0].title
    assert launches.judged(check, "vLLM", **SPAWNED, process__main_guard=True).outcome is Outcome.PASS
    assert launches.quiet(check, "vLLM", dialect="vLLM", process__main_guard=False)
    # TRL's colocated engine starts no processes.
    assert launches.quiet(check, "TRL", **{**SPAWNED, "dialect": "TRL"}, process__main_guard=False)
    assert launches.quiet(check, "vLLM", **SPAWNED, process__main_guard=False, env__VLLM_ENABLE_V1_MULTIPROCESSING="0")


def test_forked_out_of_a_ray_actor() -> None:
    # https://github.com/vllm-project/vllm/pull/14410
    found = launches.finding(check, "OpenRLHF", vllm="0.7.3", **IN_RAY, env__VLLM_USE_V1="1")
    assert found.fixes[0].edits[0].option == "env.VLLM_ENABLE_V1_MULTIPROCESSING"
    assert launches.quiet(check, "OpenRLHF", vllm="0.7.3", **IN_RAY)
    assert launches.quiet(check, "OpenRLHF", vllm="0.8.2", **IN_RAY)
    assert launches.quiet(check, "OpenRLHF", vllm="0.8.0", **{**IN_RAY, "engine__distributed_executor_backend": "uni"})


SPAWN = "/opt/venv/lib/python3.11/multiprocessing/reduction.py dump"


@pytest.mark.parametrize(
    ("kind", "message", "what"),
    [
        ("AttributeError", "Can't pickle local object 'train.<locals>.reward'", "train.<locals>.reward"),
        ("AttributeError", "Can't get local object 'train.<locals>.reward'", "train.<locals>.reward"),
        ("TypeError", "cannot pickle '_thread.RLock' object", "_thread.RLock"),
        (
            "_pickle.PicklingError",
            "Can't pickle <function <lambda> at 0x7f1c>: attribute lookup <lambda> on __main__ failed",
            "<function <lambda> at 0x7f1c>",
        ),
    ],
)
def test_what_a_spawned_process_is_sent(kind: str, message: str, what: str) -> None:
    found = finding(check, raised(kind, message, "/opt/venv/lib/python3.11/multiprocessing/process.py start", SPAWN))
    assert found.message == f"a spawned process is to get {what}, which cannot be pickled"


def test_what_others_pickle() -> None:
    text = "cannot pickle '_thread.RLock' object"
    assert findings(check, raised("TypeError", text, "/opt/venv/lib/python3.11/site-packages/dill/_dill.py save")) == []
