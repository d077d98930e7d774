"""One rank of a small job: joins the group that the launcher describes, and runs each collective once with numbers
whose result is known.

Started by torchrun as ``collective_rank.py DIRECTORY``, which holds ``arguments.json`` (``backends``; ``devices``, a
GPU for each local rank, none for the CPU; ``seconds``, how long a collective may take) and receives ``rankN.jsonl``;
``starts``, where a job spans nodes the number of each one's first rank. Records: ``place``, ``stage``, ``device``,
``collectives`` (a row each, ``state`` ``called`` or ``done``); from three ranks on ``measured`` (``rounds``: when this
rank began each of some equal pieces of work and when it came to the collective after it, by the clock that all
processes of a host share; ``pairs``: what the pairs of which it is the first exchanged, ``worst``: when they were held
up most); between GPUs ``bandwidth`` and ``peer``."""

from __future__ import annotations

import datetime
import os
import sys
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

from report import emit, run, stage

NUMBERS = 4096
BANDWIDTH_BYTES = 64 << 20
PEER_BYTES = 16 << 20
ROUNDS = 5
# Of equal pieces of work, so many that one in which another rank was held up does not hide the slow one.
PIECES = 9
# What a pair exchanges at a time, and how often: short enough that on a busy host the best of them is undisturbed.
PAIR_BYTES = {"cpu": 2 << 20, "cuda": 16 << 20}
PAIR_ROUNDS = 4
# How often all pairs have their turn: what holds one up passes, a slow link stays.
TURNS = 3
# Pairs go one after the other: 120 of 16 ranks, 496 of 32 nodes.
MOST_PAIRED, MOST_NODES = 16, 32
# Multiplications of square matrices, tens of milliseconds on either.
WORK = {"cpu": (200, 256), "cuda": (20, 4096)}


def main(arguments: dict[str, Any]) -> None:
    rank, world, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    emit("place", {"rank": rank, "local_rank": local, "world": world, "pid": os.getpid()})
    stage("import")
    import torch
    import torch.distributed as dist

    stage("device")
    devices = arguments["devices"]
    gpu = devices[local] if devices else None
    if gpu is not None:
        torch.cuda.set_device(gpu)
    emit("device", device_facts(gpu))
    stage("meeting")
    meet(Path(arguments["directory"]), rank, world, int(os.environ["LOCAL_WORLD_SIZE"]))
    limit = datetime.timedelta(seconds=arguments["seconds"])
    calls = Calls()
    for number, backend in enumerate(arguments["backends"]):
        stage(f"{backend} group")
        if number == 0:
            dist.init_process_group(backend, timeout=limit)
        # NCCL connects its ranks with their first collective, so that belongs to the set-up.
        group = dist.group.WORLD if number == 0 else dist.new_group(backend=backend, timeout=limit)
        place = f"cuda:{gpu}" if backend == "nccl" else "cpu"
        dist.all_reduce(torch.ones(1, device=place), group=group)
        finished(place)
        calls.run(backend, place, group, rank, world)
    if world > 2:
        stage("measuring")
        place = "cpu" if gpu is None else f"cuda:{gpu}"
        times = rounds(place)
        best, worst = pairs(place, rank, paired(world, arguments["starts"]))
        emit("measured", {"rounds": times, "pairs": best, "worst": worst})
    if gpu is not None and world > 1:
        stage("bandwidth")
        emit("bandwidth", bandwidth(f"cuda:{gpu}", world))
        neighbour = devices[(local + 1) % len(devices)]
        if neighbour != gpu:
            emit("peer", peer(gpu, neighbour))
    stage("end")
    dist.destroy_process_group()


def meet(directory: Path, rank: int, world: int, here: int) -> None:
    """Waits for the other ranks, so that one whose import took long is not taken for one that cannot be reached. The
    job's own time limit ends it."""
    (directory / f"here{rank}").touch()
    while len(list(directory.glob("here*"))) < here:
        time.sleep(0.02)
    if here < world:
        import torch.distributed as dist

        store = next(iter(dist.rendezvous("env://")))[0]
        store.set(f"here{rank}", "")
        store.wait([f"here{other}" for other in range(world)], datetime.timedelta(hours=1))


class Calls:
    """Runs collectives and keeps what is known of each, also of the one that never ends."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def run(self, backend: str, place: str, group: Any, rank: int, world: int) -> None:
        import torch
        import torch.distributed as dist

        numbers = torch.arange(NUMBERS, dtype=torch.float32, device=place)
        mine = numbers + rank
        last = world - 1
        with Call(self, backend, "all_reduce", place) as call:
            summed = mine.clone()
            dist.all_reduce(summed, group=group)
            call.compare([summed], [numbers * world + sum(range(world))])
        with Call(self, backend, "all_gather", place) as call:
            gathered = [torch.empty_like(mine) for _ in range(world)]
            dist.all_gather(gathered, mine, group=group)
            call.compare(gathered, [numbers + other for other in range(world)])
        with Call(self, backend, "broadcast", place) as call:
            sent = mine.clone()
            dist.broadcast(sent, src=last, group=group)
            call.compare([sent], [numbers + last])


class Call:
    """One collective: announced before, timed and compared after."""

    def __init__(self, calls: Calls, backend: str, name: str, place: str) -> None:
        self.calls, self.place = calls, place
        self.row: dict[str, Any] = {"backend": backend, "name": name, "state": "called"}

    def __enter__(self) -> Call:
        announce(f"{self.row['backend']} {self.row['name']}")
        self.calls.rows.append(self.row)
        emit("collectives", self.calls.rows)
        self.began = time.monotonic()
        return self

    def compare(self, got: list[Any], expected: list[Any]) -> None:
        """How many of the numbers are wrong."""
        finished(self.place)
        self.row["seconds"] = round(time.monotonic() - self.began, 6)
        self.row["wrong"] = sum(int((one != expected[place]).sum()) for place, one in enumerate(got))
        self.row["numbers"] = sum(one.numel() for one in got)

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.row["state"] = "done"
            emit("collectives", self.calls.rows)


def announce(what: str) -> None:
    """Says which collective this rank is about to call."""
    stage(what)


def finished(place: str) -> None:
    """Waits for what was given to a GPU."""
    if place != "cpu":
        import torch

        torch.cuda.synchronize()


def rounds(place: str) -> list[dict[str, float]]:
    """The same work on every rank, a collective after each piece: who comes last, and how long it took there."""
    import torch
    import torch.distributed as dist

    found = []
    work(place)  # what comes first is slower, on all of them
    for _ in range(PIECES):
        dist.all_reduce(torch.ones(1, device=place))
        finished(place)
        began = time.monotonic()
        work(place)
        finished(place)
        found.append({"began": round(began, 6), "arrived": round(time.monotonic(), 6)})
        dist.all_reduce(torch.ones(1, device=place))
        finished(place)
    return found


def kind(place: str) -> str:
    """``cpu`` or ``cuda``."""
    return place.partition(":")[0]


def work(place: str) -> None:
    """A piece of work of one size."""
    import torch

    times, size = WORK[kind(place)]
    one = torch.full((size, size), 1 / size, device=place)
    for _ in range(times):
        one = one @ one


def paired(world: int, starts: list[int]) -> list[int]:
    """The ranks that exchange with each other: all of them where these are few, else one of each node."""
    return (list(range(world)) if world <= MOST_PAIRED or not starts else starts)[:MOST_NODES]


def pairs(place: str, rank: int, paired: list[int]) -> tuple[dict[str, float], dict[str, float]]:
    """What this rank and each higher one exchange, both ways at once and nobody else meanwhile, in 10^9 bytes per
    second: the best of some rounds, at the best of several times and at the worst of them."""
    import torch
    import torch.distributed as dist

    best: dict[str, float] = {}
    worst: dict[str, float] = {}
    for first, second in [pair for _ in range(TURNS) for pair in combinations(paired, 2)]:
        dist.all_reduce(torch.ones(1, device=place))
        finished(place)
        if rank in (first, second):
            spent = min(exchange(place, second if rank == first else first) for _ in range(PAIR_ROUNDS))
            if rank == first:
                name, rate = f"{first}-{second}", round(2 * PAIR_BYTES[kind(place)] / spent / 1e9, 3)
                best[name], worst[name] = max(rate, best.get(name, rate)), min(rate, worst.get(name, rate))
    return best, worst


def exchange(place: str, other: int) -> float:
    """Seconds for one exchange with another rank."""
    import torch
    import torch.distributed as dist

    mine = torch.ones(PAIR_BYTES[kind(place)] // 4, device=place)
    theirs = torch.empty_like(mine)
    finished(place)
    began = time.monotonic()
    for one in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, other), dist.P2POp(dist.irecv, theirs, other)]):
        one.wait()
    finished(place)
    return time.monotonic() - began


def device_facts(gpu: int | None) -> dict[str, Any]:
    """Name and UUID of this rank's GPU (None where torch does not tell it, before 2.4)."""
    if gpu is None:
        return {"device": "cpu", "uuid": None, "name": None}
    import torch

    reported = torch.cuda.get_device_properties(gpu)
    uuid = getattr(reported, "uuid", None)
    return {"device": f"cuda:{gpu}", "uuid": None if uuid is None else str(uuid), "name": reported.name}


def bandwidth(place: str, world: int) -> dict[str, float]:
    """Bus bandwidth of a large all_reduce, in 10^9 bytes per second as nccl-tests counts it
    (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md)."""
    import torch
    import torch.distributed as dist

    load = torch.ones(BANDWIDTH_BYTES // 4, device=place)
    dist.all_reduce(load)
    finished(place)
    began = time.monotonic()
    for _ in range(ROUNDS):
        dist.all_reduce(load)
    finished(place)
    spent = (time.monotonic() - began) / ROUNDS
    return {"bytes": BANDWIDTH_BYTES, "seconds": round(spent, 6), "gb_per_s": _rate(BANDWIDTH_BYTES, spent, world)}


def _rate(size: int, seconds: float, world: int) -> float:
    return round(2 * (world - 1) / world * size / seconds / 1e9, 3)


def peer(gpu: int, other: int) -> dict[str, Any]:
    """Whether this GPU reads the next one directly, how fast a copy between them is, and how many bytes differ after
    it: with PCIe access control between them such copies may come out wrong without an error."""
    import torch

    source = torch.arange(PEER_BYTES, device=f"cuda:{gpu}", dtype=torch.int32).to(torch.uint8)
    source.to(f"cuda:{other}")
    torch.cuda.synchronize(other)
    began = time.monotonic()
    copied = source.to(f"cuda:{other}")
    torch.cuda.synchronize(other)
    torch.cuda.synchronize(gpu)
    spent = time.monotonic() - began
    return {
        "devices": [gpu, other],
        "direct": torch.cuda.can_device_access_peer(gpu, other),
        "wrong": int((copied.cpu() != source.cpu()).sum()),
        "gb_per_s": round(PEER_BYTES / spent / 1e9, 3),
    }


def start(main: Callable[[dict[str, Any]], None] = main) -> None:
    """Speaks the protocol of ``report`` into a file: torchrun hands no pipe on."""
    directory = Path(sys.argv[1])
    channel = os.open(directory / f"rank{os.environ['RANK']}.jsonl", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    sys.argv[1:] = [str(channel), str(directory / "arguments.json")]
    run(main)


if __name__ == "__main__":
    start()
