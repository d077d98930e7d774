"""RLD606: the engine's process is gone."""

from __future__ import annotations

import pytest
from rldoctor_checks.processes.engine_process_died import check

from rldoctor.logs.triage import triage_text
from tests.logs.asking import finding, findings, raised

ENGINE = "(EngineCore pid=19926) ERROR 11-20 21:14:33 "
DEAD = raised(
    "vllm.v1.engine.exceptions.EngineDeadError",
    "EngineCore encountered an issue. See stack trace (above) for the root cause.",
    "/opt/venv/lib/python3.11/site-packages/vllm/v1/engine/core_client.py get_output",
)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[x.py:3] Worker proc VllmWorker-0 died unexpectedly (exit code: -4), shutting down executor.", "SIGILL"),
        ("[x.py:3] Worker proc VllmWorker-1 died unexpectedly, shutting down executor.", "Worker proc VllmWorker-1"),
        ("[x.py:3] Engine core proc EngineCore_DP1 died unexpectedly, shutting down client.", "EngineCore_DP1"),
    ],
)
def test_the_death_that_the_executor_recorded(line: str, said: str) -> None:
    assert said in finding(check, f"{ENGINE}{line}\n{DEAD}").message


def test_an_engine_error_alone_is_a_wrapper() -> None:
    assert findings(check, DEAD) == []
    assert [f.code for f in triage_text(DEAD).findings] == ["RLD901"]


def test_rays_workers_are_another_code() -> None:
    assert (
        findings(check, raised("ray.exceptions.WorkerCrashedError", "The worker died unexpectedly while executing"))
        == []
    )


def test_an_engine_that_never_reported() -> None:
    # https://github.com/vllm-project/vllm-ascend/issues/3977
    place = "/opt/venv/lib/python3.11/site-packages/vllm/v1/engine/core_client.py __init__"
    late = raised("TimeoutError", "Timed out waiting for engines to send initial message on input socket.", place)
    assert "did not report" in finding(check, late).message
    assert findings(check, raised("TimeoutError", "Timed out waiting for lock of the cache", place)) == []
    first = raised("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB.", place)
    assert next(f.code for f in triage_text(first + late).findings) == "RLD206"
