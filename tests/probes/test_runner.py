"""What a child may do to the runner, and what the runner leaves behind."""

from __future__ import annotations

import getpass
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from multiprocessing import shared_memory
from pathlib import Path

import psutil
import pytest

from rldoctor.api.probes import Job, Request
from rldoctor.probes import runner
from rldoctor.probes.capture import LOG_END, LOG_HEAD
from tests.live import CHILD_HEAD, run_child


def named(marker: str) -> list[psutil.Process]:
    """Processes with this word in their command line."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        if marker in " ".join(process.info["cmdline"] or ()) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def gone(marker: str, seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while named(marker) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not named(marker)


def test_records_arguments_and_log_of_a_child_that_ends_well(tmp_path: Path) -> None:
    source = """
def main(arguments):
    print("to the log")
    stage("first")
    emit("sum", arguments["a"] + arguments["b"])
    emit("not a number", float("nan"))
    emit("seconds", 1.5)
run(main)"""
    result = run_child(tmp_path, source, arguments={"a": 2, "b": 3})
    assert (result.ended, result.exit_code, result.error) == ("done", 0, None)
    assert result.records == {"stage": "first", "sum": 5, "not a number": "nan", "seconds": 1.5}
    assert result.tail == ("to the log",)
    assert Path(result.log).read_text() == "to the log\n"
    assert not (Path(result.log).parent / "work").exists()


def test_what_a_child_says_is_kept_without_secrets(tmp_path: Path) -> None:
    source = """
def main(arguments):
    print("cloning https://me:SESAME@host/model with hub_token=SESAME")
    raise RuntimeError("401 for https://me:SESAME@host")
run(main)"""
    result = run_child(tmp_path, source)
    assert result.tail[0] == "cloning https://<removed:credentials>@host/model with hub_token=<removed:hub_token>"
    assert result.error is not None and result.error.message == "401 for https://<removed:credentials>@host"
    assert "SESAME" not in str(result.tail)


def test_an_exception_comes_with_its_chain_and_frames(tmp_path: Path) -> None:
    source = """
def main(arguments):
    emit("before", True)
    try:
        {}["absent"]
    except KeyError as error:
        raise RuntimeError("the outer one") from error
run(main)"""
    result = run_child(tmp_path, source)
    assert result.ended == "raised"
    assert (result.error.type, result.error.message) == ("RuntimeError", "the outer one")
    assert result.error.frames[-1].endswith("child.py:11 in main")
    outer, cause = result.records["exceptions"]
    assert (outer["link"], cause["link"], cause["type"]) == (None, "cause", "KeyError")
    assert result.records["before"] is True


def test_leaving_by_sys_exit_is_an_exception_too(tmp_path: Path) -> None:
    result = run_child(tmp_path, "run(lambda arguments: sys.exit(3))")
    assert (result.ended, result.error.type) == ("raised", "SystemExit")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT])
def test_a_child_that_is_killed_still_delivers_what_it_had(tmp_path: Path, number: signal.Signals) -> None:
    source = f"""
def main(arguments):
    emit("before", 1)
    os.kill(os.getpid(), {int(number)})
run(main)"""
    result = run_child(tmp_path, source)
    assert (result.ended, result.signal, result.records) == ("died", number.name, {"before": 1})


def test_a_native_crash_leaves_its_frames_in_the_log(tmp_path: Path) -> None:
    result = run_child(tmp_path, "import ctypes\nrun(lambda arguments: ctypes.string_at(0))")
    assert (result.ended, result.signal) == ("died", "SIGSEGV")
    assert any("in string_at" in line for line in result.tail)


def test_an_exit_without_a_word_is_a_death_without_a_signal(tmp_path: Path) -> None:
    result = run_child(tmp_path, "os._exit(7)")
    assert (result.ended, result.exit_code, result.signal) == ("died", 7, None)


def test_a_hang_ends_with_the_time_and_says_where_it_stood(tmp_path: Path) -> None:
    result = run_child(tmp_path, "def wait_for_ever(arguments):\n    time.sleep(600)\nrun(wait_for_ever)", seconds=5)
    assert result.ended == "timed-out"
    assert 5 <= result.seconds < 15
    assert any("in wait_for_ever" in line for line in result.tail)


def test_the_users_time_limit_goes_first(tmp_path: Path) -> None:
    child = tmp_path / "child.py"
    child.write_text("import time; time.sleep(600)")
    result = runner.run_job(child, Job(arguments={}, time_limit=600), "child", Request(time_limit=0.5))
    assert result.ended == "timed-out"


def test_waiting_for_a_processor_that_others_keep_busy_is_no_hang(tmp_path: Path) -> None:
    source = """
def main(arguments):
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    spin = "import time\\nwhile True: pass"
    others = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(2)]
    began = time.monotonic()
    with report.deadline(3.0):
        # A third of this time it computes at most, and waits for the rest: less than two thirds, and it would end.
        while time.monotonic() - began < 4.5:
            pass
    emit("beyond its deadline", True)
run(main)"""
    result = run_child(tmp_path, source)
    assert (result.ended, result.records) == ("done", {"beyond its deadline": True})


def test_one_that_waits_for_ever_is_ended_all_the_same(tmp_path: Path) -> None:
    source = """
def main(arguments):
    report.waited_for_processors = time.monotonic
    report.MOST_PROLONGED = 1.0
    with report.deadline(2.0):
        time.sleep(600)
run(main)"""
    result = run_child(tmp_path, source, seconds=20)
    assert (result.ended, 4 <= result.seconds < 15) == ("died", True)
    assert any("in main" in line for line in result.tail)


def test_no_deadline_is_put_off_beyond_the_time_of_all(tmp_path: Path) -> None:
    source = """
def main(arguments):
    report.waited_for_processors = time.monotonic
    with report.deadline(2.0):
        time.sleep(600)
run(main)"""
    result = run_child(tmp_path, source, seconds=6)
    assert (result.ended, 6 <= result.seconds < 15) == ("timed-out", True)
    assert any("in main" in line for line in result.tail)


def test_a_thread_that_waited_and_ended_takes_nothing_from_a_deadline(tmp_path: Path) -> None:
    source = """
def main(arguments):
    waited = iter([1.0])
    report.waited_for_processors = lambda: next(waited, 0.0)
    with report.deadline(2.5):
        time.sleep(2.2)
run(main)"""
    assert run_child(tmp_path, source).ended == "done"


@pytest.mark.parametrize(("asked", "ended"), [(None, "done"), (2.0, "timed-out")])
def test_what_a_child_waits_for_a_processor_puts_off_its_end_unless_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: float | None, ended: str
) -> None:
    monkeypatch.setattr("rldoctor.facts.proc.waited", lambda pid: 60.0)
    (tmp_path / "child.py").write_text(CHILD_HEAD + "run(lambda _: time.sleep(4))")
    monkeypatch.setattr(runner, "MOST_PROLONGED", 30.0)
    job = Job(arguments={}, time_limit=2.0)
    assert runner.run_job(tmp_path / "child.py", job, "test child", Request(time_limit=asked)).ended == ended


def test_what_the_budget_ends_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(CHILD_HEAD + "run(lambda _: time.sleep(60))")
    soon = Request(until=time.monotonic() + 1)
    result = runner.run_job(tmp_path / "child.py", Job(arguments={}), "test child", soon)
    assert result.ended == "not-run"


def test_a_child_that_has_done_its_work_and_will_not_leave_is_done(tmp_path: Path) -> None:
    source = """
emit_ = report._write
def main(arguments):
    emit("work", "done")
    emit_({"end": "done"})
    time.sleep(600)
run(main)"""
    result = run_child(tmp_path, source, seconds=5)
    assert (result.ended, result.records) == ("done", {"work": "done"})


ESCAPES = {
    "a grandchild": "subprocess.Popen(sleep)",
    "a session of its own": "subprocess.Popen(sleep, start_new_session=True)",
    "forked twice, without environment": """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sleep[0], sleep, {})
    os._exit(0)""",
    "deaf to SIGTERM": "subprocess.Popen([sys.executable, '-c', 'import signal, time; signal.signal(15, 1); "
    "time.sleep(600)', marker])",
}


@pytest.mark.parametrize("ends", ["done", "hangs", "killed"])
@pytest.mark.parametrize("escape", ESCAPES)
def test_nothing_of_the_tree_is_left_running(tmp_path: Path, escape: str, ends: str) -> None:
    marker = f"marker-{uuid.uuid4().hex}"
    last = {"done": "pass", "hangs": "time.sleep(600)", "killed": "os.kill(os.getpid(), 9)"}[ends]
    source = f"""
marker = {marker!r}
sleep = [sys.executable, "-c", "import time; time.sleep(600)", marker]
def main(arguments):
    exec({ESCAPES[escape]!r}, globals())
    time.sleep(0.3)
    {last}
run(main)"""
    result = run_child(tmp_path, source, seconds=3 if ends == "hangs" else 60)
    assert result.ended == {"done": "done", "hangs": "timed-out", "killed": "died"}[ends]
    assert not named(marker)


def test_helpers_may_tidy_up_after_the_child(tmp_path: Path) -> None:
    """multiprocessing's resource tracker removes shared memory when its parent is gone; it needs a moment."""
    source = """
from multiprocessing import shared_memory
def main(arguments):
    emit("name", shared_memory.SharedMemory(create=True, size=1024).name)
run(main)"""
    result = run_child(tmp_path, source)
    assert result.ended == "done"
    assert not Path("/dev/shm", result.records["name"].lstrip("/")).exists()


# The worker keeps multiprocessing's resource tracker from tidying up, which waits until nobody needs it.
SHARES = """
import multiprocessing
from multiprocessing import shared_memory

def main(arguments):
    spawn = multiprocessing.get_context("spawn")
    own, lock = shared_memory.SharedMemory(create=True, size=1024), spawn.Lock()
    plain = open(f"/dev/shm/plain-{own.name}", "w+b")
    spawn.Process(target=time.sleep, args=(600,)).start()
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], pass_fds=[plain.fileno()])
    emit("names", [own.name, "sem." + lock._semlock.name.lstrip("/"), f"plain-{own.name}"])
    foreign = open(arguments["foreign"], "r+b")
    LATER
    read = open(arguments["read"], "rb")
    stage("shared")
    LAST

if __name__ == "__main__":
    run(main)
"""


@pytest.mark.parametrize(
    ("last", "ended"),
    [("time.sleep(600)", "timed-out"), ("os.kill(os.getpid(), 9)", "died"), ("raise MemoryError", "raised")],
)
def test_shared_memory_of_the_tree_goes_with_it_and_no_other(tmp_path: Path, last: str, ended: str) -> None:
    """An engine of several ranks that is killed would leave hundreds of megabytes."""
    foreign = shared_memory.SharedMemory(create=True, size=1024)
    read = Path(f"/dev/shm/read-{foreign.name}")
    comes_later = f"while not os.path.exists({str(read)!r}): time.sleep(0.05)"
    source = SHARES.replace("LAST", last).replace("LATER", comes_later)
    timer = threading.Timer(1.5, read.write_text, ["a data set"])
    timer.start()
    try:
        arguments = {"foreign": f"/dev/shm/{foreign.name}", "read": str(read)}
        result = run_child(tmp_path, source, seconds=6, arguments=arguments)
        assert (result.ended, result.records["stage"]) == (ended, "shared")
        assert len(result.records["names"]) == 3
        assert [name for name in result.records["names"] if Path("/dev/shm", name).exists()] == []
        assert Path("/dev/shm", foreign.name).exists() and read.exists()
    finally:
        timer.join()
        read.unlink()
        foreign.close()
        foreign.unlink()


def test_shared_memory_that_was_let_go_goes_too(tmp_path: Path) -> None:
    """vLLM's CPU workers end without removing theirs, long before their engine's process does."""
    name = f"test-{uuid.uuid4().hex}"
    source = f"""
def main(arguments):
    worker = "import time; shared = open('/dev/shm/{name}', 'w+b'); time.sleep(3)"
    subprocess.run([sys.executable, "-c", worker])
    emit("there", os.path.exists("/dev/shm/{name}"))
run(main)"""
    result = run_child(tmp_path, source)
    assert result.records["there"]
    assert not Path("/dev/shm", name).exists()


def test_shared_memory_that_somebody_else_uses_stays(tmp_path: Path) -> None:
    name = f"test-{uuid.uuid4().hex}"
    source = f"""
def main(arguments):
    shared = open("/dev/shm/{name}", "w+b")
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], pass_fds=[shared.fileno()])
    stage("shared")
    while not os.path.exists({str(tmp_path / "seen")!r}):
        time.sleep(0.05)
run(main)"""
    file = Path("/dev/shm", name)
    ends = threading.Thread(target=run_child, args=(tmp_path, source))
    ends.start()
    try:
        deadline = time.monotonic() + 10
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        with file.open("rb"):
            (tmp_path / "seen").touch()
            ends.join(20)
            assert file.exists()
    finally:
        file.unlink(missing_ok=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_no_child_survives_the_end_of_rldoctor(tmp_path: Path, number: signal.Signals) -> None:
    marker = f"marker-{uuid.uuid4().hex}"
    child = tmp_path / "child.py"
    child.write_text(
        CHILD_HEAD
        + f"""
sleep = [sys.executable, "-c", "import time; time.sleep(600)", {marker!r}]
def main(arguments):
    open(os.path.join(folder_beside(), "log"), "w")
    subprocess.Popen(sleep, start_new_session=True)
    time.sleep(600)
run(main)"""
    )
    doctor = f"""
from pathlib import Path
from rldoctor.api.probes import Job, Request
from rldoctor.probes.runner import run_job
run_job(Path({str(child)!r}), Job(arguments={{}}, time_limit=600), "child", Request())"""
    said = tmp_path / "said.txt"
    with said.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", doctor], stderr=stream, env={**os.environ, "TMPDIR": str(tmp_path)}
        )
    deadline = time.monotonic() + 10
    while not named(marker) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert named(marker), said.read_text()
    process.send_signal(number)
    process.wait(10)
    assert gone(marker)
    assert gone(str(child))
    assert not list(tmp_path.glob("rldoctor-*/work")) and not list(tmp_path.glob("rldoctor-*/log"))


def test_garbage_on_the_pipe_is_noted_and_disturbs_nothing(tmp_path: Path) -> None:
    source = """
def main(arguments):
    os.write(report._channel, b"\\xff\\x00 no json\\n[1, 2]\\n\\n{\\"name\\": 3}\\n")
    emit("after", True)
    os.write(report._channel, b'{"name": "cut o')
run(main)"""
    result = run_child(tmp_path, source)
    assert result.records["after"] is True
    assert "[1, 2]" in result.records["garbage"]
    # The child's last word was swallowed by the line that it had begun.
    assert result.ended == "died"
    assert any("cut o" in line for line in result.records["garbage"])


def test_the_log_of_a_chatterbox_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    source = """
def main(arguments):
    print("the beginning")
    line = b"x" * 999 + b"\\n"
    for _ in range(100_000):
        os.write(1, line)
    print("the end")
run(main)"""
    before = psutil.Process().memory_info().rss
    result = run_child(tmp_path, source, seconds=60)
    log = Path(result.log)
    assert result.ended == "done"
    assert log.stat().st_size < LOG_HEAD + 2 * LOG_END
    text = log.read_text()
    assert text.startswith("the beginning\n") and text.endswith("the end\n") and "rldoctor left out" in text
    assert result.tail[-1] == "the end" and len(result.tail) <= 200
    assert psutil.Process().memory_info().rss - before < 64 << 20


def test_a_child_that_runs_out_of_memory_says_so(tmp_path: Path) -> None:
    source = """
import resource
def main(arguments):
    resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
    emit("before", 1)
    bytearray(1 << 30)
run(main)"""
    result = run_child(tmp_path, source)
    assert (result.ended, result.error.type, result.records["before"]) == ("raised", "MemoryError", 1)


@pytest.mark.parametrize("python", ["/absent/python", "/etc/passwd", "/"])
def test_an_interpreter_that_cannot_be_started(tmp_path: Path, python: str) -> None:
    result = runner.run_job(tmp_path / "child.py", Job(arguments={}), "child", Request(python=Path(python)))
    assert result.ended == "not-started"
    assert python in result.error.message  # type: ignore[union-attr]


def test_a_machine_without_room_is_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    result = runner.run_job(tmp_path / "child.py", Job(arguments={}), "child", Request())
    assert result.ended == "not-started"


def test_a_program_that_is_no_python_died_and_its_words_are_kept(tmp_path: Path) -> None:
    result = runner.run_job(tmp_path / "child.py", Job(arguments={}), "child", Request(python=Path("/bin/cat")))
    assert result.ended == "died"
    assert result.tail


def test_the_child_gets_the_targets_environment_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghijklmnopqrstuvwx")
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("PYTHONPATH", "relative")
    result = run_child(tmp_path, "run(lambda arguments: emit('seen', dict(os.environ)))", environ={"EXTRA": "1"})
    seen = result.records["seen"]
    assert seen["NCCL_DEBUG"] == "INFO" and seen["EXTRA"] == "1" and seen["HF_HUB_OFFLINE"] == "1"
    assert "HF_TOKEN" not in seen and "RANK" not in seen
    assert seen["PYTHONPATH"] == str(Path.cwd() / "relative")
    assert seen["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)


def test_sockets_of_an_engine_go_with_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "run(lambda arguments: emit('seen', [os.environ.get('VLLM_RPC_BASE_PATH'), os.getcwd()]))"
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setattr("tempfile.tempdir", short)
        sockets, work = run_child(tmp_path, source).records["seen"]
        assert sockets == work
        monkeypatch.setenv("VLLM_RPC_BASE_PATH", "/run/mine")
        assert run_child(tmp_path, source).records["seen"][0] == "/run/mine"


def test_temporary_files_of_a_child_go_with_its_folder_and_what_programs_share_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
def main(arguments):
    import tempfile
    emit("made", tempfile.mkstemp()[1])
    emit("shared", [os.environ["RAY_TMPDIR"], os.environ.get("TORCHINDUCTOR_CACHE_DIR")])
run(main)"""
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setattr("tempfile.tempdir", short)
        monkeypatch.setenv("TMPDIR", short)
        records = run_child(tmp_path, source).records
        made, (ray, compiled) = Path(records["made"]), records["shared"]
        assert made.is_relative_to(short) and not made.parent.exists()
        assert ray == short and Path(compiled).parent == Path(short)
        monkeypatch.setenv("RAY_TMPDIR", "/run/ray")
        assert run_child(tmp_path, source).records["shared"][0] == "/run/ray"


def test_headers_that_torch_has_compiled_are_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks for them among the temporary files and nowhere else; they stay when the child's folder goes."""
    source = """
def main(arguments):
    import getpass, tempfile
    from pathlib import Path
    headers = Path(tempfile.gettempdir(), f"torchinductor_{getpass.getuser()}", "precompiled_headers")
    emit("found", [header.name for header in headers.glob("*")])
run(main)"""
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setattr("tempfile.tempdir", short)
        monkeypatch.setenv("TMPDIR", short)
        assert run_child(tmp_path, source).records["found"] == []
        header = Path(short, f"torchinductor_{getpass.getuser()}", "precompiled_headers", "prefix.h.gch")
        header.parent.mkdir(parents=True)
        header.touch()
        assert run_child(tmp_path, source).records["found"] == [header.name]
        assert header.exists()


def test_a_folder_whose_name_is_too_long_for_sockets_gets_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ("long" * 20)).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("long" * 20)))
    source = "run(lambda arguments: emit('seen', os.environ.get('VLLM_RPC_BASE_PATH')))"
    assert run_child(tmp_path, source).records["seen"] is None


def test_a_folder_beside_goes_with_the_child_and_nothing_else_that_it_names(tmp_path: Path) -> None:
    """A package of the target may write into the folder in which its probe runs, too."""
    (tmp_path / "rldoctor-mine").mkdir()
    (tmp_path / "mine").mkdir()
    source = """
def main(arguments):
    made = folder_beside()
    open(os.path.join(made, "socket"), "w")
    emit("made", made)
    with open("beside", "a") as names:
        names.write("mine\\n../rldoctor-mine\\nrldoctor-mine/../mine\\n\\n.\\n")
run(main)"""
    result = run_child(tmp_path, source)
    made = Path(result.records["made"])
    assert len(made.name) < 20 and not made.exists()
    assert (tmp_path / "rldoctor-mine").exists() and (tmp_path / "mine").exists()


def test_no_child_shadows_a_module(tmp_path: Path) -> None:
    """The children's directory comes first on their path."""
    import rldoctor.probes.imports as probe

    names = {file.stem for file in probe.imports.child.parent.glob("*.py")} - {"__init__"}
    assert names
    assert not names & (sys.stdlib_module_names | {row[1] for row in (*probe.FRAMEWORKS, *probe.FOUNDATIONS)})
