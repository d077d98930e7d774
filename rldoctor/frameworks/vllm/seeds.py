"""Seeds of replicas that vLLM is left alone with: its data parallel ranks, and engines that are started alike."""

from __future__ import annotations

from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.releases import within


def derive_own(draft: Draft, *inputs: str) -> None:
    """The rule by which they get their seeds.

    ``EngineArgs.seed`` is 0 before 0.8, and again since V1 alone is left (0.11); in between it is None, of which V1
    makes 0 from 0.9 on (config.py, https://github.com/vllm-project/vllm/pull/17929). From 0.32 the seed is hashed with
    the data parallel rank (utils/torch_utils.py, set_random_seed)."""
    version, seed = draft.launch.version_of("vllm"), draft.value("engine.seed")
    v0 = str(draft.value("env.VLLM_USE_V1", "1")) == "0"
    if within(version, "0.32"):
        draft.derive("seed.per_replica", "random", "vLLM hashes the seed with the data parallel rank", *inputs)
    elif seed is None and (within(version, "0.8", "0.9") or (within(version, "0.9", "0.11") and v0)):
        draft.derive("seed.per_replica", "random", "no seed is given, and vLLM sets none", *inputs)
    elif within(version, "0"):
        how = f"every replica gets seed {seed}" if seed is not None else "no seed is given: vLLM's own, 0"
        draft.derive("seed.per_replica", "same", how, *inputs)
