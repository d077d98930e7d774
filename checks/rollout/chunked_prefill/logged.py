"""The assertions of the V0 scheduler, and prompts with images that were split, in a log."""

from __future__ import annotations

from rldoctor.api import Applicability, Edit, Fix, LogEvent

from . import check
from .fixes import LENGTHS, V1


def _context(event: LogEvent) -> int | None:
    reported = event.search(r"max_(?:model|seq)_len['\"]?[=:]\s*(\d+)|Maximum concurrency for (\d+) tokens")
    return int(reported[1] or reported[2]) if reported else None


def _off(event: LogEvent) -> Fix:
    context = _context(event)
    budget = (Edit(option="engine.max_num_batched_tokens", value=context),) if context else ()
    return Fix(
        title="switch chunked prefill off (enable_chunked_prefill=False), with max_num_batched_tokens of at "
        "least max_model_len",
        applicability=Applicability.UNSAFE,
        edits=(Edit(option="engine.enable_chunked_prefill", value=False), *budget),
        valid_for="V0 engines (vllm<0.10)",
        side_effects="more activation memory during prefill; without the companion the engine does not start",
    )


# A stopped sequence is still in the scheduler's list when the next step is scheduled.
check.signature(
    "assert len(self._async_stopped) == 0",
    says=(
        "the V0 scheduler holds a sequence that had stopped: a request outgrew max_model_len (min_tokens, an "
        "over-long prompt) or an earlier batch ended abnormally"
    ),
    fixes=lambda case, event, words: (LENGTHS, _off(event), V1),
    url="https://github.com/hiyouga/EasyR1/issues/79",
)


# The default V0 scheduler found prefills among the running; chunked prefill hides the assertion, not the fault.
check.signature(
    "assert len(running_scheduled.prefill_seq_groups) == 0",
    says=(
        "the V0 scheduler finds unfinished prefills; with chunked prefill the assertion is not reached, the "
        "fault (two callers, or an interrupted step) remains"
    ),
    fixes=(Fix(title="see RLD210: one caller at a time"),),
)


def _more_than_placeholders(event: LogEvent) -> bool:
    said = event.search(r"assign [\d +=]*?(\d+) multimodal tokens to (\d+) placeholders")
    return said is None or int(said[1]) > int(said[2])


# `Attempted to assign 9214 multimodal tokens to 8407 placeholders`: an image was cut by a scheduler step.
check.signature(
    " placeholders",
    pattern=(
        r"Attempted to assign (?P<parts_2>[\d +]+?)(?: = (?P<parts>\d+))? multimodal tokens to "
        r"(?P<placeholders>\d+) placeholders"
    ),
    # Fewer of them than placeholders are no part of a prompt (RLD217).
    when=lambda case, event: _more_than_placeholders(event),
    says="an image was split between scheduler steps: {parts} multimodal tokens for {placeholders} placeholders",
    fixes=lambda case, event, words: (
        _off(event),
        Fix(title="or raise max_num_batched_tokens above the longest multimodal prompt"),
    ),
    url="https://github.com/hiyouga/EasyR1/issues/83",
)
