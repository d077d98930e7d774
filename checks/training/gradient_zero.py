"""Rewards differ, yet the update reaches nothing: the gradient, the step or the distance from the reference stays 0.

What it looks for
    In the logged metrics of steps at which rewards differ within groups: a gradient norm of exactly 0 at each of them
    from the first step on; a learning rate of 0 at every step; or a KL divergence from the reference that is exactly
    0 at five steps and more, although the learning rate is above 0.

Why it hurts
    The run looks alive (rewards are logged, time passes) and trains nothing: the parameters are frozen, detached or
    not in the optimizer, adapters are not active in the forward pass, all completions are masked out of the loss, or
    the weights' precision swallows steps this small.

How sure it is
    Three steps with differing rewards and a gradient of 0 are an error. The loss is not asked: GRPO's is 0 by
    construction where each batch is used once and beta is 0, and so is the KL of the first step. A learning rate of 0
    in warm-up is normal. A gradient that was there and vanished is RLD504, one that is 0 because all rewards are
    equal RLD501. A gradient printed as ``0.000`` is rounded and counts as unknown.

The fix and its cost
    Depends on the cause: see that some parameters require gradients and that the optimizer has them; for LoRA that
    the adapter is active and its modules exist in this model; with ``mask_truncated_completions`` or overlong
    filtering a larger completion limit; with bfloat16 weights a larger learning rate or float32 master weights.

References
    https://github.com/modelscope/ms-swift/issues/4570
    https://github.com/modelscope/ms-swift/issues/7229
    https://github.com/huggingface/trl/blob/main/trl/trainer/grpo_trainer.py
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import (
    Case,
    Check,
    Edit,
    Finding,
    Fix,
    Grade,
    Kind,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    Severity,
)

from ..observed.trends import FEWEST, Run, finite, mean, signal, steps_of

check = Check("RLD502", "gradient-zero", __doc__, kind=Kind.QUALITY)

SHOWN = ("grad_norm", "reward", "reward_std", "learning_rate", "loss", "kl")
# The first step's KL is 0, later ones at a tiny learning rate can still round to 0 for a few steps.
STILL_STEPS = check.threshold("still-steps", 5, "the logged steps after the first update with a KL divergence of 0")
ALL_CUT = 0.999
_TRAINABLE = Fix(
    title="make parameters trainable: requires_grad of what is to be trained, is_trainable=True where an adapter is "
    "loaded with PeftModel.from_pretrained"
)


@check.observed(needs=["metrics.grad_norm"])
def gradient_norm(case: Case) -> Iterator[Finding | Reach]:
    """The norm at steps at which there is something to learn."""
    run = Run.of(case)
    reported, norms = signal(run), finite(run.at("grad_norm"))
    steps = [step for step in norms if reported.get(step)]
    if not reported:
        raise NotApplicable("whether rewards differ within groups is not logged")
    if not norms:
        raise NotChecked("the gradient norm is NaN at every step")
    if not steps and not any(norms.values()):
        raise NotApplicable("rewards differ at none of the steps with a gradient norm (RLD501)")
    if any(norms.values()):
        yield Reach(f"the gradient norm is above 0 at {sum(1 for v in norms.values() if v)} of {steps_of(len(norms))}")
        return
    masked = mean(run.at("clipped_ratio")) >= ALL_CUT
    yield check.finding(
        f"rewards differ at {steps_of(len(steps))} and the gradient norm is 0 at all of them"
        + (", where every completion is cut off and may be masked out of the loss" if masked else ""),
        severity=Severity.ERROR if len(steps) >= FEWEST else Severity.NOTE,
        grade=Grade.OBSERVED,
        evidence=run.evidences((steps[0], steps[-1]), *SHOWN),
        fixes=tuple(_remedies(masked)),
    )


@check.observed(needs=["metrics.learning_rate"])
def learning_rate(case: Case) -> Iterator[Finding | Reach]:
    """A rate of 0 that lasts longer than a warm-up's first steps."""
    run = Run.of(case)
    rates = finite(run.at("learning_rate"))
    if any(rates.values()):
        yield Reach(f"the learning rate reaches {max(rates.values()):.4g}")
        return
    if len(rates) < FEWEST:
        raise NotChecked(f"a learning rate of 0 is logged at {steps_of(len(rates))}: a warm-up may begin so")
    first, last = min(rates), max(rates)
    yield check.finding(
        f"the learning rate is 0 at all {steps_of(len(rates))} since step {first}: no update changes the weights",
        severity=Severity.WARNING,
        grade=Grade.OBSERVED,
        evidence=run.evidences((first, last), "learning_rate", *SHOWN[:3]),
        fixes=(Fix(title="set learning_rate above 0 and a warm-up shorter than the run"),),
    )


@check.observed(needs=["metrics.kl", "metrics.learning_rate"])
def distance(case: Case) -> Iterator[Finding | Reach]:
    """The policy's distance from the reference after updates."""
    run = Run.of(case)
    rates, distances = finite(run.at("learning_rate")), finite(run.at("kl"))
    moved = [step for step, rate in rates.items() if rate > 0]
    after = {step: value for step, value in distances.items() if moved and step > moved[0]}
    norms = run.at("grad_norm")
    if any(after.values()):
        yield Reach(f"KL up to {max(after.values()):.4g} over {steps_of(len(after))} after the first update")
        return
    if len(after) < STILL_STEPS.of(case):
        raise NotChecked(f"KL is logged at {steps_of(len(after))} after the first update: too few to tell")
    if not any(norms.get(step, 1) for step in after):
        raise NotApplicable("the gradient norm is 0 at these steps too: what is not updated keeps its distance")
    first, last = min(after), max(after)
    yield check.finding(
        f"the KL divergence from the reference is exactly 0 at all {steps_of(len(after))} after the first update: the "
        f"weights do not change (learning rate {max(rates.values()):.3g})",
        severity=Severity.WARNING,
        grade=Grade.OBSERVED,
        evidence=run.evidences((first, last), "kl", *SHOWN[:-1]),
        fixes=tuple(_remedies(masked=False)),
    )


def _remedies(masked: bool) -> Iterator[Fix]:
    if masked:
        yield Fix(
            title="raise the completion limit (RLD503), or keep cut-off completions in the loss",
        )
        return
    yield Fix(
        title="see that the optimizer's parameters require gradients: for LoRA that target_modules exist in this model "
        "and the adapter is active, and that nothing is frozen or detached"
    )
    yield Fix(
        title="keep the trained weights in float32, or raise the learning rate (bfloat16 drops updates below a "
        "hundredth of a weight)",
        edits=(Edit(option="trainer.param_dtype", value="float32"),),
        side_effects="twice the memory for the trained weights",
    )


check.signature(
    "does not require grad and does not have a grad_fn",
    "none of output has requires_grad=True, this checkpoint() is not necessary",
    exception="RuntimeError",
    says="the loss depends on no trainable parameter: backward finds nothing to differentiate",
    fixes=lambda case, event, words: _no_gradient(event),
    url="https://docs.pytorch.org/docs/stable/notes/autograd.html",
)
check.signature(
    "Inference tensors cannot be saved for backward",
    exception="RuntimeError",
    says="a tensor that was made under torch.inference_mode() enters the loss: backward cannot use it",
    fixes=lambda case, event, words: _of_inference(event),
    url="https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad_mode.inference_mode.html",
)
check.signature(
    "Number of trainable parameters = 0",
    "optimizer got an empty parameter list",
    says="no parameter is trainable: all are frozen, or an adapter was loaded for inference",
    fixes=(_TRAINABLE,),
)


def _of_inference(event: LogEvent) -> Iterator[Fix]:
    """Unsloth's maintainers answer it with newer releases; elsewhere it is for whoever generates."""
    if "unsloth" in event.text:
        yield Fix(title="newer unsloth and unsloth_zoo, with a vLLM that they are tested with")
    yield Fix(
        title="generate and score under torch.no_grad() instead, or clone what comes out of it (tokens, "
        "log-probabilities, hidden states) before the loss"
    )


def _no_gradient(event: LogEvent) -> Iterator[Fix]:
    """Checkpointing recomputes from inputs that need a gradient, which frozen embeddings under adapters have not."""
    around = "\n".join((*event.before, event.text))
    if "None of the inputs have requires_grad=True" in around or "checkpoint.py" in around:
        yield Fix(
            title="let the embeddings' outputs require gradients: model.enable_input_require_grads(), or "
            "gradient_checkpointing_kwargs={'use_reentrant': False}"
        )
    yield _TRAINABLE
    yield Fix(title="and that the forward pass of the loss runs outside torch.no_grad() and torch.inference_mode()")
