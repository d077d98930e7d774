"""The tokenizer has no chat template, or the stop token does not fit the way prompts are written.

What it looks for
    In a launch file: prompts that go through a chat template (``apply_chat_template``, or a framework that always does
    so) while the model's tokenizer files have none and the launch gives none. With a template: one that ends turns with
    a token at which neither the model nor the sampling stops. In a running engine: a question and an answer rendered by
    the tokenizer of this environment (a template that raises, that transformers does not find, that begins a sequence
    twice), and whether the engine stops at the tokenizer's end of sequence and at the template's end of turn, and hands
    those tokens on, when it is made to choose them. In a log: the tokenizer's refusal.

Why it hurts
    transformers had a default template until 4.43; since 4.44 it raises ``Cannot use chat template functions because
    tokenizer.chat_template is not set``, with the first prompt. A base model that is prompted with a template rarely
    emits the template's end of turn as its own end of sequence: completions run to the limit.

How sure it is
    Templates are looked for where transformers looks: ``tokenizer_config.json``, ``chat_template.jinja`` and
    ``chat_template.json`` beside it. Without local tokenizer files nothing is judged but the engine itself, on a
    tokenizer of bytes.

The fix and its cost
    A template in the tokenizer's files (from the instruct sibling), or prompts without one. What the policy sees
    changes.

References
    https://huggingface.co/docs/transformers/main/en/chat_templating
    https://github.com/OpenRLHF/OpenRLHF/issues/613, https://github.com/huggingface/open-r1/issues/271
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
    find,
    plan_of,
    version_within,
)
from rldoctor.api.facts import ModelFiles

from ...observed.rollout import records

check = Check("RLD215", "chat-template-invalid", __doc__)

URL = "https://huggingface.co/docs/transformers/main/en/chat_templating"
MEND = Fix(title="mend the chat_template in tokenizer_config.json or chat_template.jinja")

APPLIES = "model.apply_chat_template"

TEMPLATE = "model.chat_template"

# They put every prompt through `tokenizer.apply_chat_template` (verl `utils/dataset/rl_dataset.py`, EasyR1
# `dataset.py`,
# SkyRL `dataset.py`).
ALWAYS = ("verl", "EasyR1", "SkyRL")

# Its templates are its own, chosen by the model's family.
OWN_TEMPLATES = ("ms-swift",)

TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json")

DEFAULT_UNTIL = "<4.44"


def asks_for_template(plan: RolloutPlan) -> bool:
    """Whether the run puts its prompts through the tokenizer's template."""
    if plan.framework in OWN_TEMPLATES or plan.role == "server":
        return False
    return plan.value(APPLIES) is True or (plan.framework in ALWAYS and plan.value(APPLIES) is None)


def templates(model: ModelFiles) -> list[str]:
    """Where the model's files hold a template."""
    inside = ["tokenizer_config.json"] if (model.tokenizer_config or {}).get("chat_template") else []
    return inside + [name for name in TEMPLATE_FILES if name in model.files]


@check.declared(needs=["plan", "model.tokenizer_config"])
def no_template(case: Case) -> Iterator[Finding | Reach]:
    """A template is asked for and there is none."""
    plan, model = plan_of(case), case.model
    if not asks_for_template(plan) or model is None:
        raise NotApplicable("the launch does not say that prompts are formatted with the tokenizer's chat template")
    if plan.value("model.tokenizer") or plan.value("engine.tokenizer"):
        raise NotChecked("the launch takes another tokenizer than the model's")
    if plan.value(TEMPLATE):
        yield Reach(f"the launch gives a template ({TEMPLATE})")
        return
    found = templates(model)
    if found:
        yield Reach(f"the template of {found[0]}")
        return
    installed = find(case.packages, "transformers") if case.packages is not None else None
    if installed is not None and version_within(installed.version, DEFAULT_UNTIL):
        yield Reach(f"transformers {installed.version} has a default template")
        return
    if model.cached:
        raise NotChecked("the hub's cache holds no template of it, which may be among the files not downloaded yet")
    yield check.finding(
        "prompts are formatted with the tokenizer's chat template, and the tokenizer has none: transformers raises at "
        "the first prompt",
        evidence=(
            *cite(plan, APPLIES, "model.path"),
            Evidence(text="no chat_template", source=f"{model.path}/tokenizer_config.json"),
        ),
        fixes=tuple(_remedies(plan, model.path)),
        url=URL,
    )


def _remedies(plan: RolloutPlan, path: str) -> Iterator[Fix]:
    yield Fix(
        title=f"put a chat_template into {path}/tokenizer_config.json (or chat_template.jinja beside it), for instance "
        "that of the instruct sibling, or train the instruct model",
    )
    if plan.value(APPLIES) is True:
        with_own = plan.framework == "OpenRLHF"
        yield Fix.unsafe(
            "or format the prompts with --input_template" if with_own else "or hand the prompts on as they are",
            {APPLIES: False},
            side_effects="the policy sees the prompts without roles",
        )
    elif plan.framework in ("verl", "EasyR1"):
        key = (
            "actor_rollout_ref.model.custom_chat_template"
            if plan.framework == "verl"
            else "data.override_chat_template"
        )
        yield Fix(title=f"or give the template with the launch, in {key}")


@check.declared(needs=["plan", "model.tokenizer_config"])
def end_of_turn_never_stops(case: Case) -> Iterator[Finding | Reach]:
    """ChatML's end of turn is no end of sequence of this model: base models run on past it."""
    plan, model = plan_of(case), case.model
    if not asks_for_template(plan) or model is None or model.tokenizer_config is None:
        raise NotApplicable("the launch does not say that prompts are formatted with the tokenizer's chat template")
    template = plan.value(TEMPLATE) or model.tokenizer_config.get("chat_template") or ""
    if "<|im_end|>" not in str(template):
        raise NotApplicable("the template is not ChatML")
    if any("turn" in records(job).get("ends", {}) for job in case.observations.get("tokens", {}).values()):
        raise NotApplicable("a running engine was asked")
    stops = _stops(plan, model)
    if stops is None or (model.cached and model.generation_config is None):
        raise NotChecked("the tokens at which the model stops are not known")
    if "<|im_end|>" in stops:
        yield Reach(f"stops at {', '.join(sorted(stops))}")
        return
    yield check.finding(
        f"the chat template ends a turn with <|im_end|>, sampling stops at {', '.join(sorted(stops))} only: a policy "
        "that ends its turns runs on to the length limit",
        severity=Severity.NOTE,
        evidence=(
            Evidence(text="<|im_end|> in chat_template", source=f"{model.path}/tokenizer_config.json"),
            *cite(plan, "sampling.stop", "sampling.stop_token_ids"),
        ),
        fixes=(Fix(title="make <|im_end|> an eos_token_id in generation_config.json, or a stop token of sampling"),),
        url="https://github.com/huggingface/open-r1/issues/271",
    )


def _stops(plan: RolloutPlan, model: ModelFiles) -> set[str] | None:
    """The tokens that end a completion, as text; None where an id has no name in the tokenizer's files."""
    config = model.tokenizer_config or {}
    names = {int(i): str(t.get("content")) for i, t in _added(config).items() if str(i).isdecimal()}
    eos = config.get("eos_token")
    found = {str(eos.get("content") if isinstance(eos, dict) else eos)} if eos else set()
    found |= {str(text) for text in plan.value("sampling.stop") or ()}
    ids: list[Any] = list(plan.value("sampling.stop_token_ids") or ())
    for source in (model.config, model.generation_config or {}):
        reported = source.get("eos_token_id")
        ids += reported if isinstance(reported, list) else [reported]
    named = [names.get(i) for i in ids if isinstance(i, int)]
    return None if None in named or not found else found | {n for n in named if n}


def _added(config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    added = config.get("added_tokens_decoder")
    return {i: t for i, t in added.items() if isinstance(t, dict)} if isinstance(added, dict) else {}
