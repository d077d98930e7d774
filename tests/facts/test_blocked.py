"""What the kernel says that a thread waits on, asked of real processes."""

from __future__ import annotations

import fcntl
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from rldoctor.facts import proc
from rldoctor.facts.blocked import Blocked, Kernel

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/syscall").exists() or os.uname().machine not in ("x86_64", "aarch64"),
    reason="this kernel does not tell in which call a thread is",
)

TOOL = "import subprocess, sys\nrun = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
WAITS = {
    "pipe": TOOL + "subprocess.Popen(run, stdout=subprocess.PIPE).stdout.readline()",
    "child": TOOL + "subprocess.run(run)",
    "captured": TOOL + "subprocess.run(run, capture_output=True)",
    "socket": "import socket\nsocket.create_connection(('127.0.0.1', {port})).recv(1)",
    "with a time limit": (
        "import socket\none = socket.create_connection(('127.0.0.1', {port}))\none.settimeout(600)\none.recv(1)"
    ),
    "manager": "import multiprocessing\nmultiprocessing.get_context('fork').Manager().Event().wait()",
    "not accepted": (
        "import os, signal\nimport multiprocessing\nmanager = multiprocessing.get_context('fork').Manager()\n"
        "held = manager.dict()\nos.kill(manager._process.pid, signal.SIGSTOP)\nheld['a'] = 1"
    ),
    "full socket": "import socket\none = socket.create_connection(('127.0.0.1', {port}))\none.sendall(bytes(1 << 26))",
    "full pipe": TOOL + "subprocess.Popen(run, stdin=subprocess.PIPE).stdin.write(bytes(1 << 20))",
    "own pair": "import socket\none, other = socket.socketpair()\none.recv(1)",
    "lock": "import fcntl\nopened = open({lock!r}, 'w')\nfcntl.flock(opened, fcntl.LOCK_EX)",
    "record lock": "import fcntl\nopened = open({lock!r}, 'w')\nfcntl.lockf(opened, fcntl.LOCK_EX)",
    "asleep": "import time\ntime.sleep(600)",
    "at work": "while True: pass",
}


@pytest.fixture
def blocked(tmp_path: Path) -> object:
    """``blocked(source, on)``: what a program waits on once it does so ``on`` something held, or, without that, what it
    waits on after a second."""
    started: list[psutil.Popen] = []
    lock = tmp_path / "lock"
    with socket.create_server(("127.0.0.1", 0)) as listening, lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        fcntl.lockf(held, fcntl.LOCK_EX)

        def look(source: str, on: str | None) -> tuple[int, Blocked | None]:
            text = source.replace("{port}", str(listening.getsockname()[1])).replace("{lock!r}", repr(str(lock)))
            program = psutil.Popen([sys.executable, "-c", text])
            started.append(program)
            deadline = time.monotonic() + (60 if on else 1)
            found = None
            # On its way there it reads files, and waits for a tool to begin.
            while time.monotonic() < deadline and (found is None or found.on != on or not found.holders):
                time.sleep(0.2)
                found = Kernel(proc.table()).blocked(program.pid, program.pid)
            return program.pid, found

        yield look
    for program in started:
        for process in [*program.children(recursive=True), program]:
            process.kill()
        program.wait()


Look = Callable[[str, str | None], tuple[int, Blocked | None]]


@pytest.mark.parametrize(
    ("way", "on"), [("pipe", "pipe"), ("child", "child"), ("captured", "pipe"), ("full pipe",) * 2]
)
def test_a_tool_that_it_started(way: str, on: str, blocked: Look) -> None:
    pid, found = blocked(WAITS[way], on)
    assert found is not None and found.on == on
    assert [holder.pid for holder in found.holders] == [child.pid for child in psutil.Process(pid).children()]


@pytest.mark.parametrize("way", ["manager", "not accepted"])
def test_a_socket_of_this_host(way: str, blocked: Look) -> None:
    pid, found = blocked(WAITS[way], "socket")
    assert found is not None and "listener-" in found.what
    (holder,) = found.holders
    assert psutil.Process(holder.pid).ppid() == pid


@pytest.mark.parametrize("way", ["socket", "with a time limit"])
def test_a_server_that_has_not_even_accepted(way: str, blocked: Look) -> None:
    _, found = blocked(WAITS[way], "socket")
    assert found is not None and found.on == "socket" and found.what.startswith("127.0.0.1:")
    assert [holder.pid for holder in found.holders] == [os.getpid()]


@pytest.mark.parametrize(("way", "limit"), [("socket", None), ("with a time limit", 600.0)])
def test_when_a_wait_ends_by_itself(way: str, limit: float | None, blocked: Look) -> None:
    _, found = blocked(WAITS[way], "socket")
    assert found is not None and found.limit == limit


def test_a_server_that_does_not_read(blocked: Look) -> None:
    _, found = blocked(WAITS["full socket"], "full socket")
    assert found is not None and found.on == "full socket"
    assert [holder.pid for holder in found.holders] == [os.getpid()]


@pytest.mark.parametrize("way", ["lock", "record lock"])
def test_a_lock_that_another_process_holds(way: str, blocked: Look) -> None:
    _, found = blocked(WAITS[way], "lock")
    assert found is not None and found.on == "lock" and found.what.endswith("/lock")
    assert [holder.pid for holder in found.holders] == [os.getpid()]


def test_a_lock_that_is_asked_for_again_and_again(tmp_path: Path) -> None:
    """Between two tries nothing tells which: the only one that is held, or none."""
    me, kernel, asks = os.getpid(), Kernel(proc.table()), os.getppid()
    with (tmp_path / "data.lock").open("w") as data, (tmp_path / "model.lock").open("w") as model:
        assert kernel.polled_lock(asks, {me}) is None
        fcntl.flock(data, fcntl.LOCK_EX)
        found = kernel.polled_lock(asks, {me})
        assert found is not None and (found.on, found.what) == ("lock", str(tmp_path / "data.lock"))
        assert [holder.pid for holder in found.holders] == [me]
        assert kernel.polled_lock(me, {me}) is None
        fcntl.flock(model, fcntl.LOCK_EX)
        assert kernel.polled_lock(asks, {me}) is None


@pytest.mark.parametrize("way", ["asleep", "at work", "own pair"])
def test_nothing_has_another_end(way: str, blocked: Look) -> None:
    assert blocked(WAITS[way], None)[1] is None


def test_a_process_that_is_not_there() -> None:
    assert Kernel({}).blocked(1 << 22, 1 << 22) is None
