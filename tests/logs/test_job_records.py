"""Nodes and attempts in the records of jobs."""

from __future__ import annotations

import pytest

from rldoctor.logs.job_records import recorded

ALIGNED = """\
JobID           JobName      State ExitCode        NodeList
------------ ---------- ---------- -------- ---------------
55101          grpo_one  COMPLETED      0:0        gpu-b-03
55102          grpo_two    TIMEOUT      0:0        gpu-b-04
"""


def held(text: str, told: int = 1) -> tuple[str | None, int | None]:
    return recorded(list(enumerate(text.splitlines(), 1)), told)


@pytest.mark.parametrize(
    ("field", "node", "attempt"),
    [
        ("Node Name              = nomad-7", "nomad-7", None),
        ('LastRemoteHost = "slot1_2@e2491.chtc.wisc.edu"', "e2491.chtc.wisc.edu", None),
        ("    exec_host = n5/0*8", "n5", None),
        ("  nodeName: pool-3", "pool-3", None),
        ("Total Restarts = 2", None, 2),
        ("Retries: 1", None, 1),
        ('"restartCount": 1,', None, 1),
        ("  retryCount: 3", None, 3),
        # A number among nodes, several nodes, a word, a count.
        ("Node ID                = b76973d6", None, None),
        ("   NodeList=nid[001234-001241]", None, None),
        ("host: localhost", None, None),
        ("nodes: 2", None, None),
        ("max_restarts: 3", None, None),
        # Settings of the run.
        ("host: redis-1.local", None, None),
        ("  retries: 5", None, None),
    ],
)
def test_what_a_field_holds(field: str, node: str | None, attempt: int | None) -> None:
    assert held(field) == (node, attempt)


@pytest.mark.parametrize(
    ("records", "node"),
    [
        ("NodeName=gpu-17 Arch=x86_64 CoresPerSocket=32\n   State=IDLE+DRAIN ThreadsPerCore=1 TmpDisk=0\n", "gpu-17"),
        ("JobId=7 JobName=ppo\n   BatchHost=gpu-3-01\nREASON  USER  TIMESTAMP  NODELIST\n"
         "Not responding  slurm  2026-11-03T02:10:31 gpu-3-03\n", "gpu-3-03"),
        ("NAME         STATUS     ROLES    AGE   VERSION\ngpu-node-11  Ready      <none>   81d   v1.31.2\n"
         "gpu-node-12  NotReady   <none>   81d   v1.31.2\n", "gpu-node-12"),
        ("hpc-r4i2n9\n     state = down,offline\n     ntype = PBS\n", "hpc-r4i2n9"),
        # One that is used, several that are not.
        ("NodeName=gpu-17 Arch=x86_64 CoresPerSocket=32\n   State=ALLOCATED ThreadsPerCore=1 TmpDisk=0\n", None),
        ("REASON USER TIMESTAMP NODELIST\nbad root 2026-11-03T02:10:31 gpu-1\nbad root 2026-11-03T02:10:31 gpu-2\n",
         None),
    ],
    ids=["scontrol", "sinfo", "kubectl", "pbsnodes", "in use", "several"],
)  # fmt: skip
def test_a_node_that_a_scheduler_uses_no_more(records: str, node: str | None) -> None:
    assert held(records)[0] == node


def test_where_a_jobs_script_ran_counts_last() -> None:
    assert held("   BatchHost=gpu-3-01\n")[0] == "gpu-3-01"
    assert held("   BatchHost=gpu-3-01\n  nodeName: pool-3\n")[0] == "pool-3"


def test_how_often_a_workload_was_requeued() -> None:
    assert held("  requeueState:\n    count: 2\n") == (None, 2)
    assert held("  containers:\n    count: 2\n") == (None, None)


def test_of_several_rows_the_one_that_tells_counts() -> None:
    assert [held(ALIGNED, row)[0] for row in (3, 4)] == ["gpu-b-03", "gpu-b-04"]


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ("JobID|State|NodeList\n55102|NODE_FAIL|gpu-b-04\n", ("gpu-b-04", None)),
        ("NAME    READY   STATUS    RESTARTS      AGE   IP         NODE\n"
         "grpo-0  0/1     Evicted   2 (31s ago)   41m   10.2.3.4   gpu-w3\n", ("gpu-w3", 2)),
        ("ID  NAME  #RECOVERIES  STATUS\n12  grpo  1            RECOVERING\n", (None, 1)),
        ("JobID   NAME   NODES  STATE\n881     grpo   2      TIMEOUT\n", (None, None)),
        ("ID        Node ID   Status  Modified\n73b69aa3  b76973d6  lost    12s ago\n", (None, None)),
        # No table of jobs.
        ("Metric   Node    Value\nutil     gpu-3   0.8\n", (None, None)),
    ],
)  # fmt: skip
def test_what_stands_below_a_head(table: str, found: tuple[str | None, int | None]) -> None:
    assert held(table) == found
