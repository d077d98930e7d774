"""A checkpoint cannot be written or read.

What it looks for
    Errors while tensors are serialised (safetensors, ``torch.save``), and a full or over-quota file system, inside the
    functions that save or load checkpoints. In a run that still stands (``rldoctor hang``): ranks that wait in a
    collective for one that saves or loads, and does not come to its end.

Why it hurts
    Hours of training end at the first save. With several ranks the others wait in a collective for the rank that failed
    and report a time-out.

How sure it is
    The error stands in the frames of the save; the same text elsewhere (a cache, shared memory) is another code's.

The fix and its cost
    Free space or another folder; fewer checkpoints are kept.

References
    https://huggingface.co/docs/transformers/main_classes/trainer#transformers.TrainingArguments.save_total_limit
    https://github.com/OpenRLHF/OpenRLHF/issues/1126
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rldoctor.api import Case, Check, Edit, Finding, Fix, Grade, LogEvent, Reach, Severity
from rldoctor.api.hang import stalled_run

from ..observed.endings import was_raised
from ..observed.waiting import LONGER, evidence, missing_peers, missing_text, saves

if TYPE_CHECKING:
    from rldoctor.api.hang import MissingPeers

check = Check("RLD610", "checkpoint-failed", __doc__, before=("RLD104", "RLD108", "RLD114"))

_SAVING = re.compile(r"save|checkpoint|serialize|serialization|write_item|write_end_of_file|dump", re.IGNORECASE)
_SPACE = Fix(
    title="free space where the checkpoints go, or write them to another file system",
    commands=("df -h OUTPUT_DIR", "du -sh OUTPUT_DIR/*"),
)
_FEWER = Fix(title="delete old checkpoints as new ones come", edits=(Edit(option="trainer.save_limit", value=2),))


@check.observed(needs=["observations.hang"])
def outlasts_the_others(case: Case) -> Iterator[Finding | Reach]:
    """A rank that has been at one point of a save or load for the whole time, with the others in a collective."""
    run = stalled_run(case)

    def finding(group: MissingPeers, severity: Severity) -> Finding:
        slow = any(one.thread is not None and one.thread.state == "D" for one in group.missing)
        return check.finding(
            missing_text(group, run) + ("; it sleeps in the kernel: the storage does not answer" if slow else ""),
            severity=severity,
            grade=Grade.OBSERVED,
            evidence=evidence(run, (*group.missing, *group.waiting)),
            fixes=(
                Fix(title="see whether the storage answers", commands=("time ls OUTPUT_DIR", "df -h OUTPUT_DIR")),
                Fix(title="or give the group more time than the slowest save takes (timeout= of init_process_group)"),
                LONGER,
            ),
            url="https://github.com/OpenRLHF/OpenRLHF/issues/1126",
        )

    yield from missing_peers(run, saves, finding)


# What safetensors says of a file that it writes, in its newer and its earlier releases.
_WRITES = "Error while serializing: I"


@check.logged(
    _WRITES,
    "PytorchStreamWriter failed writing file",
    "enforce fail at inline_container.cc",
    "No space left on device",
    "Disk quota exceeded",
    " failed with Input/output error",
    unless=("unable to allocate shared memory", "/dev/shm/"),
)
def cannot_write(case: Case, event: LogEvent) -> Iterator[Finding]:
    """Writing failed in a function that saves."""
    error = event.exception
    links = ((event.carrier or error).chain) if error is not None else ()
    frames = [frame for link in links for frame in link.frames]
    saves = event.literal == _WRITES or any(_SAVING.search(f"{frame.function} {frame.file}") for frame in frames)
    if error is None or not saves:
        return
    raised = next((link for link in links if event.literal in link.message), error)
    full = event.search(r"No space left on device|Disk quota exceeded|\(os error 28\)|\[Errno (?:28|122)\]")
    yield check.finding(
        f"saving a checkpoint failed: {full[0] if full else str(raised).splitlines()[0][:200]}",
        fixes=(_SPACE, _FEWER),
    )


# A checkpoint is cut off: the save before it did not come to its end.
check.signature(
    "PytorchStreamReader failed",
    "failed finding central directory",
    "failed reading zip archive",
    says="a checkpoint file is incomplete: the run that wrote it ended while saving",
    fixes=(Fix(title="resume from the checkpoint before it, and delete the incomplete one"),),
)
check.signature(
    "EOFError: Ran out of input",
    exception="EOFError",
    when=lambda case, event: any(
        frame.file.endswith("/torch/serialization.py") or frame.function == "set_extra_state"
        for frame in event.frames[-2:]
    ),
    says="what the checkpoint holds there is empty: a file that was never filled, or a module's extra state that its "
    "writer left out",
    fixes=(
        Fix(title="where it is a file: resume from the checkpoint before it, and delete the incomplete one"),
        Fix(title="where it is extra state: load with the release of that package that wrote the checkpoint"),
    ),
)


_LAYOUT = Fix(
    title="resume with the layout that wrote the checkpoint: the same number of ranks and the same tensor, pipeline "
    "and data parallel sizes"
)

check.signature(
    "Object shard ",
    pattern=r"Object shard (?P<path>\S+) not found",
    says="the checkpoint has no object shard for this rank ({path}): it was written with another parallel layout, or "
    "is incomplete",
    fixes=(
        _LAYOUT,
        Fix(title="or resume the weights alone, without rng_state and optimizer (load_contents=['model'] in verl)"),
    ),
    url="https://docs.nvidia.com/megatron-core/developer-guide/latest/api-guide/dist_checkpointing.html",
)
check.signature(
    "Global shape mismatch for loaded",
    pattern=r"Global shape mismatch for loaded \((?P<loaded>.+?)\)\s*and expected \(+(?P<expected>.+?)\)+ tensor",
    says="a tensor of the checkpoint has the shape {loaded}, and this model expects {expected}",
    fixes=(
        Fix(title="load it into the model that wrote it: the same vocabulary padding, tied embeddings and experts"),
        _LAYOUT,
    ),
    url="https://docs.nvidia.com/megatron-core/developer-guide/latest/api-guide/dist_checkpointing.html",
)
# torch/distributed/checkpoint/default_planner.py
check.signature(
    "Size mismatch between saved torch.Size(",
    pattern=r"Size mismatch between saved (?:torch\.Size\()?(?P<saved>\[[\d, ]*\])\)? and current: "
    r"(?:torch\.Size\()?(?P<current>\[[\d, ]*\])\)? for (?P<name>[\w.]+)",
    when=was_raised,
    says="{name} was saved with the shape {saved}, and this run has {current}",
    fixes=(
        Fix(
            title="load it as it was saved: the same wrapping (one dimension is what FSDP flattened: use_orig_params, "
            "FSDP1 or FSDP2), the same vocabulary padding, the same model"
        ),
        _LAYOUT,
    ),
)
# verl, one file for each rank of the world that saved.
check.signature(
    "_world_size_",
    pattern=r"No such file or directory: '?\S*?(?:model|optim|extra_state)_world_size_(?P<world>\d+)"
    r"_rank_(?P<rank>\d+)\.pt",
    says="the checkpoint has no part for rank {rank} of {world}: it was written by another number of ranks, or on "
    "disks that this node does not see",
    fixes=(
        _LAYOUT,
        Fix(title="or put the checkpoint on a file system that all nodes share"),
        Fix(title="or merge it first (python -m verl.model_merger merge) and start from the merged model"),
    ),
    url="https://verl.readthedocs.io/en/latest/advance/checkpoint.html",
)
check.signature(
    "The checkpoint being loaded used a DP world size of ",
    pattern=r"used a DP world size of (?P<before>\d+) but the current world size is (?P<now>\d+)",
    says="{before} data parallel ranks wrote the DeepSpeed checkpoint, and {now} load it",
    fixes=(
        _LAYOUT,
        Fix(
            title="or make a universal checkpoint of it (ds_to_universal.py) and set load_universal in the DeepSpeed "
            "config"
        ),
    ),
    url="https://www.deepspeed.ai/tutorials/universal-checkpointing/",
)


def _of_state(case: Case, event: LogEvent, words: Mapping[str, str]) -> Iterator[Fix]:
    """What to load it into, by what differs."""
    name = words.get("name", "")
    if "Peft" in words["model"] or "base_layer" in name or "lora_" in name:
        yield Fix(
            title="an adapter's checkpoint holds the adapter alone: load the base model, then the adapter "
            "(PeftModel.from_pretrained), and resume without FSDP's or DeepSpeed's full state"
        )
    elif "embed" in name or "lm_head" in name or "score" in name:
        yield Fix(
            title="load it into the model that wrote it: the same vocabulary size (added tokens, padding) and head"
        )
    else:
        yield Fix(
            title="load it into the model that wrote it: the same architecture, wrapping (module., _orig_mod.) and "
            "adapters"
        )
    yield Fix(title="or start from the weights that the framework exports for inference, not from its training state")


# torch.nn.Module.load_state_dict and the planner of torch.distributed.checkpoint.
_NAMES = r"(?:Missing|Unexpected) key\(s\) in state_dict: \"(?P<name>[^\"\n]{1,200})"
check.signature(
    "Error(s) in loading state_dict for ",
    pattern=r"loading state_dict for (?P<model>\w+):?[\s\S]{0,20}?(?:" + _NAMES[:-1] + r")[\w.]*\._extra_state)",
    says="the checkpoint of {model} has none of Transformer Engine's extra state ({name}...), which this release of "
    "Megatron-Core asks for",
    fixes=(
        Fix(title="load it as weights of another release: --dist-ckpt-strictness log_unexpected, or strict=False"),
        Fix(title="or take the Megatron-Core and Transformer Engine that wrote the checkpoint, or convert it anew"),
    ),
    url="https://docs.nvidia.com/megatron-core/developer-guide/latest/api-guide/dist_checkpointing.html",
)
# DeepSpeed ZeRO-3 leaves an empty tensor in the place of a parameter whose shards lie on all ranks.
check.signature(
    "Error(s) in loading state_dict for ",
    pattern=r"loading state_dict for (?P<model>\w+)[\s\S]{0,4000}?size mismatch for (?P<name>[\w.]{1,200}): copying a "
    r"param with shape torch.Size\(\[\d[\d, ]*\]\) from checkpoint, the shape in current model is torch.Size\(\[0\]\)",
    says="{model} is partitioned by DeepSpeed ZeRO-3 as its weights are loaded: {name} is empty on this rank",
    fixes=(
        Fix(
            title="load within deepspeed.zero.GatheredParameters(params, modifier_rank=0), or before the model is "
            "partitioned (from_pretrained does so)"
        ),
        Fix(title="or train with ZeRO-2, which leaves parameters whole"),
    ),
    url="https://deepspeed.readthedocs.io/en/latest/zero3.html#gathering-parameters",
)
check.signature(
    "Error(s) in loading state_dict for ",
    pattern=r"loading state_dict for (?P<model>\w+)",
    details=(
        _NAMES,
        r"size mismatch for (?P<name_2>[\w.]{1,200}): copying a param with shape torch.Size\(\[(?P<had>[\d, ]*)\]\) "
        r"from checkpoint, the shape in current model is torch.Size\(\[(?P<has>[\d, ]*)\]\)",
    ),
    unless=("._extra_state", "the shape in current model is torch.Size([0])"),
    says="the checkpoint does not fit {model}[[: {name}]][[ has the shape [{had}] there and [{has}] in the model]]",
    fixes=_of_state,
)
check.signature(
    "Missing key in checkpoint state_dict: ",
    pattern=r"Missing key in checkpoint state_dict: (?P<name>[\w.]{1,300})",
    says="the checkpoint has no {name}, which this run asks for: it was written with other parts or trained weights",
    fixes=(
        Fix(title="resume with the model, the adapters and the optimizer of the run that wrote it"),
        Fix(title="or load the weights alone, and let the optimizer begin anew"),
    ),
    url="https://docs.pytorch.org/docs/stable/distributed.checkpoint.html",
)
_OF_CHECKPOINTS = re.compile(r"(?:save|load|resume)\w*_checkpoint|dist_checkpointing", re.IGNORECASE)


def _in_checkpoint(case: Case, event: LogEvent) -> bool:
    """Whether a function that saves or loads checkpoints met what it says of a file."""
    error = event.exception
    return error is not None and any(_OF_CHECKPOINTS.search(f"{f.file} {f.function}") for f in error.frames[-4:])


check.signature(
    "FileExistsError: ",
    "PermissionError: ",
    "] Read-only file system",
    "] Stale file handle",
    pattern=r"(?P<kind>FileExistsError|PermissionError|OSError): (?P<why>[^\n]{1,200})",
    exception=("FileExistsError", "PermissionError", "OSError"),
    when=_in_checkpoint,
    says="the checkpoint's folder cannot be used: {why}",
    fixes=(Fix(title="give the run an output folder of its own that it may write, or empty the one that is there"),),
)


# A run that is to resume, and a folder without what it needs.
_RESUME = Fix(
    title="name a folder that the same kind of run has saved whole, as every node sees it; to begin anew, leave the "
    "option that resumes out",
    commands=("ls -la CHECKPOINT",),
)
check.signature(
    "Can't find a valid checkpoint at ",
    "No valid checkpoint found in output directory",
    pattern=r"(?:Can't find a valid checkpoint at|No valid checkpoint found in output directory) \(?(?P<path>[^\s)]+)",
    says="{path} holds no checkpoint that the trainer can resume from",
    fixes=(
        _RESUME,
        Fix(title="where FSDP saved it in shards, resume with the state dict type that wrote it (SHARDED_STATE_DICT)"),
    ),
    url="https://github.com/huggingface/transformers/issues/26186",
)
check.signature(
    "Unable to find latest file at ",
    pattern=r"Unable to find latest file at (?P<path>\S+?),",
    exception="ValueError",
    says="the DeepSpeed checkpoint has no file that names its last state: {path}",
    fixes=(_RESUME,),
    url="https://www.deepspeed.ai/getting-started/#model-checkpointing",
)
check.signature(
    "/.metadata'",
    pattern=r"No such file or directory: '(?P<path>[^'\n]{1,300})/\.metadata'",
    says="{path} is no whole checkpoint of torch.distributed: the file .metadata, which is written last, is not there",
    fixes=(Fix(title="resume from the checkpoint before it, and delete the incomplete one"), _RESUME),
    url="https://docs.pytorch.org/docs/stable/distributed.checkpoint.html",
)
# torch/distributed/checkpoint/state_dict_loader.py: what the reader returned for the file.
check.signature(
    "assert metadata is not None",
    exception=("AssertionError", "CheckpointException"),
    when=lambda case, event: event.search(r"state_dict_loader\.py") is not None,
    says="the folder to resume from holds no checkpoint of torch.distributed: it has no file .metadata",
    fixes=(Fix(title="name the folder that has .metadata beside its shards, or resume from an earlier one"), _RESUME),
    url="https://docs.pytorch.org/docs/stable/distributed.checkpoint.html",
)
check.signature(
    "contains a parameter group that doesn't match the size of optimizer's group",
    "loaded state dict has a different number of parameter groups",
    says="the optimizer's saved state is of another set of trained parameters than this run has",
    fixes=(
        Fix(title="train what the checkpoint's run trained: the same adapters, frozen parts and groups of parameters"),
        Fix(title="or load the weights alone, and let the optimizer begin anew"),
    ),
    url="https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.load_state_dict.html",
)
# What loads the state of a training; weights for a model are others' (RLD115, RLD401).
_LOADS_STATE = re.compile(r"_?load_(?:\w+_)?(?:checkpoint|state_dict|training_state)s?|resume_from_checkpoint")
_OF_MODELS = re.compile(r"(?:^|/)(?:transformers|peft|vllm|sglang|safetensors)/")
# Names that nothing but a training's state has.
_STATES = (
    "total_iters|num_iters|lr_decay_iters|opt_param_scheduler|param_groups|optimizer_state_dict|lr_scheduler|rng_state"
)


def _of_saved_state(case: Case, event: LogEvent) -> bool:
    """Whether the key was asked of a state that a checkpoint holds."""
    error = event.exception
    if error is None or not error.frames:
        return error is not None and re.fullmatch(rf"'(?:{_STATES})'", error.message) is not None
    inner = error.frames[-1]
    if _OF_MODELS.search(inner.file):
        return False
    # The line that asks may hand on what it gets: load_state_dict(checkpoint["optimizer"]).
    return any(_LOADS_STATE.fullmatch(f.function) for f in error.frames[-4:]) or ".load_state_dict(" in inner.code


check.signature(
    "KeyError: '",
    pattern=r"KeyError: '(?P<name>[\w.]{1,120})'",
    exception="KeyError",
    when=_of_saved_state,
    says="the checkpoint's training state has no {name}, which this run loads: another release, or a run with another "
    "optimizer or scheduler, wrote it",
    fixes=(
        Fix(title="resume with the release and the optimizer of the run that wrote it"),
        Fix(
            title="or load the weights alone, and let optimizer and scheduler begin anew",
            commands=("--no-load-optim --no-load-rng",),
        ),
    ),
    url="https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/optimizer_param_scheduler.py",
)
_UNPICKLES = re.compile(r"torch/serialization\.py$|/pickle\.py$|dist_checkpointing/")


def _while_unpickled(case: Case, event: LogEvent) -> bool:
    """Whether pickle, as it made a checkpoint's objects again, did not find what they are of."""
    error = event.exception
    return error is not None and bool(error.frames) and _UNPICKLES.search(error.frames[-1].file) is not None


check.signature(
    "Can't get attribute '",
    "No module named '",
    pattern=r"Can't get attribute '(?P<name>\w+)' on <module '(?P<module>[\w.]+)'"
    r"|No module named '(?P<module_2>[\w.]+)'",
    exception=("AttributeError", "ModuleNotFoundError"),
    when=_while_unpickled,
    says="the checkpoint holds pickled objects of {module}[[.{name}]], which the installed releases do not have: "
    "another release wrote it",
    fixes=(
        Fix(title="resume with the release of the trainer that wrote the checkpoint"),
        Fix(title="or start from the weights that it exported for inference (safetensors), which hold tensors alone"),
    ),
    url="https://docs.pytorch.org/docs/stable/notes/serialization.html",
)
check.signature(
    "Weights only load failed",
    says="torch 2.6 and later load tensors alone from a checkpoint, and this one holds other objects besides",
    fixes=(
        Fix(title="take releases of the trainer that load it so", commands=("pip install --upgrade transformers",)),
        Fix.unsafe(
            "or, for a checkpoint of your own, let torch load everything",
            {"env.TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"},
            side_effects="a checkpoint from elsewhere could run code",
        ),
    ),
    url="https://docs.pytorch.org/docs/stable/notes/serialization.html#weights-only",
)
check.signature(
    "Some tensors share memory, this will lead to duplicate memory on disk",
    details=(r"loading them again: \[?\{'?(?P<names>[^}\n]{1,200}?)'?\}",),
    says="safetensors does not save tensors that share memory[[: {names}]]",
    fixes=(
        Fix(title="save through the model's own save_pretrained, which leaves the tied copy out"),
        Fix(title="or set save_safetensors=False in the trainer's arguments"),
    ),
    url="https://huggingface.co/docs/safetensors/torch_shared_tensors",
)

# Megatron's distributed optimizer as it lays its state out for a checkpoint, or takes it from one.
check.signature(
    "ShardedTensor.flattened_range is not supported",
    says="this Megatron-Core saves no optimizer state that is laid out in flat ranges any more",
    fixes=(
        Fix(title="ask for the layout that it has: dp_reshardable (megatron-core 0.14 and later)"),
        Fix(title="or take the release of the trainer that was written for this megatron-core"),
    ),
    silent=True,
    url="https://docs.nvidia.com/megatron-core/developer-guide/latest/api-guide/dist_checkpointing.html",
)
check.signature(
    "Unable to load optimizer from checkpoint ",
    "Unable to load rng state from checkpoint ",
    "Unable to load random state from checkpoint ",
    pattern=r"Unable to load (?P<part>[\w ]{3,20}) from checkpoint (?P<path>[^\s,]+)",
    says="the checkpoint {path} has no {part} that this run can load",
    fixes=(
        Fix(title="load the weights alone", commands=("--no-load-optim --no-load-rng",)),
        Fix(title="or begin a new training from them", commands=("--finetune",)),
        _LAYOUT,
    ),
    silent=True,
    url="https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/checkpointing.py",
)
_OPTIMIZER_STATE = re.compile(r"(?:distrib_optimizer|fused_adam|mixed_precision_optimizer)\.py$")


def _of_optimizer_state(case: Case, event: LogEvent) -> bool:
    """Whether an assertion about the optimizer's state failed as it was saved or loaded."""
    error = event.exception
    if error is None or not error.frames or _OPTIMIZER_STATE.search(error.frames[-1].file) is None:
        return False
    return error.type == "AssertionError" or error.frames[-1].code.lstrip().startswith("assert ")


check.signature(
    "in sharded_state_dict",
    "in sharded_param_state",
    "in load_parameter_state",
    "optimizers/fused_adam.py",
    when=_of_optimizer_state,
    says="the optimizer's state does not have the form in which this Megatron-Core and Transformer Engine save and "
    "load it",
    fixes=(
        Fix(title="take the Megatron-Core and Transformer Engine that the trainer's release names"),
        Fix(title="or load the weights alone, and let the optimizer begin anew", commands=("--no-load-optim",)),
        _LAYOUT,
    ),
    url="https://docs.nvidia.com/megatron-core/developer-guide/latest/api-guide/dist_checkpointing.html",
)
