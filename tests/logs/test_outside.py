"""Which lines of a log others than the run wrote."""

from __future__ import annotations

import pytest

from rldoctor.logs.outside import of_others
from rldoctor.logs.reading import read
from rldoctor.logs.runs import slices
from rldoctor.logs.sources import TextSource
from rldoctor.logs.table import Table
from tests.logs.excerpts import HEALTHY, OUT_OF_MEMORY

STEPS = "".join(line for line in HEALTHY.splitlines(keepends=True) if "'grad_norm'" in line)
NOTICE = "Instance 71 was stopped for maintenance\n"


def others(text: str) -> list[str]:
    """What others wrote in the last run of a log."""
    (piece,) = slices(read(TextSource("run.log", text.encode()), Table([])))
    return [line.text for _, line in of_others(piece)]


def test_what_stands_behind_the_last_step_and_is_nobodys() -> None:
    assert others(STEPS + NOTICE) == [NOTICE.strip()]


def test_what_the_run_went_on_behind() -> None:
    assert others(STEPS + NOTICE + STEPS) == []


def test_what_is_taken_down_behind_a_run_that_was_done() -> None:
    assert others(f"{STEPS}Training finished.\n{NOTICE}") == []
    assert others(f"Done\n{STEPS}{NOTICE}") == [NOTICE.strip()]


def test_what_a_run_writes_as_it_goes_is_its_own_at_the_end_too() -> None:
    own = "instance 4 of the pool was stopped\n"
    assert others(own + STEPS + own) == []


@pytest.mark.parametrize(
    "line",
    [
        "(WorkerDict pid=71) node 4 was stopped",
        "[rank3]: node 4 was stopped",
        "INFO 11-20 21:24:30 [pool.py:12] node 4 was stopped",
        "INFO node 4 was stopped",
        "rank 3: node 4 was stopped",
        "wandb: the run was stopped",
        "gpu-7:881:902 [0] NCCL INFO link down on mlx5_3",
        "Answer: the machine was stopped after 12 hours",
        "# the job is requeued when a node fails",
        "    print('node 4 was stopped')",
        "        raise RuntimeError('node 4 was stopped')",
    ],
)
def test_what_the_runs_own_processes_loggers_and_samples_say(line: str) -> None:
    assert others(f"{STEPS}{line}\n") == []


def test_the_raylet_and_the_autoscaler_speak_of_nodes() -> None:
    said = "(raylet) node 10.0.0.9 was stopped\n(autoscaler +9m) Worker node 10.0.0.9 terminated by the cloud.\n"
    assert len(others(STEPS + said)) == 2


def test_an_exception_is_the_runs_own_unless_it_is_a_name_that_a_service_gives_to_an_end() -> None:
    assert others(STEPS + OUT_OF_MEMORY) == []
    assert others(f"{STEPS}RuntimeError: the instance was stopped\n") == []
    assert others(f"{STEPS}ServiceError: the instance was stopped\n") != []
