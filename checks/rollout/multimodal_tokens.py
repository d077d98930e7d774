"""Image or video placeholders and features disagree in number.

What it looks for
    In a launch file: a model for images whose prompts are cut to a length without being filtered, which cuts
    placeholders away.
    In a log: the refusals of transformers and vLLM that count both.

Why it hurts
    Placeholders in the prompt and features of the image are counted once by the processor and once by the model. A cut
    prompt, a prompt that was decoded and encoded again, or an image token that the policy itself sampled makes them
    differ by some: the step raises, often long after the start, with the first such row of the data set.

How sure it is
    The counts are in the message. Fewer tokens than features: something was cut. One or a few more tokens than
    features: the policy sampled the placeholder.

The fix and its cost
    Longer prompts, smaller images, or rows that do not fit left out; multimodal special tokens forbidden in sampling.

References
    https://github.com/hiyouga/EasyR1/issues/175, https://github.com/hiyouga/EasyR1/issues/641
    https://github.com/verl-project/verl/issues/3469, https://github.com/modelscope/ms-swift/issues/9287
    ``get_placeholder_mask``: https://github.com/huggingface/transformers/blob/v4.57.1/src/transformers/models/qwen2_vl/
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from rldoctor.api import Case, Check, Evidence, Finding, Fix, LogEvent, NotApplicable, Reach, Severity, cite, plan_of

from ..observed.endings import was_raised

check = Check("RLD217", "multimodal-token-mismatch", __doc__, before=("RLD201",))

TRUNCATION = "lengths.truncation"
FILTERED = "lengths.overlong_filtered"
CUTS = ("left", "right", "middle")
VISION = ("vision_config", "visual", "vision_tower", "image_token_id", "image_token_index")

_LONGER = Fix(title="raise the prompt limit until the longest prompt with its images fits, or lower max_pixels")
_FILTER = Fix.unsafe(
    "leave out rows whose prompt with its images does not fit",
    {FILTERED: True},
    side_effects="those rows are not trained on",
)
_FORBID = Fix(title="forbid the image and video tokens in sampling (logit_bias, bad_words, allowed_token_ids)")
_KEEP_WHOLE = Fix(
    title="or, where an answer is prompted again, take the image and video placeholders out of it first, and cut no "
    "prompt inside an image"
)
_SMALLER = Fix(title="and let the processor of trainer and engine use the same max_pixels and min_pixels")


@check.declared(needs=["model.config", f"plan.{TRUNCATION}"])
def prompts_are_cut(case: Case) -> Iterator[Finding | Reach]:
    """Prompts with images that are cut to a length."""
    plan = plan_of(case)
    config = case.model.config if case.model is not None else {}
    if not any(config.get(key) is not None for key in VISION):
        raise NotApplicable("the model takes text only")
    how = plan.value(TRUNCATION)
    if how not in CUTS or plan.value(FILTERED) is True:
        yield Reach(f"longer prompts: {'left out' if plan.value(FILTERED) else how}")
        return
    yield check.finding(
        f"prompts that are too long are cut ({how}) and the model takes images: a cut placeholder makes tokens and "
        "features differ, and the step raises",
        severity=Severity.WARNING,
        evidence=(
            *cite(plan, TRUNCATION, FILTERED, "lengths.prompt"),
            Evidence(text="a vision tower", source=f"{case.model.path if case.model else ''}/config.json"),
        ),
        fixes=(
            Fix.safe(
                "leave out rows whose prompt with its images does not fit",
                {FILTERED: True},
                side_effects="those rows are not trained on",
            ),
            _LONGER,
        ),
        url="https://github.com/hiyouga/EasyR1/issues/175",
    )


@check.logged(
    "features and image tokens do not match",
    "features and video tokens do not match",
    "features and audio tokens do not match",
    "and image features",
    "image tokens and image features",
)
def counted_by_transformers(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``Image features and image tokens do not match: tokens: 2641, features 2640``."""
    counts = event.search(r"tokens:? (\d+),? (?:and )?features:? (\d+)") or event.search(
        r"image tokens is (\d+) (?:while|but) .*?(\d+)"
    )
    if counts is None and "do not match" not in event.literal:
        return
    tokens, features = (int(counts[1]), int(counts[2])) if counts is not None else (0, 0)
    numbers = f": {tokens} tokens, {features} features" if counts is not None else ""
    if tokens > features:
        yield check.finding(
            f"more image or video tokens than features{numbers}: the policy sampled a placeholder in its answer, or "
            "prompts were encoded twice",
            fixes=(_FORBID, _SMALLER, _LONGER),
            url="https://github.com/verl-project/verl/issues/3469",
        )
        return
    yield check.finding(
        f"fewer image or video tokens than features{numbers}: the prompt was cut in the middle of an image, or "
        "encoded anew without it",
        fixes=(_FILTER, _LONGER, _SMALLER),
        url="https://github.com/hiyouga/EasyR1/issues/175",
    )


# `Expected there to be 1 prompt updates corresponding to 1 image items, but instead found 0`.
check.signature(
    "prompt updates corresponding to",
    "prompt replacements corresponding to",
    "prompt placeholders corresponding to",
    "is less than the number of multi-modal inputs",
    "Failed to apply prompt replacement for mm_items",
    "Mismatch in `image` token count between text and `input_ids`",
    "Mismatch in `video` token count between text and `input_ids`",
    details=(r"corresponding to (?P<expected>\d+) (?P<modality>\w+) items, but\s+instead found (?P<found>\d+)",),
    says=(
        "[[the prompt holds {found} placeholders for {expected} {modality}(s)||the prompt holds another number "
        "of placeholders than there are images or videos]]: the chat template dropped them, or the prompt was cut"
    ),
    fixes=(
        Fix(
            title="write prompts with the processor's chat template (one placeholder for each image), and "
            "hand images on"
        ),
        _LONGER,
        _FILTER,
    ),
    url="https://docs.vllm.ai/en/latest/features/multimodal_inputs.html",
)


# The position ids of Qwen's models walk through the prompt from one placeholder to the next.
_CUT = "it was cut in the middle of an image, encoded twice, or holds the placeholder as text"
_WALKS = "https://github.com/microsoft/agent-lightning/issues/441"
check.signature(
    "shape mismatch: value tensor of shape [3, ",
    pattern=r"value tensor of shape \[3, (?P<positions>\d+)\] .*indexing result of shape \[3, (?P<tokens>\d+)\]",
    when=lambda case, event: event.search("get_rope_index") is not None,
    says=f"positions for {{positions}} tokens, and {{tokens}} in the prompt: {_CUT}",
    fixes=(_FILTER, _LONGER, _FORBID),
    url=_WALKS,
)
check.signature(
    "next(grid_iters[",
    exception="StopIteration",
    says="the prompt holds more placeholders (or pieces of a video) than images and videos: the policy sampled one in "
    "its answer, or processor and model are of two minds on how a video is cut",
    fixes=(
        _FORBID,
        Fix(
            title="videos of Qwen3-VL: another release of transformers (5.3.0 counts each frame where its processor "
            "gives one grid for the video)",
            commands=("pip install 'transformers!=5.3.0'",),
        ),
    ),
    url="https://github.com/huggingface/transformers/pull/44472",
)
for _kind in ("image", "video"):
    check.signature(
        f"{_kind}_grid_thw[{_kind}_index]",
        exception="IndexError",
        says=f"the prompt holds more {_kind} placeholders than {_kind}s: {_CUT}",
        fixes=(_FILTER, _LONGER, _FORBID),
        url=_WALKS,
    )


# What sampling adds to a dialogue is no more.
_A_FEW = 16


def _too_many(event: LogEvent, least: int, most: float) -> Mapping[str, str] | None:
    """``Attempted to assign 9 multimodal tokens to 10 placeholders``; fewer placeholders than tokens are a prompt that
    chunked prefill split (RLD201)."""
    counts = event.search(r"(?:= |assign )(?P<tokens>\d+) multimodal tokens to (?P<places>\d+) placeholders")
    fits = counts is not None and least <= int(counts["places"]) - int(counts["tokens"]) <= most
    return counts.groupdict() if counts is not None and fits else None


check.signature(
    "multimodal tokens to ",
    when=lambda case, event: _too_many(event, 1, _A_FEW),
    says="{places} placeholders for {tokens} multimodal tokens: image or video tokens were sampled into an answer that "
    "is prompted again",
    fixes=(_FORBID, _KEEP_WHOLE, _SMALLER),
)
check.signature(
    "multimodal tokens to ",
    when=lambda case, event: _too_many(event, _A_FEW + 1, math.inf),
    says="{places} placeholders for {tokens} multimodal tokens: the prompt was written for images of another size than "
    "the engine's processor makes of them",
    fixes=(
        Fix(
            title="let the processor of the trainer and of the engine use the same max_pixels and min_pixels "
            "(mm_processor_kwargs), and one release of transformers"
        ),
    ),
    url="https://github.com/StarsfieldAI/R1-V/issues/133",
)


check.signature(
    "Number of images does not match number of special image tokens",
    " image tokens but received ",
    "of images does not match the number of <image> tokens",
    "of videos does not match the number of <video> tokens",
    pattern=r"Got (?P<tokens>\d+) image tokens? in the text (?:but|and) (?P<images>\d+)"
    r"|contained (?P<placeholders>\d+) image tokens but received (?P<given>\d+) images"
    r"|does not match",
    when=was_raised,
    says="the prompt's image placeholders and its images differ in number[[: {tokens} and {images}]]"
    "[[: {placeholders} and {given}]]",
    fixes=(
        Fix(title="write one placeholder for each image, with the processor's chat template, and hand every image on"),
        _LONGER,
    ),
)
check.signature(
    "may be provided in one prompt",
    "may be provided in one request",
    pattern=r"At most (?P<limit>\d+) (?P<kind>\w+)\(?s?\)? may be provided",
    says="a prompt has more {kind} items than the engine was started for (limit {limit})",
    fixes=(Fix(title="raise the engine's limit: limit_mm_per_prompt, as many as the longest dialogue has"),),
    url="https://docs.vllm.ai/en/latest/features/multimodal_inputs.html",
)


# vLLM's processors look the grid of the n-th placeholder up among those of the images.
check.signature(
    "_grid_thw",
    pattern=r"\[f?\"(?:\{modality\}|image|video)_grid_thw\"\]\[item_idx\]",
    exception="IndexError",
    says=f"the prompt holds more image or video placeholders than images or videos: {_CUT}",
    fixes=(
        Fix(title="write one placeholder for each image, with the processor's chat template, and hand every image on"),
        _FORBID,
        _LONGER,
    ),
    url="https://github.com/modelscope/ms-swift/issues/2875",
)
