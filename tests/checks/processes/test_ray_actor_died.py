"""RLD603: a death that Ray recorded, with its cause elsewhere."""

from __future__ import annotations

from rldoctor_checks.processes.ray_actor_died import check

from rldoctor.logs.triage import triage_text
from tests.logs.asking import finding, findings, raised
from tests.logs.excerpts import HEALTHY, OUT_OF_MEMORY

DIED = raised("ray.exceptions.ActorDiedError", "The actor died unexpectedly before finishing this task.") + (
    "\tclass_name: RolloutWorker\n\tactor_id: 7adc7f40\n\tpid: 22183\n\tnamespace: 7aa1eb6b\n\tip: 192.0.2.2\n"
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker "
    "unexpectedly exits with a connection error code 2. End of file. Some common causes include: (1) the process was "
    "killed by the OOM killer due to high memory usage, (2) ray stop --force was called.\n"
)


def test_the_actor_and_where_its_log_lies() -> None:
    found = finding(check, DIED)
    assert found.message.startswith("the actor RolloutWorker (pid 22183 on 192.0.2.2) died")
    assert "worker-*-22183.err" in found.fixes[0].commands[0]


def test_it_comes_after_any_cause() -> None:
    actor = "".join(f"(RolloutWorker pid=22183) {line}\n" for line in OUT_OF_MEMORY.splitlines())
    assert [f.code for f in triage_text(actor + DIED).findings] == ["RLD206", "RLD603"]


def test_a_death_that_the_run_survived() -> None:
    raylet = "(raylet) A worker died or was killed while executing a task by an unexpected system error.\n"
    assert findings(check, raylet + HEALTHY) == []


CANCELLED = "slurmstepd-n7: error: *** STEP 88.0 ON n7 CANCELLED AT 2026-03-02T12:00:00 ***\n"


def test_a_step_that_was_cancelled() -> None:
    assert "the job 88.0 was cancelled on n7" in finding(check, HEALTHY + CANCELLED).message


def test_slurm_cancels_the_step_of_a_task_that_failed() -> None:
    exited = "srun: error: n7: tasks 0-7: Exited with exit code 1\n"
    assert findings(check, HEALTHY + exited + CANCELLED) == []
