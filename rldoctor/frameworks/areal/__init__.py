"""AReaL: SGLang or vLLM servers sample while FSDP, Megatron or Archon trains (https://github.com/inclusionAI/AReaL)."""

from __future__ import annotations

from rldoctor.frameworks.record import Framework, Layer, Package, Repository, Validation, Words

FRAMEWORK = Framework(
    home=__name__,
    name="areal",
    title="AReaL",
    marks=("areal", "max_head_offpolicyness", "max_concurrent_rollouts", "gconfig", "config"),
    packages=(
        # The index has releases only of late.
        Package(
            name="areal",
            modules=("areal",),
            published=False,
            repository=Repository(name="inclusionAI/AReaL", tag="v", requirements="pyproject.toml"),
            since="0.4.0",
        ),
    ),
    over=(Layer(package="vllm"),),
    # GRPOConfig has nothing beside it
    validations=(Validation(module="areal.api.cli_args", name="PPOConfig", typed=True),),
    variables="AREAL_",
    secrets={"admin_api_key": "admin_api_key", "provider_api_key": "provider_api_key"},
    words=Words(
        # Its packages before 0.4 were called realhf.
        paths=r"/areal/(?:api|engine|experimental|infra|launcher|trainer|utils|workflow)/|/realhf/",
        texts=("areal.infra.", "areal.engine.", "areal.trainer."),
        # areal/infra/launcher, areal/infra/platforms
        early=(
            "LocalLauncher: experiment_name=",
            "SlurmLauncher: experiment_name=",
            "Initializing CUDA platform (NVIDIA).",
        ),
        # areal/infra/launcher/local.py, with the file into which the process's own lines go
        commands=(("Starting local process with command: ", r"Starting local process with command: (.+)"),),
    ),
)
