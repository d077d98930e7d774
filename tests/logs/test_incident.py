"""One incident from a log: the first failing rank, cause against cascades, handled and quoted exceptions, several
runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rldoctor.api.logs import Incident
from rldoctor.logs.triage import triage, triage_text
from rldoctor.model import Report
from tests.loaded import REGISTRY

from .excerpts import (
    HEALTHY,
    OUT_OF_MEMORY,
    PEER_GONE,
    REWARD_RAISES,
    SEGFAULT,
    TERMINATED,
    elastic,
    interleaved,
    ranked,
)


def incident(text: str) -> Incident:
    found = triage_text(text).incident
    assert found is not None
    return found


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


def test_a_healthy_log_has_finished() -> None:
    report = triage_text(HEALTHY)
    assert report.incident is not None
    assert (report.incident.kind, report.incident.exception, report.incident.versions) == (
        "finished",
        None,
        {"vllm": "0.11.0"},
    )
    assert codes(report) == []


def test_the_first_failure_with_its_place_stage_and_framework() -> None:
    found = incident(HEALTHY.replace("DONE\n", "") + REWARD_RAISES)
    assert (found.kind, found.exception, found.stage, found.framework) == (
        "crashed",
        "KeyError: 'answer'",
        "reward",
        "trl",
    )
    assert found.user_frame == "/home/user/rl/train.py:9 in reward"
    assert found.frames[-1] == found.user_frame
    assert found.versions["python"] == "3.11"


def test_ranks_are_taken_apart_and_the_first_to_fail_is_named() -> None:
    others = [ranked(r, PEER_GONE) for r in range(16) if r != 11]
    text = HEALTHY * 3 + ranked(11, OUT_OF_MEMORY) + interleaved(others)
    found = incident(text.replace("DONE\n", "") + elastic(11))
    assert found.first_rank == "11"
    assert found.exception is not None and found.exception.startswith("torch.OutOfMemoryError: CUDA out of memory")
    assert "Connection closed by peer" in found.cascades[0]
    assert "and 11 more" in found.cascades[0]


def test_a_launchers_line_is_told_as_it_stands() -> None:
    ended = "".join(f"srun: error: node17: task {rank}: Exited with exit code 1\n" for rank in (3, 2))
    assert incident(ended).cascades == ("srun: error: node17: task 2: Exited with exit code 1 (rank 2, on node17)",)


def test_a_cascade_that_is_printed_first_is_not_the_cause() -> None:
    text = interleaved([ranked(0, PEER_GONE), "x\n" * 3 + ranked(5, OUT_OF_MEMORY)])
    report = triage_text(text)
    assert codes(report)[:2] == ["RLD206", "RLD321"]
    assert report.incident is not None and report.incident.first_rank == "5"


def test_the_one_rank_that_did_not_complain_is_the_suspect() -> None:
    steps = "".join(f"[rank{rank}]: step 17 of rank {rank}\n" for rank in range(16))
    victims = interleaved([ranked(rank, PEER_GONE) for rank in range(16) if rank != 11])
    assert incident(steps + victims).first_rank == "11"


def test_an_exception_may_name_its_rank_itself() -> None:
    reported = (
        "RuntimeError: HCCL function error\n[ERROR] 2025-08-03-04:41:52 (PID:230144, Device:6, RankID:6) ERR02200\n"
    )
    text = REWARD_RAISES.replace("KeyError: 'answer'\n", reported)
    assert incident(text).first_rank == "6"


def test_torchelastic_knows_the_rank_where_lines_have_none() -> None:
    text = "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n"
    text += '  File "/home/user/rl/train.py", line 7 in <module>\n\n'
    assert incident(text + elastic(3, -11)).first_rank == "3"


def test_files_of_ranks_are_ordered_by_time(tmp_path: Path) -> None:
    for rank, minute, text in ((0, 9, REWARD_RAISES), (1, 7, OUT_OF_MEMORY), (2, 8, PEER_GONE)):
        stamped = f"2026-11-20 20:4{minute}:00,000 INFO step {rank}\n{text}"
        (tmp_path / f"rank_{rank}.log").write_text(stamped)
    found = triage([str(tmp_path)], REGISTRY.checks.values()).incident
    assert found is not None
    assert (found.first_rank, found.source) == ("1", str(tmp_path / "rank_1.log"))


def test_rays_worker_is_named_where_there_are_no_ranks() -> None:
    text = "".join(f"\x1b[36m(WorkerDict pid=17)\x1b[0m {line}\n" for line in OUT_OF_MEMORY.splitlines())
    assert incident(text).first_rank == "WorkerDict pid=17"


@pytest.mark.parametrize(
    "printed",
    [
        REWARD_RAISES,
        "Exception ignored in: <function Pool.__del__ at 0x7f>\n" + REWARD_RAISES,
        "--- Logging error ---\n" + REWARD_RAISES,
        "ERROR 11-20 21:24:36 [serving.py:1] request failed\n" + REWARD_RAISES,
    ],
)
def test_an_exception_after_which_the_run_goes_on_is_no_crash(printed: str) -> None:
    lines = HEALTHY.splitlines(keepends=True)
    report = triage_text("".join([*lines[:3], printed, *lines[3:]]))
    assert report.incident is not None and report.incident.kind == "finished"
    assert codes(report) == []


@pytest.mark.parametrize(
    "shown",
    [
        repr({"prompt": "explain", "completion": OUT_OF_MEMORY}),
        json.dumps({"step": 3, "response": OUT_OF_MEMORY}),
        f"[prompt] explain this\n[response] {ranked(0, OUT_OF_MEMORY)}[score] 0.0",
        f"Completion:\n```\n{OUT_OF_MEMORY}```",
        "│ what is this? │ torch.OutOfMemoryError: CUDA out of memory. │ 0.0 │",
        "+ grep -c 'CUDA out of memory' run.log",
    ],
)
@pytest.mark.parametrize("ended", [True, False])
def test_text_that_a_run_shows_is_not_its_own(shown: str, ended: bool) -> None:
    lines = HEALTHY.splitlines(keepends=True)
    text = "".join([*lines[:3], shown + "\n", *lines[3:]])
    if not ended:
        text = text.replace("DONE\n", "") + REWARD_RAISES
    assert codes(triage_text(text)) == ([] if ended else ["RLD902"])


MENTION = "What does Fatal Python error: Segmentation fault mean?"


@pytest.mark.parametrize("crash", [SEGFAULT, TERMINATED])
@pytest.mark.parametrize(
    "show",
    [
        lambda text: json.dumps({"step": 3, "response": text}) + "\n",
        lambda text: repr({"prompt": "explain", "completion": text}) + "\n",
        lambda text: f"[prompt] explain\n[response] {text}[score] 0.0\n",
        lambda text: f"Completion:\n```\n{text}```\n",
        lambda text: "".join(f"│ {line:90} │\n" for line in text.splitlines()),
        lambda text: f"The program prints\n{text}and then it is over.\n",  # shown as it is, without any label
        lambda text: f"It says {text.splitlines()[0]} and ends.\n",
        lambda text: text.splitlines()[0] + "\nis what it says at last.\n",
    ],
    ids=["json", "repr", "label", "fence", "table", "bare", "mentioned", "first line"],
)
def test_a_crash_that_a_sample_quotes_is_none(crash: str, show: Callable[[str], str]) -> None:
    lines = HEALTHY.splitlines(keepends=True)
    report = triage_text("".join([*lines[:3], show(crash), *lines[3:]]))
    assert report.incident is not None and report.incident.kind == "finished"
    assert codes(report) == []
    failed = triage_text("".join([*lines[:3], show(crash), *lines[3:-2], REWARD_RAISES]))
    assert failed.incident is not None and failed.incident.exception == "KeyError: 'answer'"
    assert codes(failed) == ["RLD902"]


@pytest.mark.parametrize(
    ("crash", "exception"),
    [(SEGFAULT, "Fatal Python error: Segmentation fault"), (TERMINATED, "c10::Error: CUDA error: an illegal")],
)
@pytest.mark.parametrize("behind", ["", elastic(3, -11), "step 4 of another process\n" + elastic(3, -11)])
def test_a_crash_of_the_run_itself(crash: str, exception: str, behind: str) -> None:
    begun = HEALTHY.removesuffix("DONE\n")
    for text in (begun + crash, begun + ranked(3, crash), begun + " 25%|##  | 1/4 [00:01<00:02,  2.3it/s]" + crash):
        found = incident(text + behind)
        assert found.kind == "crashed"
        assert found.exception is not None and found.exception.startswith(exception)


def test_a_sample_that_mentions_a_crash_does_not_hide_the_one_behind_it() -> None:
    text = HEALTHY.removesuffix("DONE\n") + f"[prompt] {MENTION}\n[response] It means\n[score] 1.0\n" + SEGFAULT
    assert incident(text).frames[-1].endswith("graph.py:824 in _engine_run_backward")


def test_a_thread_that_dies_is_a_failure_though_the_program_goes_on() -> None:
    lines = HEALTHY.splitlines(keepends=True)
    text = "".join([*lines[:3], "Exception in thread async-eval:\n", REWARD_RAISES, *lines[3:-1]])
    assert incident(text).kind == "crashed"


def test_the_last_of_several_runs_counts() -> None:
    banner = "W1120 20:49:01 1 run.py:874] Setting OMP_NUM_THREADS environment variable for each process to be 1\n"
    crashed = banner + HEALTHY.replace("DONE\n", "") + ranked(1, REWARD_RAISES) + elastic(1)
    fine = banner + HEALTHY
    assert incident(crashed + fine).kind == "finished"
    found = incident(fine + crashed)
    assert (found.kind, found.first_rank) == ("crashed", "1")
    twice = incident(crashed + banner + ranked(2, OUT_OF_MEMORY) + elastic(2))
    assert (twice.first_rank, twice.run, twice.runs) == ("2", 2, 2)


def test_all_runs_are_reported_on_demand(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    banner = "nohup: ignoring input\n"
    file.write_text(banner + REWARD_RAISES + banner + OUT_OF_MEMORY + banner + HEALTHY)
    report = triage([str(file)], REGISTRY.checks.values(), all_runs=True)
    assert [codes(run) for run in (*report.earlier_runs, report)] == [["RLD902"], ["RLD206"], []]
    assert [run.incident.run for run in report.earlier_runs if run.incident] == [1, 2]


# What each framework, and whoever starts it, writes at a start; with what follows it until the first step.
BEGINNINGS = {
    "Megatron": f"{'-' * 24} arguments {'-' * 24}\n  seed ................ 1\n{'-' * 20} end of arguments {'-' * 21}\n",
    "Ray's jobs": "2026-05-29 16:49:14,127\tINFO cli.py:39 -- Job submission server address: http://127.0.0.1:8265\n",
    "AReaL": "(AReaL) 20260320-11:19:20.100 PlatformInit INFO: Initializing CUDA platform (NVIDIA).\n",
    "ROLL": "====== Pipeline Config ======\n------ merged & post-init ------\nexp_name: a\n====== End Config ======\n",
    "NeMo-RL": "Loaded configuration from: grpo.yaml\nOverrides: []\nApplied CLI overrides\n",
    "ms-swift": "run sh: `/opt/venv/bin/python /opt/venv/lib/python3.11/site-packages/swift/cli/rlhf.py`\n",
    "unsloth": "🦥 Unsloth: Will patch your computer to enable 2x faster free finetuning.\n",
    "prime-rl": "16:41:33    INFO Starting RL run\n",
    "a prompt": "(base) user@gpu-3:~/rl$ bash run_grpo.sh\n",
}
LOADS = "loading the model\nloading the tokenizer\nloading the data\n"
STEPS = HEALTHY.replace("DONE\n", "").splitlines(keepends=True)[2:5]


@pytest.mark.parametrize("beginning", BEGINNINGS.values(), ids=BEGINNINGS)
@pytest.mark.parametrize("old", [OUT_OF_MEMORY, "".join(f"(W pid=3) {x}\n" for x in OUT_OF_MEMORY.splitlines())])
def test_a_run_of_each_framework_behind_one_that_failed(beginning: str, old: str) -> None:
    failed = HEALTHY.replace("DONE\n", "") + old + OUT_OF_MEMORY
    assert incident(failed + beginning + LOADS).kind != "crashed"
    assert incident(failed + beginning + LOADS + "".join(STEPS)).kind != "crashed"
    assert codes(triage_text(failed + beginning + LOADS + "".join(STEPS) + REWARD_RAISES)) == ["RLD902"]
    assert codes(triage_text(beginning + failed)) == ["RLD206"]


@pytest.mark.parametrize("command", ["python -m torch.utils.collect_env", "nvidia-smi", "pip list | grep vllm"])
def test_what_somebody_looks_at_behind_a_failure_is_no_new_run(command: str) -> None:
    shown = f"(base) user@gpu-3:~/rl$ {command}\nPyTorch version: 2.8.0\nvllm 0.11.0\ntrl 0.24.0\n"
    assert codes(triage_text(OUT_OF_MEMORY + shown)) == ["RLD206"]


def test_what_looks_like_a_start_between_cause_and_wrapper_is_none() -> None:
    text = REWARD_RAISES + "Loading weights:   0%|          | 0/27 [00:00<?, ?it/s]\n" + PEER_GONE
    assert incident(text).exception == "KeyError: 'answer'"


def test_only_wrappers_are_said_to_be_so() -> None:
    assert codes(triage_text(elastic(3))) == ["RLD901"]


def test_the_exceptions_of_a_chain_are_all_looked_at() -> None:
    text = OUT_OF_MEMORY + "\nDuring handling of the above exception, another exception occurred:\n\n" + REWARD_RAISES
    report = triage_text(text)
    assert codes(report)[0] == "RLD206"


def test_a_truncated_log_is_called_partial(tmp_path: Path) -> None:
    import gzip

    file = tmp_path / "run.log.gz"
    noise = "".join(f"INFO step {i} {i**3}\n" for i in range(40_000))
    file.write_bytes(gzip.compress((REWARD_RAISES + noise).encode())[:-100])
    report = triage([str(file)], REGISTRY.checks.values())
    assert report.incident is not None
    assert report.incident.partial == "the compressed file is truncated"
    assert any("truncated" in note for note in report.notes)


def test_the_rank_of_an_actor_is_learnt_from_its_other_lines() -> None:
    reported = "(Worker pid=17) INFO 11-20 21:24:35 [parallel_state.py:1906] world_size=8 rank=5 local_rank=5 "
    text = reported + "distributed_init_method=tcp://127.0.0.1:1 backend=nccl\n"
    text += "".join(f"(Worker pid=17) ERROR 11-20 21:24:36 [x.py:1] {line}\n" for line in OUT_OF_MEMORY.splitlines())
    assert incident(text).first_rank == "5"


_TIMEOUT = (
    "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=18, OpType=_ALLGATHER_BASE, NumelIn=4, "
    "NumelOut=16, Timeout(ms)=1800000) ran for 1800042 milliseconds before timing out."
)
_WATCHDOG = f"[rank3]:[E1104 08:12:44.101223 ProcessGroupNCCL.cpp:632] {_TIMEOUT}\n"
_THROWN = "terminate called after throwing an instance of 'c10::DistBackendError'\n"
_SIGABRT = (
    "E1104 08:12:49.000 412 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -6) "
    "local_rank: 3 (pid: 902) of binary: /usr/bin/python3\n"
)


@pytest.mark.parametrize("what", ["", f"  what():  [PG ID 0 PG GUID 0 Rank 3] {_TIMEOUT}\n"], ids=["cut", "whole"])
def test_what_the_watchdog_throws_is_no_cause_of_its_own(what: str) -> None:
    assert codes(triage_text(_WATCHDOG + _THROWN + what + _SIGABRT))[:1] == ["RLD321"]


def test_what_another_part_of_torch_throws_is_one() -> None:
    thrown = _THROWN.replace("c10::DistBackendError", "c10::Error") + "  what():  the gizmo is upside down\n"
    assert codes(triage_text(thrown + _SIGABRT))[:1] == ["RLD900"]
