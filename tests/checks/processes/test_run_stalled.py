"""RLD609: no error and no progress."""

from __future__ import annotations

from rldoctor_checks.processes.run_stalled import check

from rldoctor.logs.triage import triage_text
from tests.logs.asking import finding, findings, raised
from tests.logs.excerpts import HEALTHY

WAITS = (
    "(EngineCore pid=9) INFO 11-20 21:2{}:00 [shm_broadcast.py:466] No available shared memory broadcast block "
    "found in 60 seconds.\n"
)


def test_an_engine_that_waits_until_the_log_ends() -> None:
    text = HEALTHY.replace("DONE\n", "").splitlines(keepends=True)[:2]
    assert "5 warnings" in finding(check, "".join(text) + "".join(WAITS.format(i) for i in range(5))).message


def test_a_slow_compilation() -> None:
    assert findings(check, "".join(WAITS.format(i) for i in range(5)) + HEALTHY) == []
    assert findings(check, WAITS.format(1)) == []


def test_a_remote_call_that_ran_into_its_limit() -> None:
    text = raised(
        "ray.exceptions.GetTimeoutError", "Get timed out: some object(s) not ready.", "/x/ray/worker.py get_objects"
    )
    assert "/home/user/rl/train.py:7" in finding(check, text).message


def test_slurms_time_limit_is_the_end_of_a_sound_job() -> None:
    text = "slurmstepd: error: *** JOB 123 ON n1 CANCELLED AT 2026-11-20T20:00:00 DUE TO TIME LIMIT ***\n"
    assert [found.code for found in triage_text(text).findings] == ["RLD603"]


def test_a_worker_that_does_not_answer_its_executor() -> None:
    # https://github.com/vllm-project/vllm/issues/17965
    found = finding(check, raised("TimeoutError", "RPC call to execute_model timed out."))
    assert "did not answer execute_model" in found.message
