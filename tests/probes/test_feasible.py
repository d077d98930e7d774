"""Where live probes run: on a device that is idle, or on the one that was asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rldoctor.api import Case, NotApplicable, RolloutPlan, Setting
from rldoctor.api.facts import Gpu, GpuProcess, Gpus, ModelFiles
from rldoctor.api.probes import Request
from rldoctor.probes.basis import basis
from rldoctor.probes.feasible import choose_device, planned_ranks
from tests.observations import failed, imports_case, packages

GIB = 1 << 30


def gpu(index: int, used: int = 0, *pids: int) -> Gpu:
    processes = tuple(GpuProcess(pid=pid) for pid in pids)
    return Gpu(index=index, name="H100", memory_total=80 * GIB, memory_used=used * GIB, processes=processes)


def on(*devices: Gpu, vendor: str = "nvidia", **environment: str) -> Case:
    return Case(gpus=Gpus(vendor=vendor, devices=devices), environment=environment)


def test_without_a_gpu_it_runs_on_the_cpu() -> None:
    base = basis(on(vendor="none"), Request())
    assert choose_device(on(vendor="none"), Request()) is None
    assert "CUDA_VISIBLE_DEVICES" not in base.environ
    assert (base.device, base.environ["VLLM_ENABLE_V1_MULTIPROCESSING"]) == ("cpu", "0")


def test_the_idle_one_is_taken_with_a_small_share() -> None:
    base = basis(on(gpu(0, 10, 4711), gpu(1, 2), gpu(2, 1, 4712)), Request())
    assert base.environ["CUDA_VISIBLE_DEVICES"] == "1"
    assert base.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert base.options["gpu_memory_utilization"] == 0.05


def test_a_model_with_weights_of_its_own_gets_most_of_what_is_free(tmp_path: Path) -> None:
    files = {"config.json": 700, "model.safetensors": 15 * GIB}
    own = replace(on(gpu(0, 16)), model=ModelFiles(path=str(tmp_path), config={}, files=files))
    asked = Request(model=tmp_path, devices=(0,))
    assert basis(own, asked).options["gpu_memory_utilization"] == 0.68
    # Named by a launch it is a large download or a production model; a miniature stands in for it.
    assert basis(own, replace(asked, model=None)).options["gpu_memory_utilization"] == 0.05


def test_the_users_choice_and_the_environments_come_first() -> None:
    chosen = choose_device(on(gpu(0), gpu(1, 5)), Request(devices=(1,)))
    visible = choose_device(on(gpu(0), gpu(1, 1), CUDA_VISIBLE_DEVICES="1"), Request())
    assert chosen is not None and visible is not None
    assert (chosen.index, visible.index) == (1, 1)


def test_a_device_in_use_by_others_is_never_touched_unasked() -> None:
    busy = on(gpu(0, 10, 4711), gpu(1, 2, 4712))
    with pytest.raises(NotApplicable, match=r"process 4711.*--devices N"):
        choose_device(busy, Request())
    asked = choose_device(busy, Request(devices=(0,)))
    assert asked is not None and asked.index == 0


def test_memory_that_nobody_here_holds_is_somebodys() -> None:
    """Another container's processes are not seen in this one."""
    with pytest.raises(NotApplicable, match=r"GPU 0 is in use by a process that is not seen here \(40 GiB\)"):
        choose_device(on(gpu(0, 40)), Request())
    asked = choose_device(on(gpu(0, 40)), Request(devices=(0,)))
    other = choose_device(on(gpu(0, 40), gpu(1, 1)), Request())
    assert asked is not None and other is not None and (asked.index, other.index) == (0, 1)


def test_what_cannot_be_probed_is_not_applicable() -> None:
    for case, request in (
        (on(gpu(0), vendor="amd"), Request()),
        (on(gpu(0)), Request(devices=(7,))),
        (imports_case(packages(vllm="0.11.0"), vllm=failed()), Request()),
    ):
        with pytest.raises(NotApplicable):
            basis(case, request)


def test_ranks_are_counted_however_the_launch_writes_them() -> None:
    reported = {"process.nproc": "4", "process.nnodes": 2, "engine.tensor_parallel_size": "auto"}
    settings = {name: Setting(value=value) for name, value in reported.items()}
    assert planned_ranks(RolloutPlan(framework="TRL", file="", entry="", settings=settings)) == 8
