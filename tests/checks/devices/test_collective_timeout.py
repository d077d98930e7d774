"""RLD321: collectives that did not complete."""

from __future__ import annotations

from rldoctor_checks.devices.collective_timeout import check

from rldoctor.logs.triage import triage_text
from tests.logs.asking import finding, findings, raised
from tests.logs.excerpts import HEALTHY, OUT_OF_MEMORY, PEER_GONE, ranked

WATCHDOG = (
    "[rank{rank}]:[E1120 20:49:10.123456789 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
    "operation "
    "timeout: WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 "
    "milliseconds before timing out.\n"
)


def test_the_watchdogs_report_with_its_numbers() -> None:
    # https://github.com/verl-project/verl/issues/3873
    found = finding(check, "".join(WATCHDOG.format(rank=r, number=26) for r in (0, 2, 3)))
    assert found.message.startswith("ALLREDUCE number 26 did not complete within 600 s on ranks 0, 2-3")


def test_the_first_collective_of_all_is_the_fabric() -> None:
    # https://github.com/verl-project/verl/issues/597
    text = WATCHDOG.format(rank=0, number=1).replace("before", "before") + "[rank0]: last completed NCCL work: -1\n"
    assert "cannot reach each other" in finding(check, text).message


STUCK = (
    "[rank{rank}]:[E306 00:30:11.701177518 ProcessGroupNCCL.cpp:1484] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
    "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives. "
    "This typically indicates a NCCL/CUDA API (e.g., CudaEventDestroy) hang blocking the watchdog\n"
)


def test_a_watchdog_that_is_stuck_ends_its_process() -> None:
    # https://github.com/huggingface/open-r1/issues/478; torch 2.4 has no PG ID.
    report = triage_text(STUCK.format(rank=2))
    assert report.incident is not None
    assert (report.incident.kind, report.incident.first_rank) == ("crashed", "2")
    assert [f.code for f in report.findings] == ["RLD321"]
    assert "no progress for 480 s" in report.findings[0].message
    older = "[rank0]:[F ProcessGroupNCCL.cpp:1169] [PG 0 Rank 0] [PG 0 Rank 0] ProcessGroupNCCL's watchdog got stuck "
    assert "for 600 s" in finding(check, older + "for 600 seconds without making progress in monitoring\n").message


def test_a_stuck_watchdog_is_the_victim_of_a_rank_that_ran_out_of_memory() -> None:
    codes = [f.code for f in triage_text(STUCK.format(rank=0) + ranked(3, OUT_OF_MEMORY)).findings]
    assert codes == ["RLD206", "RLD321"]


def test_glooss_time_out_names_the_line() -> None:
    text = raised("RuntimeError", "[unbound_buffer.cc:78] Timed out waiting 15000ms for recv operation to complete")
    assert "/home/user/rl/train.py:7" in finding(check, text).message


def test_ranks_that_disagree_are_a_cause() -> None:
    text = (
        "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at "
        "pair.cc:456] "
        "op.preamble.length <= op.nbytes. 10 vs 8. Received data size doesn't match expected size. Is there a "
        "mismatch?\n"
    )
    report = triage_text(text + ranked(1, PEER_GONE), [check])
    assert "sizes (10 and 8 bytes)" in report.findings[0].message


def test_a_rank_that_ran_out_of_memory_goes_before_those_that_waited() -> None:
    text = "".join(WATCHDOG.format(rank=r, number=26) for r in range(3)) + ranked(3, OUT_OF_MEMORY)
    assert [f.code for f in triage_text(text).findings] == ["RLD206", "RLD321"]


def test_a_run_that_ends_well() -> None:
    assert (
        findings(
            check, "[rank0]:[W1120 20:49:10.1 x.cpp:1] Warning: destroy_process_group() was not called\n" + HEALTHY
        )
        == []
    )


def test_an_exchange_between_experts_times_out() -> None:
    # https://github.com/sgl-project/sglang/issues/6701, https://github.com/deepseek-ai/DeepEP/pull/181
    text = raised("RuntimeError", "DeepEP error: CPU recv timeout", "deep_ep/buffer.py dispatch")
    assert "(DeepEP) timed out" in finding(check, text).message
    kernel = (
        "DeepEP dispatch forwarder timeout (RDMA meta), channel: 0, RDMA: 0, nvl: 7, src RDMA lane: 1, dst NVL: 1\n"
    )
    assert "(DeepEP, dispatch) timed out" in finding(check, kernel).message
    other = "DeepEP timeout for combine receivers, rank 3, responsible_channel = 2, expect = 9\n"
    assert "(DeepEP) timed out" in finding(check, other).message
    for told in ("INFO DeepEP dispatch uses 24 SMs, timeout unset", "INFO DeepEP timeout is 100 s"):
        assert findings(check, f"{told}\n") == []


def test_a_report_that_a_page_broke_into_lines() -> None:
    # https://github.com/huggingface/open-r1/issues/620
    text = WATCHDOG.format(rank=1, number=4).replace("NumelOut", "Numel\nOut")
    assert finding(check, text).message.startswith("ALLREDUCE number 4 did not complete in time on rank 1:")
