"""`rldoctor hang` on real runs: who is named, what stays quiet, and that nothing is changed or left running."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from rldoctor.hang import folder
from rldoctor.hang.model import hang_of
from tests.hang.conftest import PATIENCE, Program, Start
from tests.hang.test_stacks import HIDES, SLEEPS

RLDOCTOR = [sys.executable, "-m", "rldoctor", "hang"]
NOBODY = 65534

# A log that tells how long a step takes.
STEPS = """
for step in range(20): print(f"2026-11-22 10:00:{step:02} step {step} loss 0.5", flush=True)
"""

BUSY = """
print("ready", flush=True)
def one(n): return sum(i * i for i in range(n))
def other(n): return sorted(range(n), key=lambda i: -i)
while True:
    one(3000), other(3000)
"""


def hang(
    folder: Path, *arguments: object, code: int | tuple[int, ...] | None = None, before: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The JSON report of a run of the command in ``folder``."""
    command = [*before, *RLDOCTOR, *map(str, arguments), "--format", "json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    codes = (code,) if isinstance(code, int) else code
    assert codes is None or done.returncode in codes, done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def goes_on(folder: Path, pid: int, seconds: int = 2) -> None:
    """The run is seen to move. A machine that has no processor for it all that time is looked at again; not even then
    does the run stand still."""
    deadline = time.monotonic() + PATIENCE
    while (report := hang(folder, pid, "--seconds", seconds, code=(0, 2)))["incident"]["kind"] != "unfinished":
        assert report["findings"] == [] and time.monotonic() < deadline, report
    assert report["findings"] == [] and report["verdict"]["state"] == "passed"


def refused(*arguments: object) -> str:
    done = subprocess.run([*RLDOCTOR, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    return done.stderr


def messages(report: dict[str, Any]) -> dict[str, str]:
    return {finding["code"]: finding["message"] for finding in report["findings"]}


class TestOneProgram:
    def test_a_program_that_stands(self, start: Start, tmp_path: Path, py_spy: str) -> None:
        program = start(STEPS + SLEEPS)
        program.until("ready")
        program.quiet_for(100)
        report = hang(tmp_path, program.pid, "--seconds", 1, "--folder", "kept", code=1)
        line = 1 + (STEPS + SLEEPS).splitlines().index("    time.sleep(600)")
        assert f"is at program.py:{line} in waits" in messages(report)["RLD609"]
        assert report["incident"]["kind"] == "stalled"
        assert report["incident"]["user_frame"].endswith(f"program.py:{line} in waits")
        assert messages(hang(tmp_path, "--from", "kept")) == messages(report)
        assert program.runs

    def test_a_program_that_may_only_take_its_time(self, start: Start, tmp_path: Path, py_spy: str) -> None:
        """Within its pace it goes on; where nothing tells its pace, it is not judged."""
        steps, silent = start(STEPS + SLEEPS, "steps.py"), start(SLEEPS, "silent.py")
        steps.until("ready")
        silent.until("ready")
        assert hang(tmp_path, steps.pid, "--seconds", 1, code=0)["findings"] == []
        report = hang(tmp_path, silent.pid, "--seconds", 1, code=2)
        assert report["findings"] == []
        assert "silent.py:5 in waits" in str(report["notes"])
        assert "nothing tells how long its steps take" in str(report["verdict"])

    def test_a_program_that_works(self, start: Start, tmp_path: Path, py_spy: str) -> None:
        program = start(BUSY)
        program.until("ready")
        goes_on(tmp_path, program.pid)

    def test_secrets_stay_here(self, start: Start, tmp_path: Path, py_spy: str) -> None:
        secret = "hf_" + "S3cret" * 6
        program = start(f'print("login with {secret}")\n' + SLEEPS, before=("-X", f"api_key={secret}"), HF_TOKEN=secret)
        program.until("ready")
        hang(tmp_path, program.pid, "--seconds", 1, "--folder", "kept")
        kept = {file: file.read_text() for file in (tmp_path / "kept").rglob("*") if file.is_file()}
        assert len(kept) == 3
        assert not [file for file, text in kept.items() if secret in text]
        assert "login with <removed:" in "".join(kept.values())

    def test_a_process_that_ends_meanwhile(self, start: Start, tmp_path: Path, py_spy: str) -> None:
        (tmp_path / "child.py").write_text("import os, time\nwhile not os.path.exists('end'): time.sleep(0.05)")
        program = start("import subprocess, sys\nsubprocess.Popen([sys.executable, 'child.py']).wait()\n" + SLEEPS)
        deadline = time.monotonic() + 30
        while not psutil.Process(program.pid).children() and time.monotonic() < deadline:
            time.sleep(0.05)
        command = [*RLDOCTOR, str(program.pid), "--seconds", "4", "--folder", "kept"]
        with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as begun:
            assert begun.stderr is not None and b"watching" in begun.stderr.readline()
            (tmp_path / "end").touch()
            _, said = begun.communicate(timeout=120)
        assert begun.returncode in (0, 1, 2) and b"Traceback" not in said
        record = hang_of(folder.load((tmp_path / "kept",)))
        assert len(record.ended) == 1 and [seen.pid for seen in record.processes] == [program.pid]

    def test_without_py_spy_the_kernel_is_asked(self, start: Start, tmp_path: Path) -> None:
        program = start(SLEEPS)
        program.until("ready")
        hides = (
            "import sys; from rldoctor.hang import stacks; stacks.program = lambda: None; sys.argv[0] = 'rldoctor'; "
        )
        arguments = ["hang", str(program.pid), "--seconds", "1", "--folder", "kept"]
        command = [sys.executable, "-c", f"{hides}from rldoctor.cli import main; main({arguments})"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2, done.stderr
        assert "py-spy is not installed (pip install py-spy)" in " ".join(done.stdout.split())
        (seen,) = hang_of(folder.load((tmp_path / "kept",))).processes
        assert seen.samples == 0 and seen.state == "S" and seen.cpu == 0.0
        assert seen.threads[0].wait is None or "sleep" in seen.threads[0].wait


class TestRefusals:
    def test_nothing_of_that_number(self) -> None:
        assert "there is no process 4194304" in refused(1 << 22)

    def test_another_users_process_is_not_touched(self) -> None:
        if os.geteuid() != 0:
            assert "belongs to root; rldoctor looks at the processes of its own user only" in refused(1)
            return
        with subprocess.Popen(["sleep", "60"], user=NOBODY) as theirs:
            assert "looks at the processes of its own user only" in refused(theirs.pid)
            theirs.kill()

    def test_two_runs_are_reported_apart(self, start: Start, tmp_path: Path) -> None:
        several = [start(SLEEPS, name, RANK="0", WORLD_SIZE="1", MASTER_PORT=name) for name in ("a.py", "b.py")]
        for program in several:
            program.until("ready")
        said = refused()
        assert "name one of them: rldoctor hang PID" in said
        assert all(re.search(rf"^  {program.pid}  rank  ", said, re.MULTILINE) for program in several), said

    def test_folders_and_processes_do_not_mix(self, tmp_path: Path) -> None:
        assert "--from judges saved folders" in refused(1, "--from", tmp_path)
        assert "from 1 to 3600" in refused(1, "--seconds", 0)
        assert "is there already" in refused(1, "--folder", tmp_path)

    @pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv to give the right away with")
    def test_where_ptrace_is_refused_it_says_what_to_do(self, start: Start, tmp_path: Path, py_spy: str) -> None:
        program = start(HIDES)
        program.until("ready")
        drop = ("setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace") if os.geteuid() == 0 else ()
        report = hang(tmp_path, program.pid, "--seconds", 1, code=2, before=drop)
        assert report["findings"] == []
        assert "--cap-add SYS_PTRACE" in report["incident"]["partial"]
        assert "not-checked" in {row["outcome"] for row in report["checks"]}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_nothing(start: Start, tmp_path: Path, py_spy: str, number: signal.Signals) -> None:
    program = start(SLEEPS)
    program.until("ready")
    begun = subprocess.Popen([*RLDOCTOR, str(program.pid), "--seconds", "60"], cwd=tmp_path, stderr=subprocess.PIPE)
    assert begun.stderr is not None and b"watching" in begun.stderr.readline()
    time.sleep(0.5)
    below = psutil.Process(begun.pid).children(recursive=True)
    begun.send_signal(number)
    assert begun.wait(timeout=30) == (130 if number == signal.SIGINT else 143)
    assert not [process for process in below if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    assert not list(tmp_path.glob("rldoctor-hang-*"))
    assert program.runs and Path(f"/proc/{program.pid}/stat").read_text().split()[2] == "S"


# Stands where torch's own would.
C10D = "import time\ndef all_reduce(tensor):\n    print('there', flush=True)\n    time.sleep(600)\n"
SPAWNS = (
    STEPS.replace("for", "if __name__ == '__main__':\n  for")
    + """
import multiprocessing, time
import torch.distributed.distributed_c10d as dist
def fit(rank):
    if rank == 1:
        print("there", flush=True)
        time.sleep(600)
    dist.all_reduce([1.0])
if __name__ == "__main__":
    how = multiprocessing.get_context(HOW)
    ranks = [how.Process(target=fit, args=(rank,)) for rank in range(3)]
    [rank.start() for rank in ranks], [rank.join() for rank in ranks]
"""
)


@pytest.mark.parametrize("how", ["spawn", "fork"])
def test_ranks_that_no_variable_tells(start: Start, tmp_path: Path, py_spy: str, how: str) -> None:
    """Whichever of them is named, the run is the program that started them."""
    (tmp_path / "torch" / "distributed").mkdir(parents=True)
    (tmp_path / "torch" / "distributed" / "distributed_c10d.py").write_text(C10D)
    program = start(SPAWNS.replace("HOW", repr(how)))
    program.until("there", times=3)
    program.quiet_for(700)
    below = psutil.Process(program.pid).children()
    ranks = [process.pid for process in below if "resource_tracker" not in " ".join(process.cmdline())]
    report = hang(tmp_path, ranks[-1], "--seconds", 1, code=1)
    said = messages(report)["RLD321"]
    assert said.startswith("ranks 0, 2 wait in all_reduce at program.py:")
    assert re.search(r"; rank 1 is not there: it is at program\.py:\d+ in fit$", said)


TORCHRUN = """
import os, time
import torch, torch.distributed as dist
import torch._C._distributed_c10d as c10d
def reward_function(rank):
    if rank == 1 and os.environ["ARRIVES"] == "no":
        print("scoring", flush=True)
        time.sleep(600)
    return float(rank)
def dump(rank):
    with open(os.environ["TORCH_FR_DUMP_TEMP_FILE"] + str(rank), "wb") as opened:
        opened.write(c10d._dump_fr_trace())
def train():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(10):
        print(f"2026-11-22 10:00:{step:02} step {step}", flush=True)
    for step in range(1_000_000):
        loss = torch.ones(64, 64).matmul(torch.ones(64, 64)).mean()
        if rank == 0 and step == 1:
            work = dist.all_reduce(loss, async_op=True)
            dump(rank)
            print("stepping", flush=True)
        elif rank == 1 and step == 1:
            dump(rank)
            print("stepping", flush=True)
        else:
            dist.all_reduce(loss)
        if step == 1 and rank == 1:
            reward_function(rank)
            dist.all_reduce(loss)
        elif step == 1:
            work.wait()
train()
"""


@pytest.mark.engine
class TestTorchrun:
    @pytest.fixture
    def run(self, start: Start, patient: Path, tmp_path: Path) -> Iterator[Any]:
        def begin(arrives: str) -> Program:
            launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
            program = start(
                TORCHRUN, "train.py", patient, launcher, ARRIVES=arrives, OMP_NUM_THREADS="1",
                TORCH_FR_BUFFER_SIZE="100", TORCH_FR_DUMP_TEMP_FILE=str(tmp_path / "fr_"),
            )  # fmt: skip
            program.until("stepping", times=2)
            return program

        yield begin

    def test_the_rank_that_never_arrives(self, run: Any, tmp_path: Path, py_spy: str) -> None:
        program = run("no")
        program.until("scoring")
        program.quiet_for(100)
        line = 1 + TORCHRUN.splitlines().index("        time.sleep(600)")
        report = hang(tmp_path, program.pid, "--seconds", 2, "--folder", "kept", "--fail-on", "warning", code=1)
        stands, recorded = [f for f in report["findings"] if f["code"] == "RLD321"]
        if "in group" in stands["message"]:
            stands, recorded = recorded, stands
        assert re.match(r"rank 0 waits in wait at train\.py:\d+ in train; rank 1 is not there: ", stands["message"])
        assert f"it is at train.py:{line} in reward_function" in stands["message"]
        evidence = stands["evidence"][0]
        assert (Path(evidence["source"]).name, evidence["line"]) == ("train.py", line)
        assert "time.sleep(600)" in evidence["text"]
        assert "rank 0 began all_reduce number" in recorded["message"] and "rank 1 did not" in recorded["message"]
        assert report["incident"]["first_rank"] == "1" and report["incident"]["stage"] == "reward"
        again = hang(tmp_path, "--from", "kept")
        assert messages(again) == messages(report)
        assert program.runs

    def test_a_run_that_goes_on(self, run: Any, tmp_path: Path, py_spy: str) -> None:
        goes_on(tmp_path, run("yes").pid, seconds=3)


ENGINE = """
import sys
sys.path.insert(0, CHILDREN)
if __name__ == "__main__":
    from pathlib import Path
    import miniature
    model = Path("miniature")
    model.mkdir()
    miniature.make(model)
    from vllm import LLM, SamplingParams
    llm = LLM(model=str(model), max_model_len=512, enforce_eager=True)
    given = SamplingParams(max_tokens=400, ignore_eos=True)
    llm.generate(["hello"] * 4, given, use_tqdm=False)  # compiles kernels
    print("engine is up", flush=True)
    while True:
        llm.generate(["hello"] * 4, given, use_tqdm=False)
"""


@pytest.mark.engine
@pytest.mark.alone
def test_an_engine_that_was_stopped(start: Start, patient: Path, tmp_path: Path, py_spy: str) -> None:
    from tests.live import CHILDREN

    source = ENGINE.replace("CHILDREN", repr(str(CHILDREN)))
    # The engine's processes spin with sched_yield: in a session of its own, so with a scheduler's group of its own
    # (sched_autogroup), such a run kept others from two processors for half a minute at a time (Linux 6.18).
    program = start(source, "train.py", patient, session=False, VLLM_CPU_KVCACHE_SPACE="1", HF_HUB_OFFLINE="1")
    program.until("engine is up", seconds=300)
    report = hang(tmp_path, program.pid, "--seconds", 2, code=0)
    assert report["findings"] == [] and report["incident"]["kind"] == "unfinished"
    below = psutil.Process(program.pid).children()
    (engine,) = [process for process in below if "EngineCore" in " ".join(process.cmdline())]
    engine.suspend()
    report = hang(tmp_path, program.pid, "--seconds", 1, code=1)
    assert list(messages(report)) == ["RLD609"]
    assert f"VLLM::EngineCore (pid {engine.pid}) is stopped by a signal" in messages(report)["RLD609"]
    assert engine.status() == psutil.STATUS_STOPPED


RAY = """
import time
import ray
ray.init(address="local", num_cpus=2, include_dashboard=False)
@ray.remote(num_cpus=1)
class Rollout:
    def generate(self): time.sleep(600)
    def up(self): return True
@ray.remote(num_gpus=8)
class Trainer:
    def step(self): return 1
rollout = Rollout.options(name="rollout_0").remote()
ray.get(rollout.up.remote())
trainer = Trainer.options(name="trainer_0").remote()
waiting = rollout.generate.remote()
print("asked for", flush=True)
ray.get(trainer.step.remote())
"""


@pytest.mark.ray
def test_an_actor_that_stays_pending(start: Start, python_with_ray: Path, tmp_path: Path, py_spy: str) -> None:
    program = start(RAY, "train.py", python_with_ray, RAY_USAGE_STATS_ENABLED="0")
    program.until("asked for")
    deadline = time.monotonic() + 60
    # The cluster's own report of what is asked for comes every few seconds.
    while "RLD602" not in messages(report := hang(tmp_path, program.pid, "--seconds", 1)):
        assert time.monotonic() < deadline, report
    assert "Ray is asked for 1 CPU, 8 GPU on one node, and no node has that" in messages(report)["RLD602"]
    (finding,) = [f for f in report["findings"] if f["code"] == "RLD602"]
    assert "actor trainer_0 (Trainer) is PENDING_CREATION" in finding["evidence"][0]["text"]
    kept = next(tmp_path.glob("rldoctor-hang-*"))
    assert any("generate" in file.name for file in (kept / "stacks").iterdir())


RAY_WORKS = """
import ray
ray.init(address="local", num_cpus=1, include_dashboard=False)
@ray.remote(num_cpus=1)
class Rollout:
    def generate(self):
        print("generating", flush=True)
        while True: self.step()
    def step(self): return sum(i * i for i in range(3000))
ray.get(Rollout.remote().generate.remote())
"""


@pytest.mark.ray
def test_an_actor_that_works(start: Start, python_with_ray: Path, tmp_path: Path, py_spy: str) -> None:
    program = start(RAY_WORKS, "train.py", python_with_ray, RAY_USAGE_STATS_ENABLED="0")
    program.until("generating")
    goes_on(tmp_path, program.pid)
