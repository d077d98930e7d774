"""Limits of control groups, as a container or a batch system sets them."""

from __future__ import annotations

from pathlib import Path

from rldoctor.facts.cgroup import Limits, limits

GIB = 1024**3


def tree(root: Path, files: dict[str, object]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{content}\n")
    return root


def test_version_2_in_a_container(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/",
            "sys/fs/cgroup/memory.max": 8 * GIB,
            "sys/fs/cgroup/cpu.max": "250000 100000",
            "sys/fs/cgroup/pids.max": 512,
        },
    )
    assert limits(root) == Limits(memory=8 * GIB, cpus=2.5, pids=512)


def test_version_2_takes_the_tightest_on_the_way_up(tmp_path: Path) -> None:
    step = "sys/fs/cgroup/system.slice/slurmstepd.scope/job_7"
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/system.slice/slurmstepd.scope/job_7/step_0",
            f"{step}/step_0/memory.max": "max",
            f"{step}/memory.max": 64 * GIB,
            "sys/fs/cgroup/system.slice/memory.max": 128 * GIB,
            f"{step}/step_0/cpu.max": "max 100000",
            f"{step}/step_0/pids.max": "max",
        },
    )
    assert limits(root) == Limits(memory=64 * GIB)


def test_version_1_with_the_joint_cpu_mount(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n3:pids:/docker/abc",
            "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": 16 * GIB,
            "sys/fs/cgroup/memory/memory.limit_in_bytes": 9223372036854771712,
            "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": 400000,
            "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us": 100000,
            "sys/fs/cgroup/pids/docker/abc/pids.max": 1024,
        },
    )
    assert limits(root) == Limits(memory=16 * GIB, cpus=4.0, pids=1024)


def test_version_1_in_a_container_that_sees_its_own_group_as_the_top(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "5:memory:/docker/not-visible\n4:cpu:/",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": 4 * GIB,
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": -1,
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": 100000,
        },
    )
    assert limits(root) == Limits(memory=4 * GIB)


def test_both_versions_at_once(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/\n0::/user.slice",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": 9223372036854771712,
            "sys/fs/cgroup/unified/user.slice/pids.max": 99,
        },
    )
    assert limits(root) == Limits(pids=99)


def test_no_groups_and_nonsense_are_no_limit(tmp_path: Path) -> None:
    assert limits(tmp_path) == Limits()
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/../other\nnonsense",
            "sys/fs/cgroup/memory.max": "many",
            "sys/fs/cgroup/cpu.max": "",
        },
    )
    assert limits(root) == Limits()


def test_this_machine_has_an_answer() -> None:
    here = limits()
    assert here.memory is None or here.memory > 0
    assert here.cpus is None or here.cpus > 0
