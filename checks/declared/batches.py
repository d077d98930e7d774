"""The numbers of a launch that frameworks divide: each with how it came about, or None where it is not known."""

from __future__ import annotations

from collections.abc import Callable

from rldoctor.api import RolloutPlan, counted

TRL_LIKE = ("TRL", "open-r1", "axolotl")
GROUP = "batch.generations"
PER_DEVICE = "batch.per_device"
GENERATION = "batch.generation"
STEPS = "batch.steps_per_generation"
ACCUMULATION = "batch.accumulation"
PROMPTS = "batch.prompts"
MINI = "batch.mini_prompts"
CRITIC_MINI = "batch.critic_mini_prompts"
CRITIC_EACH = "batch.critic_per_device"
TRAIN = "batch.train"
POOL = "batch.pool"
EXPERIENCE = "batch.logprob_per_device"
ENGINES = "placement.engines"


# What reads its pairs, or their scores, and samples nothing.
WITHOUT_COMPLETIONS = frozenset({"dpo", "kto", "cpo", "simpo", "orpo", "rm", "sft", "pt"})


def ranks_of(plan: RolloutPlan) -> int | None:
    """The processes of the trainer, None where they are not known."""
    nodes = plan.get("process.nnodes")
    # A script for a later node says nothing of how many processes the others start.
    if (nodes is not None and nodes.unknown) or plan.value("process.node_rank", 0) not in (0, "0"):
        return None
    # Before ms-swift 3.5 an engine can take a device of one node, which then starts fewer processes than the others.
    if (plan.value("process.nnodes") or 1) > 1 and any(g.key.endswith("num_infer_workers") for g in plan.given):
        return None
    total = plan.value("process.total")
    per_node = plan.value("process.nproc") or plan.value("placement.gpus_per_node")
    count = plan.value("process.nnodes") or plan.value("placement.nodes") or 1
    return total or (per_node * count if per_node else None)


def one_number(option: str, name: str) -> Callable[[RolloutPlan], tuple[int, str] | None]:
    def value(plan: RolloutPlan) -> tuple[int, str] | None:
        number = plan.value(option)
        return (number, f"{name} {number}") if isinstance(number, int) and number > 0 else None

    return value


def per_step(plan: RolloutPlan) -> tuple[int, str] | None:
    each, ranks, what = plan.value(PER_DEVICE), ranks_of(plan), "processes"
    if any((plan.value(f"parallel.{way}") or 1) > 1 for way in ("tensor", "pipeline", "context")):
        # Ranks that share a model (Megatron) train on the same rows.
        ranks, what = plan.value("parallel.data"), "data parallel ranks"
    return (each * ranks, f"{each} per device x {ranks} {what}") if each and ranks else None


def generation_batch(plan: RolloutPlan) -> tuple[int, str] | None:
    if plan.value("trainer.algorithm") in WITHOUT_COMPLETIONS:
        return None
    setting = plan.get(GENERATION)
    if setting is not None and setting.unknown is not None:
        return None
    if setting is not None and setting.value and (setting.source == "given" or ranks_of(plan)):
        return setting.value, f"generation batch {setting.value}"
    step, steps = per_step(plan), plan.usual(STEPS, 0)
    if steps == 0:
        steps = plan.usual(ACCUMULATION, 1)
    return (step[0] * steps, f"{step[1]} x {counted(steps, 'step')}") if step and steps else None


def evaluation(plan: RolloutPlan) -> tuple[int, str] | None:
    """The completions of one evaluation step, where the trainer evaluates."""
    each, ranks = plan.value("batch.per_device_eval"), ranks_of(plan)
    if plan.value("trainer.eval_strategy") in (None, "no", False) or not each or not ranks:
        return None
    return each * ranks, f"{each} per device x {ranks} processes in evaluation"


def evaluated_group(plan: RolloutPlan) -> tuple[int, str] | None:
    sampling = plan.value("rollout.eval_sampling")
    size = sampling.get("n") if isinstance(sampling, dict) else None
    size = size or plan.value(GROUP)
    return (size, f"{size} completions per prompt") if size else None


def rollout(plan: RolloutPlan) -> tuple[int, str] | None:
    prompts, group = plan.value(PROMPTS), plan.usual(GROUP, 1)
    return (prompts * group, f"{prompts} prompts x {group}") if prompts and group else None


def devices(plan: RolloutPlan) -> tuple[int, str] | None:
    # verl divides by all devices; Megatron's model parallel ranks share a batch.
    taken = plan.get("placement.trainer_gpus")
    if taken is not None and taken.unknown is not None:  # of all devices the engines may have some
        return None
    devices = plan.value("placement.trainer_gpus") or ranks_of(plan)
    model = 1
    for option in ("parallel.tensor", "parallel.pipeline", "parallel.context"):
        model *= plan.usual(option, 1) or 0
    if not devices or not model or devices % model:
        return None
    return devices // model, f"{devices} devices" + (f" / {model} model parallel ranks" if model > 1 else "")


# Those of the recipes and experiments that call verl's validate_config.
COMPARING = ("recipe.dapo.main_dapo", "verl.experimental.one_step_off_policy.")


def validates(plan: RolloutPlan) -> bool:
    """Whether verl compares the batches of this entry at all: not where it only samples, nor in most recipes and
    experiments, which have trainers of their own, nor where the samples come in a stream (fully_async_main.py wants a
    batch of 0)."""
    entry = plan.entry.replace("/", ".")
    own = entry.startswith(("recipe.", "verl.experimental.")) and not entry.startswith(COMPARING)
    return not any(word in entry for word in ("generation", "fully_async")) and not own


def whole(plan: RolloutPlan) -> tuple[int, str] | None:
    """All prompts times their completions, where the release judges them: verl after 0.5 without dynamic batches."""
    return rollout(plan) if plan.value("batch.dynamic") is False and validates(plan) else None


def balanced(plan: RolloutPlan) -> tuple[int, str] | None:
    """The same with dynamic batches, which verl does not compare: its own trainer asserts equal parts for the ranks
    when it balances their lengths (seqlen_balancing.py)."""
    left = any(given.key == "trainer.balance_batch" and given.value is not True for given in plan.given)
    own = plan.entry.removesuffix(".py").endswith("main_ppo") and not replaced_workers(plan)
    return rollout(plan) if own and not left and plan.value("batch.dynamic") is True else None


def sharing(plan: RolloutPlan) -> tuple[int, str] | None:
    """The ranks among which the trainer divides a batch."""
    ranks = data_ranks(plan)
    return (ranks, f"{ranks} data parallel ranks") if ranks else None


def data_ranks(plan: RolloutPlan) -> int | None:
    """The ranks among which the trainer divides a batch: those of one sequence share theirs."""
    devices, sequence = plan.value("placement.trainer_gpus"), plan.usual("parallel.sequence", 1)
    reported = plan.value("parallel.data")
    if reported:
        return int(reported)
    return devices // sequence if devices and sequence and devices % sequence == 0 else None


def replaced_workers(plan: RolloutPlan) -> bool:
    """verl's new workers or a recipe's trainer, which divide otherwise, or workers that are not FSDP's."""
    if not validates(plan):
        return True
    legacy = [given.value for given in plan.given if given.key.endswith("use_legacy_worker_impl")]
    return plan.value("trainer.strategy", "fsdp") not in ("fsdp", "fsdp2") or "disable" in legacy


def share(plan: RolloutPlan) -> tuple[int, str] | None:
    """The completions of a mini batch that one rank trains on; None where none is left, which is another finding."""
    mini, group, ranks = plan.value(MINI), plan.usual(GROUP, 1), data_ranks(plan)
    if not mini or not group or not ranks or (plan.framework == "verl" and replaced_workers(plan)):
        return None
    share = mini * group // ranks
    return (share, f"{mini} prompts x {group} / {ranks} ranks") if share else None


# The trainers of which it is known here how many ranks train on rows of their own.
COUNTED = ("fsdp", "fsdp2", "megatron")


def mini_batch(plan: RolloutPlan) -> tuple[int, str] | None:
    """The completions of a mini batch, which the workers of verl from 0.8 on divide among their ranks."""
    mini, group = plan.value(MINI), plan.usual(GROUP, 1)
    counted_here = validates(plan) and plan.usual("trainer.strategy", "fsdp") in COUNTED
    return (mini * group, f"{mini} prompts of a mini batch x {group}") if mini and group and counted_here else None


def mini_ranks(plan: RolloutPlan) -> tuple[int, str] | None:
    """The ranks that they are divided among: those of one model or one sequence share theirs."""
    ranks, sequence = devices(plan), plan.usual("parallel.sequence", 1)
    if ranks is None or not sequence or ranks[0] % sequence:
        return None
    return ranks[0] // sequence, ranks[1] + (f" / {sequence} ranks of a sequence" if sequence > 1 else "")


def stepped(plan: RolloutPlan) -> tuple[int, str] | None:
    """The prompts of a step of verl's own trainer, in whose workers they make whole mini batches."""
    return (
        one_number(PROMPTS, "train_batch_size")(plan) if plan.entry.removesuffix(".py").endswith("main_ppo") else None
    )


def rows(plan: RolloutPlan) -> tuple[int, str] | None:
    """The samples that ROLL cuts into backward batches, unless it cuts by tokens or only samples."""
    cut = plan.value("batch.dynamic") is True or "rollout" in plan.entry
    return None if cut or plan.value("batch.generation") is None else rollout(plan)


def backward(plan: RolloutPlan) -> tuple[int, str] | None:
    """What all ranks of ROLL's trainer take in one optimizer step."""
    setting = plan.get(TRAIN)
    return (setting.value, setting.how or f"{setting.value}") if setting is not None and setting.value else None


def environments(section: str) -> Callable[[RolloutPlan], int | None]:
    """The environments that one of ROLL's managers runs: groups times their size, 1 unless it is given."""

    def number(plan: RolloutPlan) -> int | None:
        given = {one.key: None if one.unknown else one.value for one in plan.given}
        groups, size = given.get(f"{section}.num_env_groups"), given.get(f"{section}.group_size", 1)
        return groups * size if isinstance(groups, int) and isinstance(size, int) else None

    return number


def validation_environments(plan: RolloutPlan) -> tuple[int, str] | None:
    """Those of the validation of ROLL."""
    number = environments("val_env_manager")(plan)
    return (number, f"{number} environments of the validation") if number else None


def native_number(key: str) -> Callable[[RolloutPlan], tuple[int, str] | None]:
    """A number above 0 that the launch gives under a native key."""

    def value(plan: RolloutPlan) -> tuple[int, str] | None:
        number = next((one.value for one in reversed(plan.given) if one.key == key and not one.unknown), None)
        return (number, f"{key} {number}") if isinstance(number, int) and number > 0 else None

    return value


def critics_mini(plan: RolloutPlan) -> tuple[int, str] | None:
    """The prompts of a mini batch of the value model, where one is trained."""
    return one_number(CRITIC_MINI, "mini batch of the value model")(plan) if plan.value("trainer.critic") else None


def critics_share(plan: RolloutPlan) -> tuple[int, str] | None:
    """The completions of a mini batch of the value model that one of its ranks trains on."""
    mini, group = critics_mini(plan), plan.usual(GROUP, 1)
    ranks = (plan.value("placement.roles") or {}).get("critic") or plan.value("placement.trainer_gpus")
    sequence = plan.value("parallel.critic_sequence", 1) or 1
    if (
        mini is None
        or not group
        or not ranks
        or ranks % sequence
        or (plan.framework == "verl" and replaced_workers(plan))
    ):
        return None
    share = mini[0] * group // (ranks // sequence)
    return (share, f"{mini[0]} prompts x {group} / {ranks // sequence} ranks of the value model") if share else None


def fed(plan: RolloutPlan) -> tuple[int, str] | None:
    """What EasyR1 hands to its ranks at once: ``chunk`` refuses uneven parts, and only validation is padded."""
    prompts = plan.value(POOL) or plan.value(PROMPTS)
    return (prompts, f"{prompts} prompts") if prompts else None


def actors(plan: RolloutPlan) -> tuple[int, str] | None:
    devices = plan.value("placement.trainer_gpus")
    return (devices, f"{devices} actors") if devices else None


def accumulated(plan: RolloutPlan) -> tuple[int, str] | None:
    """DeepSpeed accumulates whole steps: micro batch times the ranks that do not share one."""
    micro, ranks = plan.value(PER_DEVICE), data_ranks(plan)
    doubled = any(given.key.endswith("pretrain_data") for given in plan.given)
    if not micro or not ranks or plan.value("batch.dynamic") or doubled:
        return None
    return micro * ranks, f"micro_train_batch_size {micro} x {ranks} ranks"


def larger(plan: RolloutPlan) -> tuple[int, str] | None:
    both = actors(plan), one_number(ENGINES, "engines")(plan)
    return max(one for one in both if one) if all(both) else None


def smaller(plan: RolloutPlan) -> tuple[int, str] | None:
    both = actors(plan), one_number(ENGINES, "engines")(plan)
    return min(one for one in both if one) if all(both) else None
