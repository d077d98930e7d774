"""The asynchronous engine as a stand: one event loop in a thread of its own, as servers and agent loops have it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from typing import Any

from stand import Request, Stand, rows


class AsyncStand(Stand):
    """``engine`` is vLLM's asynchronous engine; :meth:`run` runs a coroutine on its loop."""

    def __init__(self, options: dict[str, Any], made: dict[str, Any]) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True, name="engine loop").start()
        super().__init__(self.run(_boot(options)), options, made)
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
        return [row for told in found for row in told]

    async def one(self, name: str, prompt: Any, given: Mapping[str, Any], request_id: str = "") -> list[dict[str, Any]]:
        """One request to its end; the rows of its last output."""
        from vllm import SamplingParams

        self._count += 1
        last = None
        identity = request_id or f"{name}-{self._count}"
        async for output in self.engine.generate({"prompt_token_ids": list(prompt)}, SamplingParams(**given), identity):
            last = output
        return [] if last is None else rows(name, given, last)


async def _boot(options: dict[str, Any]) -> Any:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.engine.async_llm_engine import AsyncLLMEngine

    return AsyncLLMEngine.from_engine_args(AsyncEngineArgs(**options))
