"""An assertion or deadlock inside the engine that only another engine release (or switching a feature off) cures.

What it looks for
    In a log: assertions of vLLM's scheduler, block manager and caches that no setting of the launch explains, each with
    the feature that was on when others met it.

Why it hurts
    The engine's process dies in the middle of a run; the trainer sees ``EngineDeadError`` or waits.

How sure it is
    The assertion stands in the engine's own frames, and the threads name the releases. More specific patterns (two
    callers on one engine, chunked prefill on V0, sleep mode) go before.

The fix and its cost
    Another release, or the feature off that the thread names: asynchronous scheduling, the multimodal cache, prefix
    caching. Each costs some speed.

References
    https://github.com/vllm-project/vllm/issues/30142, https://github.com/vllm-project/vllm/issues/57562
    https://github.com/modelscope/ms-swift/issues/9863
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rldoctor.api import Applicability, Case, Check, Edit, Finding, Fix, LogEvent

check = Check("RLD220", "engine-internal-error", __doc__)

_RELEASE = Fix(
    title="take another vLLM release within what the framework declares, and look the assertion up in vLLM's issues",
    commands=("rldoctor compat",),
)


def _off(what: str, option: str, value: object, costs: str) -> Fix:
    edits = (Edit(option=option, value=value),)
    return Fix(title=f"switch {what} off", applicability=Applicability.UNSAFE, edits=edits, side_effects=costs)


_SYNCHRONOUS = _off("asynchronous scheduling", "engine.async_scheduling", False, "steps no longer overlap")
_NO_MM_CACHE = _off("the multimodal cache", "engine.mm_processor_cache_gb", 0, "images are processed each time")
_NO_PREFIX = _off("prefix caching", "engine.enable_prefix_caching", False, "equal prompts are prefilled again")
_EAGER = _off("CUDA graphs and compilation", "engine.enforce_eager", True, "decoding is slower")


@dataclass(frozen=True)
class Assertion:
    """A line that only the fault prints, what it says of the engine, and what helped others."""

    literal: str
    said: str
    fixes: tuple[Fix, ...]
    url: str | None = None


ASSERTIONS = (
    Assertion(
        "num_output_placeholders >= 0",
        "asynchronous scheduling lost count of a request's tokens",
        (_SYNCHRONOUS,),
        "https://github.com/vllm-project/vllm/issues/30142",
    ),
    Assertion(
        "Expected a cached item for mm_hash=",
        "the multimodal cache of the engine's process and that of its front end differ",
        (_NO_MM_CACHE,),
        "https://github.com/modelscope/ms-swift/issues/9863",
    ),
    Assertion(
        "Encoder cache miss for ",
        "an image's features left the encoder cache before they were used",
        (_NO_MM_CACHE, _NO_PREFIX),
    ),
    *(
        Assertion(literal, said, fixes)
        for said, fixes, literals in (
            (
                "the V1 scheduler overran its budget or scheduled nothing",
                (_SYNCHRONOUS, _NO_PREFIX),
                (
                    "assert total_num_scheduled_tokens <= self.max_num_scheduled_tokens",
                    "assert token_budget >= 0",
                    "assert len(self.running) <= self.max_num_running_reqs",
                    "assert num_new_tokens > 0",
                    "assert num_tokens_scheduled > 0",
                    "assert num_computed_tokens <= request.num_tokens",
                ),
            ),
            (
                "the KV block pool lost count of a block",
                (_NO_PREFIX,),
                (
                    "assert block.ref_cnt == 0",
                    "assert curr_block.ref_cnt == 0",
                    "assert blk.block_hash is None",
                    "assert prev_block.block_hash is not None",
                    "assert parent_block.block_hash is not None",
                    "assert len(req_blocks) == 0",
                    "assert len(new_computed_blocks) == 0",
                ),
            ),
            (
                "the V0 block manager lost count of a block",
                (_NO_PREFIX,),
                (
                    "assert refcount > 0",
                    "assert block_id in self._refcounts",
                    "assert len(self._free_ids) > 0",
                    "Double free! ",
                ),
            ),
        )
        for literal in literals
    ),
)
BY_LITERAL = {row.literal: row for row in ASSERTIONS}


@check.logged(*BY_LITERAL)
def assertion(case: Case, event: LogEvent) -> Iterator[Finding]:
    """An assertion in the engine's own frames."""
    error = event.exception
    if error is None or not any("vllm" in frame.file for frame in error.frames[-3:]):
        return
    row = BY_LITERAL[event.literal]
    version = event.versions.get("vllm")
    yield check.finding(
        f"an assertion inside vLLM{f' {version}' if version else ''}: {row.said}",
        fixes=(*row.fixes, _RELEASE),
        url=row.url,
    )
