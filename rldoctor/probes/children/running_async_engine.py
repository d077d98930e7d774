"""The asynchronous engine as a :class:`RunningEngine`: one event loop in a thread of its own, as servers and
agent loops have it."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from typing import Any

from running_engine import Request, RunningEngine, rows

# Prometheus' names of what the engine's own scheduler holds; the same from V0 to 0.32.
GAUGES = {"running": "vllm:num_requests_running", "waiting": "vllm:num_requests_waiting"}


class RunningAsyncEngine(RunningEngine):
    """``engine`` is vLLM's asynchronous engine (V1 ``AsyncLLM``, whose core is a process of its own; V0
    ``AsyncLLMEngine``); :meth:`run` runs a coroutine on its loop."""

    def __init__(self, options: dict[str, Any], made: dict[str, Any]) -> None:
        _choose(options)
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True, name="engine loop").start()
        super().__init__(self.run(_boot(options)), options, made)
        self._processes = multiprocessing.active_children()
        self._count = 0

    @property
    def generation(self) -> str:
        return "V1" if ".v1." in type(self.engine).__module__ else "V0"

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs a coroutine on the engine's loop and waits for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def generate(self, asked: Mapping[str, Request]) -> list[dict[str, Any]]:
        return list(self.run(self._all(asked)))

    async def _all(self, asked: Mapping[str, Request]) -> list[dict[str, Any]]:
        found = await asyncio.gather(*(self.one(name, *request) for name, request in asked.items()))
        return [row for reported in found for row in reported]

    async def one(self, name: str, prompt: Any, given: Mapping[str, Any], request_id: str = "") -> list[dict[str, Any]]:
        """One request to its end; the rows of its last output."""
        last = None
        async for output in self.stream(prompt, given, request_id or self.identity(name)):
            last = output
        return [] if last is None else rows(name, given, last)

    def identity(self, name: str) -> str:
        """An id that no other request of this engine has."""
        self._count += 1
        return f"{name}-{self._count}"

    def stream(self, prompt: Sequence[int], given: Mapping[str, Any], request_id: str) -> AsyncGenerator[Any, None]:
        """The outputs of one request as they come; ``given`` are arguments of SamplingParams, ``output_kind`` by its
        name."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        kind = RequestOutputKind[given.get("output_kind", "CUMULATIVE")]
        parameters = SamplingParams(**{**given, "output_kind": kind})
        stream: AsyncGenerator[Any, None] = self.engine.generate(
            {"prompt_token_ids": list(prompt)}, parameters, request_id
        )
        return stream

    def processes(self, patience: float = 0.0) -> list[dict[str, Any]]:
        """The engine's processes since its boot: ``name``, ``pid``, ``exit_code`` (None while it runs; negative: the
        signal), each after it had so many seconds to end. Empty where the engine runs in this one."""
        for one in self._processes:
            one.join(patience)
        return [{"name": one.name, "pid": one.pid, "exit_code": one.exitcode} for one in self._processes]

    def unfinished(self) -> dict[str, Any]:
        """What is left in the engine: ``callers``, requests that its front still has; ``running`` and ``waiting`` of
        its scheduler as of the last step. None where this release does not tell."""
        if self.generation == "V1":
            reported: dict[str, Any] = {"callers": len(self.engine.output_processor.request_states)}
        else:
            reported = {"callers": int(self.engine.engine.get_num_unfinished_requests())}
        return {**reported, **{name: _gauge(gauge) for name, gauge in GAUGES.items()}}


def _gauge(name: str) -> float | None:
    from prometheus_client import REGISTRY

    values = [s.value for metric in REGISTRY.collect() for s in metric.samples if s.name == name]
    return sum(values) if values else None


def _choose(options: dict[str, Any]) -> None:
    """Has vLLM choose between its engines here. Releases that have two (0.8 to 0.10) do so when they make a
    configuration, keep the choice in VLLM_USE_V1, and choose V0 in every thread but the first
    (vllm/engine/arg_utils.py, _is_v1_supported_oracle)."""
    import vllm.envs as envs
    from vllm.engine.arg_utils import AsyncEngineArgs

    if hasattr(envs, "set_vllm_use_v1") and not envs.is_set("VLLM_USE_V1"):
        AsyncEngineArgs(**options).create_engine_config()


async def _boot(options: dict[str, Any]) -> Any:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.engine.async_llm_engine import AsyncLLMEngine

    return AsyncLLMEngine.from_engine_args(AsyncEngineArgs(**options))
