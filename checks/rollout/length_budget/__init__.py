"""Prompt and response do not fit into the context of the engine or of the model.

What it looks for
    ``max_model_len`` beyond the context that the model's ``config.json`` allows (rope scaling included), a prompt that
    alone fills ``max_model_len``, and prompt plus response, or one turn of a dialogue, beyond it; a response beyond
    what the launch gives the whole sequence; ``min_tokens`` beyond what the prompt leaves, on releases that never end
    such a request.
    In a running engine: prompts and answers that end exactly at ``max_model_len`` must end there with finish reason
    ``length``, a prompt one token beyond must be refused and leave the engine usable. Requests with more ``min_tokens``
    than there is room for must end.
    In a log: the refusals of vLLM, its server and the frameworks' data sets, with their numbers.

Why it hurts
    Beyond the model's context vLLM refuses to start, and frameworks assert. A prompt as long as the engine's context
    is refused in the middle of the run, with whatever batch holds it first. Where only the sum is too long,
    completions end early with finish reason ``length`` (or the server answers 400), the reward sees cut-off answers,
    and training learns from them. From vLLM 0.11.1 to 0.28 a request that fills its context below ``min_tokens`` is
    never scheduled again: generate() does not return, without a message.

How sure it is
    The limit is derived from the model's config as vLLM derives it. Without a ``config.json``, in a directory here or
    in the hub's cache, it is not checked.
    What a running engine does at its limit is counted token by token (vLLM 0.9.1 V0 and 0.32 end exactly there).
    The stop check was read in 0.9.2, 0.10.2, 0.11.0, 0.11.1, 0.11.2, 0.13.0, 0.14.1, 0.20.2, 0.24.0, and 0.26.0 to
    0.32.0, and 0.27.0 was seen not to end.

The fix and its cost
    Shorten prompt or response, or give the engine the whole length where the model allows it: more KV cache per
    sequence. A model can be stretched by rope scaling, at a cost in quality. ``VLLM_ALLOW_LONG_MAX_MODEL_LEN=1`` only
    silences the test: positions beyond the context give NaN or an out-of-bounds access.

References
    ``_get_and_verify_max_len``: https://github.com/vllm-project/vllm/blob/v0.10.2/vllm/config/__init__.py#L2797
    https://docs.vllm.ai/en/latest/configuration/engine_args.html
    The request that never ends: https://github.com/vllm-project/vllm/pull/51299
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    NotApplicable,
    NotChecked,
    Reach,
    RolloutPlan,
    Severity,
    cite,
    plan_of,
)
from rldoctor.api.engine import chunked_prefill
from rldoctor.api.models import cite_config, model_config, model_context

from ...observed.least_answers import SETTINGS, never_ends, room, shown
from .fixes import CONTEXT, PROMPT, RESPONSE, TOTAL, shorten

check = Check("RLD203", "length-budget-exceeded", __doc__)

# What a launch changes the model's own context with.
STRETCHED = ("engine.hf_overrides", "engine.rope_scaling", "model.overrides")
# They cut max_tokens down to what the context leaves, and say so in the log (ms-swift: `vllm_engine.py`).
CLIPS = ("ms-swift",)

ENDLESS = "https://github.com/vllm-project/vllm/pull/51299"

NEWER = Fix(
    title="or take a vLLM that ends a request at its context whatever min_tokens says",
    commands=("pip install 'vllm>=0.29'",),
    side_effects="the RL framework must work with it (rldoctor compat); such answers are shorter than min_tokens",
)


@check.declared(needs=[f"plan.{CONTEXT}", "model.config"])
def beyond_the_model(case: Case) -> Iterator[Finding | Reach]:
    """The engine is asked for more context than the model has."""
    plan = plan_of(case)
    asked = plan.value(CONTEXT)
    config = model_config(case)
    limit = model_context(config)
    if asked is None or limit is None:
        raise NotChecked("the launch file or the model's config.json does not tell the context length")
    changes = [setting for name in STRETCHED if (setting := plan.get(name)) is not None]
    if any(setting.value for setting in changes):
        raise NotChecked("the launch changes the model's config (hf_overrides or rope_scaling)")
    if asked <= limit.tokens:
        yield Reach(f"max_model_len {asked}, model context {limit.tokens}")
        return
    if hidden := next((setting for setting in changes if setting.unknown), None):
        raise NotChecked(f"what the launch changes of the model's config is not known: {hidden.unknown}")
    yield check.finding(
        f"max_model_len {asked} exceeds the model's context of {limit.tokens} tokens ({limit.key})",
        evidence=(
            *cite(plan, CONTEXT, PROMPT, RESPONSE),
            *cite_config(case, f"{limit.key}: {limit.tokens} tokens", config.defaulted),
        ),
        fixes=(
            *_within(plan, limit.tokens),
            Fix(title="stretch the model with rope_scaling in its config.json, or take a model with a longer context"),
        ),
    )


def _within(plan: RolloutPlan, limit: int) -> Iterator[Fix]:
    """The model's own context for the engine, and rollouts that fit into it. Where the launch gives the engine's
    context by itself, shorter rollouts alone would leave it where it is."""
    setting = plan.get(CONTEXT)
    given = setting is not None and setting.source == "given"
    if given and (plan.value(PROMPT) or 0) + (plan.value(RESPONSE) or 0) <= limit:
        yield Fix.safe(f"give the engine the model's context of {limit} tokens", {CONTEXT: limit})
    else:
        yield from shorten(plan, limit, limit if given else None)


@check.declared(needs=[f"plan.{CONTEXT}", f"plan.{PROMPT}"])
def beyond_the_engine(case: Case) -> Iterator[Finding | Reach]:
    """The rollouts are longer than the engine's context."""
    plan = plan_of(case)
    room, prompt, response = plan.value(CONTEXT), plan.value(PROMPT), plan.value(RESPONSE, 0)
    if room is None or prompt is None:
        raise NotChecked("the context or the prompt length cannot be read from the launch file")
    if prompt + response <= room:
        yield Reach(f"prompt {prompt} + response {response} within {room}")
        return
    # Who gives ms-swift one number for both means the whole sequence: its engine cuts max_tokens to what is left.
    whole = plan.framework == "ms-swift" and prompt == room
    alone = prompt >= room and not whole
    clipped = plan.framework in CLIPS and response <= room
    yield check.finding(
        f"prompt {prompt} + response {response} = {prompt + response} tokens exceed max_model_len {room}"
        + (": the longest prompts are refused" if alone else ": the longest completions are cut off or refused"),
        severity=Severity.ERROR if prompt > room else Severity.NOTE if clipped and not alone else Severity.WARNING,
        evidence=cite(plan, CONTEXT, PROMPT, RESPONSE),
        fixes=tuple(_widened(case, plan, room)),
    )


def _widened(case: Case, plan: RolloutPlan, room: int) -> Iterator[Fix]:
    """A context for the whole rollout; where the model is known not to have that, the model's, and shorter rollouts."""
    whole = (plan.value(PROMPT) or 0) + (plan.value(RESPONSE) or 0)
    limit = _own_limit(case, plan)
    if limit is not None and room < limit < whole:
        yield from shorten(plan, limit, limit)
    elif limit is None or whole <= limit:
        yield Fix.safe(
            f"give the engine a context of {whole} tokens",
            {CONTEXT: whole},
            side_effects="more KV cache for each sequence; the model must have that context",
        )
    yield from shorten(plan, room)


def _own_limit(case: Case, plan: RolloutPlan) -> int | None:
    """The context of the model, where it is known and the launch does not change it."""
    if any(plan.value(name) for name in STRETCHED):
        return None
    found = model_context(model_config(case))
    return found.tokens if found is not None else None


@check.declared(needs=[f"plan.{CONTEXT}", f"plan.{RESPONSE}"])
def responses_beyond_the_engine(case: Case) -> Iterator[Finding | Reach]:
    """Responses that leave no room for a prompt, however short: for releases that do not limit the prompt."""
    plan = plan_of(case)
    room, response = plan.value(CONTEXT), plan.value(RESPONSE)
    if plan.value(PROMPT) is not None:
        raise NotApplicable("the launch tells the longest prompt")
    if room is None or response is None:
        raise NotChecked("the context or the response length cannot be read from the launch file")
    if response <= room:  # the whole context is the frameworks' way to say: as much as is left
        yield Reach(f"responses of {response} within {room}")
        return
    says = f"exceed max_model_len {room} before any prompt: completions are cut off or refused"
    costs = "more KV cache for each sequence; the model must have that context"
    yield _too_long(plan, CONTEXT, says, "give the engine a context", costs)


@check.declared(needs=[f"plan.{TOTAL}", f"plan.{RESPONSE}"])
def responses_beyond_the_whole(case: Case) -> Iterator[Finding | Reach]:
    """A response longer than what the launch gives prompt and response together."""
    plan = plan_of(case)
    whole, response = plan.value(TOTAL), plan.value(RESPONSE)
    if not all(setting is not None and setting.source == "given" for setting in map(plan.get, (TOTAL, RESPONSE))):
        raise NotApplicable("the launch does not set both lengths")
    if whole is None or response is None:
        raise NotChecked("the length of the response or of the whole sequence cannot be read from the launch file")
    if response <= whole:  # as much as is left
        yield Reach(f"responses of {response} within sequences of {whole}")
        return
    says = f"exceed the {whole} of prompt and response together: the longest completions are cut off"
    yield _too_long(plan, TOTAL, says, "allow sequences", "more memory in training")


def _too_long(plan: RolloutPlan, bound: str, says: str, instead: str, costs: str) -> Finding:
    """Responses that are longer than the ``bound`` of prompt and response, which may be raised ``instead``."""
    most, response = plan.value(bound), plan.value(RESPONSE)
    return check.finding(
        f"responses of {response} tokens {says}",
        severity=Severity.WARNING,
        evidence=cite(plan, bound, RESPONSE),
        fixes=(
            *shorten(plan, most),
            Fix.unsafe(f"or {instead} of {response + most} tokens", {bound: response + most}, side_effects=costs),
        ),
    )


@check.declared(needs=["model.config", f"plan.{RESPONSE}"])
def beyond_the_models_own(case: Case) -> Iterator[Finding | Reach]:
    """The rollouts are longer than the model's context, which is the engine's where nobody sets another."""
    plan, model = plan_of(case), case.model
    setting, prompt, response = plan.get(CONTEXT), plan.value(PROMPT), plan.value(RESPONSE)
    if setting is not None and (setting.value is not None or setting.unknown is not None):
        raise NotApplicable("the launch sets the engine's context")
    limit = model_context(model.config) if model is not None else None
    if model is None or limit is None or response is None or (prompt is None and response <= limit.tokens):
        raise NotChecked("the model's context or the lengths of the rollouts are not known")
    if any(plan.value(name) for name in STRETCHED):
        raise NotChecked("the launch changes the model's config")
    whole = (prompt or 0) + response
    if whole <= limit.tokens:
        yield Reach(f"prompt {prompt} + response {response} within the model's {limit.tokens}")
        return
    what = f"responses of {response}" if prompt is None else f"prompt {prompt} + response {response} = {whole}"
    clipped = plan.framework in CLIPS and response <= limit.tokens
    yield check.finding(
        f"{what} tokens exceed the model's context of {limit.tokens} ({limit.key}): the longest completions are cut "
        "off or refused",
        severity=Severity.NOTE if clipped else Severity.WARNING,
        evidence=(
            *cite(plan, PROMPT, RESPONSE),
            Evidence(text=f"{limit.key}: {limit.tokens} tokens", source=f"{model.path}/config.json"),
        ),
        fixes=tuple(shorten(plan, limit.tokens)),
    )


@check.declared(needs=[f"plan.{CONTEXT}", "plan.lengths.turn"])
def a_turn_beyond_the_engine(case: Case) -> Iterator[Finding | Reach]:
    """One answer after the first prompt of a dialogue, and all turns as they may pile up."""
    plan = plan_of(case)
    room, turn, turns = plan.value(CONTEXT), plan.value("lengths.turn"), plan.value("lengths.turns", 1)
    prompt = plan.value(PROMPT, 0)
    if room is None or turn is None:
        raise NotChecked("the context or the length of a turn cannot be read from the launch file")
    whole = prompt + turn * max(1, turns)
    if whole <= room:
        yield Reach(f"prompt {prompt} + {turns} turns of {turn} within {room}")
        return
    first = prompt + turn > room
    yield check.finding(
        f"prompt {prompt} + a turn of {turn} tokens exceed max_model_len {room}"
        if first
        else f"prompt {prompt} + {turns} turns of {turn} tokens = {whole} exceed max_model_len {room}: the longest "
        "dialogues are cut off",
        severity=Severity.WARNING if first else Severity.NOTE,
        evidence=cite(plan, CONTEXT, PROMPT, "lengths.turn", "lengths.turns"),
        fixes=(
            Fix.unsafe(
                f"give the engine a context of {whole} tokens",
                {CONTEXT: whole},
                side_effects="more KV cache for each sequence; the model must have that context",
            ),
        ),
    )


@check.declared(needs=["plan.sampling.min_tokens", f"plan.{CONTEXT}", f"plan.{PROMPT}", "packages.vllm"])
def shortest_answer_beyond_the_engine(case: Case) -> Iterator[Finding | Reach]:
    """``min_tokens`` asks for more than the longest prompt leaves, on a vLLM that never ends such a request."""
    plan = plan_of(case)
    least, limit, prompt = (plan.value(name) for name in ("sampling.min_tokens", CONTEXT, PROMPT))
    if least is None or limit is None or prompt is None:
        raise NotChecked("min_tokens, the context or the prompt length cannot be read from the launch file")
    version = never_ends(case)
    if prompt + least <= limit or shown(case) or version is None:
        yield Reach(f"min_tokens {least} + prompt {prompt}, context {limit}")
        return
    yield check.finding(
        f"min_tokens {least} after a prompt of {prompt} exceeds max_model_len {limit}: this vLLM never ends such a "
        "request, and the run stalls without a message",
        evidence=(*cite(plan, *SETTINGS), Evidence(text=f"vllm {version}", source="vllm")),
        fixes=(*room(plan, chunks=bool(chunked_prefill(case).value)), NEWER),
        url=ENDLESS,
    )
