"""Ten ways of starting times five stalls, two more in some of them, and five of ten healthy slow runs in each: whether
``rldoctor hang`` names the culprit, and keeps quiet where there is none.

python -m benchmarks.stalls --python PYTHON [--ways WAY ...] [--kinds KIND ...]

PYTHON is an environment with torch; a way whose launcher it lacks (accelerate, deepspeed, ray) is left out, and said.
Three real ranks meet over gloo in each run."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

RANKS = 3
CULPRIT = 1
PATIENCE = 120.0
# So long a stall lasts at least before it is looked at, and so many of its steps: well beyond its own pace, which on a
# busy machine is slow.
QUIET, STEPS, PATIENT_STEPS = 25.0, 12, 6.0
# A rank that is not there yet is not missing: only later it is looked for.
STARTED = 40.0
SECONDS = 2.0

# One training program. STALL says what the culprit does after some steps; a healthy run goes on in its own pace.
PROGRAM = """
import fcntl, os, signal, socket, subprocess, sys, threading, time
HERE = os.path.dirname(os.path.abspath(__file__))

def place():
    for rank, size in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
                       ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")):
        if rank in os.environ:
            return int(os.environ[rank]), int(os.environ[size])

class Prompts:
    def __len__(self): return 100
    def __getitem__(self, index):
        time.sleep(600)

def sleep(rank): time.sleep(600)
def stopped(rank): os.kill(os.getpid(), signal.SIGSTOP)
def tcp(rank):
    with socket.create_connection(("127.0.0.1", int(os.environ["SERVER"]))) as reward:
        reward.sendall(b"score this")
        reward.recv(100)
def lock(rank):
    with open(os.path.join(HERE, "lock"), "w") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
def loader(rank):
    from torch.utils.data import DataLoader
    next(iter(DataLoader(Prompts(), num_workers=1)))
def child(rank): subprocess.run([sys.executable, "-c", "import time; time.sleep(600)"])
def pipe(rank):
    tool = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdout=subprocess.PIPE)
    tool.stdout.readline()
def http(rank):
    import urllib.request
    urllib.request.urlopen(f"http://127.0.0.1:{os.environ['SERVER']}/score").read()
def event(rank): threading.Event().wait()
def forked(rank):
    import multiprocessing
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.map(time.sleep, [600])

def slow_sleep(): time.sleep(6)
def slow_compute():
    until = time.time() + 6
    import torch
    big = torch.rand(600, 600)
    while time.time() < until: big @ big
def slow_server():
    with socket.create_connection(("127.0.0.1", int(os.environ["SLOW"]))) as reward:
        reward.sendall(b"score this")
        reward.recv(100)
def slow_tool():
    subprocess.run([sys.executable, "-c", "import time; end = time.time() + 6\\nwhile time.time() < end: pass"])
class Slowly:
    def __len__(self): return 2
    def __getitem__(self, index):
        time.sleep(3)
        return index
def slow_loader():
    from torch.utils.data import DataLoader
    list(DataLoader(Slowly(), num_workers=1))
def slow_checkpoint():
    for _ in range(12):
        with open(os.path.join(HERE, "checkpoint"), "wb") as opened:
            opened.write(bytes(5_000_000))
            os.fsync(opened.fileno())
        time.sleep(0.5)
def busy(seconds):
    until = time.time() + seconds
    while time.time() < until: pass
def slow_compilers():
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        pool.submit(busy, 6).result()
def slow_download():
    with socket.create_connection(("127.0.0.1", int(os.environ["TRICKLE"]))) as hub:
        while hub.recv(100): pass
def slow_preparation():
    import multiprocessing
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(busy, [3, 3])
def slow_step(): time.sleep(45)
HEALTHY = {"sleeps": slow_sleep, "computes": slow_compute, "asks": slow_server, "evaluates": slow_tool,
           "loads": slow_loader, "saves": slow_checkpoint, "compiles": slow_compilers, "downloads": slow_download,
           "prepares": slow_preparation, "long steps": slow_step}

def train(rank, size):
    import torch
    import torch.distributed as dist
    open(os.path.join(HERE, f"pid{rank}"), "w").write(str(os.getpid()))
    stall, culprit = os.environ["STALL"], rank == int(os.environ["CULPRIT"])
    if stall == "missing":
        # Later gloo would tell the others, who would end.
        open(os.path.join(HERE, f"stalls{rank}"), "w").close()
        if culprit: os._exit(0)
    dist.init_process_group("gloo", rank=rank, world_size=size, init_method=os.environ.get("MEETS", "env://"))
    first, second = dist.new_group(), dist.new_group()
    pairs = [dist.new_group([one, (one + 1) % size]) for one in range(size)]
    if "TORCH_FR_BUFFER_SIZE" in os.environ:
        threading.Thread(target=record, args=(rank,), daemon=True).start()
    for step in range(10000):
        x = torch.ones(8)
        if stall in HEALTHY:
            if culprit and step > 2: HEALTHY[stall]()
        elif step == 12:  # STEPS
            open(os.path.join(HERE, f"stalls{rank}"), "w").close()
            if stall == "order":
                crossed(rank, culprit, first, second, dist, x)
            elif stall == "helped":
                helped(culprit, first, second, dist, x)
            elif stall == "ring":
                dist.all_reduce(x, group=pairs[rank])
                dist.all_reduce(x, group=pairs[rank - 1])
            elif culprit:
                globals()[stall](rank)
        time.sleep(0.3)
        if stall == "ring":
            for one in sorted((rank, (rank - 1) % size)):
                dist.all_reduce(x, group=pairs[one])
        dist.all_reduce(x, group=first)
        if rank == 0: print(f"step {step} loss {1 / (step + 1):.4f}", flush=True)

def record(rank):
    # As the ranks of NCCL do when they are asked to; gloo keeps a record and nobody asks.
    import torch._C._distributed_c10d as c10d
    file = os.environ["TORCH_FR_DUMP_TEMP_FILE"] + str(rank)
    while True:
        open(file + ".new", "wb").write(c10d._dump_fr_trace())
        os.replace(file + ".new", file)
        time.sleep(1)

def crossed(rank, culprit, first, second, dist, x):
    if culprit:
        dist.all_reduce(x, group=second)
        dist.all_reduce(x, group=first)
    else:
        dist.all_reduce(x, group=first)
        dist.all_reduce(x, group=second)

def reduce(dist, x, group):
    dist.all_reduce(x, group=group)

def helped(culprit, first, second, dist, x):
    if culprit:
        reduce(dist, x, second)
        reduce(dist, x, first)
    else:
        reduce(dist, x, first)
        reduce(dist, x, second)

def spawned(rank):
    train(rank, int(os.environ["WORLD_SIZE"]))

if __name__ == "__main__":
    if "SPAWNS" in os.environ:
        import torch.multiprocessing
        torch.multiprocessing.spawn(spawned, nprocs=int(os.environ["WORLD_SIZE"]))
    else:
        train(*place())
"""

RAY = """
import os, sys
HERE = os.path.dirname(os.path.abspath(__file__))
import ray
ray.init(address="local", num_cpus=4, include_dashboard=False, _temp_dir=os.environ["RAY_FOLDER"])
@ray.remote(num_cpus=1)
class Trainer:
    def fit(self, rank, size):
        sys.path.insert(0, HERE)
        import rank as program
        program.train(rank, size)
trainers = [Trainer.remote() for _ in range(3)]
for ref in [trainer.fit.remote(rank, 3) for rank, trainer in enumerate(trainers)]:
    ray.get(ref)
"""

SPAWNS = """
import os, subprocess, sys
ranks = [subprocess.Popen([sys.executable, "rank.py"], env={**os.environ, "RANK": str(r)}) for r in range(3)]
for rank in ranks: rank.wait()
"""


@dataclass
class Started:
    """What was started for one run, and the folder in which it runs."""

    folder: Path
    processes: list[subprocess.Popen[bytes]]

    def pid(self, rank: int) -> int:
        return int((self.folder / f"pid{rank}").read_text())


Way = Callable[[Path, str, dict[str, str]], list[list[str]]]


def _own(python: str, names: Mapping[str, str]) -> list[list[str]]:
    """A process for each rank, with nothing in common."""
    made = []
    for rank in range(RANKS):
        pairs = [f"{name}={value.format(rank=rank)}" for name, value in names.items()]
        made.append(["env", *pairs, python, "rank.py"])
    return made


def _shell(python: str, line: str) -> list[list[str]]:
    loop = f"for r in {' '.join(map(str, range(RANKS)))}; do {line.format(python=python)} & done; wait"
    return [["bash", "-c", loop]]


WAYS: dict[str, Way] = {
    "torchrun": lambda folder, python, port: [
        [python, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS), "--master-port", port["port"],
         "--no-python", python, "rank.py"]
    ],
    "accelerate": lambda folder, python, port: [
        [python, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", str(RANKS), "--num_machines",
         "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", port["port"], "rank.py"]
    ],
    "deepspeed": lambda folder, python, port: [
        [python, "-m", "deepspeed.launcher.runner", "--num_gpus", str(RANKS), "--master_port", port["port"], "rank.py"]
    ],
    "srun": lambda folder, python, port: _shell(
        python, f"SLURM_PROCID=$r SLURM_STEP_NUM_TASKS={RANKS} SLURM_JOB_ID=8812 SLURM_STEP_ID=0 "
        "SLURM_STEP_NUM_NODES=1 {python} rank.py"
    ),
    "mpirun": lambda folder, python, port: _own(
        python, {"OMPI_COMM_WORLD_RANK": "{rank}", "OMPI_COMM_WORLD_SIZE": str(RANKS),
                 "OMPI_COMM_WORLD_LOCAL_SIZE": str(RANKS),
                 "PMIX_NAMESPACE": f"prterun-{port['port']}@1"}
    ),
    "ray": lambda folder, python, port: [[python, "driver.py"]],
    "subprocess": lambda folder, python, port: [[python, "parent.py"]],
    "setsid": lambda folder, python, port: _shell(python, "RANK=$r setsid {python} rank.py"),
    # As on two nodes: a torchrun for one rank and one for two.
    "two nodes": lambda folder, python, port: [
        [python, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(node), "--nproc-per-node",
         str(count), "--master-addr", "127.0.0.1", "--master-port", port["port"], "--no-python", python, "rank.py"]
        for node, count in enumerate((1, RANKS - 1))
    ],
    "spawn": lambda folder, python, port: [["env", "SPAWNS=1", python, "rank.py"]],
}  # fmt: skip
NEEDS = {"accelerate": "accelerate", "deepspeed": "deepspeed", "ray": "ray"}
# How each way's ranks find each other: by torch's variables, or by an address that the program gives itself.
BY_VARIABLES = ("subprocess", "setsid", "spawn")
# In these ways the ranks keep flight records.
RECORDS = ("torchrun", "ray", "setsid")

WAITS = ("tcp", "lock", "loader", "child", "pipe", "http", "event", "forked")
SLOW = (
    *("sleeps", "computes", "asks", "evaluates", "loads"),
    *("saves", "compiles", "downloads", "prepares", "long steps"),
)
STALLS = ("sleep", "missing", "order", "stopped", "waits")
# Ranks that wait for each other in a ring of pairs: their records alone tell, so only some ways have it.
RING = "ring"
# Two groups in another order through one helper: without records the lines that call it tell.
HELPED = "helped"
KINDS = (*STALLS, RING, HELPED, *SLOW)


def plays(way: str, kind: str) -> bool:
    """Whether a way of starting has a run of that kind."""
    if kind in SLOW:
        return (list(WAYS).index(way) + SLOW.index(kind)) % 2 == 0
    return not ((kind == RING and way not in RECORDS) or (kind == HELPED and way in RECORDS))


def stall_of(kind: str, way: str) -> str:
    """What the program does: of several waits each way has one."""
    return WAITS[list(WAYS).index(way) % len(WAITS)] if kind == "waits" else kind


@contextlib.contextmanager
def servers() -> Iterator[dict[str, str]]:
    """A server that never answers, one that takes six seconds, and one that answers byte by byte for as long."""
    source = (
        "import socket, sys, threading, time\n"
        "def answer(one, seconds):\n time.sleep(seconds)\n one.send(b'0.5')\n one.close()\n"
        "def serve(listening, answering, seconds):\n"
        " while True:\n  one, _ = listening.accept()\n"
        "  threading.Thread(target=answering, args=(one, seconds), daemon=True).start()\n"
        "def drip(one, seconds):\n"
        " for _ in range(2 * seconds):\n  time.sleep(0.5)\n  one.send(b'x')\n one.close()\n"
        "three = [socket.create_server(('127.0.0.1', 0)) for _ in range(3)]\n"
        "print(*[one.getsockname()[1] for one in three], flush=True)\n"
        "threading.Thread(target=serve, args=(three[0], answer, 10000), daemon=True).start()\n"
        "threading.Thread(target=serve, args=(three[1], answer, 6), daemon=True).start()\n"
        "serve(three[2], drip, 6)\n"
    )
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        never, slow, trickle = serving.stdout.readline().split()
        yield {"SERVER": never, "SLOW": slow, "TRICKLE": trickle}
        serving.kill()


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@contextlib.contextmanager
def started(way: str, kind: str, python: str, folder: Path, ports: dict[str, str]) -> Iterator[Started]:
    """The run, ended with all that it started."""
    for name, text in (("rank.py", PROGRAM), ("driver.py", RAY), ("parent.py", SPAWNS)):
        (folder / name).write_text(text)
    (folder / "ray").mkdir()
    mark = f"{way}-{kind}-{os.getpid()}"
    environ = {
        **os.environ, **ports, "STALL": stall_of(kind, way), "CULPRIT": str(CULPRIT), "OMP_NUM_THREADS": "1",
        "RAY_FOLDER": str(folder / "ray"), "RAY_USAGE_STATS_ENABLED": "0", "STALLS_MARK": mark, "DS_ACCELERATOR": "cpu",
    }  # fmt: skip
    if way in RECORDS:
        environ.update(TORCH_FR_BUFFER_SIZE="200", TORCH_FR_DUMP_TEMP_FILE=str(folder / "fr_"))
    port = str(free_port())
    if way in BY_VARIABLES:
        environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, WORLD_SIZE=str(RANKS))
    elif way in ("srun", "mpirun", "ray"):
        environ["MEETS"] = f"tcp://127.0.0.1:{port}"
    held = subprocess.Popen(["flock", "--no-fork", str(folder / "lock"), "sleep", "600"])
    begun = []
    with (folder / "output.txt").open("wb") as output:
        for command in WAYS[way](folder, python, {"port": port}):
            begun.append(
                subprocess.Popen(
                    command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    start_new_session=True,
                )
            )  # fmt: skip
    try:
        yield Started(folder, begun)
    finally:
        for process in [*begun, held]:
            process.kill()
            process.wait()
        _end(mark)


def _end(mark: str) -> None:
    """Whatever still carries the mark of the run."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get("STALLS_MARK") == mark:
                process.kill()


def until(files: list[Path], begun: Started, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not all(file.exists() for file in files):
        if time.monotonic() > deadline:
            raise TimeoutError((begun.folder / "output.txt").read_text()[-2000:])
        time.sleep(0.2)


def looked_at(begun: Started) -> tuple[int, dict[str, Any]]:
    """The exit code and the report of ``rldoctor hang`` on the run of rank 0."""
    command = [sys.executable, "-m", "rldoctor", "hang", str(begun.pid(0)), "--seconds", f"{SECONDS:g}"]
    done = subprocess.run(
        [*command, "--folder", str(begun.folder / "kept"), "--format", "json", "--fail-on", "warning"],
        capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    if not done.stdout:
        raise RuntimeError(done.stderr)
    return done.returncode, json.loads(done.stdout)


def names_culprit(kind: str, pid: int, report: dict[str, Any]) -> bool:
    """Whether the first finding is about the culprit and says what is wrong with it."""
    grave = [one for one in report["findings"] if one["severity"] != "note"]
    if not grave:
        return False
    said = grave[0]["message"]
    who = rf"(?:\brank {CULPRIT}\b|[\w:.]+ \(pid {pid}\b[^)]*\))"
    patterns = {
        "sleep": rf"{who} is not there: .* in sleep\b",
        "missing": rf"{who} (?:has no process|is not among)|{who}.*has ended|{who} died",
        "order": rf"another order(?: by|:) {who}",
        HELPED: rf"another order: {who}",
        "stopped": rf"{who} is stopped",
        "waits": rf"{who} is not there: ",
        RING: r"^ranks wait for each other: rank 0 .* for rank 1, rank 1 .* for rank 2, rank 2 .* for rank 0",
    }
    return re.search(patterns[kind], said) is not None


def falsely_gone(kind: str, report: dict[str, Any]) -> bool:
    """Whether a rank that lives is said to have no process."""
    said = " ".join(one["message"] for one in report["findings"])
    gone = re.findall(r"rank(?:s)? ([\d, -]+) (?:has|have) no process", said)
    return any(one.strip() != str(CULPRIT) or kind != "missing" for one in gone)


def run(way: str, kind: str, python: str, ports: dict[str, str], keep: Path | None) -> dict[str, Any]:
    """One run: what was said, and whether that is right."""
    with tempfile.TemporaryDirectory(prefix="stalls-") as temporary:
        folder = keep / f"{way}-{kind}" if keep else Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        at = time.monotonic()
        with started(way, kind, python, folder, ports) as begun:
            until([folder / f"pid{rank}" for rank in range(RANKS)], begun, PATIENCE)
            if kind in SLOW:
                # Some slow steps go by, so that the run has a pace.
                time.sleep(QUIET + 10)
            else:
                until([folder / f"stalls{rank}" for rank in range(RANKS)], begun, PATIENCE)
                quiet = max(QUIET, PATIENT_STEPS * (time.monotonic() - at) / STEPS)
                time.sleep(STARTED if kind == "missing" else quiet)
            pid = begun.pid(CULPRIT)
            code, report = looked_at(begun)
    grave = [one for one in report["findings"] if one["severity"] != "note"]
    right = not grave and code != 1 if kind in SLOW else names_culprit(kind, pid, report)
    return {
        "way": way, "kind": kind, "stall": stall_of(kind, way), "right": right, "code": code,
        "gone": falsely_gone(kind, report),
        "said": [f"{one['severity']} {one['code']} {one['message']}" for one in report["findings"]],
    }  # fmt: skip


def main() -> None:
    """Runs the matrix, or a part of it, and prints a line for each run and the sums."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    done: list[dict[str, Any]] = []
    with servers() as ports:
        for way in given.ways:
            if way in NEEDS and subprocess.run([given.python, "-c", f"import {NEEDS[way]}"], check=False,
                                               capture_output=True).returncode:  # fmt: skip
                print(f"{way}: left out, {NEEDS[way]} is not in that environment", flush=True)
                continue
            for kind in given.kinds:
                if not plays(way, kind):
                    continue
                try:
                    one = run(way, kind, given.python, ports, given.keep)
                except (TimeoutError, RuntimeError, OSError, ValueError, subprocess.TimeoutExpired) as error:
                    one = {"way": way, "kind": kind, "stall": "", "right": False, "code": -1, "gone": False,
                           "said": [f"{type(error).__name__}: {error}"]}  # fmt: skip
                done.append(one)
                print(f"{'ok  ' if one['right'] else 'MISS'} {way:10} {kind:8} {one['stall']:8} exit {one['code']}"
                      f"{' FALSELY GONE' if one['gone'] else ''}", flush=True)  # fmt: skip
                for text in one["said"]:
                    print(f"       {text[:400]}", flush=True)
    stalls = [one for one in done if one["kind"] not in SLOW]
    healthy = [one for one in done if one["kind"] in SLOW]
    print(f"culprit named {sum(one['right'] for one in stalls)} of {len(stalls)}, "
          f"falsely gone {sum(one['gone'] for one in done)}, "
          f"healthy quiet {sum(one['right'] for one in healthy)} of {len(healthy)}")  # fmt: skip


if __name__ == "__main__":
    main()
