"""The environment variables that decide how training and rollouts run, without secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from rldoctor import redact
from rldoctor.catalogue.probe import Request
from rldoctor.frameworks import trainers

# Prefixes and whole names, by whose they are.
_PREFIXES = {
    "devices": "CUDA_ CUDNN_ CUBLAS_ NVIDIA_ NVTE_ HIP_ HSA_ ROCR_ ROCM_ ASCEND_",
    "communication": "NCCL_ RCCL_ HCCL_ GLOO_ TP_SOCKET_ UCX_ FI_ MASTER_ OMPI_ PMI_ PMIX_",
    "engines": "VLLM_ RAY_ SGLANG_ FLASHINFER_ FLASH_ATTENTION_ XFORMERS_ TRITON_",
    "torch": "PYTORCH_ TORCH_ TORCHELASTIC_ TORCHINDUCTOR_ TORCHDYNAMO_",
    "hugging face": "HF_ HUGGINGFACE_ TRANSFORMERS_ DATASETS_ ACCELERATE_ FSDP_",
    "trainers": "DEEPSPEED_ DS_ MEGATRON_ HYDRA_",
    "host": "SLURM_ OMP_ MKL_ KMP_ OPENBLAS_ PYTHON MALLOC_",
}
_NAMES = {
    # https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables
    "torchrun": "RANK LOCAL_RANK GROUP_RANK ROLE_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_WORLD_SIZE ROLE_WORLD_SIZE",
    "files": "LD_LIBRARY_PATH LD_PRELOAD LIBRARY_PATH CPATH CPLUS_INCLUDE_PATH CC CXX TMPDIR XDG_CACHE_HOME",
    "environments": "VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV",
    "other": "TOKENIZERS_PARALLELISM TF_CPP_MIN_LOG_LEVEL",
}
_OF_FRAMEWORKS = [name for framework in trainers() for name in framework.variables.split()]
_ALLOWED_PREFIXES = (
    *(prefix for group in _PREFIXES.values() for prefix in group.split()),
    *(name for name in _OF_FRAMEWORKS if name.endswith("_")),
)
_ALLOWED_NAMES = frozenset((*(name for group in _NAMES.values() for name in group.split()), *_OF_FRAMEWORKS))
_PROXY = re.compile(r"(?:\w+_)?proxy", re.IGNORECASE)


def of(request: Request) -> Mapping[str, str]:
    """The environment that the request is about: the one it brings, or this process's."""
    return request.environ or os.environ


def collect(request: Request) -> dict[str, str]:
    """The allowed variables, sorted by name; a mark in place of a secret."""
    return select(of(request))


def select(environ: Mapping[str, str]) -> dict[str, str]:
    """Those of the variables that are on the allow-list, secrets removed."""
    return {name: redact.variable(name, environ[name]) for name in sorted(environ) if is_allowed(name)}


def is_allowed(name: str) -> bool:
    """Whether a variable may become a fact at all."""
    return name in _ALLOWED_NAMES or name.startswith(_ALLOWED_PREFIXES) or bool(_PROXY.fullmatch(name))
