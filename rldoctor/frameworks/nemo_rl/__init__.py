"""NeMo-RL."""

from __future__ import annotations

from rldoctor.frameworks.record import Framework, Memory, Package, Repository, Words

FRAMEWORK = Framework(
    home=__name__,
    name="nemo-rl",
    title="NeMo-RL",
    packages=(
        Package(
            name="nemo-rl",
            modules=("nemo_rl", "nemo_reinforcer"),
            published=False,
            repository=Repository(url="https://github.com/NVIDIA-NeMo/RL", file="pyproject.toml", tags="v"),
        ),
    ),
    over=("vllm",),
    variables="NRL_",
    words=Words(paths=r"/nemo_rl/"),
    # offload_before_refit
    memory=Memory(leaves_device=True),
)
