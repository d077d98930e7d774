"""Records of stalled runs, written by hand: what a test changes stands in the test."""

from __future__ import annotations

from typing import Any

import msgspec

from rldoctor.api import Case, Finding
from rldoctor.hang.model import NAME, Hang, LogTail, Seen, Thread
from rldoctor.judge import judge_one
from rldoctor.logs.model import Frame
from rldoctor.model import CheckResult
from tests.loaded import REGISTRY

C10D = "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
LOGGER = "/env/lib/python3.11/site-packages/torch/distributed/c10d_logger.py"
CORE = "/env/lib/python3.11/site-packages/vllm/v1/engine/core.py"
CLIENT = "/env/lib/python3.11/site-packages/vllm/v1/engine/core_client.py"
LLM = "/env/lib/python3.11/site-packages/vllm/entrypoints/llm.py"
QUEUE = "/usr/lib/python3.11/queue.py"

# A log that has been quiet for much longer than its steps take, and one of a run that is within its pace.
STANDS = LogTail(file="/srv/run.log", quiet=900.0, limit=20.0)
IN_PACE = LogTail(file="/srv/run.log", quiet=15.0, limit=20.0)

MAIN = Frame("/srv/train.py", 40, "<module>", "train()")
ALL_REDUCE = (
    MAIN,
    Frame("/srv/train.py", 12, "train", "dist.all_reduce(loss)"),
    Frame(LOGGER, 83, "_exception_logger.<locals>.wrapper"),
    Frame(C10D, 3252, "all_reduce"),
)
BROADCAST = (
    MAIN,
    Frame("/srv/train.py", 20, "train", "dist.broadcast(x, 0)"),
    Frame(LOGGER, 83, "_exception_logger.<locals>.wrapper"),
    Frame(C10D, 3000, "broadcast"),
)
REWARD = (MAIN, Frame("/srv/reward.py", 5, "compute_score", "requests.post(url)"))
SAVE = (MAIN, Frame("/env/lib/python3.11/site-packages/torch/serialization.py", 9, "save_checkpoint"))
GENERATE = (
    MAIN,
    Frame(LLM, 470, "LLM.generate"),
    Frame(CLIENT, 993, "SyncMPClient.get_output"),
    Frame(QUEUE, 171, "Queue.get"),
)
ENGINE_IDLE = (
    Frame(CORE, 1496, "EngineCoreProc.run_engine_core"),
    Frame(CORE, 1580, "EngineCoreProc._process_input_queue"),
    Frame(QUEUE, 171, "Queue.get"),
)


def seen(
    pid: int, frames: tuple[Frame, ...] = (), *earlier: tuple[Frame, ...], role: str = "other", **more: Any
) -> Seen:
    """A process whose main thread stood in ``frames`` in the last sample, and in ``earlier`` in others."""
    cpu = more.pop("cpu", 0.0)
    state = more.get("state", "S")
    thread = Thread(id=pid, name="MainThread", main=True, frames=frames, earlier=earlier, cpu=cpu, state=state)
    about = {"threads": (thread,), "samples": 5 if frames else 0, "state": state, "host": "one", "cpu": cpu}
    reported = {**about, "log": STANDS, **more}
    return Seen(pid=pid, parent=1, role=role, name=reported.pop("name", "train.py"), **reported)


def rank(number: int, frames: tuple[Frame, ...], *earlier: tuple[Frame, ...], size: int = 2, **more: Any) -> Seen:
    """A rank of a world of ``size`` on one host."""
    local = str(more.pop("local", size))
    world = {"RANK": str(number), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": local, "MASTER_PORT": "29500"}
    return seen(100 + number, frames, *earlier, role="rank", rank=str(number), environment=world, **more)


def hang(*processes: Seen, **more: Any) -> Hang:
    return Hang(**{"seconds": 5.0, "taken": 0.0, "hosts": ("one",), "processes": processes, **more})


def case(record: Hang) -> Case:
    return Case(observations={NAME: msgspec.to_builtins(record)})


def judged(code: str, record: Hang) -> CheckResult:
    """What the check of a code says of a record."""
    return judge_one(REGISTRY.checks[code], _only_hang(record))


def findings(code: str, record: Hang) -> tuple[Finding, ...]:
    """The findings of a check, which must not have crashed."""
    result = judged(code, record)
    assert result.traceback is None, result.traceback
    return result.findings


def _only_hang(record: Hang) -> Case:
    """A case in which only the hang is known, so that a check's other detectors stay out of it."""
    reported = case(record)
    absent = dict.fromkeys(("plan", "packages", "host", "metrics", "environment"), "not in this test")
    return Case(observations=reported.observations, absent=absent)
