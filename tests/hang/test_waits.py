"""What stacks wait for: frames as py-spy gives them, innermost last."""

from __future__ import annotations

import pytest

from rldoctor.hang.waits import wait_of
from rldoctor.logs.model import Frame
from tests.hang.records import ALL_REDUCE, C10D, CLIENT, CORE, ENGINE_IDLE, GENERATE, LOGGER, MAIN, QUEUE, REWARD

SITE = "/env/lib/python3.11/site-packages"
BASE = "/usr/lib/python3.11"
CONNECTION = f"{BASE}/multiprocessing/connection.py"
SHM = f"{SITE}/vllm/distributed/device_communicators/shm_broadcast.py"
RAY = f"{SITE}/ray/_private/worker.py"
EXECUTOR = f"{SITE}/vllm/v1/executor/multiproc_executor.py"
RUNNER = f"{SITE}/vllm/v1/worker/gpu_model_runner.py"
LOADER = f"{SITE}/torch/utils/data/dataloader.py"


def at(file: str, function: str, code: str = "", line: int = 1) -> Frame:
    return Frame(file, line, function, code)


SPAWNED = at(f"{BASE}/multiprocessing/process.py", "BaseProcess.run")


@pytest.mark.parametrize(
    ("frames", "kind", "operation", "caller"),
    [
        (ALL_REDUCE, "collective", "all_reduce", "/srv/train.py"),
        # What all_gather_object does inside is its own affair.
        ((MAIN, at(C10D, "all_gather_object"), at(LOGGER, "wrapper"), at(C10D, "all_gather")), "collective",
         "all_gather_object", MAIN.file),
        ((MAIN, at(C10D, "init_process_group"), at(C10D, "barrier")), "rendezvous", "init_process_group", MAIN.file),
        ((MAIN, at("/srv/a.py", "f", "work.wait()")), "collective", "wait", "/srv/a.py"),
        ((MAIN, at("/srv/a.py", "f", "x = loss.item()")), "device", "f", "/srv/a.py"),
        ((MAIN, at(f"{SITE}/torch/cuda/__init__.py", "synchronize")), "device", "synchronize", MAIN.file),
        (GENERATE, "engine", "get_output", "/env/lib/python3.11/site-packages/vllm/entrypoints/llm.py"),
        (ENGINE_IDLE, "work", "_process_input_queue", CORE),
        ((at(EXECUTOR, "WorkerProc.worker_busy_loop"), at(SHM, "dequeue")), "work", "worker_busy_loop", None),
        ((at(CORE, "step"), at(EXECUTOR, "collective_rpc.<locals>.get_response"), at(SHM, "dequeue")), "workers",
         "get_response", CORE),
        ((MAIN, at(RAY, "get"), at(RAY, "Worker.get_objects")), "ray", "get_objects", RAY),
        ((at(RAY, "Worker.main_loop"),), "work", "main_loop", None),
        ((SPAWNED, at(EXECUTOR, "WorkerProc.worker_busy_loop"), at(SHM, "MessageQueue.acquire_read"),
          at(f"{BASE}/contextlib.py", "_GeneratorContextManager.__enter__"),
          at(f"{SITE}/vllm/distributed/utils.py", "sched_yield")), "work", "worker_busy_loop", SPAWNED.file),
        ((SPAWNED, at(CONNECTION, "Connection._recv_bytes"),
          at(CONNECTION, "Connection._recv")), "processes", "_recv", CONNECTION),
        ((MAIN, at(f"{SITE}/requests/api.py", "post"), at(f"{BASE}/ssl.py", "read")), "server", "post", MAIN.file),
        ((MAIN, at(f"{BASE}/threading.py", "Event.wait", "self._cond.wait(timeout)")), "lock", "wait", MAIN.file),
        ((MAIN, at(QUEUE, "Queue.get")), "queue", "get", MAIN.file),
        ((MAIN, at(f"{SITE}/filelock/_api.py", "BaseFileLock.acquire"), at(f"{SITE}/filelock/_unix.py", "_acquire")),
         "file lock", "acquire", MAIN.file),
        ((MAIN, at(f"{SITE}/torch/utils/file_baton.py", "FileBaton.wait")), "file lock", "wait", MAIN.file),
    ],
)  # fmt: skip
def test_wait(frames: tuple[Frame, ...], kind: str, operation: str, caller: str | None) -> None:
    wait = wait_of(frames)
    assert wait is not None
    assert (wait.kind, wait.operation) == (kind, operation)
    assert (wait.caller.file if wait.caller else None) == caller


@pytest.mark.parametrize(
    "frames",
    [
        (),
        REWARD,  # the line says requests.post, but nothing of it is on the stack
        (MAIN, at("/srv/gather.py", "all_reduce")),  # the user's own function of that name
        (MAIN, at(f"{SITE}/torch/nn/modules/linear.py", "forward", "return F.linear(x)")),
        (MAIN, at(CLIENT, "SyncMPClient.__init__")),
        # Loops that wait for work, while they do it.
        (SPAWNED, at(EXECUTOR, "WorkerProc.worker_busy_loop"), at(RUNNER, "GPUModelRunner.execute_model")),
        (SPAWNED, at("/srv/reward.py", "score"), at(f"{BASE}/json/decoder.py", "JSONDecoder.decode")),
        (at(RAY, "Worker.main_loop"), at("/srv/train.py", "Trainer.step")),
        (at(RAY, "Worker.main_loop"), at("/home/ray/train.py", "Trainer.step")),  # as in Ray's own images
        (MAIN, at("/home/me/openai/train.py", "step")),
        (at(CORE, "EngineCoreProc._process_input_queue"), at(RUNNER, "GPUModelRunner.reload_weights")),
        # An engine in the caller's own process, and a data loader without workers, compute where they are called.
        (MAIN, at(CLIENT, "InprocClient.get_output"), at(CORE, "EngineCore.step"), at(RUNNER, "execute_model")),
        (MAIN, at(LOADER, "_SingleProcessDataLoaderIter._next_data"), at("/srv/data.py", "Prompts.__getitem__")),
    ],
)
def test_no_wait(frames: tuple[Frame, ...]) -> None:
    assert wait_of(frames) is None
