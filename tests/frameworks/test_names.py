"""Values that are names, words that are no overrides, dashes that are no underscores."""

from __future__ import annotations

import pytest

from tests.frameworks.conftest import Launches

VERL = "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=m {}\n"
OPENRLHF = "python3 -m openrlhf.cli.train_ppo_ray --pretrain m --vllm_num_engines 2 {}\n"


@pytest.mark.parametrize(
    ("text", "versions", "meant"),
    [
        (VERL.format("algorithm.adv_estimator=grop"), {"verl": "0.6.1"}, "grpo"),
        (VERL.format("actor_rollout_ref.rollout.name=vlm"), {"verl": "0.7.0"}, "vllm"),
        (VERL.format("data.truncation=lfet"), {"verl": "0.5.0"}, "left"),
        (OPENRLHF.format("--vllm_sync_backend ncl"), {"openrlhf": "0.9.3"}, "nccl"),
        ("python3 -m verl.trainer.main algorithm.adv_estimator=gpro worker.rollout.n=4\n", {"easyr1": "0.3.2"}, "grpo"),
        ("trl grpo --model_name_or_path m --use_vllm --vllm_mode colocat\n", {"trl": "1.15.0"}, "colocate"),
        ("python -m skyrl.train.entrypoints.main_base trainer.strategy=fsd2\n", {"skyrl": "0.3.0"}, "fsdp2"),
        ("uv run examples/run_grpo_math.py policy.precision=bf16\n", {"nemo-rl": "0.7.0"}, "bfloat16"),
    ],
)
def test_a_slip_of_a_name_that_the_framework_knows(
    text: str, versions: dict[str, str], meant: str, launches: Launches
) -> None:
    (plan,) = launches({"run.sh": text}, **versions)
    assert [option.accepted[0] for option in plan.refused] == [meant]
    right = text.replace(f"={plan.refused[0].value}", f"={meant}").replace(f" {plan.refused[0].value}", f" {meant}")
    (plan,) = launches({"run.sh": right}, **versions)
    assert plan.refused == ()


@pytest.mark.parametrize(
    ("override", "version", "refused"),
    [
        ("algorithm.adv_estimator=gdpo", "0.7.0", True),
        ("algorithm.adv_estimator=gdpo", "0.9.0", False),
        ("algorithm.adv_estimator=rloo", "0.2", True),
        ("actor_rollout_ref.actor.loss_agg_mode=token-sum", "0.9.0", False),
        ("actor_rollout_ref.actor.loss_agg_mode=token-sum", "0.7.0", True),
        ("algorithm.kl_penalty=k3+", "0.9.0", False),
        ("'algorithm.adv_estimator=???'", "0.7.0", False),  # Hydra's word for what is still to be given
    ],
)
def test_a_name_that_came_with_a_later_release(override: str, version: str, refused: bool, launches: Launches) -> None:
    (plan,) = launches({"run.sh": VERL.format(override)}, verl=version)
    assert bool(plan.refused) is refused


@pytest.mark.parametrize(
    ("estimator", "version", "refused"),
    [("grpo_passk", "0.3.2", True), ("grpo_passk", "0.3.3.dev0", False), ("gdpo", "0.3.3.dev0", True)],
)
def test_an_estimator_that_came_with_a_later_easyr1(
    estimator: str, version: str, refused: bool, launches: Launches
) -> None:
    text = f"python3 -m verl.trainer.main algorithm.adv_estimator={estimator} worker.rollout.n=4\n"
    (plan,) = launches({"run.sh": text}, easyr1=version)
    assert bool(plan.refused) is refused


@pytest.mark.parametrize(
    ("executor", "version", "refused"),
    [
        *(("threads", version, True) for version in ("0.6.3", "0.8.3", "0.8.5", "0.10.2", "0.33.0")),
        *(("mp", version, False) for version in ("0.6.3", "0.8.3", "0.8.5", "0.10.2", "0.33.0")),
        ("uni", "0.6.3", True),
        ("uni", "0.7.0", False),
        ("my_package.executors.Pinned", "0.10.2", False),
    ],
)
def test_what_starts_the_workers_is_a_name_of_the_release_or_a_class(
    executor: str, version: str, refused: bool, launches: Launches
) -> None:
    (plan,) = launches({"run.sh": f"vllm serve m --distributed-executor-backend {executor}\n"}, vllm=version)
    assert bool(plan.refused) is refused


@pytest.mark.parametrize(
    ("entry", "more", "refused"),
    [
        ("verl.trainer.main_ppo", "", True),
        ("recipe.mine.main_mine", "", False),
        ("verl.trainer.main_ppo", "actor_rollout_ref.model.external_lib=mine", False),
    ],
)
def test_a_name_that_code_of_the_launch_may_register(entry: str, more: str, refused: bool, launches: Launches) -> None:
    text = f"python3 -m {entry} actor_rollout_ref.model.path=m algorithm.adv_estimator=my_own {more}\n"
    (plan,) = launches({"run.sh": text}, verl="0.6.1")
    assert bool(plan.refused) is refused


@pytest.mark.parametrize(
    ("words", "first", "whole"),
    [
        ("trainer.logger=['console', 'wandb']", "wandb]", "trainer.logger=[console, wandb]"),
        ("trainer.nnodes = 1", "trainer.nnodes", "trainer.nnodes=1"),
        ("trainer.nnodes= 1", "1", "trainer.nnodes=1"),
        ("trainer.project_name=my project", "project", "trainer.project_name=my project"),
    ],
)
def test_a_blank_tears_an_override_apart(words: str, first: str, whole: str, launches: Launches) -> None:
    (plan,) = launches({"run.sh": VERL.format(f"{words} trainer.n_gpus_per_node=8")}, verl="0.6.1")
    assert [(one.key, one.owner) for one in plan.refused] == [(first, "Hydra")]
    assert f"'{whole}'" in plan.refused[0].takes
    (plan,) = launches({"run.sh": VERL.format(f"'{whole}' trainer.n_gpus_per_node=8")}, verl="0.6.1")
    assert plan.refused == ()


def test_words_that_hydra_has_a_use_for_or_that_are_not_known(launches: Launches) -> None:
    quiet = "~trainer.logger '' $EXTRA \"$@\" --config-name ppo_trainer +a.b=1 trainer.logger=[console,wandb] 2>&1"
    (plan,) = launches({"run.sh": VERL.format(quiet)}, verl="0.6.1")
    assert plan.refused == ()


@pytest.mark.parametrize(
    ("spelled", "declared"),
    [("--colocate-all-models", "colocate_all_models"), ("--zero-stage 3", "zero_stage"), ("--zero_stage 3", None)],
)
def test_a_plain_parser_takes_no_dash_for_an_underscore(spelled: str, declared: str | None, launches: Launches) -> None:
    (plan,) = launches({"run.sh": OPENRLHF.format(spelled)}, openrlhf="0.9.3")
    assert [option.nearest[0] for option in plan.unknown] == ([] if declared is None else [declared])
    both = "trl grpo --model-name-or-path m --use-vllm true --num-generations 8\n"
    (plan,) = launches({"run.sh": both}, trl="0.24.0", transformers="4.57.1")
    assert plan.unknown == ()
