"""How the frameworks refuse batches that do not divide."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.api import Case, Finding, Fix, LogEvent

from ...declared.batches import GENERATION, GROUP, MINI, PER_DEVICE, PROMPTS, TRAIN
from . import check

# Messages about batches, with what their numbers are; the first that fits is reported.
REFUSALS = (
    (r"generation_batch_size \((?P<of>\d+)\) must be divisible by num_generations \((?P<by>\d+)\)", GROUP),
    (r"batch size \([^)]*\) must be evenly divisible by the number of generations per prompt \((?P<by>\d+)\)", GROUP),
    (r"evenly divisible by the number of generations (?:per|for|used)\b[^(]*\((?P<by>\d+)\)", GROUP),
    (r"eval batch size \([^)]*\) must be divisible by[^(]*num_generations\w* \((?P<by>\d+)\)", GROUP),
    (r"generation_batch_size \((?P<of>\d+)\) must be divisible by the global batch size \((?P<by>\d+)\)", GENERATION),
    (r"real_train_batch_size \((?P<of>\d+)\) must be divisible by[^(]*\((?P<by>\d+)\)", PROMPTS),
    (r"only support equal chunk\. Got size of DataProto (?P<of>\d+) and chunk (?P<by>\d+)", PROMPTS),
    (r"rollout_ba?t?ch_size must be divisible by actor_world_size, got (?P<of>\d+) and (?P<by>\d+)", PROMPTS),
    (r"= (?P<of>\d+) must be divisible by data_parallel size (?P<by>\d+)", PROMPTS),
    (r"mini_batch_size \(?(?P<of>\d+)\)? (?:must|should) be divisible by \w*micro_batch_size\w* \(?(?P<by>\d+)", MINI),
    (r"Rollout batch size must be divisible by \w+ global batch size", MINI),
    (r"train_batch_size is not equal to micro_batch_per_gpu \* gradient_acc_step \* world_size (?P<of>\d+) !=", TRAIN),
    (r"batch size \((?P<of>\d+)\) needs to be a round multiple of the number of processes \((?P<by>\d+)\)", PER_DEVICE),
    (r"(?:must|should) be (?:evenly )?divisible by|is not divisible by", ""),
)


ABOUT_BATCHES = re.compile(r"batch|generations|DataProto|num_engines|critic_world_size", re.IGNORECASE)


_OF_GROUPS = re.compile(r"grpo|rloo|reward|advantage|_generate_and_score", re.IGNORECASE)


@check.logged("is invalid for input of size ")
def no_whole_groups(case: Case, event: LogEvent) -> Iterator[Finding]:
    """Rewards that do not fill their last group."""
    found = event.search(r"shape '\[-1, (?P<by>\d+)\]' is invalid for input of size (?P<of>\d+)")
    error = event.exception
    if found is None or error is None or not any(_OF_GROUPS.search(f"{f.file} {f.function}") for f in error.frames):
        return
    numbers = {name: int(text) for name, text in found.groupdict().items()}
    if numbers["by"] > 1 and numbers["of"] % numbers["by"]:
        yield check.finding(
            f"{numbers['of']} completions do not make groups of {numbers['by']}",
            fixes=tuple(_logged_remedies(GROUP, numbers, [])),
        )


@check.logged(
    "must be divisible by",
    "should be divisible by",
    "be evenly divisible by",
    "is not divisible by",
    "only support equal chunk. Got size of DataProto",
    "train_batch_size is not equal to micro_batch_per_gpu",
    "needs to be a round multiple of the number of processes",
)
def refused(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The framework's own assertion."""
    message = event.line if event.exception is None else event.exception.message
    if event.exception is None and not event.fatal and event.level not in ("ERROR", "CRITICAL"):
        return  # a remark
    if not ABOUT_BATCHES.search(message) or "attention heads" in message:
        return
    for pattern, option in REFUSALS:
        found = re.search(pattern, message)
        if found is None:
            continue
        numbers = {name: int(text) for name, text in found.groupdict().items()}
        valid = re.search(r"valid values for the number of generations are: \[([\d, ]*)\]", message)
        choices = [int(n) for n in valid[1].split(",") if n.strip()] if valid else []
        yield check.finding(message.splitlines()[0][:300], fixes=tuple(_logged_remedies(option, numbers, choices)))
        return


def _logged_remedies(option: str, numbers: dict[str, int], choices: list[int]) -> Iterator[Fix]:
    of, by = numbers.get("of"), numbers.get("by")
    if option == GROUP and by:
        sizes = choices or [size for size in range(2, (of or 0) + 1) if of and of % size == 0]
        nearest = min((n for n in sizes if n > 1), key=lambda n: (abs(n - by), -n), default=None)
        if nearest is not None:
            yield Fix.unsafe(f"sample {nearest} completions per prompt", {GROUP: nearest})
        if of:
            # The per-device batch enters as a factor.
            factor = next(k for k in range(1, by + 1) if of * k % by == 0)
            yield Fix.unsafe(
                f"or make the generation batch {of * factor} (per_device_train_batch_size or "
                f"gradient_accumulation_steps times {factor})",
                {GENERATION: of * factor},
            )
        return
    if of and by and option in (GENERATION, PROMPTS):
        yield Fix(title=f"make the batch a multiple of {by}: {-(-of // by) * by} instead of {of}")
        return
    yield Fix(
        title="make the larger batch a multiple of the smaller one, and of the ranks that share it: train batch, mini "
        "batch, micro batch and num_generations in that order",
    )


# Advantages of a group need two completions, and every rank needs a batch.
check.signature(
    "requires at least 2 generations per prompt",
    "requires n_samples_per_prompt > 1",
    "algorithm need `config.worker.rollout.n > 1`",
    says="a group of one completion has no advantage: the algorithm needs two or more per prompt",
    fixes=(Fix.unsafe("sample several completions per prompt", {GROUP: 8}),),
)
check.signature(
    "number of sample batches must be greater than or equal to the effective number of actor processes",
    says="there are fewer sample batches than training ranks",
    fixes=(Fix(title="raise --rollout_batch_size or --n_samples_per_prompt, or lower --micro_rollout_batch_size"),),
)


@check.logged("range() arg 3 must not be zero", "view(-1, self.num_generations)")
def no_whole_group(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The generation batch holds no whole group: ms-swift's sampler steps by zero, rewards cannot be grouped."""
    error = event.exception
    if error is None or (event.literal.startswith("view") and "is invalid for input of size" not in error.message):
        return
    if event.literal.startswith("range") and not any(
        f.file.endswith(("sampler.py", "utils.py", "trainer.py")) for f in error.frames
    ):
        return
    yield check.finding(
        "num_generations does not divide the completions of one generation (processes x per_device_train_batch_size x "
        "gradient_accumulation_steps)",
        fixes=(
            Fix(
                title="choose num_generations as a divisor of that product, or raise the per-device batch or "
                "accumulation"
            ),
        ),
        url="https://github.com/modelscope/ms-swift/issues/4589",
    )


# verl divides the mini batch, times rollout.n, by the ranks that share it (workers/fsdp_workers.py, engine_workers.py).
check.signature(
    " should be larger than 0 after normalization",
    pattern=r"(?P<batch>\w*batch_size\w*)",
    exception="AssertionError",
    says="{batch} is smaller than the ranks that share it: nothing is left for each of them",
    fixes=(
        Fix(
            title="raise it until ppo_mini_batch_size times rollout.n is at least the number of training ranks "
            "(divided by the sequence parallel size), and the train batch with it; or train on fewer GPUs"
        ),
    ),
)

# verl (trainer/ppo/ray_trainer.py), EasyR1 (trainer/data_loader.py), SkyRL (train/sft_trainer.py)
check.signature(
    "] < k_partitions:[",
    pattern=r"number of items:\[(?P<items>\d+)\] < k_partitions:\[(?P<parts>\d+)\]",
    says="{items} samples are to be balanced over {parts} parts: the batch is smaller than the data parallel ranks "
    "(and their micro batches) that share it",
    fixes=(
        Fix(title="raise the train batch, or rollout.n, until their product reaches the number of parts"),
        Fix.unsafe(
            "or switch the balancing off",
            {"trainer.balanced": False},
            side_effects="ranks with longer answers take longer",
        ),
    ),
    url="https://github.com/verl-project/verl/issues/4152",
)
check.signature(
    "_dataloader) >= 1",
    "Train dataloader is empty",
    "Validation dataloader is empty",
    details=(r"(?i)(?:(?P<part>train|val)(?:idation|ing)?[ _])dataloader",),
    says="not one whole batch can be made of the data[[ ({part})]]: it has fewer rows than a batch, or filtering left "
    "too few, and an incomplete batch is dropped",
    fixes=(
        Fix(
            title="compare the rows that are left (the log counts them before and after filtering) with the batch "
            "size: a smaller one (verl: data.train_batch_size, data.val_batch_size; EasyR1: data.rollout_batch_size), "
            "more rows, or a longer max_prompt_length where prompts are filtered by length"
        ),
    ),
    url="https://github.com/volcengine/verl/blob/main/verl/trainer/ppo/ray_trainer.py",
)

# SkyRL (train/dataset/preprocess.py) cuts what it was handed into mini batches, of whole batches alone.
check.signature(
    "== train_batch_size",
    pattern=r"assert [^\n]{0,120}== (?P<batch>[\w.]*batch_size)\b",
    exception="AssertionError",
    says="a batch does not have the {batch} rows that the trainer counts on",
    fixes=(
        Fix(
            title="make the rows of training and validation data a multiple of their batch size, so that none is left "
            "over; or take a release that cuts the last, shorter batch of an evaluation, too"
        ),
    ),
    url="https://github.com/NovaSky-AI/SkyRL/issues/1583",
)
# Megatron-LM (core/optimizer_param_scheduler.py); slime and NeMo-RL count its steps from rollouts.
check.signature(
    "assert self.lr_decay_steps > 0",
    exception="AssertionError",
    says="the run has no step of training: all its samples together are fewer than one global batch, or no rollout is "
    "asked for",
    fixes=(
        Fix(
            title="raise the number of rollouts, of prompts or of samples for each (slime: --num-rollout, "
            "--rollout-batch-size, --n-samples-per-prompt) until their product reaches the global batch size, or make "
            "that smaller"
        ),
        Fix(title="for an evaluation alone (--num-rollout 0) take a slime that builds no optimizer then"),
    ),
    url="https://github.com/THUDM/slime/pull/2296",
)
