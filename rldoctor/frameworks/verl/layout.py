"""Where verl and its recipes declare their options."""

from __future__ import annotations

from rldoctor.tables.options.parts import Group, HydraPart, Layout, Listing, OverlayPart

_CONFIG = ("verl/trainer/config",)


def _overlay(name: str, kind: str, *folders: str) -> tuple[str, Group]:
    """A trainer that puts one file of its own on top of the PPO trainer's configuration."""
    file = f"{name}{kind}_trainer"
    return file, Group((OverlayPart(tuple(f"{folder}/{file}.yaml" for folder in folders)),), (f"ppo{kind}_trainer",))


VERL = Layout(
    packages=("verl",),
    markers=("verl/trainer/config/ppo_trainer.yaml",),
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
        "trainer.logger": Listing(
            places=("verl/utils/tracking.py:Tracking.supported_backend",), besides=("tracking",), closed=True
        ),
        **dict.fromkeys(
            ("reward_model.reward_manager", "reward.reward_manager.name"),
            Listing(registered=("verl/workers/reward_manager:register", "verl/experimental/reward_loop:register")),
        ),
        "actor_rollout_ref.actor.policy_loss.loss_mode": Listing(registered=("verl/trainer/ppo:register_policy_loss",)),
    },
)

LAYOUTS = {"verl": VERL}
