"""unsloth, which replaces TRL's trainers and configs, and vLLM's loader, while it is imported."""

from __future__ import annotations

from rldoctor.frameworks.record import Framework, Memory, Package, Words

FRAMEWORK = Framework(
    home=__name__,
    name="unsloth",
    title="unsloth",
    packages=(
        Package(
            name="unsloth", modules=("unsloth",), extras=("huggingface",), since="2025.1.1", monthly=True, device=True
        ),
        Package(name="unsloth-zoo", modules=("unsloth_zoo",), device=True),
    ),
    over=("trl", "vllm"),
    programs=("unsloth",),
    variables="UNSLOTH_",
    words=Words(
        paths=r"/unsloth(?:_zoo|_compiled_cache)?/|UnslothGRPOTrainer",
        texts=("🦥",),
        generated="unsloth_compiled_cache",
    ),
    memory=Memory(shares_weights=True),
)
