"""RLD605: fork after CUDA, spawn without a guard."""

from __future__ import annotations

from rldoctor_checks.processes.start_method import check

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
