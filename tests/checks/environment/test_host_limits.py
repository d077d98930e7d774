"""RLD114: open files, processes, locked memory, disk and cgroup memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rldoctor_checks.environment.host_limits import check

from rldoctor.api import Case, Outcome
from rldoctor.api.facts import Disk, Host
from rldoctor.logs.triage import triage_text
from tests.cases import GIB, assumed, commands, gpus, host, judged, severities
from tests.logs.asking import finding, findings, raised


def _case(machine: Host, devices: int = 8, nodes: int = 1, **versions: str) -> Case:
    return replace(assumed(**versions), host=machine, gpus=gpus(count=devices), nodes=nodes, environment={})


def _disk(role: str, free: float, total: int = 100 * GIB) -> Disk:
    return Disk(role=role, path=f"/{role}", total=total, free=int(free))


@pytest.mark.parametrize(
    ("machine", "nodes", "severity"),
    [
        (host(open_files=1024, open_files_hard=4096), 1, "warning"),
        (host(open_files=1024, open_files_hard=1048576), 1, "note"),  # Ray and vLLM raise it themselves
        (host(pids_limit=1000), 1, "warning"),
        (host(processes=2048), 1, "warning"),
        (host(locked_memory=65536), 2, "warning"),
        (host(disks=(_disk("temp", 3 * GIB),)), 1, "warning"),
        (host(disks=(_disk("temp", 0.5 * GIB),)), 1, "error"),
        (host(disks=(_disk("ray", 300 * GIB, 10_000 * GIB),)), 1, "warning"),  # Ray stops spilling at 95%
        (host(memory_limit=4 * GIB), 1, "warning"),
    ],
)
def test_a_limit_that_is_too_low(machine: Host, nodes: int, severity: str) -> None:
    result = judged(check, _case(machine, nodes=nodes, ray="2.48.0"))
    assert severities(result) == [severity]
    assert commands(result)


def test_without_ray_a_low_limit_of_open_files_is_a_note() -> None:
    assert severities(judged(check, _case(host(open_files=1024, open_files_hard=4096)))) == ["note"]


def test_two_roles_on_one_full_disk_are_one_finding() -> None:
    disks = (_disk("temp", 3 * GIB), _disk("ray", 3 * GIB))
    assert len(judged(check, _case(host(disks=disks))).findings) == 1


@pytest.mark.parametrize(
    "machine",
    [
        host(),
        host(locked_memory=65536),  # one node
        host(memory_limit=64 * GIB),
        host(disks=(_disk("temp", 50 * GIB), _disk("ray", 50 * GIB))),
        host(processes=96365, pids_limit=32768),
    ],
)
def test_a_roomy_host_stays_quiet(machine: Host) -> None:
    assert judged(check, _case(machine, ray="2.48.0")).findings == ()


def test_a_small_machine_without_devices_is_not_measured_by_theirs() -> None:
    assert not judged(check, _case(host(memory_limit=4 * GIB, pids_limit=500), devices=0)).findings


def test_a_limit_of_processes_for_unknown_devices_is_not_judged() -> None:
    result = judged(check, Case(host=host(processes=500)))
    assert "for how many devices there would be ranks is not known (--assume machine.json)" in str(result.reason)


def test_an_unknown_host_is_not_checked() -> None:
    assert judged(check, Case()).outcome is Outcome.NOT_CHECKED


def test_a_log_of_too_many_open_files() -> None:
    found = finding(check, raised("OSError", "[Errno 24] Too many open files: '/data/x.arrow'"))
    assert "ulimit -n 65536" in found.fixes[0].commands


def test_a_log_of_a_process_that_cannot_start() -> None:
    message = "[Errno 11] Resource temporarily unavailable"
    assert (
        "limit of processes"
        in finding(
            check, raised("BlockingIOError", message, "/usr/lib/python3.11/multiprocessing/popen_fork.py _launch")
        ).message
    )
    # sockets say the same
    socket = "/opt/venv/lib/python3.11/site-packages/zmq/sugar/socket.py recv"
    assert findings(check, raised("zmq.error.Again", "Resource temporarily unavailable", socket)) == []


def test_what_rays_worker_says_of_its_threads_goes_before_its_death() -> None:
    # https://github.com/verl-project/verl/issues/472
    died = "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: "
    report = triage_text(
        died + "Worker unexpectedly exits with a connection error code 2. End of file.\n\n"
        "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n"
        "(WorkerDict pid=27497) [2025-03-04 19:28:30,014 E 27497 27497] logging.cc:113: Unhandled exception: "
        "N5boost10wrapexceptINS_6system12system_errorEEE. what(): thread: Resource temporarily unavailable\n"
    )
    assert next(f.code for f in report.findings) == "RLD114"


def test_a_log_of_a_full_disk() -> None:
    full = "[Errno 28] No space left on device: '/tmp/ray/session_1/x'"
    assert "/tmp/ray/session_1/x" in finding(check, raised("OSError", full)).message
    save = "/opt/venv/lib/python3.11/site-packages/torch/serialization.py save"
    assert findings(check, raised("OSError", full, save)) == []  # RLD610


def test_a_thread_that_c_plus_plus_could_not_start() -> None:
    # https://github.com/hiyouga/EasyR1/issues/52
    thrown = "terminate called after throwing an instance of 'boost::wrapexcept<boost::system::system_error>'\n"
    text = thrown + "  what():  {}: Resource temporarily unavailable [system:11]\n"
    assert [found.code for found in triage_text(text.format("thread"), [check]).findings] == ["RLD114"]
    assert triage_text(text.format("socket"), [check]).findings == ()


@pytest.mark.parametrize(
    ("thrower", "codes"),
    [
        ("boost::asio::detail::posix_thread::start_thread()", ["RLD114"]),
        ("std::thread::_M_start_thread()", ["RLD114"]),
        ("boost::asio::detail::socket_ops::connect()", ["RLD900"]),
    ],
)
def test_the_stack_of_an_abort_says_what_was_started(thrower: str, codes: list[str]) -> None:
    # https://github.com/hiyouga/EasyR1/issues/52
    text = (
        "(main_task pid=9005) *** SIGABRT received at time=1740931599 on cpu 31 ***\n"
        "(main_task pid=9005) PC: @     0x1549e8288387  (unknown)  raise\n"
        "(main_task pid=9005)     @     0x1549e5efd4f2        128  __cxxabiv1::__terminate()\n"
        f"(main_task pid=9005)     @     0x1549e73fbddb         96  {thrower}\n"
    )
    assert [one.code for one in triage_text(text).findings] == codes
