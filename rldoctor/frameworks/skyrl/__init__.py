"""SkyRL, in two generations: skyrl-train composes YAML with Hydra, skyrl builds classes."""

from __future__ import annotations

from rldoctor.frameworks.record import Framework, Layer, Memory, Package, Repository, Settings, Sync, Validation, Words

_REPOSITORY = "NovaSky-AI/SkyRL"

FRAMEWORK = Framework(
    home=__name__,
    name="skyrl",
    title="SkyRL",
    marks=("skyrl", "generator", "placement", "policy_mini_batch_size"),
    packages=(
        Package(
            name="skyrl",
            modules=("skyrl",),
            extras=("skyrl-train", "fsdp"),
            repository=Repository(name=_REPOSITORY, tag="skyrl-v", requirements="pyproject.toml"),
            since="0.1.0",
            beside=((_REPOSITORY, "skyrl-v{}"),),
        ),
        Package(
            name="skyrl-train",
            modules=("skyrl_train", "skyrl_gym"),
            repository=Repository(name=_REPOSITORY, tag="skyrl_train-v", requirements="skyrl-train/pyproject.toml"),
            since="0.1.0",
        ),
    ),
    over=(Layer(package="vllm"),),
    programs=("skyrl",),
    variables="SKYRL_",
    companions=("skyrl-gym", "skyrl-agent"),
    words=Words(
        paths=r"/skyrl(?:_train|_gym|-train)?/",
        stages={
            "Started: 'save_checkpoints'": "checkpoint",
            "Started: 'sync_weights_to_inference_engines'": "weight sync",
            "Started: 'generate'": "rollout",
        },
        # entrypoints/main_base.py: YAML behind a record of loguru's
        settings=(Settings(" - data:", r"^(data:)$", has="\ntrainer:"),),
    ),
    # colocate_all
    memory=Memory(leaves_device=True),
    # fsdp_worker.py
    sync=Sync(own_names=""),
    validations=tuple(
        # config.py, __post_init__ of skyrl
        Validation(module=f"{package}.utils.utils", name=name, settings="cfg", fills_in=True)
        for package in ("skyrl.train", "skyrl_train")
        for name in ("validate_cfg", "validate_batch_sizes", "validate_generator_cfg")
    ),
    imports={
        "always": (
            "skyrl.train.entrypoints.main_base",
            "skyrl.backends.skyrl_train.inference_engines.vllm.vllm_engine",
            "skyrl_train.entrypoints.main_base",
            "skyrl_train.inference_engines.vllm.vllm_engine",
        )
    },
)
