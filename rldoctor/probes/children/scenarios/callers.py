"""Many callers of one asynchronous engine: whole and streamed answers, groups, turns, and some that abort, cancel,
run out of patience, go away or use an id twice.

Arguments: ``prompt``, ``response`` (tokens, the longest of each), ``longest`` (tokens of a whole sequence),
``silence`` (seconds in which nobody hears anything, after which it is seen whether others are answered). Records:
``alone``, what each prompt is answered when nothing else runs (``prompt_tokens``, ``token_ids``, and ``tops``, of each
place the likeliest tokens with their log-probabilities); ``calls``, a row per call (see :func:`_row`); ``processes`` of
the engine; ``left``, what the engine holds when all is over; ``afterwards``, the first prompt's answer then; ``reach``.

A call is ``lost`` that still waits when others, asked after a long silence, have been answered. Where nobody is
answered any more the run stalls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from report import chain
from running_async_engine import RunningAsyncEngine

PROMPTS = 6
TOPS = 5
# Callers that ask this many times, one after another, as a dialogue of several turns does.
TURNS = 2
GROUP = 4
# Tokens after which a caller loses interest; its request would go on to the end of the sequence.
INTEREST = 2
# Requests arrive so many seconds apart: some share the engine's steps from the start, some come when others decode.
APART = 0.004
# So long a caller of a dead engine may take to be told.
GRACE = 10.0
PULSE = 0.5
# What is left of aborted requests is gone after a few steps at most.
SETTLING = 4

ANSWERED: dict[str, dict[str, Any]] = {
    "whole": {"output_kind": "FINAL_ONLY"},
    "streamed": {"output_kind": "DELTA"},
    "growing": {"output_kind": "CUMULATIVE", "logprobs": 1},
}
UNINTERESTED = ("abort", "cancel", "leave", "timeout")


def play(running: RunningAsyncEngine, arguments: dict[str, Any]) -> None:
    try:
        running.run(_play(running, arguments))
    except Exception:
        running.record("processes", running.processes(patience=GRACE))
        raise
    running.record("processes", running.processes())


async def _play(running: RunningAsyncEngine, arguments: dict[str, Any]) -> None:
    began = time.monotonic()
    traffic = Traffic(running, arguments)
    running.record("alone", [await traffic.alone(number) for number in range(PROMPTS)])
    await running.engine.reset_prefix_cache()  # else what was computed alone would be used again
    healthy = await traffic.play()
    running.record("calls", traffic.calls)
    if healthy:
        answer, left = await traffic.settle()
        running.record("left", left)
        running.record("afterwards", answer)
    tokens = sum(len(a["token_ids"]) for call in traffic.calls for a in call["answers"])
    running.record(
        "reach",
        {
            "requests": len(traffic.calls),
            "sampled_tokens": tokens,
            "longest": max(len(prompt) for prompt in traffic.prompts) + traffic.response,
            "seconds": round(time.monotonic() - began, 3),
        },
    )
    if traffic.errors and not any((one["exit_code"] or 0) < 0 for one in running.processes(patience=GRACE)):
        raise traffic.errors[0]  # the engine failed by itself, and its log says why


class Traffic:
    """The callers and what became of their calls."""

    def __init__(self, running: RunningAsyncEngine, arguments: dict[str, Any]) -> None:
        self.running = running
        self.response = arguments["response"]
        self.longest = arguments["longest"]
        self.silence = arguments["silence"]
        lengths = [max(8, arguments["prompt"] * (number + 1) // PROMPTS) for number in range(PROMPTS)]
        self.prompts = [running.prompt(length, salt=11 * number + 1) for number, length in enumerate(lengths)]
        self.calls: list[dict[str, Any]] = []
        self.errors: list[Exception] = []
        self.heard = time.monotonic()
        self._over = False

    async def alone(self, number: int) -> dict[str, Any]:
        """The prompt's answer when nobody else asks."""
        given = {**self._greedy(), "logprobs": self.running.tops(TOPS)}
        stream = self.running.stream(self.prompts[number], given, self.running.identity("alone"))
        completion = [output async for output in stream][-1].outputs[0]
        tops = [
            [[token, float(reported.logprob)] for token, reported in place.items()] for place in completion.logprobs
        ]
        return {
            "prompt_tokens": len(self.prompts[number]),
            "token_ids": list(completion.token_ids),
            "tops": [sorted(place, key=lambda pair: -pair[1]) for place in tops],
        }

    async def play(self) -> bool:
        """Everybody at once, to the end. False where the engine failed meanwhile."""
        callers = [
            self._dialogue(kind, number, delay)
            for delay, (number, kind) in enumerate((n, kind) for n in range(PROMPTS) for kind in ANSWERED)
        ]
        callers += [self._group(number) for number in range(TURNS)]
        callers += [self._uninterested(kind, number) for number, kind in enumerate(UNINTERESTED * 3)]
        callers += [self._twins(number) for number in range(2)]
        return await self._watch([asyncio.ensure_future(caller) for caller in callers])

    async def settle(self) -> tuple[list[int], dict[str, Any]]:
        """An answer and what else the engine holds while it gives it, once aborted requests had time to leave."""
        for _ in range(SETTLING):
            answer = await self.alone(0)
            left = self.running.unfinished()
            if not any(left.values()):
                break
        return answer["token_ids"], left

    async def _dialogue(self, kind: str, number: int, delay: int) -> None:
        await asyncio.sleep(APART * delay)
        for turn in range(TURNS):
            await self._call(kind, (number + turn) % PROMPTS, {**self._greedy(), **ANSWERED[kind]})

    async def _group(self, number: int) -> None:
        given = {"temperature": 1.0, "n": GROUP, "output_kind": "FINAL_ONLY"}
        await self._call("group", number, {**self._greedy(), **given})

    async def _uninterested(self, kind: str, number: int) -> None:
        await asyncio.sleep(APART * number)
        prompt = number % PROMPTS
        given = {**self._greedy(), "max_tokens": self.longest - len(self.prompts[prompt])}
        await self._call(kind, prompt, given)

    async def _twins(self, number: int) -> None:
        """Two requests of one id: the second comes when the first is being answered, and asks something else."""
        heard, identity = asyncio.Event(), self.running.identity("twin")
        longer = {**self._greedy(), "max_tokens": min(4 * self.response, self.longest - len(self.prompts[number]))}
        first = asyncio.ensure_future(self._call("first of an id", number, longer, identity, heard))
        waiting = asyncio.ensure_future(heard.wait())
        await asyncio.wait([first, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        await asyncio.gather(first, self._call("second of an id", number + 1, self._greedy(), identity))

    async def _call(
        self, kind: str, number: int, given: dict[str, Any], identity: str = "", heard: asyncio.Event | None = None
    ) -> None:
        identity = identity or self.running.identity(kind)
        row = _row(kind, number, given)
        self.calls.append(row)
        stream = self.running.stream(self.prompts[number], given, identity)
        work = asyncio.ensure_future(self._consume(stream, row, number, identity, heard))
        try:
            if kind == "timeout":  # impatient: most go before their first token
                await asyncio.wait_for(work, APART * (number + 1))
            else:
                await work
        except asyncio.TimeoutError:
            row["ended"] = "timed-out"
        except asyncio.CancelledError:
            work.cancel()
            if row["ended"] == "waiting" and not self._over:
                row["ended"] = "cancelled"
        except Exception as error:
            row["ended"] = "refused" if kind == "second of an id" else "raised"
            row["exceptions"] = chain(error)
            if row["ended"] == "raised":
                self.errors.append(error)

    async def _consume(
        self,
        stream: AsyncGenerator[Any, None],
        row: dict[str, Any],
        number: int,
        identity: str,
        heard: asyncio.Event | None,
    ) -> None:
        kind, bored = row["kind"], False
        async for output in stream:
            self.heard = time.monotonic()
            if heard is not None:
                heard.set()
            _take(row, output, self.prompts[number], identity)
            if bored or kind not in UNINTERESTED or len(row["answers"][0]["token_ids"]) < INTEREST:
                continue
            bored = True
            if kind == "abort":
                await self.running.engine.abort(identity)
            elif kind == "cancel":
                task = asyncio.current_task()
                assert task is not None
                asyncio.get_running_loop().call_soon(task.cancel)
            elif kind == "leave":
                await stream.aclose()
                row["ended"] = "left"
                return
        row["ended"] = "answered"

    async def _watch(self, tasks: Sequence[asyncio.Task[None]]) -> bool:
        """Waits for the callers. Whoever aborts a request by its id may never be told (V1 before 0.10.1), and is not
        waited for."""
        while True:
            _, pending = await asyncio.wait(tasks, timeout=PULSE)
            if self.errors or any(one["exit_code"] is not None for one in self.running.processes()):
                await asyncio.wait(tasks, timeout=GRACE)
                return await self._end(tasks, healthy=False)
            waiting = [row for row in self.calls if row["ended"] == "waiting"]
            aborted = [row for row in waiting if row["kind"] == "abort" and row["answers"]]
            if len(pending) == len(aborted):
                return await self._end(tasks)
            if time.monotonic() - self.heard < self.silence:
                continue
            self.running.record("calls", self.calls)
            before = self.heard
            for _ in range(2):  # where these are not answered either, the run stalls
                await self.alone(0)
            if self.heard == before:
                for row in (row for row in waiting if row not in aborted):
                    row["ended"] = "lost"
                return await self._end(tasks)

    async def _end(self, tasks: Sequence[asyncio.Task[None]], healthy: bool = True) -> bool:
        self._over = True
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=GRACE)
        return healthy

    def _greedy(self) -> dict[str, Any]:
        return {"temperature": 0.0, "max_tokens": self.response, "ignore_eos": True}


def _row(kind: str, number: int, given: dict[str, Any]) -> dict[str, Any]:
    """A call: its ``kind``, the ``prompt`` it asks (its place in ``alone``), the ``tokens`` and ``completions`` asked
    for; how it ``ended`` (answered, refused, raised, lost, waiting, and by its own will: cancelled, timed-out, left);
    ``finals`` (last outputs that came); ``wrong_prompt`` and ``wrong_id``, whether an output named another's; and of
    each completion ``index``, ``token_ids``, ``finish_reason``."""
    return {
        "kind": kind,
        "prompt": number,
        "tokens": given["max_tokens"],
        "completions": given.get("n", 1),
        "ended": "waiting",
        "finals": 0,
        "wrong_prompt": False,
        "wrong_id": False,
        "answers": [],
    }


def _take(row: dict[str, Any], output: Any, prompt: Sequence[int], identity: str) -> None:
    row["finals"] += bool(output.finished)
    row["wrong_id"] |= str(output.request_id) != identity
    reported = output.prompt_token_ids
    row["wrong_prompt"] |= reported is not None and list(reported) != list(prompt)
    answers = {answer["index"]: answer for answer in row["answers"]}
    for completion in output.outputs:
        tokens = list(completion.token_ids)
        known = answers.get(completion.index)
        if known is not None and row["kind"] == "streamed":
            tokens = known["token_ids"] + tokens
        answers[completion.index] = {
            "index": completion.index,
            "token_ids": tokens,
            "finish_reason": completion.finish_reason,
        }
    row["answers"] = list(answers.values())
