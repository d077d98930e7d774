"""NeMo-RL."""

from __future__ import annotations

from rldoctor.frameworks.record import Framework, Layer, Memory, Package, Repository, Settings, Validation, Words

FRAMEWORK = Framework(
    home=__name__,
    name="nemo-rl",
    title="NeMo-RL",
    marks=(".py", "nemo_", "vllm_cfg", "dtensor_cfg", "megatron_cfg", "colocated", "num_prompts_per_step", "defaults"),
    packages=(
        Package(
            name="nemo-rl",
            modules=("nemo_rl", "nemo_reinforcer"),
            published=False,
            repository=Repository(name="NVIDIA-NeMo/RL", tag="v", requirements="pyproject.toml"),
            since="0.1.0",
        ),
    ),
    over=(Layer(package="vllm"),),
    variables="NRL_",
    words=Words(
        paths=r"/nemo_rl/",
        early=("Loaded configuration from: ",),
        # examples/run_grpo*.py print "Final config:" and, with pprint, the configuration
        settings=(Settings("{'checkpointing': {", r"^\s*(\{'checkpointing': \{.*)", has="'policy': {"),),
    ),
    # offload_before_refit
    memory=Memory(leaves_device=True),
    validations=(
        Validation(module="nemo_rl.algorithms.grpo", name="MasterConfig"),
        Validation(module="nemo_rl.algorithms.grpo", name="setup", settings="master_config"),
    ),
    # vllm_backend is the engine's worker extension; up to 0.3 it lies one folder above
    imports={
        "always": (
            "nemo_rl.algorithms.grpo",
            "nemo_rl.models.generation.vllm_backend",
            "nemo_rl.models.generation.vllm.vllm_backend",
            "nemo_rl.models.generation.vllm.vllm_worker",
        ),
        "asynchronous": ("nemo_rl.models.generation.vllm.vllm_worker_async",),
    },
)
