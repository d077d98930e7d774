"""RLD302, RLD320, RLD321 and RLD322 judge a small job of several ranks on this host."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.devices import collective_timeout, communicator_init, gpu_shared, nccl_settings
from rldoctor_checks.observed import communication

from rldoctor.api import Applicability, Case, Check, Finding, Grade, Outcome, Severity
from tests.cases import judged
from tests.checks.devices import ranks
from tests.checks.devices.ranks import call, error, rank, run
from tests.checks.launches import machine
from tests.probes.ranks import collectives_case, plan

CHECKS = (gpu_shared.check, communicator_init.check, collective_timeout.check, nccl_settings.check)
HEALTHY = run(rank(0, bandwidth={"gb_per_s": 210.5}), rank(1, bandwidth={"gb_per_s": 209.9}))
NO_INTERFACE = "[enforce fail at tcp/device.cc:84] ifa != nullptr. Unable to find address for: bond7"
REFUSED = run(
    rank(0, "died", exit_code=-15, stage="import", collectives=[], device={}),
    rank(1, "raised", stage="gloo group", collectives=[], exceptions=error(NO_INTERFACE)),
)


def only(check: Check, case: Case) -> Finding:
    """The finding of a check, which no other one of these shares."""
    assert [one.code for one in CHECKS if judged(one, case).findings] == [check.code]
    (finding,) = judged(check, case).findings
    assert finding.evidence
    return finding


def test_a_healthy_job_passes_and_says_how_far_it_reached() -> None:
    for check in CHECKS:
        assert judged(check, ranks.case(HEALTHY)).outcome is Outcome.PASS
    reach = str(judged(collective_timeout.check, ranks.case(HEALTHY)).reason)
    assert "all_reduce, all_gather, broadcast between 2 ranks on GPUs through nccl, 209.9 GB/s" in reach


def test_a_torch_that_does_not_tell_the_uuids() -> None:
    pair = [rank(n, device={"device": f"cuda:{n}", "uuid": None, "name": "H100"}) for n in (0, 1)]
    case = ranks.case(run(*pair))
    assert "between 2 ranks on GPUs" in str(judged(collective_timeout.check, case).reason)
    assert not judged(gpu_shared.check, case).findings


def test_a_group_that_cannot_be_built() -> None:
    finding = only(communicator_init.check, ranks.case(REFUSED))
    assert "rank 1 fails in gloo's set-up" in finding.message
    assert finding.grade is Grade.REPRODUCED
    assert [one.text for one in finding.evidence] == [f"rank 1: RuntimeError: {NO_INTERFACE}"]


def test_nccls_own_warning_is_quoted() -> None:
    tail = ["host:1:2 [0] misc/socket.cc:484 NCCL WARN Bootstrap : no socket interface found"]
    failed = rank(0, "raised", stage="nccl group", collectives=[], exceptions=error("ncclInternalError"), tail=tail)
    finding = only(communicator_init.check, ranks.case(run(failed, rank(1, "died", exit_code=-15, collectives=[]))))
    assert finding.evidence[-1].text == "NCCL: Bootstrap : no socket interface found"
    assert any("NCCL_DEBUG" in command for fix in finding.fixes for command in fix.commands)


def test_a_setting_without_which_it_works() -> None:
    cured = run(rank(0), rank(1), without=("GLOO_SOCKET_IFNAME",))
    settings = {"GLOO_SOCKET_IFNAME": "bond7", "NCCL_P2P_DISABLE": "1"}
    both = run(rank(0), rank(1), without=tuple(settings))
    finding = only(nccl_settings.check, ranks.case(REFUSED, both, cured, settings=settings))
    assert "with GLOO_SOCKET_IFNAME=bond7, and do so without" in finding.message
    assert (finding.severity, finding.grade) == (Severity.ERROR, Grade.REPRODUCED)
    assert finding.fixes[0].commands == ("unset GLOO_SOCKET_IFNAME",)
    assert finding.fixes[0].proven is not None


def test_a_setting_of_a_launch_for_another_machine_is_a_warning() -> None:
    launch = plan(env__GLOO_SOCKET_IFNAME="bond7", process__total=8)
    cured = run(rank(0), rank(1), without=("GLOO_SOCKET_IFNAME",))
    case = ranks.case(REFUSED, cured, settings={"GLOO_SOCKET_IFNAME": "bond7"}, plan=launch)
    finding = only(nccl_settings.check, case)
    assert finding.severity is Severity.WARNING
    assert (finding.evidence[0].source, finding.evidence[0].line) == ("run.sh", 7)
    assert [(edit.option, edit.value) for edit in finding.fixes[0].edits] == [("env.GLOO_SOCKET_IFNAME", None)]
    assert finding.fixes[0].applicability is Applicability.UNSAFE
    with_gpus = only(nccl_settings.check, replace(case, gpus=machine(2)))
    assert (with_gpus.severity, with_gpus.fixes[0].applicability) == (Severity.ERROR, Applicability.SAFE)


def test_settings_that_make_no_difference_are_not_blamed() -> None:
    again = run(*REFUSED["ranks"], without=("NCCL_P2P_DISABLE",))
    only(communicator_init.check, ranks.case(REFUSED, again, settings={"NCCL_P2P_DISABLE": "1"}))


def test_wrong_numbers() -> None:
    wrong = [call("all_reduce", wrong=512), call("all_gather"), call("broadcast")]
    finding = only(nccl_settings.check, ranks.case(run(rank(0, collectives=wrong), rank(1), ended="failed")))
    assert "rank 0: 512 of 4096 numbers of all_reduce (nccl)" in finding.message
    assert {edit.option for edit in finding.fixes[0].edits} == {"env.NCCL_P2P_DISABLE", "env.NCCL_SHM_DISABLE"}


def test_a_rank_that_did_not_arrive() -> None:
    waiting = rank(0, "raised", stage="nccl all_gather", exceptions=error("Timed out"))
    waiting["collectives"] = [call("all_reduce"), call("all_gather", "called")]
    late = rank(1, "died", exit_code=-15, stage="nccl all_reduce", collectives=[call("all_reduce")])
    finding = only(collective_timeout.check, ranks.case(run(waiting, late)))
    assert "all_gather (nccl) between 2 ranks on this host did not complete: rank 1 did not arrive" in finding.message
    assert [one.text.partition(":")[0] for one in finding.evidence] == ["rank 1", "rank 0"]


def test_ranks_that_do_not_get_through_to_each_other() -> None:
    stuck = [call("all_reduce", "called")]
    both = run(*(rank(n, "died", exit_code=-6, stage="nccl all_reduce", collectives=stuck) for n in (0, 1)))
    finding = only(collective_timeout.check, ranks.case(both))
    assert "do not get through" in finding.message


def test_two_ranks_on_one_gpu() -> None:
    here = {"device": "cuda:0", "uuid": "GPU-7", "name": "H100"}
    refused = error("NCCL error: invalid usage", "torch.distributed.DistBackendError")
    pair = [rank(n, "raised", stage="nccl group", device=here, collectives=[], exceptions=refused) for n in (0, 1)]
    finding = only(gpu_shared.check, ranks.case(run(*pair)))
    assert "ranks 0,1 are on one physical GPU" in finding.message


def test_what_is_no_matter_of_communication_is_left_open() -> None:
    absent: list[dict[str, Any]] = [{"rank": n, "ended": "absent", "exit_code": None, "tail": []} for n in (0, 1)]
    no_launcher = run(*absent, launcher=["No module named torch.distributed.run"])
    no_torch = run(*(rank(n, "raised", stage="import", collectives=[], exceptions=error("libc10")) for n in (0, 1)))
    for reported in (no_launcher, no_torch):
        for check in CHECKS:
            assert judged(check, ranks.case(reported)).findings == ()


def measured(*took: float, pairs: dict[str, float] | None = None) -> Case:
    """Ranks that took so long for the same work in each of five rounds, and what the pairs exchanged in GB/s."""
    rows = []
    for number, seconds in enumerate(took):
        rounds = [{"began": float(at), "arrived": at + seconds} for at in range(5)]
        its = {pair: rate for pair, rate in (pairs or {}).items() if pair.startswith(f"{number}-")}
        rows.append(rank(number, measured={"rounds": rounds, "pairs": its}))
    return ranks.case(run(*rows))


FAST = {"0-1": 200.0, "0-2": 210.0, "0-3": 190.0, "1-2": 200.0, "1-3": 205.0, "2-3": 200.0}


def test_a_rank_that_works_more_slowly_than_its_peers() -> None:
    finding = only(collective_timeout.check, measured(0.1, 0.11, 0.3, 0.1))
    assert finding.message == (
        "rank 2 of 4 on this host takes at least 2.7 times as long as the others for the same work, in every round: "
        "they wait for it 0.20 s in each collective"
    )
    assert finding.evidence[2].text == "rank 2: 0.300, 0.300, 0.300, 0.300, 0.300 s"


def in_rounds(*took_by: list[float]) -> Case:
    """Ranks that took so long in each round."""
    rows = [
        rank(n, measured={"rounds": [{"began": float(at), "arrived": at + took} for at, took in enumerate(its)]})
        for n, its in enumerate(took_by)
    ]
    return ranks.case(run(*rows))


def test_a_round_in_which_another_rank_was_held_up_does_not_hide_the_slow_one() -> None:
    steady, once = [0.1] * 9, [0.1] * 4 + [0.9] + [0.1] * 4
    finding = only(collective_timeout.check, in_rounds(steady, once, [0.5] * 9))
    assert "rank 2 of 3 on this host takes at least 5.0 times as long" in finding.message
    assert "in 8 of 9 rounds" in finding.message
    twice = [0.1] * 3 + [0.9] * 2 + [0.1] * 4
    assert judged(collective_timeout.check, in_rounds(steady, twice, [0.5] * 9)).outcome is Outcome.PASS


def test_ranks_that_are_held_up_by_chance_are_not_told_slow() -> None:
    """Each round another rank is held up: as often as the rule allows for three equal ones, in 4,000 runs."""
    chance = random.Random(20261123)
    told = 0
    for _ in range(4000):
        last = [chance.randrange(3) for _ in range(9)]
        rows = [[0.9 if number == one else 0.1 for one in last] for number in range(3)]
        told += communication.runs(in_rounds(*rows))[0].late() is not None
    assert told <= 0.003 * 4000 + 3 * (0.003 * 4000) ** 0.5


@pytest.mark.parametrize(
    "took",
    [
        (0.1, 0.11, 0.15, 0.1),  # a little slower
        (0.001, 0.001, 0.01, 0.001),  # a turn of the scheduler
        (0.1, 0.3),  # of two nobody knows which is right
        (0.1, 0.1, 0.3, 0.3),  # two kinds of devices
    ],
)
def test_ranks_that_differ_as_ranks_do(took: tuple[float, ...]) -> None:
    assert judged(collective_timeout.check, measured(*took)).outcome is Outcome.PASS


def test_a_rank_whose_every_link_is_slow() -> None:
    slow = {pair: 20.0 if "2" in pair else rate for pair, rate in FAST.items()}
    finding = only(nccl_settings.check, measured(0.1, 0.1, 0.1, 0.1, pairs=slow))
    assert finding.message == (
        "rank 2 of 4 on this host exchanges at most 20 GB/s with any other, and the others at least 190 GB/s with each "
        "other (11%)"
    )


@pytest.mark.parametrize(
    "pairs",
    [
        FAST,
        {**FAST, "0-3": 20.0},  # one slow link is nobody's own
        # Two pairs with NVLink, and PCIe between them.
        {pair: 200.0 if pair in ("0-1", "2-3") else 20.0 for pair in FAST},
        {"0-1": 200.0, "0-2": 20.0, "1-2": 20.0},
    ],
)
def test_links_that_differ_as_links_do(pairs: dict[str, float]) -> None:
    took = [0.1] * (1 + max(int(pair[-1]) for pair in pairs))
    assert not judged(nccl_settings.check, measured(*took, pairs=pairs)).findings


@pytest.mark.engine
@pytest.mark.parametrize(
    ("fault", "check", "text"),
    [
        (None, None, ""),
        ("slow", collective_timeout.check, "rank 2 of 4 on this host takes at least "),
        ("far", nccl_settings.check, "rank 2 of 4 on this host exchanges at most "),
    ],
)
def test_four_ranks_that_measure(patient: Path, fault: str | None, check: Check | None, text: str) -> None:
    case = collectives_case(patient, fault, ranks=4)
    found = [finding for one in CHECKS for finding in judged(one, case).findings]
    assert [(one.code, one.message[: len(text)]) for one in found] == ([(check.code, text)] if check else [])


@pytest.mark.engine
def test_an_interface_that_does_not_exist(patient: Path) -> None:
    finding = only(nccl_settings.check, collectives_case(patient, env__GLOO_SOCKET_IFNAME="nowhere7"))
    assert "GLOO_SOCKET_IFNAME=nowhere7" in finding.message
    assert any("Unable to find" in one.text and "nowhere7" in one.text for one in finding.evidence)


@pytest.mark.engine
def test_a_rank_that_sleeps(patient: Path) -> None:
    finding = only(collective_timeout.check, collectives_case(patient, "sleeper", seconds=5.0))
    assert "all_gather (gloo)" in finding.message and "rank 1 did not arrive" in finding.message


@pytest.mark.engine
def test_a_rank_that_is_killed(patient: Path) -> None:
    finding = only(collective_timeout.check, collectives_case(patient, "killed", seconds=5.0))
    assert "rank 1 did not arrive" in finding.message
    assert "exit code -9 at stage gloo all_reduce" in finding.evidence[0].text


@pytest.mark.engine
def test_numbers_that_were_never_sent(patient: Path) -> None:
    finding = only(nccl_settings.check, collectives_case(patient, "miscounted"))
    assert "1 of 4096 numbers of broadcast (gloo)" in finding.message


@pytest.mark.engine
def test_healthy_ranks(patient: Path) -> None:
    case = collectives_case(patient)
    assert [judged(check, case).findings for check in CHECKS] == [()] * len(CHECKS)
    assert "between 2 ranks on the CPU through gloo" in str(judged(communicator_init.check, case).reason)
