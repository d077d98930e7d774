"""Where EasyR1 declares its options."""

from __future__ import annotations

from rldoctor.tables.options.parts import Group, Layout, Listing, OverlayPart, class_part

EASYR1 = Layout(
    packages=("verl",),
    markers=("verl/trainer/config.py",),
    compared=("verl",),
    groups={
        "main": Group((class_part("verl/trainer/config.py:PPOConfig", nested=True),), validates=True),  # OmegaConf
        # What its example launches build upon, and what lies in a clone only.
        "examples/config.yaml": Group((OverlayPart(("examples/config.yaml",)),), includes=("main",)),
    },
    names={
        "algorithm.adv_estimator": Listing(
            places=tuple(f"verl/trainer/{path}.py:AdvantageEstimator" for path in ("core_algos", "ray_trainer")),
            closed=True,
        ),
        "trainer.logger": Listing(places=("verl/utils/logger/logger.py:LOGGERS",), closed=True),
        "worker.actor.optim.strategy": Listing(
            compared=("verl/workers/fsdp_workers.py:optim_config.strategy",), closed=True
        ),
        **dict.fromkeys(
            (
                *(f"worker.{role}.fsdp.torch_dtype" for role in ("actor", "critic", "ref")),
                *(
                    f"worker.{r}.fsdp.mp_{w}_dtype"
                    for r in ("actor", "critic", "ref")
                    for w in ("param", "reduce", "buffer")
                ),
                "worker.rollout.dtype",
            ),
            Listing(compared=("verl/utils/torch_dtypes.py:precision",), closed=True),
        ),
        "worker.reward.reward_type": Listing(
            compared=("verl/trainer/main.py:config.worker.reward.reward_type",), closed=True
        ),
    },
)

LAYOUTS = {"easyr1": EASYR1}
