"""What a killed rldoctor leaves behind goes: at once where its supervisor lives, else with the next start."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import pytest

from rldoctor import cli
from rldoctor.probes import kept, supervisor
from tests.probes.environments import Environment


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept.sweep.cache_clear()
    return tmp_path


def left(folder: Path, name: str, owner: str | None, age: float = 0) -> Path:
    """A folder of a probe, with its log."""
    made = folder / name
    made.mkdir()
    if owner is not None:
        (made / kept.OWNER).write_text(owner)
        (made / "log.txt").write_text("said")
    os.utime(made, (time.time() - age,) * 2)
    return made


def test_a_folder_goes_with_the_process_that_made_it(folder: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    owner = kept._owner(ended.pid)
    ended.wait()
    here, started = os.getpid(), kept._owner(os.getpid()).split()[1]
    gone = [
        left(folder, "rldoctor-imports-a", owner),
        left(folder, "rldoctor-imports-b", f"{here} {int(started) - 1} {kept._numbers()}"),  # its number went on
        left(folder, "rldoctor-imports-c", "7 1 pid:[1]", age=2 * 86400),
        left(folder, "rldoctor-imports-d_45xyz7", None, age=60),  # killed while it was made
        left(folder, "rldoctor-imports-e", None),
    ]
    (gone[-1] / kept.OWNER).touch()  # killed while it was told whose it is
    os.utime(gone[-1], (time.time() - 60,) * 2)
    gone[-2].chmod(0o700)
    stays = [
        left(folder, "rldoctor-out", None, age=60),  # made by somebody for a report
        left(folder, "rldoctor-runs-20261127", None, age=60),
        left(folder, "rldoctor-engine-a", kept._owner(here)),
        left(folder, "rldoctor-engine-b", "7 1 pid:[1]"),  # of another container, perhaps
        left(folder, "rldoctor-engine-c", None),
        left(folder, "another-a", owner),
    ]
    (folder / "rldoctor-link").symlink_to(stays[0])
    with_a_log = left(folder, "rldoctor-kept", None, age=2 * 86400)
    (with_a_log / "log.txt").write_text("for a person")
    os.utime(with_a_log, (1, 1))
    made = kept.new_folder("next one")
    assert [path.name for path in gone if path.exists()] == []
    assert [path.name for path in (*stays, with_a_log) if not path.exists()] == []
    assert (made / kept.OWNER).read_text() == kept._owner(here)


def test_every_command_removes_what_a_killed_one_left(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also one that makes no folder itself."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    owner = kept._owner(ended.pid)
    ended.wait()
    gone = left(folder, "rldoctor-fleet-a", owner)
    stays = left(folder, "rldoctor-fleet-b", kept._owner(os.getpid()))
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert not gone.exists() and stays.exists()


def test_a_folder_for_a_while_is_one_that_goes(folder: Path) -> None:
    with kept.for_a_while("fleet") as made:
        (made / "a.json").write_text("{}")
        assert (made / kept.OWNER).read_text() == kept._owner(os.getpid())
    assert list(folder.iterdir()) == []


def test_a_damaged_owner_is_none_to_act_on(folder: Path) -> None:
    damaged = left(folder, "rldoctor-engine-a", "x")
    os.mkfifo(left(folder, "rldoctor-engine-b", None) / kept.OWNER)
    kept.sweep()
    assert damaged.exists() and (folder / "rldoctor-engine-b").exists()


def test_a_supervisor_whose_owner_was_killed_removes_all_folders_of_that_owner(folder: Path) -> None:
    """A probe's job that is done leaves its log's folder until the end; who would remove it is gone."""
    ours, theirs = "7 1 pid:[1]", "8 1 pid:[1]"
    running = left(folder, "rldoctor-engine-a", ours)
    (running / "work").mkdir()
    done = left(folder, "rldoctor-imports-b", ours)
    stays = [left(folder, "rldoctor-engine-c", theirs), left(folder, "rldoctor-kept", None), left(folder, "x", ours)]
    os.mkfifo(left(folder, "rldoctor-trap", None) / kept.OWNER)
    status, results, lifeline = os.pipe(), os.pipe(), os.pipe()
    fds = [str(fd) for fd in (lifeline[0], status[1], results[1])]
    # Nobody has the process number 0: the owner is not the parent, as after its death.
    command = [sys.executable, supervisor.__file__, *fds, str(running / "work"), "0", sys.executable, "-c", ""]
    subprocess.run(command, pass_fds=(lifeline[0], status[1], results[1]), timeout=60, check=True)
    for end in (*status, *results, *lifeline):
        os.close(end)
    assert not running.exists() and not done.exists()
    assert all(path.exists() for path in stays)


# A package that does at import what engines do: processes that leave their parent, shared memory.
UNRULY = """
import os, subprocess, sys, time
mark = os.environ["RLDOCTOR_MARK"]
held = open(f"/dev/shm/{mark}", "w")
held.write("x" * 4096)
held.flush()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("ready", flush=True)
time.sleep(600)
"""
# The longest that a start was seen to take before its probe runs, in seconds, on a machine with nothing else to do.
STARTS = 3.0
KILLS = int(os.environ.get("RLDOCTOR_KILLS", "5"))
ALL_GONE = 15.0


def remains(mark: str, folder: Path) -> list[str]:
    """Processes, shared memory and folders of a run that was killed."""
    found = [str(path) for path in folder.glob("*")] + [str(path) for path in Path("/dev/shm").glob(f"*{mark}*")]
    return found + [said for _, said in running(mark)]


def running(mark: str) -> list[tuple[int, str]]:
    """The processes that have the mark in their environment, with their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                found.append((int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()))
    return found


@pytest.mark.parametrize("number", range(KILLS))
def test_killed_at_any_moment_it_leaves_nothing(tmp_path: Path, number: int) -> None:
    """``RLDOCTOR_KILLS=200`` kills that often."""
    moment = random.Random(number).uniform(0, STARTS)
    mark = f"rldoctor-test-{uuid.uuid4().hex}"
    python = Environment(tmp_path / "venv").install("ray", "2.0", {"ray.py": UNRULY}).python
    (tmp_path / "tmp").mkdir()
    environ = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "RLDOCTOR_MARK": mark, "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "rldoctor", "check", "--level", "imports", "--python", str(python)]
    doctor = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ, cwd=tmp_path)
    with contextlib.suppress(subprocess.TimeoutExpired):
        doctor.wait(moment)
    doctor.send_signal(signal.SIGKILL)
    doctor.wait()
    deadline = time.monotonic() + ALL_GONE
    while (found := remains(mark, tmp_path / "tmp")) and time.monotonic() < deadline:
        if all(one.startswith(str(tmp_path)) for one in found):  # folders alone: killed before there was a supervisor
            quiet = Environment(tmp_path / f"venv{time.monotonic()}").install("ray", "2.0", {"ray.py": ""}).python
            subprocess.run([*command[:-1], str(quiet)], capture_output=True, env=environ, cwd=tmp_path)
        time.sleep(0.1)
    assert found == [], f"killed after {moment:.2f} s"


def test_a_supervisor_that_is_asked_to_leave_again_and_again_leaves_nothing(tmp_path: Path) -> None:
    """As schedulers ask all processes of a job."""
    mark = f"rldoctor-test-{uuid.uuid4().hex}"
    python = Environment(tmp_path / "venv").install("ray", "2.0", {"ray.py": UNRULY}).python
    (tmp_path / "tmp").mkdir()
    environ = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "RLDOCTOR_MARK": mark, "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "rldoctor", "check", "--level", "imports", "--python", str(python)]
    doctor = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ, cwd=tmp_path)
    supervisors: list[int] = []
    while not (supervisors and any(Path("/dev/shm").glob(f"*{mark}*"))):
        assert doctor.poll() is None
        supervisors = [pid for pid, said in running(mark) if "supervisor.py" in said]
        time.sleep(0.05)
    doctor.kill()
    doctor.wait()
    deadline = time.monotonic() + 4 * ALL_GONE
    while (found := remains(mark, tmp_path / "tmp")) and time.monotonic() < deadline:
        for pid in supervisors:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGTERM)
        time.sleep(0.01)
    assert found == []
