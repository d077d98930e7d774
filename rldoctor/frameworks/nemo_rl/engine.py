"""What NeMo-RL hands to vLLM: ``VllmGenerationWorker`` (nemo_rl/models/generation/vllm.py through 0.3,
vllm/vllm_worker.py from 0.4), its lengths and its seeds."""

from __future__ import annotations

from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.nemo_rl.table import GENERATION, TABLE, VLLM
from rldoctor.frameworks.releases import between
from rldoctor.frameworks.shared_rules import keys_of, passed_twice

OWNER = "nemo-rl"
# What each release passes to LLM(...) by name, beside **vllm_kwargs: (first release, first that does not, names).
PASSED = (
    (
        "0",
        None,
        "model tensor_parallel_size gpu_memory_utilization enable_prefix_caching dtype enforce_eager max_model_len "
        "trust_remote_code enable_sleep_mode",
    ),
    ("0.2", None, "load_format skip_tokenizer_init seed worker_extension_cls disable_log_stats"),
    ("0.3", None, "pipeline_parallel_size"),
    ("0.4", None, "enable_expert_parallel"),
    ("0.5", None, "served_model_name"),
    ("0.4", "0.8", "logprobs_mode"),
)
# The precision for which the weights are quantized (init_fp8), and the release that brought it.
FP8, FP8_SINCE = "fp8", "0.4"


def lengths(draft: Draft) -> None:
    """``max_total_sequence_length`` ends every rollout, so ``max_new_tokens`` is a limit only below it; longer prompts
    than ``data.max_input_seq_length`` are masked (nemo_rl/experience/rollouts.py, nemo_rl/data/processors.py)."""
    total, asked, prompt = (
        draft.value("lengths.total"),
        draft.value("lengths.response"),
        draft.native("data.max_input_seq_length"),
    )
    draft.derive("sampling.max_tokens", asked, "max_new_tokens", "lengths.response")
    if not isinstance(prompt, int) or isinstance(prompt, bool) or not total or draft.value("rollout.enabled") is False:
        return
    room = draft.value("engine.max_model_len")
    if prompt < total:
        draft.derive("lengths.prompt", prompt, "max_input_seq_length")
        if asked and asked > total - prompt:
            how = f"total {total} - prompt {prompt}"
            draft.override("lengths.response", total - prompt, how, "lengths.total")
    elif room and room < total:
        # The sum is what does not fit; max_new_tokens is no limit of its own here.
        draft.derive("lengths.prompt", prompt, "max_input_seq_length")
        draft.settings.pop("lengths.response", None)


def seeds(draft: Draft) -> None:
    """From 0.2.0 each vLLM has ``node * 1024 + its index on the node`` (configure_worker), whatever is configured."""
    if draft.value("rollout.enabled") is False:
        return
    if draft.value("rollout.backend", "vllm") != "vllm":
        pass  # generation/sglang/sglang_worker.py has a rule of its own in each release
    elif between(draft, OWNER, "0.2"):
        draft.derive("seed.per_replica", "replica", "node x 1024 + index of the engine on its node")
        draft.derive("engine.seed", 0, "of the first engine: node x 1024 + index of the engine on its node")
    elif between(draft, OWNER, "0"):
        # https://github.com/NVIDIA-NeMo/RL/issues/53
        draft.derive("seed.per_replica", "same", "no engine is given a seed")
    draft.derive("rollout.spread", "parts", "each replica gets a contiguous part of the batch")
    draft.derive("seed.per_request", "none", "no seed in the requests")
    draft.derive("seed.node_stride", 1024, "generation/vllm/vllm_worker.py")
    draft.derive("sampling.n", 1, "each completion is a request of its own")
    draft.derive("sampling.logprobs", 0, "fixed by NeMo-RL")
    draft.derive("rollout.engine_logprobs", True, "kept beside the trainer's")


def engine(draft: Draft) -> None:
    if draft.value("rollout.enabled") is False:
        return
    if draft.value("rollout.backend", "vllm") not in ("vllm", "dynamo"):
        # vllm_cfg stays in the file for the other engines and is not read.
        for option in [o for o in draft.settings if o.startswith("engine.") or o == "rollout.async_engine"]:
            del draft.settings[option]
        return
    draft.derive("engine.model", draft.value("model.path"), "the policy", "model.path")
    draft.derive("engine.trust_remote_code", True, "fixed by NeMo-RL")
    if draft.value("engine.dtype") == FP8 and not between(draft, OWNER, "0", FP8_SINCE):
        draft.derive(
            "engine.quantization", FP8, "precision fp8 is a quantization of weights in bfloat16", "engine.dtype"
        )
        draft.override(
            "engine.dtype", "bfloat16", "weights of precision fp8 are quantized from it", "engine.quantization"
        )
    draft.derive("engine.enable_sleep_mode", True, "fixed by NeMo-RL")
    ranks = draft.ranks("engine.tensor_parallel_size", "engine.pipeline_parallel_size")
    if ranks is not None:
        executor = "ray" if ranks > 1 else None
        draft.override("engine.distributed_executor_backend", executor, f"{ranks} ranks per engine")
    if draft.value("model.overrides") and between(draft, OWNER, "0.4"):
        draft.derive("engine.hf_overrides", draft.value("model.overrides"), "hf_config_overrides", "model.overrides")
    _releases(draft)
    for low, high, names in PASSED:
        if between(draft, OWNER, low, high):
            version = draft.launch.version_of(OWNER)
            passed_twice(
                draft, f"{GENERATION}.vllm_kwargs", names.split(), f"NeMo-RL {version}", lambda n: _own(draft, n)
            )
    colocated = draft.value("placement.mode") == "colocate"
    how = "colocated engines sleep" if colocated else "engines on devices of their own do not sleep"
    draft.derive("sleep.enabled", colocated, how, "placement.mode")
    draft.derive("sleep.level", int(colocated), "sleep(level=1)" if colocated else how, "placement.mode")
    draft.derive("sleep.trainer", colocated, "offload_before_refit", "placement.mode")
    if draft.native("policy.generation.vllm_cfg.expert_parallel_size") is not None:
        _experts(draft)


def _own(draft: Draft, name: str) -> str | None:
    """NeMo-RL's own key for an engine argument, where the release has one."""
    if name == "model":
        return "policy.model_name"
    options = draft.launch.options(OWNER)
    for key in keys_of(TABLE, f"engine.{name}"):
        if key.startswith(f"{VLLM}.") and (options is None or options.known(key) is not False):
            return key
    return None


def _experts(draft: Draft) -> None:
    """vllm_generation.py from 0.4: expert parallelism beyond the tensor ranks comes from vLLM's data parallelism."""
    size, ranks = (
        draft.native("policy.generation.vllm_cfg.expert_parallel_size"),
        draft.value("engine.tensor_parallel_size"),
    )
    if isinstance(size, int) and ranks and size > ranks and size % ranks == 0:
        draft.derive(
            "engine.data_parallel_size",
            size // ranks,
            f"{size} expert parallel / {ranks}",
            "engine.tensor_parallel_size",
        )


def _releases(draft: Draft) -> None:
    """What changed from release to release."""
    if between(draft, OWNER, "0", "0.3"):
        draft.override("engine.enforce_eager", True, "fixed by NeMo-RL through 0.2")
        draft.derive("engine.enable_prefix_caching", True, "fixed by NeMo-RL")
    elif between(draft, OWNER, "0.3"):
        draft.derive("engine.enable_prefix_caching", True, "on devices of compute capability 8.0 and more")
    if between(draft, OWNER, "0", "0.2.1"):
        draft.override("engine.dtype", "auto", "fixed by NeMo-RL through 0.2.0")
    if between(draft, OWNER, "0.2"):
        draft.derive("engine.load_format", "dummy", "weights arrive with the first update")
    if between(draft, OWNER, "0.4", "0.5"):
        draft.derive("engine.logprobs_mode", "raw_logprobs", "fixed by NeMo-RL 0.4")
    elif between(draft, OWNER, "0.5", "0.8"):
        draft.override("engine.logprobs_mode", "processed_logprobs", "fixed by NeMo-RL 0.5 to 0.7")
    if between(draft, OWNER, "0.3"):
        # NRL_VLLM_USE_V1, "1" where it is not set (nemo_rl/models/policy/utils.py)
        asked = draft.value("env.NRL_VLLM_USE_V1", "1")
        draft.override("env.VLLM_USE_V1", "1" if asked == "1" else "0", "NRL_VLLM_USE_V1", "env.NRL_VLLM_USE_V1")
    elif between(draft, OWNER, "0", "0.2"):
        draft.override("env.VLLM_USE_V1", "0", "fixed by NeMo-RL 0.1")
