"""Where verl and its recipes declare their options."""

from __future__ import annotations

from rldoctor.tables.options.parts import Group, HydraPart, Layout, Listing, OverlayPart

_CONFIG = ("verl/trainer/config",)
_CORE = "verl/trainer/ppo/core_algos.py"


def _overlay(name: str, kind: str, *folders: str) -> tuple[str, Group]:
    """A trainer that puts one file of its own on top of the PPO trainer's configuration."""
    file = f"{name}{kind}_trainer"
    return file, Group((OverlayPart(tuple(f"{folder}/{file}.yaml" for folder in folders)),), (f"ppo{kind}_trainer",))


VERL = Layout(
    packages=("verl",),
    markers=("verl/trainer/config/ppo_trainer.yaml",),
    compared=("verl",),
    groups={
        "ppo_trainer": Group((HydraPart(_CONFIG, "ppo_trainer"),)),
        "ppo_megatron_trainer": Group((HydraPart(_CONFIG, "ppo_megatron_trainer"),)),
        # model_engine=megatron composes what ppo_megatron_trainer does.
        **{
            f"model_engine={engine}": Group(
                (
                    HydraPart(
                        _CONFIG,
                        "ppo_trainer",
                        (("model_engine", engine),),
                        needs=f"verl/trainer/config/model_engine/{engine}.yaml",
                    ),
                ),
                ("ppo_trainer",),
            )
            for engine in ("veomni", "torchtitan")
        },
        **dict(_overlay("dapo", kind, "recipe/dapo/config", "dapo/config") for kind in ("", "_megatron")),
        **dict(
            _overlay(f"{name}_ppo", kind, f"verl/experimental/{folder}/config", f"recipe/{folder}/config")
            for name, folder in (("one_step_off", "one_step_off_policy"), ("fully_async", "fully_async_policy"))
            for kind in ("", "_megatron")
        ),
    },
    names={
        **{
            f"{group}:model_engine": Listing(files=("verl/trainer/config/model_engine",), closed=True)
            for group in ("ppo_trainer", "ppo_megatron_trainer")
        },
        "trainer.logger": Listing(
            places=("verl/utils/tracking.py:Tracking.supported_backend",), besides=("tracking",), closed=True
        ),
        **dict.fromkeys(
            ("reward_model.reward_manager", "reward.reward_manager.name"),
            Listing(registered=("verl/workers/reward_manager:register", "verl/experimental/reward_loop:register")),
        ),
        "actor_rollout_ref.actor.policy_loss.loss_mode": Listing(
            registered=("verl/trainer/ppo:register_policy_loss",), besides=("vanilla",), closed=True
        ),
        "algorithm.adv_estimator": Listing(
            places=(f"{_CORE}:AdvantageEstimator", "verl/trainer/ppo/ray_trainer.py:AdvantageEstimator"),
            registered=("verl/trainer/ppo:register_adv_est",),
            compared=("verl/trainer/ppo/ray_trainer.py:self.config.algorithm.adv_estimator",),  # before the enumeration
            closed=True,
        ),
        "actor_rollout_ref.actor.loss_agg_mode": Listing(compared=(f"{_CORE}:loss_agg_mode",), closed=True),
        # ``k3+`` is made of ``k3``.
        **dict.fromkeys(
            ("actor_rollout_ref.actor.kl_loss_type", "algorithm.kl_penalty"),
            Listing(
                compared=(f"{_CORE}:kl_penalty",),
                besides=("kl+", "k1+", "abs+", "mse+", "k2+", "low_var_kl+", "k3+", "full+"),
                closed=True,
            ),
        ),
        "actor_rollout_ref.actor.strategy": Listing(
            compared=(
                "verl/trainer/main_ppo.py:config.actor_rollout_ref.actor.strategy",
                "verl/workers/engine_workers.py:actor_strategy",
            ),
            besides=("fsdp", "fsdp2", "megatron"),
        ),
        "data.truncation": Listing(compared=("verl/utils/torch_functional.py:truncation",), closed=True),
        "actor_rollout_ref.rollout.name": Listing(
            places=("verl/workers/rollout/base.py:_ROLLOUT_REGISTRY",),
            compared=tuple(
                f"verl/workers/{kind}_workers.py:{name}"
                for kind in ("fsdp", "megatron")
                for name in ("rollout_name", "self.config.rollout.name")
            ),
        ),
    },
)

LAYOUTS = {"verl": VERL}
