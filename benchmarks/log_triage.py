"""`rldoctor triage` on logs of 64 interleaved ranks with one cause, as a whole process, against ripgrep with all its
literals.

Targets: at most twice ripgrep's time on 1 GiB, at most 100 MiB, time linear in size from 10 MiB to 4 GiB, 1 MB in
0.4 s, the right incident. `python -m benchmarks.log_triage 1 10 100 1024 4096` measures those sizes (in MiB), with
`--baseline` also the comparison with a healthy log of the same size."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Cost, median, run_once
from rldoctor.catalogue import registry
from rldoctor.logs.table import Table

RANKS, GUILTY = 64, 17
MEBIBYTE = 1 << 20
# Larger logs are measured once, for each run takes seconds.
ONCE = 2048

_ORDINARY = (
    "INFO 11-20 21:24:33 [trainer.py:412] micro batch {} of 8 done, tokens per second {}",
    "INFO 11-20 21:24:33 [rollout.py:77] request {} finished after {} tokens",
    "DEBUG:asyncio:poll {} took {} ms",
    "reward model answered request {} with 0.{}",
    "{}|####      | {}/1000 [00:12<04:11,  2.30it/s]",
)
_STEP = "{{'loss': '0.0{}', 'grad_norm': '1.{}', 'reward': '0.8', 'reward_std': '0.2', 'epoch': '0.1'}}"
_CAUSE = """\
Traceback (most recent call last):
  File "/home/user/rl/train.py", line 40, in <module>
    trainer.train()
  File "/opt/venv/lib/python3.11/site-packages/transformers/trainer.py", line 2059, in training_step
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 13.91 GiB. GPU 1 has a total capacity of 79.11 GiB of \
which 5.06 GiB is free."""
_CASCADE = """\
Traceback (most recent call last):
  File "/home/user/rl/train.py", line 40, in <module>
    trainer.train()
  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 5356, in barrier
    work.wait()
RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:24463."""


def write_log(path: Path, size: int, seed: int = 7) -> None:
    """A log of about ``size`` bytes in which rank 17 runs out of memory and the others lose the connection to it."""
    rnd = random.Random(seed)
    blocks = [_ordinary(rnd) for _ in range(8)]
    with path.open("wb") as sink:
        while sink.tell() + MEBIBYTE < size:
            sink.write(rnd.choice(blocks))
        sink.write(blocks[0][: max(0, size - sink.tell() - 100_000)].rpartition(b"\n")[0] + b"\n")
        waiting = {GUILTY: _CAUSE.split("\n")}
        while waiting:
            rank = rnd.choice(list(waiting))
            sink.write(f"[rank{rank}]: {waiting[rank].pop(0)}\n".encode())
            if not waiting[rank]:
                del waiting[rank]
                if rank == GUILTY:
                    waiting = {r: _CASCADE.split("\n") for r in range(RANKS) if r != GUILTY}


def _ordinary(rnd: random.Random) -> bytes:
    lines: list[str] = []
    length = 0
    while length < MEBIBYTE:
        text = rnd.choice(_ORDINARY) if rnd.random() > 0.001 else _STEP
        lines.append(f"[rank{rnd.randrange(RANKS)}]: {text.format(rnd.randrange(100), rnd.randrange(1000))}\n")
        length += len(lines[-1])
    return "".join(lines).encode()


def main(sizes: list[int], compared: bool) -> None:
    doctor = str(Path(sys.executable).with_name("rldoctor"))
    peer = shutil.which("rg") or shutil.which("grep")
    literals = [use.literal for use in Table(registry.load().checks.values()).uses]
    with tempfile.TemporaryDirectory() as scratch:
        patterns, log, healthy = (Path(scratch, name) for name in ("literals", "run.log", "healthy.log"))
        patterns.write_text("\n".join(literals) + "\n")
        for size in sizes:
            write_log(log, size * MEBIBYTE)
            triage = _measured([doctor, "triage", str(log), "--format", "json"], size)
            print(f"{'rldoctor triage':16} {size:5d} MiB  {_reported(triage)}  {_answer(doctor, log)}", flush=True)
            if peer is not None:
                search = _measured([peer, "-a", "-F", "-f", str(patterns), str(log)], size)
                of_cpu = triage.cpu_seconds / search.cpu_seconds
                ratio = f"ratio {triage.seconds / search.seconds:.1f} ({of_cpu:.1f} of CPU)"
                print(f"{Path(peer).name:16} {size:5d} MiB  {_reported(search)}  {ratio}", flush=True)
            if compared:
                healthy.unlink(missing_ok=True)
                write_log(healthy, size * MEBIBYTE, seed=8)
                command = [doctor, "triage", str(log), "--baseline", str(healthy), "--format", "json"]
                print(f"{'with --baseline':16} {size:5d} MiB  {_reported(_measured(command, size))}", flush=True)


def _measured(command: list[str], size: int) -> Cost:
    return run_once(command) if size >= ONCE else median(command, runs=3)


def _reported(cost: Cost) -> str:
    return f"{cost.seconds:7.2f} s  {cost.cpu_seconds:7.2f} s of CPU  {cost.peak_mib:4.0f} MiB"


def _answer(doctor: str, log: Path) -> str:
    done = subprocess.run([doctor, "triage", str(log), "--format", "json"], capture_output=True, check=False)
    report = json.loads(done.stdout)
    codes = [finding["code"] for finding in report["findings"]]
    right = codes[:1] == ["RLD206"] and report["incident"]["first_rank"] == str(GUILTY)
    return f"{'right' if right else 'WRONG'}: {codes[:2]} on rank {report['incident']['first_rank']}"


if __name__ == "__main__":
    given = [argument for argument in sys.argv[1:] if argument != "--baseline"]
    main([int(size) for size in given] or [1, 10, 100, 1024], compared="--baseline" in sys.argv)
