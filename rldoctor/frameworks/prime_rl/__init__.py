"""prime-rl: an orchestrator between vLLM servers and an FSDP trainer (https://github.com/PrimeIntellect-ai/prime-rl)."""

from __future__ import annotations

from rldoctor.frameworks.record import Framework, Layer, Package, Repository, Validation, Words

FRAMEWORK = Framework(
    home=__name__,
    name="prime-rl",
    title="prime-rl",
    marks=("prime_rl", "orchestrator", "deployment", "@"),
    packages=(
        Package(
            name="prime-rl",
            modules=("prime_rl",),
            published=False,
            repository=Repository(name="PrimeIntellect-ai/prime-rl", tag="v", requirements="pyproject.toml"),
            since="0.3.0",
        ),
    ),
    over=(Layer(package="vllm"),),
    validations=(
        Validation(module="prime_rl.configs.rl", name="RLConfig"),
        Validation(module="prime_rl.rl", name="RLConfig"),
    ),
    variables="PRIME_",
    words=Words(
        paths=r"/prime_rl/(?:entrypoints|inference|orchestrator|trainer|transports?|utils)/",
        texts=("prime_rl.",),
        # entrypoints/rl.py
        early=("Starting RL run",),
    ),
)
