"""The memory of a run's devices, asked as seldom as the answers are slow."""

from __future__ import annotations

from rldoctor.case import Gpu, GpuProcess, Gpus, Unknown
from rldoctor.watch.devices import SHARE, Devices, Used, line, of_history

GIB = 1 << 30


def gpu(index: int, used: float, busy: bool = True) -> Gpu:
    processes = (GpuProcess(pid=7, name="python"),) if busy else ()
    return Gpu(index=index, name="H100", memory_total=80 * GIB, memory_used=int(used * GIB), processes=processes)


class Asked:
    """Answers with what it was given, and takes a second for it."""

    def __init__(self, *answers: Gpus | Unknown) -> None:
        self.answers = list(answers)
        self.now = 0.0

    def read(self) -> Gpus | Unknown:
        self.now += 1.0
        return self.answers.pop(0)


def test_devices_that_nothing_runs_on_are_left_out() -> None:
    asked = Asked(Gpus(vendor="nvidia", devices=(gpu(0, 61.25), gpu(1, 60), gpu(2, 0.4, busy=False))))
    found = Devices(asked.read, lambda: asked.now).look()
    assert [one.index for one in found] == [0, 1]
    assert line(found) == "GPU memory 61.2 60.0 of 80 GiB"


def test_a_slow_driver_is_asked_seldom() -> None:
    asked = Asked(*(Gpus(vendor="nvidia", devices=(gpu(0, used),)) for used in (10, 20)))
    devices = Devices(asked.read, lambda: asked.now)
    assert devices.look()[0].used == 10 * GIB
    asked.now += 0.5 / SHARE
    assert devices.look()[0].used == 10 * GIB
    asked.now += 0.5 / SHARE + 1
    assert devices.look()[0].used == 20 * GIB


def test_no_device_and_no_answer_are_nothing_to_show() -> None:
    for answer in (Gpus(vendor="none"), Unknown(reason="the driver does not answer", how="nvidia-smi")):
        asked = Asked(answer)
        assert line(Devices(asked.read, lambda asked=asked: asked.now).look()) == ""  # type: ignore[misc]


def test_a_tracker_may_not_know_how_much_there_is() -> None:
    assert line(of_history({1: 2.5 * GIB, 0: GIB})) == "GPU memory 1.0 2.5 GiB"
    assert line((Used(0, GIB, 80 * GIB), Used(1, GIB, 40 * GIB))) == "GPU memory 1.0/80 1.0/40 GiB"
