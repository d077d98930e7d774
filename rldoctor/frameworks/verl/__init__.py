"""verl."""

from __future__ import annotations

from rldoctor.frameworks.record import Framework, Layer, Package, Settings, Sync, Validation, Words

# The trainers of 0.9 are chosen by mode; before, and without ``use_v1``, there is the one of ray_trainer.py.
_V1 = {"trainer.use_v1": True}
_ROLLOUTERS = ("recipe", "verl.experimental")
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
        # What the program that is started looks at: with what it works out of the configuration, such as whether there
        # is a critic.
        *(
            Validation(module="{entry}", name=name, settings="config", by=("verl.*",))
            for name in ("main", "TaskRunner.run", "OneStepTaskRunner.run", "FullyAsyncTaskRunner.run")
        ),
        *(
            Validation(
                module="verl.trainer.ppo.v1.trainer_base", name=f"PPOTrainer.{name}", settings="self.config", needs=_V1
            )
            for name in ("_init_resource_pool_mgr", "_resolve_filter_groups_metric", "_load_checkpoint")
        ),
        Validation(
            module="verl.trainer.ppo.v1.trainer_separate_async",
            name="PPOTrainerSeparateAsync.__init__",
            settings="config",
            needs={**_V1, "trainer.v1.trainer_mode": "separate_async"},
        ),
        Validation(
            module="verl.trainer.ppo.ray_trainer",
            name="RayPPOTrainer._load_checkpoint",
            settings="self.config",
            never_by=_OTHER_MAINS,
        ),
        *(
            Validation(
                module=f"{place}.fully_async_policy.fully_async_rollouter",
                name=f"FullyAsyncRollouter.{name}",
                settings=settings,
                by=("*fully_async_main*",),
            )
            for place in _ROLLOUTERS
            for name, settings in (("__init__", "config"), ("_validate_config", "self.config"))
        ),
    ),
    imports={
        "always": ("verl.trainer.main_ppo", "verl.workers.rollout.vllm_rollout"),
        "asynchronous": ("verl.workers.rollout.vllm_rollout.vllm_async_server",),
    },
    asked_by="verl_actor",
)
