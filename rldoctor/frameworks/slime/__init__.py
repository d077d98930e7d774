"""slime: Megatron trains, SGLang samples, Ray starts both (https://github.com/THUDM/slime)."""

from __future__ import annotations

from rldoctor.frameworks.record import Framework, Package, Repository, Settings, Validation, Words

FRAMEWORK = Framework(
    home=__name__,
    name="slime",
    title="slime",
    marks=(
        "slime",
        "execute_train",
        "hf_checkpoint",
        "hf-checkpoint",
        "actor_num_gpus",
        "actor-num-gpus",
        "samples_per_prompt",
        "samples-per-prompt",
        "gpus_per_engine",
        "gpus-per-engine",
    ),
    # The index has another project of this name.
    packages=(
        Package(
            name="slime",
            modules=("slime", "slime_plugins"),
            published=False,
            repository=Repository(name="THUDM/slime", tag="v", requirements="requirements.txt"),
            since="0.1.0",
        ),
    ),
    validations=(Validation(module="slime.utils.arguments", name="slime_validate_args", settings="args"),),
    variables="SLIME_",
    secrets={"wandb_key": "wandb_key"},
    words=Words(
        paths=r"/slime/(?:backends|observability|ray|rollout|utils)/|/slime_plugins/",
        texts=("slime.rollout.", "slime.backends."),
        # megatron/training/arguments.py, by slime's driver; which of its two scripts that is, the table does not say.
        settings=(
            Settings("-- arguments --", r"^(-{4,} arguments -{4,})$", "slime", has="\n  rollout_num_gpus_per_engine "),
        ),
    ),
)
