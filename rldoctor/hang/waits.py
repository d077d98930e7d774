"""What a stack waits for: a collective, the engine, Ray, a server, the device, or work that nobody gives it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rldoctor.logs.model import Frame
from rldoctor.records import dataclass

# kind, file, function. Of a stack the innermost frame decides that fits any row, and only where nothing but waiting
# goes on inside it: a worker's loop that calls the model waits for nothing. Names and files are those of torch 2.4 to
# 2.13, vLLM 0.8 to 0.32 and Ray 2.9 to 2.60.
_ROWS = (
    (
        "collective",
        r"torch/distributed/(?:distributed_c10d|_functional_collectives|nn/functional)\.py$|deepspeed/comm/\w+\.py$"
        r"|vllm/distributed/(?:parallel_state|communication_op|utils|device_communicators/(?!shm_broadcast)\w+)\.py$",
        r"_?all_(?:reduce|gather|to_all)\w*|_?broadcast\w*|(?:monitored_)?barrier|_?reduce\w*|_?gather\w*|_?scatter\w*"
        r"|i?send\w*|i?recv\w*|batch_isend_irecv|wait_tensor|init_process_group|new_group\w*|split_group"
        r"|_store_based_barrier|_new_process_group_helper",
    ),
    ("rendezvous", r"torch/distributed/(?:rendezvous|elastic/rendezvous/\w+)\.py$", r".*"),
    ("work", r"vllm/v1/engine/core\.py$", r"_process_input_queue|_wait_for_work\w*"),
    ("work", r"vllm/v1/executor/multiproc_executor\.py$", r"worker_busy_loop"),
    ("workers", r"vllm/v1/executor/multiproc_executor\.py$", r"get_response|collective_rpc|_wait_for_response|result"),
    ("engine", r"vllm/v1/engine/core_client\.py$", r"get_output\w*|call_utility\w*|_call_utility\w*|collective_rpc\w*"),
    ("engine", r"vllm/v1/engine/async_llm\.py$", r"generate|encode"),
    ("work", r"ray/_private/(?:worker|workers/\w+)\.py$", r"main_loop|<module>"),
    ("ray", r"ray/_private/worker\.py$", r"get|wait|get_objects"),
    ("ray", r"ray/util/placement_group\.py$", r"wait|ready"),
    (
        "server",
        r"-packages/(?:urllib3|requests|httpx|httpcore|aiohttp|openai)/|/http/client\.py$|/grpc/_channel\.py$",
        r".*",
    ),
    # Both ask again and again, which is no progress.
    ("file lock", r"-packages/filelock/\w+\.py$|torch/utils/file_baton\.py$", r"acquire|wait"),
    ("data", r"torch/utils/data/dataloader\.py$", r"_try_get_data|_get_data|_next_data"),
    (
        "processes",
        r"torch/distributed/elastic/|torch/multiprocessing/spawn\.py$|/subprocess\.py$",
        r"_?wait\w*|join|_invoke_run|communicate",
    ),
    ("processes", r"/multiprocessing/(?:popen_\w+|process)\.py$", r"join|poll|wait"),
    ("processes", r"/multiprocessing/(?:pool|connection)\.py$", r"_?(?:get|join|poll|recv|select|wait)\w*"),
    ("device", r"torch/cuda/\w+\.py$", r"synchronize|wait|query"),
    ("device", r"torch/autograd/graph\.py$", r"_engine_run_backward"),
)
_COMPILED = tuple((kind, re.compile(file), re.compile(f"(?:{function})$")) for kind, file, function in _ROWS)
# Only where nothing above fits: what every thread of an idle pool stands in.
_GENERIC = (
    ("work", re.compile(r"/asyncio/\w+\.py$|/(?:selectors|socketserver)\.py$|/concurrent/futures/thread\.py$|uvloop")),
    ("queue", re.compile(r"/queue\.py$|/multiprocessing/queues\.py$")),
    ("lock", re.compile(r"/threading\.py$")),
)
# Between a collective and its caller; a decorator's frame may lie in any of them.
_COMMUNICATION = re.compile(
    r"torch/distributed/(?:distributed_c10d|c10d_logger|_functional_collectives|nn/functional|rendezvous)\.py$"
    r"|torch/utils/_contextlib\.py$|deepspeed/(?:comm|utils)/\w+\.py$|vllm/distributed/|torch/_ops\.py$"
    r"|accelerate/utils/operations\.py$"
)
# What lies inside a wait: how it is done. Anything else there is work.
_MEANS = re.compile(
    r"-packages/(?:anyio|certifi|filelock|h11|httpcore|ray|sniffio|uvloop|zmq)/|torch/(?:multiprocessing|utils/data)/"
    r"|vllm/envs\.py$"
)
_WRAPPER = re.compile(r"^(?:wrapper|decorate_context|__call__|log_wrapper|span_wrapper)$")
# The host waits for what it had asked of the device: https://docs.pytorch.org/docs/stable/notes/cuda.html
_SYNCHRONISES = re.compile(r"\.(?:item|tolist|cpu|numpy)\(|synchronize\(|\.to\((?:device=)?[\"']cpu|\bnonzero\(")
# A native object's wait has no frame of its own; outside the standard library that is torch's Work or Future.
_AWAITS = re.compile(r"\.wait\(")
_GROUP = re.compile(r"\b(?:process_)?group\s*=\s*([\w.\[\]\"']+(?:\(\))?)")
_LIBRARY = re.compile(r"/lib(?:64)?/python\d[^/]*/(?!(?:site|dist)-packages/)|^<")

# Waits for the other ranks of a world.
MEETS = ("collective", "rendezvous")

WORDS = {
    "collective": "waits in {}",
    "rendezvous": "waits for the other ranks in {}",
    "work": "waits for work",
    "workers": "waits for its workers",
    "engine": "waits for the engine's answer",
    "ray": "waits for Ray",
    "server": "waits for a server's answer",
    "file lock": "waits for a file lock",
    "data": "waits for the data loader",
    "processes": "waits for another process",
    "device": "waits for the device",
    "queue": "waits at a queue",
    "lock": "waits for a lock or a thread",
}


@dataclass(frozen=True)
class Wait:
    """What is waited for. ``operation`` is the function that was called for it, ``caller`` the frame that called."""

    kind: str
    operation: str
    caller: Frame | None

    @property
    def group(self) -> str:
        """The group of a collective as its caller writes it (``self.tp_group``), empty where the line does not say."""
        found = _GROUP.search(self.caller.code) if self.caller is not None and self.kind == "collective" else None
        return found[1] if found is not None else ""

    @property
    def words(self) -> str:
        return WORDS[self.kind].format(self.operation)


def bare(frame: Frame) -> str:
    """A function's own name: Python 3.11 and later tell the class with it (``Worker.get_objects``)."""
    return frame.function.rpartition(".")[2]


def wait_of(frames: Sequence[Frame]) -> Wait | None:
    """What a stack waits for, or None where it does something, or sleeps in code that no row knows."""
    for at in range(len(frames) - 1, -1, -1):
        file, name = frames[at].file, bare(frames[at])
        kind = next((k for k, files, names in _COMPILED if files.search(file) and names.match(name)), None)
        if kind is not None:
            return _wait(kind, frames, at)
        if not any(inside.search(file) for inside in (_LIBRARY, _COMMUNICATION, _MEANS)):
            break
    last = frames[-1] if frames else None
    if last is not None and not _LIBRARY.search(last.file):
        if _AWAITS.search(last.code):
            return Wait("collective", "wait", last)
        if _SYNCHRONISES.search(last.code):
            return Wait("device", bare(last), last)
    kind = next((k for k, file in _GENERIC if frames and file.search(frames[-1].file)), None)
    return Wait(kind, bare(frames[-1]), _outside(frames)) if kind is not None else None


def _wait(kind: str, frames: Sequence[Frame], at: int) -> Wait:
    """The outermost call of an unbroken run of communication frames is what the caller asked for."""
    called, at_caller = frames[at], at - 1
    if kind in MEETS:
        while at_caller >= 0 and _COMMUNICATION.search(frames[at_caller].file):
            if not _WRAPPER.match(bare(frames[at_caller])):
                called = frames[at_caller]
            at_caller -= 1
        kind = "rendezvous" if bare(called) == "init_process_group" else kind
    return Wait(kind, bare(called), frames[at_caller] if at_caller >= 0 else None)


def _outside(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame outside the standard library's own waiting."""
    return next((f for f in reversed(frames) if not any(file.search(f.file) for _, file in _GENERIC)), None)
