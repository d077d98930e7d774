"""What ms-swift hands to its engines beside the given settings, and which seeds they get, release by release."""

from __future__ import annotations

from rldoctor.counted import counted
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.ms_swift.place import megatron, on_ray, serves, world
from rldoctor.frameworks.releases import between, within
from rldoctor.frameworks.vllm.seeds import derive_own
from rldoctor.plan.model import Setting


def engine(draft: Draft) -> None:
    """The engine's arguments (``_prepare_engine_kwargs`` in infer_engine/vllm_engine.py) and its sleep."""
    mode = draft.value("placement.mode")
    if mode not in ("colocate", "separate", "async") and not serves(draft):
        return
    draft.derive("engine.model", draft.value("model.path"), "the policy", "model.path")
    draft.derive("engine.trust_remote_code", True, "fixed by ms-swift")
    draft.derive("engine.dtype", draft.value("model.dtype"), "as the policy", "model.dtype")
    draft.derive("sampling.n", 1, "each completion is a request of its own")
    draft.derive("sampling.max_tokens", draft.value("lengths.response"), "max_completion_length", "lengths.response")
    if serves(draft):
        return
    _sleep(draft)
    if mode == "colocate":
        _colocated(draft)
        _adapters(draft)


def _sleep(draft: Draft) -> None:
    if draft.value("rollout.async"):
        draft.override("sleep.level", 0, "off while generation is asynchronous", "rollout.async")
    if on_ray(draft) and "sleep_level" not in draft.natives:
        # ray/megatron/driver_utils.py, parse_ray_yaml
        draft.override("sleep.level", 1, "1 on Ray unless the YAML says otherwise")
    level = draft.value("sleep.level")
    if level is not None:
        draft.derive("sleep.enabled", level > 0, f"sleep_level {level}", "sleep.level")
        draft.derive("engine.enable_sleep_mode", level > 0, f"sleep_level {level}", "sleep.level")
    leaves = [key for key in ("offload_model", "offload_optimizer") if _on(draft, key)]
    if leaves:
        draft.override("sleep.trainer", True, " and ".join(leaves), "sleep.trainer")


def _on(draft: Draft, key: str) -> bool:
    return str(draft.native(key)).lower() in ("true", "1", "yes", "on")


def _colocated(draft: Draft) -> None:
    """3.5 on: rollout_mixin.py (grpo_trainer.py through 3.9), ``prepare_vllm``; on Ray: ray/megatron/rollout."""
    if on_ray(draft):
        # ray/megatron/rollout/replica.py: VllmEngineConfig has the rollout server's defaults
        draft.derive("engine.max_num_seqs", draft.launch.default("ms-swift:rollout", "vllm_max_num_seqs"), "on Ray")
    if on_ray(draft) or not between(draft, "ms-swift", "3.5"):
        return
    draft.derive("engine.distributed_executor_backend", "external_launcher", "fixed by ms-swift")
    draft.derive("engine.disable_custom_all_reduce", True, "fixed by ms-swift")
    _sequences(draft)
    if between(draft, "ms-swift", "3.8", "4.1.2"):
        draft.derive("engine.load_format", "dummy", "fixed by ms-swift")
    if between(draft, "ms-swift", "3.11") and within(draft.launch.version_of("vllm"), "0.10.2"):
        draft.derive("engine.logprobs_mode", "processed_logprobs", "with vLLM 0.10.2 and above")
    name = "env.PYTORCH_CUDA_ALLOC_CONF"
    text = str(draft.value(name, ""))
    if between(draft, "ms-swift", "3.9") and "expandable_segments:True" in text:
        # rlhf_trainers/utils.py, set_expandable_segments
        off = text.replace("expandable_segments:True", "expandable_segments:False")
        draft.override(name, off, "ms-swift switches expandable segments off around the engine", name)


def _sequences(draft: Draft) -> None:
    ranks = draft.value("engine.tensor_parallel_size") or 1
    if megatron(draft):
        generation, total = draft.value("batch.generation"), world(draft)
        if generation and total:
            how = f"{generation} completions / {total} processes x {ranks} ranks"
            value = generation // total * ranks
            draft.derive("engine.max_num_seqs", value, how, "batch.train", "batch.steps_per_generation")
        return
    each, steps = draft.value("batch.per_device"), draft.value("batch.steps_per_generation")
    # In these releases vllm_max_num_seqs is not looked at.
    fixed = between(draft, "ms-swift", "3.5", "3.11")
    if each and steps:
        how = f"{each} per device x {counted(ranks, 'rank')} x {counted(steps, 'step')}"
        inputs = ("batch.per_device", "batch.steps_per_generation", "engine.tensor_parallel_size")
        (draft.override if fixed else draft.derive)("engine.max_num_seqs", each * ranks * steps, how, *inputs)
    elif fixed:
        draft.put("engine.max_num_seqs", Setting(unknown="it follows from the batch, which is not known here"))


def _adapters(draft: Draft) -> None:
    if draft.value("engine.enable_lora") and draft.value("lora.enabled"):
        draft.derive("engine.max_loras", 1, "one adapter", "engine.enable_lora")
        draft.override("engine.max_lora_rank", draft.value("lora.rank"), "lora_rank", "lora.rank")
    elif draft.value("engine.enable_lora") is not None and not draft.value("lora.enabled"):
        draft.override("engine.enable_lora", False, "no adapters are trained", "trainer.full")


def seeds(draft: Draft) -> None:
    """Seeds of engines and requests; ``set_seed(seed, device_specific=True)`` is the trainer's."""
    draft.derive("batch.per_request", 1, "every row of a batch is a request of its own, colocated or sent to a server")
    draft.derive("rollout.spread", "parts", "each replica gets a contiguous part of the batch")
    mode = draft.value("placement.mode")
    if serves(draft):
        _server_seeds(draft)
    elif mode == "none" and draft.value("trainer.algorithm") == "grpo":
        draft.derive("seed.per_replica", "rank", "set_seed(seed, device_specific=True)", "seed.trainer")
    elif mode == "colocate" and not on_ray(draft) and between(draft, "ms-swift", "3.5"):
        ranks = draft.value("engine.tensor_parallel_size") or 1
        draft.derive("engine.seed", 0, f"rank // {ranks}", "engine.tensor_parallel_size")
        draft.derive("seed.per_replica", "replica", f"rank // {ranks}", "engine.tensor_parallel_size")
        _request_seeds(draft, ranks)
    elif between(draft, "ms-swift", "3.2.2", "3.5") and mode != "server":
        _worker_seeds(draft, mode)
    elif on_ray(draft) or (between(draft, "ms-swift", "3.2", "3.2.2") and mode in ("colocate", "separate", "async")):
        draft.derive("seed.per_replica", "same", "no seed is given: vLLM's own in every replica")
        draft.derive("seed.per_request", "none", "no seed in the requests")


def _request_seeds(draft: Draft, ranks: int) -> None:
    """grpo_trainer.py, _get_request_config: a seed only with tensor parallel ranks, one for each engine."""
    if ranks == 1 or megatron(draft):
        draft.derive("seed.per_request", "none", "no seed in the requests")
    elif between(draft, "ms-swift", "3.5.3"):
        # vllm_engine.py, infer: += index of the request (https://github.com/modelscope/ms-swift/pull/4712)
        draft.derive(
            "seed.per_request", "counter", "the engine's seed + index of the request", "engine.tensor_parallel_size"
        )
    else:
        draft.derive(
            "seed.per_request", "engine", "all requests of an engine get its seed", "engine.tensor_parallel_size"
        )


def _worker_seeds(draft: Draft, mode: str | None) -> None:
    """grpo_trainer.py of 3.2.2 to 3.4: colocated engines have seed 0 and requests the inference worker's rank, the same
    at every step; elsewhere each request gets a random seed (vllm_engine.py, _prepare_generation_config)."""
    if mode == "colocate" and (draft.value("process.nproc") or 0) > 1:
        # 3.2.2 gives none: vLLM's own, 0 in the releases of its time.
        draft.derive("engine.seed", 0, "fixed by ms-swift" if between(draft, "ms-swift", "3.3") else "vLLM's own")
        draft.derive("seed.engine", 0, "fixed by ms-swift")
        draft.derive("seed.per_replica", "same", "every engine gets seed 0", "placement.mode")
        draft.derive(
            "seed.per_request",
            "rank",
            "rank of the worker + index of the request, the same at every step",
            "placement.mode",
        )
    elif mode in ("separate", "async", "colocate"):
        draft.derive("seed.per_replica", "random", "a random seed in every request")


def _server_seeds(draft: Draft) -> None:
    """swift rollout: one engine process for each data parallel rank, with a random seed from 3.12.3 on, none before."""
    if between(draft, "ms-swift", "3.12.3"):
        draft.derive("seed.per_replica", "random", "a random seed for each replica")
    elif between(draft, "ms-swift", "3.4"):
        derive_own(draft, "engine.data_parallel_size")
    if between(draft, "ms-swift", "3.5"):
        draft.derive("seed.per_request", "none", "no seed in the requests")
