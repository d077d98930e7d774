"""RLD901: only wrappers are in the log."""

from __future__ import annotations

import pytest
from rldoctor_checks.processes.cause_outside_log import check

from rldoctor.api import Severity
from rldoctor.logs.triage import triage_text
from tests.logs.asking import finding, findings, raised
from tests.logs.excerpts import HEALTHY, REWARD_RAISES, elastic


def test_torchruns_summary_alone_says_where_the_ranks_wrote() -> None:
    found = finding(check, elastic(3))
    assert any("--log-dir" in fix.title for fix in found.fixes)


SUMMARY = """\
Root Cause (first observed failure):
[0]:
  time      : 2025-11-02_10:00:01
  host      : gpu-3
  rank      : 13 (local_rank: 5)
  exitcode  : 1 (pid: 7535)
  error_file: {file}
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


@pytest.mark.parametrize(
    ("kept", "wanted"),
    [
        ("<N/A>", "LOGS/*/attempt_0/5/stderr.log"),
        ("/tmp/elastic_x/none_y/attempt_0/5/error.json", "/tmp/elastic_x/none_y/attempt_0/5"),
    ],
)
def test_the_file_of_the_rank_that_failed_first(kept: str, wanted: str) -> None:
    text = raised("torch.distributed.elastic.multiprocessing.errors.ChildFailedError", "")
    found = finding(check, text + SUMMARY.format(file=kept))
    assert "rank 13 on gpu-3 ended with exit code 1" in found.message
    assert found.fixes[0].commands == (f"rldoctor triage {wanted}",)


def test_the_file_of_rays_worker() -> None:
    dead = "EngineCore encountered an issue. See stack trace (above) for the root cause."
    text = (
        raised("ray.exceptions.RayTaskError(EngineDeadError)", "ray::WorkerDict.generate() (pid=4711, ip=10.0.0.1)")
        + f'  File "/opt/vllm/v1/engine/core_client.py", line 9, in get\n'
        f"vllm.v1.engine.exceptions.EngineDeadError: {dead}\n"
    )
    fix = finding(check, text).fixes[0]
    assert fix.commands == ("rldoctor triage /tmp/ray/session_latest/logs/worker-*-4711.err",)
    assert "on 10.0.0.1" in fix.title


def test_rays_carrier_without_what_it_carries() -> None:
    text = raised("ray.exceptions.RayTaskError(ValueError)", "ray::main() (pid=1, ip=10.0.0.1)")
    assert any("/tmp/ray/session_latest/logs" in fix.title for fix in finding(check, text).fixes)


def test_with_its_cause_in_sight_nothing_is_missing() -> None:
    assert findings(check, REWARD_RAISES + elastic(0)) == []
    assert [f.code for f in triage_text(REWARD_RAISES + elastic(0)).findings] == ["RLD902"]
    assert findings(check, HEALTHY) == []


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ("Segmentation fault (core dumped)", "was ended by SIGSEGV (exit code -11)"),
        ("Bus error", "was ended by SIGBUS (exit code -7)"),
        ("Exited with exit code 137", "was ended by SIGKILL (exit code 137)"),
        ("Killed", "was ended by SIGKILL (exit code -9)"),
    ],
)
def test_a_task_of_srun_that_left_nothing(end: str, says: str) -> None:
    ended = f"srun: error: n7: task 5: {end}\nsrun: error: n8: tasks 8-15: Terminated\n"
    diagnosed = triage_text(HEALTHY + ended)
    assert diagnosed.findings[0].message.startswith(f"rank 5 {says}")
    assert diagnosed.incident is not None and diagnosed.incident.node == "n7"


@pytest.mark.parametrize(
    ("error", "place"),
    [
        # https://github.com/modelscope/ms-swift/issues/7228
        (
            "RuntimeError: Multiple errors: [Exception('Server 1 failed: 500, Internal Server Error')]",
            "swift/rlhf_trainers/vllm_client.py infer",
        ),
        # https://github.com/areal-project/AReaL/pull/232, https://github.com/areal-project/AReaL/issues/1065
        ("RuntimeError: Failed after 3 retries each. Payload: {'input_ids': [1]}", "areal/utils/http.py request"),
        (
            "areal.infra.scheduler.exceptions.WorkerFailedError: Worker 'actor/0' failed with exit code 0",
            "areal/infra/scheduler/local.py async_call_engine",
        ),
        # https://github.com/langfengQ/verl-agent/issues/74
        (
            "ray.exceptions.RaySystemError: System error: Failed to unpickle serialized exception",
            "ray/_private/worker.py get_objects",
        ),
    ],
)
def test_what_only_hands_a_failure_on(error: str, place: str) -> None:
    kind, message = error.split(": ", 1)
    text = raised(kind, message, f"/opt/venv/lib/python3.11/site-packages/{place}")
    assert len(findings(check, text)) == 1
    assert findings(check, REWARD_RAISES + text) == []


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("RuntimeError", "DataLoader worker (pid(s) 3310, 3311) exited unexpectedly"),
        ("datasets.builder.DatasetGenerationError", "An error occurred while generating the dataset"),
        (
            "requests.exceptions.HTTPError",
            "500 Server Error: Internal Server Error for url: http://10.0.0.4:8000/generate/",
        ),
    ],
)
def test_another_process_knows_why(kind: str, message: str) -> None:
    assert finding(check, raised(kind, message)).code == "RLD901"
    assert findings(check, raised("KeyError", "'reward'") + raised(kind, message)) == []


@pytest.mark.parametrize(("code", "helps"), [(-7, "/dev/shm"), (-9, "dmesg"), (-11, "PYTHONFAULTHANDLER")])
def test_each_signal_has_its_own_hint(code: int, helps: str) -> None:
    place = "E1124 14:08:10.053000 26834 torch/distributed/elastic/multiprocessing/api.py:874]"
    line = f"{place} failed (exitcode: {code}) local_rank: 1 (pid: 5621) of binary: /bin/python\n"
    fix = finding(check, line).fixes[0]
    assert helps in " ".join((fix.title, *fix.commands, *(edit.option for edit in fix.edits)))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("run.sh: line 184: 23242 Segmentation fault      (core dumped) python train.py", "SIGSEGV (exit code -11)"),
        (
            "[f8107735c673549d7acd-n0-0] terminated with exit code (137). Reason [Error]. Message: ",
            "SIGKILL (exit code 137)",
        ),
        (" ERROR    failed (exitcode: -9) local_rank: 5 (pid: 22) of  api.py:673", "SIGKILL (exit code -9)"),
    ],
)
def test_a_process_whose_end_alone_is_told(line: str, says: str) -> None:
    diagnosed = triage_text(f"{HEALTHY}{line}\n")
    assert diagnosed.findings[0].code == "RLD901" and says in diagnosed.findings[0].message


def test_a_server_that_answers_some_requests_with_a_failure() -> None:
    def answers(failed: int) -> str:
        words = [("200 OK", "500 Internal Server Error")[i < failed] for i in range(40)]
        return "".join(f'INFO:     10.0.0.2:4{i:03d} - "POST /generate HTTP/1.1" {w}\n' for i, w in enumerate(words))

    (some,) = findings(check, answers(20))
    assert some.severity is Severity.WARNING and some.message.startswith("a server answered 20 requests (/generate)")
    assert findings(check, answers(2)) == []
    # Requests that are open as a server is taken down, and what a server answers that is not ready yet.
    assert findings(check, HEALTHY + answers(40)) == []
    assert findings(check, REWARD_RAISES + answers(40)) == []
    assert findings(check, answers(20).replace("POST /generate", "GET /health") + HEALTHY) == []


def test_areals_launcher_ends_with_one_of_its_jobs() -> None:
    # https://github.com/inclusionAI/AReaL/pull/232
    text = raised("areal.infra.utils.launcher.JobException", "Job me_gsm8k:llm_server JobState.FAILED at node local")
    found = finding(check, text)
    assert "only consequences" in found.message
    assert "JOB.log" in found.fixes[0].title


def test_a_controller_that_cannot_stop_its_workers_says_no_cause() -> None:
    # https://github.com/inclusionAI/AReaL/issues/25
    gave_up = raised("RuntimeError", "Fail to interrupt workers, timeout=30.")
    gone = "worker ERROR: Worker encountered error NCCL error in: NCCLUtils.hpp:275, remote process exited\n"
    remote = "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
    assert triage_text(gave_up + gone + remote).findings[0].code in ("RLD321", "RLD901")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("ray.train.base_trainer.TrainingFailedError", "The Ray Train run failed. Please inspect the previous error"),
        ("ray.tune.error.TuneError", "('Trials did not complete', [train_0001])"),
    ],
)
def test_rays_own_trainers_pass_a_failure_on(kind: str, message: str) -> None:
    assert "only consequences" in finding(check, raised(kind, message)).message
    assert [f.code for f in triage_text(REWARD_RAISES + raised(kind, message)).findings] == ["RLD902"]


ROW = "1234567            grpo        gpu   research        64     FAILED      {}:0 \n"


def test_a_job_of_which_only_its_state_is_known() -> None:
    assert findings(check, ROW.format(1))[0].message.startswith("Slurm says that the job failed with exit code 1")
    assert findings(check, ROW.format(0)) == []
    assert findings(check, ROW.format(1) + ROW.format(1).replace("1234567", "1234568")) == []
    assert findings(check, HEALTHY + ROW.format(1)) == []
    assert findings(check, "FAILED tests/test_reward.py::test_score - assert 1:0\n") == []


def test_hydras_hint_alone() -> None:
    """Hydra prints it behind whatever was raised."""
    hint = "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n"
    report = triage_text(f"Error executing job with overrides: ['data.train_batch_size=32']\n\n{hint}")
    assert [found.code for found in report.findings] == ["RLD901"]
    assert report.findings[0].fixes[0].commands == ("export HYDRA_FULL_ERROR=1",)


def test_a_floating_point_exception_may_be_cublas() -> None:
    (found,) = triage_text("Floating point exception (core dumped)\n", [check]).findings
    assert any("H20" in fix.title for fix in found.fixes)


REGISTRY = (
    "Model architectures ['{}'] are not supported for now. Supported architectures: ['AquilaModel', 'LlamaForCausalLM']"
)


def test_an_architecture_that_is_refused_and_listed() -> None:
    # https://github.com/vllm-project/vllm/issues/9515, 9624, 9712, 9713
    said = raised("ValueError", REGISTRY.format("LlamaForCausalLM"))
    assert "vLLM has LlamaForCausalLM" in finding(check, said).message
    assert [one.code for one in triage_text(said).findings] == ["RLD901"]
    other = raised("ValueError", REGISTRY.format("NewForCausalLM"))
    assert findings(check, other) == []
    assert [one.code for one in triage_text(other).findings] == ["RLD115"]


def test_an_answer_that_only_its_server_explains() -> None:
    # https://github.com/rllm-org/rllm/issues/217
    router = "/home/me/rllm/rllm/router/router.py poll"
    said = raised("Exception", "API request failed with status 500: Internal Server Error", router)
    assert "a server answered 500" in finding(check, said).message
    assert findings(check, raised("ValueError", "exit status 500 of 600 rows", router)) == []
