"""How rotary settings and lengths that disagree show in a log."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Finding, Fix, LogEvent

from ...observed.positions import ROTARY_CODE, indexes_positions
from . import check
from .fixes import COMPLETE, ORIGINAL

_WITHIN = (
    Fix(title="keep prompt plus response within the length that the model's rotary tables cover (max_model_len)"),
    Fix(title="let engine and trainer build their position ids the same way (padding, image tokens)"),
    COMPLETE,
)
_OTHER_RELEASES = Fix(title="or take a transformers and vLLM that know this model's settings")


def _refuses(case: Case, event: LogEvent) -> bool:
    return event.exception is not None or event.level in ("ERROR", None)


check.signature(
    "KeyError: 'original_max_position_embeddings'",
    when=_refuses,
    says=f"the model's rope scaling lacks {ORIGINAL}",
    fixes=(
        Fix(
            title=f"add {ORIGINAL} (the model's length before scaling) to rope_scaling in the model's config.json, or "
            "to the rope_scaling or hf_overrides of the launch"
        ),
        _OTHER_RELEASES,
    ),
)
# What vLLM and transformers say of rope settings.
check.signature(
    "should have a 'rope_type' key",
    "rope_scaling must have a 'type' or 'rope_type' key",
    'assert "factor" in rope_scaling',
    'assert "mrope_section" in rope_scaling',
    "Legacy rope_type 'mrope' requires 'mrope_section'",
    "Dynamic rope scaling must contain either",
    "Unknown RoPE scaling type",
    "Found conflicts between 'rope_type=",
    "Missing required keys in `rope_scaling` for",
    "Missing required keys in `rope_parameters` for",
    "`rope_scaling` must be a dictionary",
    when=_refuses,
    says="the model's rope settings are refused: {line}",
    fixes=(COMPLETE, _OTHER_RELEASES),
)


check.signature(
    "The shape of the mask [",
    pattern=r"shape of the mask \[(?P<mask>\d+)\] at index 0 does not match the shape of the indexed tensor "
    r"\[(?P<tokens>\d+)\]",
    exception="IndexError",
    when=lambda case, event: event.search("get_rope_index") is not None,
    says="the attention mask has {mask} positions and the prompt {tokens} tokens, where the rotary positions are made",
    fixes=(
        Fix(
            title="cut, pad and extend attention_mask together with input_ids: where the prompt is truncated, where "
            "answers are appended, and where placeholders of images are expanded"
        ),
    ),
    url="https://github.com/Liuziyu77/Visual-RFT/issues/201",
)


@check.logged("must match the size of tensor b", "is out of bounds for dimension 0 with size")
def positions_disagree(case: Case, event: LogEvent) -> Iterator[Finding]:
    """Sizes or indexes that do not match inside a rotary function."""
    frames = event.exception.frames[-4:] if event.exception else ()
    code = [f"{frame.file} {frame.function} {frame.code}" for frame in frames] or event.before[-2:]
    if not any(ROTARY_CODE.search(text) for text in code):
        return
    numbers = event.search(r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)")
    what = f": {numbers[1]} against {numbers[2]} positions" if numbers else ""
    yield check.finding(f"rotary position tables and sequence disagree in length{what}", fixes=_WITHIN)


# The lookup in a table of cosines, on the device: torch's kernel asserts, and says nothing of what it gathers.
check.signature(
    "vectorized_gather_kernel",
    pattern="Assertion `",
    when=lambda case, event: indexes_positions(event.run.root),
    says="positions lie beyond the rows of the rotary table",
    fixes=_WITHIN,
)
