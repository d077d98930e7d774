"""The packages that matter to a rollout: whose requirements are judged, and which extras of theirs count."""

from __future__ import annotations

# Frameworks that train with vLLM rollouts. EasyR1's own distribution is called verl; ``easyr1`` is how one assumes it.
FRAMEWORKS = (
    "trl",
    "ms-swift",
    "verl",
    "easyr1",
    "openrlhf",
    "nemo-rl",
    "skyrl",
    "skyrl-train",
    "axolotl",
    "open-r1",
    "unsloth",
    "unsloth-zoo",
)

# What vLLM and the frameworks stand on. A requirement between two packages of this module is judged, any other is pip's
# business.
FOUNDATIONS = (
    "vllm",
    "torch",
    "torchvision",
    "torchaudio",
    "transformers",
    "tokenizers",
    "huggingface-hub",
    "accelerate",
    "peft",
    "deepspeed",
    "ray",
    "numpy",
    "datasets",
    "tensordict",
    "triton",
    "xformers",
    "flashinfer-python",
    "flash-attn",
    "compressed-tensors",
    "xgrammar",
    "liger-kernel",
    "bitsandbytes",
)

PACKAGES = frozenset(FRAMEWORKS + FOUNDATIONS)

# Not judged, but a torch wheel names through these the CUDA and NCCL that it was built with.
CUDA_PACKAGES = frozenset(
    {
        "cuda-toolkit",
        "nvidia-cuda-runtime",
        "nvidia-cuda-runtime-cu11",
        "nvidia-cuda-runtime-cu12",
        "nvidia-nccl-cu12",
        "nvidia-nccl-cu13",
    }
)

# An extra of one of these names is a declaration about the package of that name (trl[vllm] about vllm), and counts
# where that package is installed. What else such an extra lists is a recipe, not a need.
_NAMED_EXTRAS = frozenset({"vllm", "deepspeed", "peft", "accelerate"})

# Frameworks that are installed through an extra, so that what it lists is what they need.
_INSTALLED_WITH = {
    "unsloth": frozenset({"huggingface"}),
    "skyrl": frozenset({"skyrl-train", "fsdp"}),
}

# An extra that lets in what another extra of the same package pins: OpenRLHF's vllm pins, its vllm-latest admits newer
# ones.
_ALTERNATIVES = {"vllm-latest": "vllm"}


def extra_counts(package: str, extra: str, required: str) -> bool:
    """Whether a requirement on ``required`` under ``extra`` of ``package`` is a need of whoever has both installed.
    Names are canonical."""
    named = extra == required and extra in _NAMED_EXTRAS
    return named or extra in _INSTALLED_WITH.get(package, ()) or is_alternative(extra, required)


def is_alternative(extra: str, required: str) -> bool:
    """Whether ``extra`` admits versions of ``required`` beyond what the package's plain extra pins."""
    return _ALTERNATIVES.get(extra) == required
