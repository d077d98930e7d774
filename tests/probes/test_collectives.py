"""The collectives probe: when it is worth running, on which devices, and what it records of real ranks."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from rldoctor.api import Case, Level, NotApplicable
from rldoctor.api.facts import Gpu, GpuProcess, Gpus
from rldoctor.api.probes import Request
from rldoctor.probes.collectives import collectives
from tests.observations import failed, imports_case, packages
from tests.probes.ranks import NO_GPU, collectives_case, plan


def gpu(index: int, *pids: int, **more: Any) -> Gpu:
    processes = tuple(GpuProcess(pid=pid) for pid in pids)
    return Gpu(index=index, name="H100", memory_total=80 << 30, uuid=f"GPU-{index}abc", processes=processes, **more)


def on(*devices: Gpu, environment: dict[str, str] | None = None, **settings: Any) -> Case:
    launch = plan(**settings) if settings else None
    return Case(gpus=Gpus(vendor="nvidia", devices=devices), environment=environment or {}, plan=launch)


def job(case: Case, request: Request | None = None) -> Any:
    (only,) = collectives.jobs(case, request or Request()).values()
    return only


class TestWhetherAndWhere:
    """Ranks on the launch's devices; one that others use is not touched unasked."""

    def test_a_launch_of_several_ranks_on_a_machine_without_gpus(self) -> None:
        reported = job(
            Case(gpus=NO_GPU, plan=plan(process__total=8, env__GLOO_SOCKET_IFNAME="eth1", env__HF_HOME="/x"))
        )
        assert (reported.arguments["ranks"], reported.arguments["backends"]) == (2, ["gloo"])
        assert reported.environ == {"GLOO_SOCKET_IFNAME": "eth1", "CUDA_VISIBLE_DEVICES": ""}

    @pytest.mark.parametrize(
        "settings",
        [
            {"engine__tensor_parallel_size": 2},
            {"process__nproc": 1, "process__nnodes": 2},
            {"placement__trainer_gpus": 4},
        ],
    )
    def test_what_makes_several_ranks(self, settings: dict[str, Any]) -> None:
        assert job(Case(gpus=NO_GPU, plan=plan(**settings))).arguments["ranks"] == 2

    def test_where_there_is_nothing_to_learn_it_does_not_run(self) -> None:
        for case in (Case(gpus=NO_GPU), on(gpu(0)), on(gpu(0), gpu(1), process__total=1)):
            with pytest.raises(NotApplicable):
                job(case)
        assert job(Case(gpus=NO_GPU), Request(level=Level.DEVICES)).arguments["ranks"] == 2

    def test_where_torch_cannot_be_imported_it_does_not_run(self) -> None:
        with pytest.raises(NotApplicable):
            job(imports_case(packages(torch="2.8.0"), torch=failed()), Request(level=Level.DEVICES))

    def test_free_gpus_get_a_rank_each(self) -> None:
        reported = job(on(gpu(0), gpu(1, 4711), gpu(2), gpu(3, mig=True), gpu(4)))
        assert reported.environ["CUDA_VISIBLE_DEVICES"] == "0,2,4"
        assert (reported.arguments["devices"], reported.arguments["backends"]) == ([0, 1, 2], ["nccl", "gloo"])

    def test_the_launchs_own_choice_and_number_of_ranks(self) -> None:
        case = on(*map(gpu, range(4)), process__total=2, env__CUDA_VISIBLE_DEVICES="1,2,3")
        assert job(case).environ["CUDA_VISIBLE_DEVICES"] == "1,2"
        by_uuid = on(*map(gpu, range(4)), environment={"CUDA_VISIBLE_DEVICES": "GPU-1abc,GPU-3"})
        assert job(by_uuid).environ["CUDA_VISIBLE_DEVICES"] == "1,3"

    def test_the_user_may_ask_for_busy_ones_and_for_one_twice(self) -> None:
        assert job(on(gpu(0, 1), gpu(1, 2)), Request(devices=(0, 1))).environ["CUDA_VISIBLE_DEVICES"] == "0,1"
        twice = job(on(gpu(0), gpu(1)), Request(devices=(1, 1)))
        assert (twice.environ["CUDA_VISIBLE_DEVICES"], twice.arguments["devices"]) == ("1", [0, 0])

    def test_busy_gpus_leave_the_cpu(self) -> None:
        reported = job(on(gpu(0), gpu(1, 4711), process__total=2))
        assert (reported.arguments["backends"], reported.environ["CUDA_VISIBLE_DEVICES"]) == (["gloo"], "")


def runs(case: Case) -> list[dict[str, Any]]:
    reported = case.observations["collectives"]["ranks"]
    assert reported["ended"] == "done", reported["tail"][-5:]
    return list(reported["records"]["runs"])


@pytest.mark.engine
def test_healthy_ranks_tell_numbers_and_times(patient: Path) -> None:
    with socket.socket() as taken:  # torchrun's usual port: of no concern to a job with a port of its own
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 29500))
        taken.listen()
        (run,) = runs(collectives_case(patient, env__NCCL_IB_DISABLE="1"))
    assert (run["ended"], run["without"], run["exit_code"]) == ("done", [], 0)
    for number, rank in enumerate(run["ranks"]):
        assert (rank["rank"], rank["place"]["world"], rank["ended"], rank["stage"]) == (number, 2, "done", "end")
        assert [row["name"] for row in rank["collectives"]] == ["all_reduce", "all_gather", "broadcast"]
        assert all((row["state"], row["wrong"]) == ("done", 0) and row["seconds"] > 0 for row in rank["collectives"])


@pytest.mark.engine
def test_healthy_ranks_are_quiet_three_times_in_a_row(patient: Path) -> None:
    assert [len(runs(collectives_case(patient))) for _ in range(3)] == [1] * 3


@pytest.mark.engine
def test_of_several_settings_the_one_that_fails_is_found(patient: Path) -> None:
    launch: dict[str, Any] = {
        "env__GLOO_SOCKET_IFNAME": "nowhere7",
        "env__NCCL_P2P_DISABLE": "1",
        "env__NCCL_DEBUG": "INFO",
    }
    case = collectives_case(patient, **launch)
    assert case.observations["collectives"]["ranks"]["records"]["settings"] == {
        "GLOO_SOCKET_IFNAME": "nowhere7",
        "NCCL_P2P_DISABLE": "1",
    }
    assert [(run["without"], run["ended"]) for run in runs(case)] == [
        ([], "failed"),
        (["GLOO_SOCKET_IFNAME", "NCCL_P2P_DISABLE"], "done"),
        (["GLOO_SOCKET_IFNAME"], "done"),
    ]
