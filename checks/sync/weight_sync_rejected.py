"""The engine refuses the weights that the trainer sends: names, shapes, shards or precision do not fit.

What it looks for
    A trainer in 4 bits whose framework sends the packed weights to an engine that holds none (TRL before 0.26, ms-swift
    before 4.1). In a running engine: changed weights sent the way that the framework sends them, and whether a tensor
    of a wrong name or shape is refused. In a log: names that the engine's model does not have, shapes that do not fit,
    quantization scales of another layout, an update that begins while another one is open.

Why it hurts
    The first sync after the first step fails, when everything else has been paid for. Where shapes happen to fit, the
    engine samples from rounded or wrong weights and nothing is said.

How sure it is
    The engine names the parameter or both shapes. The names and shapes that are sent are those of the same model in
    transformers. The releases are those in which the frameworks began to tell the
    engine of the quantization.

The fix and its cost
    Names as vLLM's model has them: without PEFT's ``base_model.model.`` and ``.base_layer``, adapters merged or sent as
    adapters. Full precision in the trainer costs memory; adapters alone cost none.

References
    ``vllm/model_executor/models/utils.py`` (``There is no module or parameter named``), ``weight_utils.py``
    https://github.com/modelscope/ms-swift/pull/8350 (QLoRA, 4.1.0), https://github.com/huggingface/trl/issues/3466
    https://github.com/verl-project/verl/issues/2160, https://github.com/TIGER-AI-Lab/verl-tool/issues/125
    https://github.com/NovaSky-AI/SkyRL/issues/1605, https://github.com/NVIDIA-NeMo/RL/issues/2081
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    Grade,
    LogEvent,
    NotApplicable,
    Reach,
    Severity,
    cite,
    plan_of,
    version_within,
)

from ..exceptions import root_of
from ..rollout.agreement import difference, noise_of
from ..rollout.observed import describe, records, require, runs
from .weight_sync_fixes import MAPPED_ADAPTERS, NAMES, RELEASES, for_name
from .weight_sync_frames import SYNC_WORDS, loads_its_checkpoint

check = Check("RLD401", "weight-sync-rejected", __doc__)

QUANTIZATION = "model.quantization"
# The releases that send packed 4-bit weights to an engine of full precision, by framework, and the first that do not.
PACKED = {
    "TRL": (">=0.16,<0.26", 'pip install "trl>=0.26"', "TRL 0.26 and later load the colocated engine in 4 bits too"),
    "ms-swift": (">=3.5,<4.1", 'pip install "ms-swift>=4.1"', "ms-swift 4.1 and later load the engine in 4 bits too"),
}


@check.declared(needs=[f"plan.{QUANTIZATION}", "plan.placement.mode"])
def packed_weights(case: Case) -> Iterator[Finding | Reach]:
    """A quantized policy whose own weights go to the engine."""
    plan = plan_of(case)
    versions, command, says = PACKED.get(plan.framework, ("", "", ""))
    sampling = plan.value("placement.mode") in ("colocate", "server")
    if not versions or plan.version is None or not sampling or plan.value(QUANTIZATION) != "4bit":
        raise NotApplicable("no 4-bit policy sends its weights to vLLM")
    if plan.value("engine.enable_lora") or not version_within(plan.version, versions):
        yield Reach("adapters alone are sent, or the engine is quantized too")
        return
    yield check.finding(
        f"the policy is held in 4 bits, and {plan.framework} {plan.version} sends its weights to an engine of full "
        "precision: packed shapes are refused, merged adapters are rounded",
        severity=Severity.WARNING,
        evidence=cite(plan, QUANTIZATION, "placement.mode", "lora.enabled"),
        fixes=(
            Fix(title=says, commands=(command,)),
            Fix.unsafe(
                "or train adapters on weights in full precision",
                {QUANTIZATION: None},
                side_effects="four times the memory for the weights",
            ),
        ),
        url="https://github.com/huggingface/trl/issues/3466",
    )


@check.observed(needs=["observations.weights"])
def refused_here(case: Case) -> Iterator[Finding | Reach]:
    """The trainer's own weights, changed a little, for the running engine."""
    for job in runs(case, "weights"):
        way, rejected = require(job, "way"), records(job).get("rejected")
        if way["name"] is None:
            raise NotApplicable(way["why"])
        if rejected is None:
            yield Reach(f"{describe(job)} takes the trainer's weights through {way['name']}")
            continue
        root = root_of(rejected["exceptions"]) or {}
        yield check.finding(
            f"{describe(job)} refuses {rejected['what']}: {root.get('type')}: {root.get('message')}"[:400],
            grade=Grade.OBSERVED,
            evidence=(
                Evidence(text=f"sent through {way['name']}: {way['why']}", source="weights probe"),
                *(
                    Evidence(text=f"in {frame['function']}", source=frame["file"], line=frame["line"])
                    for frame in root.get("frames", ())[-2:]
                ),
            ),
            fixes=for_name(str(root.get("message"))),
        )


@check.observed(needs=["observations.weights"])
def anything_goes(case: Case) -> Iterator[Finding | Reach]:
    """A tensor under a name that the model does not have, and one with a row too few."""
    for job in runs(case, "weights"):
        if require(job, "way")["name"] is None:
            raise NotApplicable(require(job, "way")["why"])
        if "refusals" not in records(job) and "rejected" in records(job):
            raise NotApplicable("the engine refuses the trainer's own weights")
        for what, told in require(job, "refusals").items():
            root = root_of(told["exceptions"] or ())
            if root is not None:
                yield Reach(f"a wrong {what} is refused with {root['type']}")
                continue
            moved = difference(told["before"], told["after"])
            yield check.finding(
                f"{describe(job)} takes a weight of a wrong {what} without a word"
                + (", and computes with it" if moved.beyond(noise_of(job)) else ", and ignores it")
                + f": a sync that sends a wrong {what} will not be noticed",
                severity=Severity.WARNING if what == "shape" else Severity.NOTE,
                grade=Grade.OBSERVED,
                evidence=(
                    Evidence(
                        text=f"sent {told['sent']}; log-probabilities of fixed tokens: {moved}", source="weights probe"
                    ),
                ),
                fixes=(
                    Fix(
                        title="compare both sides' log-probabilities after a sync, as the frameworks' metrics of the "
                        "difference between rollout and training do"
                    ),
                ),
            )


@check.logged("There is no module or parameter named '")
def unknown_name(case: Case, event: LogEvent) -> Iterator[Finding]:
    """vLLM's AutoWeightsLoader; the same words come up when a checkpoint is loaded at start."""
    found = event.search(r"no module or parameter named '([^']+)' in (\w+)")
    if found is None or loads_its_checkpoint(event):
        return
    peft = found[1].startswith(("base_model", "lora_", "modules_to_save")) or "base_layer" in found[1]
    yield check.finding(
        f"the engine's {found[2]} has no parameter {found[1]!r}" + (": PEFT's names were sent" if peft else ""),
        fixes=for_name(found[1]),
        url="https://github.com/TIGER-AI-Lab/verl-tool/issues/125",
    )


@check.logged("KeyError: '")
def missing_key(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A model's own ``load_weights`` looks the name up in a dictionary."""
    error = event.exception
    found = event.search(
        r"KeyError: '((?:[\w-]+\.)*(?:weight|bias|base_layer\.\w+|qkv_proj\.\w+|weight_scale\w*|experts\.\w+))'"
    )
    if found is None or error is None or loads_its_checkpoint(event) or not event.search(SYNC_WORDS):
        return
    layered = "base_layer" in found[1] or "lora" in error.text.lower()
    yield check.finding(
        f"the engine's model has no parameter {found[1]!r}"
        + (": names of a model with adapters meet one without, or the other way round" if layered else ""),
        fixes=(NAMES, MAPPED_ADAPTERS, RELEASES) if layered else for_name(found[1]),
        url="https://github.com/verl-project/verl/issues/2160",
    )


@check.logged("Attempted to load weight (")
def shape_differs(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``default_weight_loader`` compares the shapes."""
    found = event.search(r"Attempted to load weight \(torch\.Size\((.+?)\)\) into parameter \(torch\.Size\((.+?)\)\)")
    if found is None:
        return
    yield check.finding(
        f"weights of shape {found[1]} do not fit the engine's parameter of shape {found[2]}",
        fixes=(
            Fix(
                title="send whole tensors: gather all shards (FSDP, ZeRO-3, tensor parallel) without their padding, "
                "merge checkpoints with the release's own merger, no packed 4-bit weights",
            ),
            RELEASES,
        ),
        url="https://github.com/verl-project/verl/issues/834",
    )


@check.logged(
    "assert param_data.shape == loaded_weight.shape",
    "assert self.data.shape == loaded_weight.shape",
    "assert param.data.shape == loaded_weight.shape",
    "assert loaded_weight.shape[output_dim] == self.org_vocab_size",
    "assert args[0].numel() == args[1].numel()",
)
def shape_asserted(case: Case, event: LogEvent) -> Iterator[Finding]:
    """vLLM's layers compare shapes by a bare assertion; the code line is all there is."""
    if event.exception is None or not event.exception.type.endswith("AssertionError") or loads_its_checkpoint(event):
        return
    yield check.finding(
        "a weight of the update has another shape than the engine's parameter (packed 4-bit weights, shards, a resized "
        "vocabulary)",
        fixes=(
            Fix(title="send whole tensors in full precision, as many rows as the model's own vocabulary has"),
            RELEASES,
        ),
        url="https://github.com/modelscope/ms-swift/issues/6884",
    )


@check.logged(
    "called while a weight update is already active",
    "start_weight_update must be called before ",
    "finish_weight_update called without a matching",
    "weight update is already active. Call ",
)
def updates_overlap(case: Case, event: LogEvent) -> Iterator[Finding]:
    """vLLM's protocol of start, chunks and finish (0.20 on), and SkyRL's of the same kind."""
    yield check.finding(
        "two weight updates overlap, or one was never finished: start, all chunks and finish must come once for each "
        "sync",
        fixes=(
            Fix(title="let one rank start and finish the update, behind a barrier, and finish it also after an error"),
            Fix(title="a release of the framework that orders them", commands=("pip install --upgrade skyrl",)),
        ),
        url="https://github.com/NovaSky-AI/SkyRL/issues/1605",
    )


@check.logged("layer.weight_scale.data.copy_(", "maybe_post_process_fp8_weight_block")
def scale_layout_differs(case: Case, event: LogEvent) -> Iterator[Finding]:
    """fp8 scales are laid out anew for DeepGEMM at every load, and no longer fit."""
    yield check.finding(
        "fp8 block scales of the update have another layout than the engine keeps (DeepGEMM on this GPU)",
        fixes=(
            Fix.unsafe("keep DeepGEMM out", {"env.VLLM_USE_DEEP_GEMM": "0"}),
            Fix.unsafe("or an engine of bfloat16 weights", {"engine.quantization": None}),
        ),
        url="https://github.com/NVIDIA-NeMo/RL/issues/2081",
    )


@check.logged(" is not a valid data dimension for a ")
def experts_laid_out(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``shard_dim=0 is not a valid data dimension for a 3D tensor``: vLLM's loader of single experts."""
    if "shard_dim=" not in event.line or loads_its_checkpoint(event):
        return
    yield check.finding(
        "an expert's weight does not fit the engine's: the MoE kernel laid the experts out in blocks when they were "
        "loaded, or all experts were sent in one tensor",
        fixes=(
            Fix(
                title="a MoE kernel that keeps the checkpoint's layout (NeMo-RL's recipes take Triton)",
                commands=("--moe-backend triton",),
                side_effects="a slower kernel on Blackwell",
            ),
            RELEASES,
        ),
        url="https://github.com/verl-project/verl/pull/7987",
    )


@check.logged("object has no attribute 'weight_loader'")
def loader_gone(case: Case, event: LogEvent) -> Iterator[Finding]:
    """After loading, some kernels lay weights out anew, in parameters that cannot be loaded again."""
    if loads_its_checkpoint(event):
        return
    yield check.finding(
        "the engine laid its weights out anew after loading (quantized, CPU or fp8 kernels) and takes no update since",
        fixes=(
            Fix(title="run the engine in bfloat16 without quantization, on the device that the framework supports"),
            RELEASES,
        ),
    )
