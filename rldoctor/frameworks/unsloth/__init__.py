"""unsloth, which replaces TRL's trainers and configs, and vLLM's loader, while it is imported."""

from __future__ import annotations

from rldoctor.frameworks.record import Framework, Layer, Memory, Package, Words

FRAMEWORK = Framework(
    home=__name__,
    name="unsloth",
    title="unsloth",
    marks=("unsloth",),
    packages=(
        Package(
            name="unsloth", modules=("unsloth",), extras=("huggingface",), since="2025.1.1", monthly=True, device=True
        ),
        Package(name="unsloth-zoo", modules=("unsloth_zoo",), device=True),
    ),
    over=(
        # unsloth_compiled_cache holds trainers made from TRL's; load_vllm builds the engine (unsloth/import_fixes.py)
        Layer(package="trl", replaces=True, mends={"GuidedDecodingParams": ">=2025.11.6"}),
        Layer(package="vllm"),
    ),
    programs=("unsloth",),
    variables="UNSLOTH_",
    words=Words(
        paths=r"/unsloth(?:_zoo|_compiled_cache)?/|UnslothGRPOTrainer",
        texts=("🦥",),
        early=("Unsloth: Will patch your computer", "Unsloth Zoo will now patch everything"),
        generated="unsloth_compiled_cache",
    ),
    memory=Memory(shares_weights=True),
    # FastLanguageModel.from_pretrained(fast_inference=True) imports the second when it makes the engine
    imports={"always": ("unsloth", "unsloth_zoo.vllm_utils")},
)
