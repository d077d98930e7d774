"""Who failed when: each process of a run with its failures, the first marked, and the ranks of which none is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.logs.triage import triage, triage_text
from rldoctor.model import Incident, Report

from .excerpts import HEALTHY, PEER_GONE, REWARD_RAISES, SEGFAULT, elastic, ranked

STAMP = "2026-11-20 20:49:{second:02d},000 - ERROR - training failed"
NCCL = """\
Traceback (most recent call last):
  File "/home/user/rl/train.py", line 40, in <module>
    dist.all_reduce(loss)
  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3252, in all_reduce
    work.wait()
torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2519, remote \
process exited or there was a network error, NCCL version 2.21.5
ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.
Last error:
NET/IB: Got completion from peer 10.0.0.2<40001> with status=12 opcode=0 len=0 vendor err 129 (Recv)
"""


def incident(report: Report) -> Incident:
    assert report.incident is not None
    return report.incident


def test_each_rank_has_its_failure_and_the_first_one_is_marked() -> None:
    told = ranked(2, HEALTHY) + ranked(1, REWARD_RAISES) + ranked(0, PEER_GONE) + elastic(1)
    found = incident(triage_text(told))
    assert [(one.process, one.cause) for one in found.failures] == [
        ("rank 1", True),
        ("rank 0", False),
        ("rank 1", False),
        ("the launcher", False),
    ]
    assert found.failures[0].exception == found.exception
    assert found.failures[0].line is not None and found.failures[0].source == "log"
    assert found.unharmed == ("2",)


def test_times_are_told_from_the_first_failure_on() -> None:
    told = "".join(
        ranked(rank, STAMP.format(second=second) + "\n" + text)
        for rank, second, text in ((3, 2, REWARD_RAISES), (0, 5, PEER_GONE), (1, 9, PEER_GONE))
    )
    found = incident(triage_text(told))
    assert [(one.process, one.after) for one in found.failures] == [("rank 3", 0.0), ("rank 0", 3.0), ("rank 1", 7.0)]


def test_without_times_none_are_made_up() -> None:
    found = incident(triage_text(ranked(1, REWARD_RAISES) + ranked(0, PEER_GONE)))
    assert [one.after for one in found.failures] == [None, None]


def test_a_rank_that_a_launcher_names_has_the_end_that_nobody_signed() -> None:
    found = incident(triage_text(SEGFAULT + ranked(0, PEER_GONE) + elastic(1, -11)))
    assert found.failures[0].process == f"rank {found.first_rank}" == "rank 1"


def test_files_of_ranks_are_lanes(tmp_path: Path) -> None:
    for rank, second, text in ((0, 9, PEER_GONE), (1, 4, REWARD_RAISES)):
        (tmp_path / f"rank_{rank}.log").write_text(STAMP.format(second=second) + "\n" + text)
    found = incident(triage([str(tmp_path)], ()))
    assert [(one.process, one.after, one.cause) for one in found.failures] == [
        ("rank 1", 0.0, True),
        ("rank 0", 5.0, False),
    ]


@pytest.mark.parametrize("lines", [NCCL, "\n".join(NCCL.splitlines()[:-3]) + "\n"])
def test_nccls_word_of_a_rank_that_is_gone_is_not_what_failed_first(lines: str) -> None:
    """Whether or not its second line was kept: it tells of the other end."""
    found = triage_text(ranked(1, REWARD_RAISES) + ranked(0, lines) + ranked(2, lines))
    assert incident(found).first_rank == "1"
    assert [one.code for one in found.findings][:1] == ["RLD902"]
    assert "RLD320" not in [one.code for one in found.findings]


@pytest.mark.parametrize(("frame", "fixes"), [("site-packages/torch/autograd/graph.py", 2), ("ctypes/__init__.py", 1)])
def test_a_native_crash_is_looked_into_with_a_debugger(frame: str, fixes: int) -> None:
    """Its own words alone are nothing to search for; a package's function beside them is."""
    crashed = SEGFAULT.replace("site-packages/torch/autograd/graph.py", frame)
    found = triage_text(crashed + ranked(0, PEER_GONE) + elastic(1, -11)).findings[0]
    assert found.code == "RLD900" and len(found.fixes) == fixes
    assert found.fixes[0].commands == ("gdb -batch -ex run -ex bt --args python SCRIPT",)
