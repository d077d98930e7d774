"""verl."""

from __future__ import annotations

from rldoctor.frameworks.record import Framework, Layer, Package, Settings, Sync, Validation, Words

# Mains that sample, and make no actor that trains; the fully asynchronous one looks by itself, and takes no batches.
_OTHER_MAINS = ("*verl*main_generation*", "*fully_async*")

FRAMEWORK = Framework(
    home=__name__,
    name="verl",
    title="verl",
    marks=("verl", "actor_rollout_ref"),
    packages=(
        Package(
            name="verl",
            modules=("verl",),
            since="0.2",
            symbols=True,
            beside=(("verl-project/verl", "v{}"), ("verl-project/verl-recipe", None)),
        ),
    ),
    over=(Layer(package="vllm"),),
    variables="VERL_",
    words=Words(
        paths=r"/verl/",
        texts=("verl.trainer",),
        # main_ppo.py prints the resolved configuration with pprint
        settings=(Settings("'actor_rollout_ref': {", r"^\s*(\{'actor_rollout_ref': \{.*)"),),
    ),
    # unfuse_moe_params in workers/engine/fsdp/utils.py came with 0.9
    sync=Sync(own_names="<0.9"),
    validations=(
        Validation(module="verl.utils.config", name="validate_config", settings="config", never_by=_OTHER_MAINS),
        Validation(
            module="verl.trainer.ppo.ray_trainer",
            name="RayPPOTrainer._validate_config",
            settings="self.config",
            never_by=_OTHER_MAINS,
        ),
    ),
    imports={
        "always": ("verl.trainer.main_ppo", "verl.workers.rollout.vllm_rollout"),
        "asynchronous": ("verl.workers.rollout.vllm_rollout.vllm_async_server",),
    },
    asked_by="verl_actor",
)
