"""RLD320, RLD321 and RLD322 judge a job over all nodes that run the same command at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.devices import collective_timeout, communicator_init, nccl_settings
from rldoctor_checks.observed import communication

from rldoctor.api import Case, Check, NotApplicable, Outcome, Severity
from rldoctor.judge import judge_one
from tests.checks.devices import ranks
from tests.checks.devices.ranks import call, error, rank, run
from tests.probes.ranks import nodes_cases

CHECKS = (communicator_init.check, collective_timeout.check, nccl_settings.check)


def met(case: Case, count: int, *hosts: str, number: int = 0, **more: Any) -> Case:
    """The case of a node of a job over several, of which these came."""
    (job,) = case.observations["collectives"].values()
    at = {"count": count, "number": number, "address": "gpu00", "port": 29501, "seconds": 60.2}
    nodes = {**at, "hosts": {str(n): host for n, host in enumerate(hosts)}, "problem": None, **more}
    records = {**job["records"], "nodes": nodes}
    return replace(case, observations={"collectives": {"ranks": {**job, "records": records}}})


def over(*rows: dict[str, Any], per_node: int = 1, hosts: tuple[str, ...] | None = None) -> Case:
    placed = [{**row, "node": row["rank"] // per_node} for row in rows]
    count = placed[-1]["node"] + 1
    return met(ranks.case(run(*placed)), count, *(hosts or [f"gpu0{node}" for node in range(count)]))


def measured(
    took: list[float], pairs: dict[str, float], per_node: int = 1, worst: dict[str, float] | None = None, **more: Any
) -> Case:
    rows = []
    for number, seconds in enumerate(took):
        # Each node has a clock of its own.
        rounds = [{"began": 100.0 * number + at, "arrived": 100.0 * number + at + seconds} for at in range(9)]
        its = {pair: rate for pair, rate in pairs.items() if pair.startswith(f"{number}-")}
        low = {pair: (worst or pairs)[pair] for pair in its}
        rows.append(rank(number, measured={"rounds": rounds, "pairs": its, "worst": low}))
    return over(*rows, per_node=per_node, **more)


def told(case: Case) -> list[tuple[str, str]]:
    found = [(check.code, judge_one(check, case)) for check in CHECKS]
    assert not [one.traceback for _, one in found if one.traceback]
    return [(code, finding.message) for code, result in found for finding in result.findings]


LINKS = {"0-1": 20.0, "0-2": 21.0, "0-3": 19.0, "1-2": 20.0, "1-3": 18.0, "2-3": 20.0}


def test_healthy_nodes() -> None:
    case = measured([0.1, 0.11, 0.1, 0.1], LINKS)
    assert told(case) == []
    reach = str(judge_one(collective_timeout.check, case).reason)
    assert "between 4 ranks on GPUs through nccl; 4 nodes, of which pairs exchange 18 to 21 GB/s" in reach


def test_a_slow_rank_is_named_with_its_node() -> None:
    ((code, message),) = told(measured([0.1, 0.1, 0.4, 0.1], LINKS))
    assert code == "RLD321"
    assert message == (
        "rank 2 of 4 on 4 nodes, on node 2 (gpu02), takes at least 4.0 times as long as the others for the same work, "
        "in every round: they wait for it 0.30 s in each collective"
    )


def test_hosts_of_one_name_are_told_apart_by_their_numbers() -> None:
    ((_, message),) = told(measured([0.1, 0.4, 0.1], {}, hosts=("localhost", "localhost", "gpu02")))
    assert message.startswith("rank 1 of 3 on 3 nodes, on node 1, takes at least")


def test_a_node_whose_every_link_is_slow() -> None:
    slow = {pair: 1.0 if "3" in pair else rate for pair, rate in LINKS.items()}
    ((code, message),) = told(measured([0.1] * 4, slow))
    assert (code, message) == (
        "RLD322",
        "node 3 (gpu03) exchanges at most 1 GB/s with any other of 4 nodes, 5% of what the fastest pair does (21 GB/s)",
    )


def test_a_pair_of_nodes_that_is_slow() -> None:
    ((code, message),) = told(measured([0.1] * 4, {**LINKS, "1-3": 0.9}))
    assert code == "RLD322"
    assert message.startswith("node 1 (gpu01) and node 3 (gpu03) exchange at most 0.9 GB/s with each other, of 4 nodes")


@pytest.mark.parametrize(
    ("pairs", "per_node", "count"),
    [
        # Two racks of two.
        ({pair: 20.0 if pair in ("0-1", "2-3") else 2.0 for pair in LINKS}, 1, 4),
        # Two nodes of two: the links within each are faster by far.
        ({pair: 200.0 if pair in ("0-1", "2-3") else 2.0 for pair in LINKS}, 2, 4),
        # A rank that is alone on its node.
        ({"0-1": 200.0, "0-2": 2.0, "1-2": 2.0}, 2, 3),
        # Two nodes have one link.
        ({"0-1": 2.0}, 1, 2),
        ({pair: rate / 3 if "3" in pair else rate for pair, rate in LINKS.items()}, 1, 4),
    ],
)
def test_links_that_differ_as_links_of_clusters_do(pairs: dict[str, float], per_node: int, count: int) -> None:
    assert told(measured([0.1] * count, pairs, per_node)) == []


def test_links_that_a_busy_host_holds_up() -> None:
    """As three healthy ranks on two busy cores measured it."""
    best = {"0-1": 1.5, "0-2": 5.7, "1-2": 6.7}
    assert told(measured([0.1] * 3, best, worst={"0-1": 0.9, "0-2": 1.9, "1-2": 4.1})) == []
    assert told(measured([0.1] * 3, best | {"0-1": 0.3}, worst={"0-1": 0.2, "0-2": 1.9, "1-2": 4.1}))


def test_a_rank_of_another_node_that_did_not_arrive() -> None:
    waiting = rank(0, "raised", stage="nccl all_gather", exceptions=error("Timed out"))
    waiting["collectives"] = [call("all_reduce"), call("all_gather", "called")]
    late = rank(1, "died", exit_code=-9, stage="nccl all_reduce", collectives=[call("all_reduce")])
    ((code, message),) = told(over(waiting, late))
    assert code == "RLD321"
    assert message == (
        "all_gather (nccl) between 2 ranks on 2 nodes did not complete: rank 1, on node 1 (gpu01), did not arrive"
    )


def test_nodes_that_do_not_come_are_named() -> None:
    ((code, message),) = told(met(ranks.case(), 5, "gpu00", "gpu01", "gpu02"))
    assert (code, message) == ("RLD321", "of 5 nodes nodes 3-4 did not come to gpu00:29501 within 60 s")


def test_a_node_that_does_not_get_through_says_so() -> None:
    case = met(ranks.case(), 2, number=1, problem="[Errno 111] Connection refused")
    ((_, message),) = told(case)
    assert message == (
        "node 1 of 2 does not get through to node 0 at gpu00:29501 within 60 s: [Errno 111] Connection refused"
    )


def test_what_is_told_elsewhere_or_not_known_is_no_finding() -> None:
    other = met(ranks.case(), 2, "gpu00", "gpu01", number=1)
    assert told(other) == []
    with pytest.raises(NotApplicable, match=r"node 0 \(gpu00\) tells what the ranks of all 2 nodes did"):
        communication.runs(other)
    unlike = met(ranks.case(), 2, "gpu00", "gpu01", problem="node 1 has other free devices than node 0")
    assert told(unlike) == []
    assert judge_one(nccl_settings.check, unlike).outcome is Outcome.NOT_CHECKED


@pytest.mark.engine
@pytest.mark.parametrize(
    ("fault", "count", "each", "check", "text"),
    [
        (None, 2, 2, None, ""),
        (None, 3, 1, None, ""),
        ("slow", 3, 1, collective_timeout.check, "rank 2 of 3 on 3 nodes, on node 2, takes at least "),
        ("far", 3, 1, nccl_settings.check, "node 2 exchanges at most "),
    ],
)
def test_nodes_that_measure(
    patient: Path, fault: str | None, count: int, each: int, check: Check | None, text: str
) -> None:
    first, *others = nodes_cases(patient, fault, count, ranks=each, seconds=20.0 if check is None else 5.0)
    found = told(first)
    assert [(code, message[: len(text)]) for code, message in found] == ([(check.code, text)] if check else [])
    assert [told(other) for other in others] == [[]] * len(others)


@pytest.mark.engine
@pytest.mark.parametrize("fault", ["killed", "sleeper"])
def test_a_real_rank_of_another_node_that_does_not_arrive(patient: Path, fault: str) -> None:
    # A node whose rank sleeps learns of nobody's failure: it ends with its time.
    within: dict[str, Any] = {"time_limit": 30.0} if fault == "sleeper" else {}
    first, other = nodes_cases(patient, fault, 2, ranks=1, seconds=5.0, **within)
    ((code, message),) = told(first)
    assert code == collective_timeout.check.code
    assert message.startswith("all_gather (gloo) between 2 ranks on 2 nodes did not complete: ")
    assert told(other) == []


@pytest.mark.engine
def test_a_node_that_never_comes(patient: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rldoctor.probes.collectives.PATIENCE", 5.0)
    job_of = nodes_cases(patient, None, 2, come=1)
    ((code, message),) = told(job_of[0])
    assert code == "RLD321" and message.startswith("of 2 nodes node 1 did not come to 127.0.0.1:")
    (finding,) = judge_one(collective_timeout.check, job_of[0]).findings
    assert finding.severity is Severity.ERROR
