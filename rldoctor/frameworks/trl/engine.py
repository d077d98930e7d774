"""What TRL's trainers make of their settings, release by release: processes, placement, engine, seeds."""

from __future__ import annotations

from rldoctor.counted import counted
from rldoctor.formats.values import Unresolved
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.processes import processes
from rldoctor.frameworks.releases import within
from rldoctor.plan.model import Setting, Source

# Trainers that inherit GRPOTrainer, and with it the way it builds the engine.
_GRPO = frozenset({"grpo", "gfpo", "dppo", "papo", "minillm", "gmpo"})
_PAIRWISE = frozenset({"online_dpo", "xpo", "nash_md"})
# trl/accelerate_configs: one process on one device, or eight on one node.
_PRESETS = {
    "single_gpu": (1, "none", None),
    "multi_gpu": (8, "ddp", None),
    "zero1": (8, "deepspeed", 1),
    "zero2": (8, "deepspeed", 2),
    "zero3": (8, "deepspeed", 3),
    "fsdp1": (8, "fsdp", None),
    "fsdp2": (8, "fsdp2", None),
}


def between(draft: Draft, low: str, high: str | None = None) -> bool:
    """Whether TRL's version is known and in [low, high)."""
    return within(draft.launch.version_of("trl"), low, high)


def grpo_like(draft: Draft) -> bool:
    """Whether the trainer builds its engine and batches as GRPOTrainer does; RLOOTrainer does since 0.22."""
    algorithm = draft.value("trainer.algorithm")
    return algorithm in _GRPO or (algorithm == "rloo" and between(draft, "0.22"))


def start(draft: Draft) -> None:
    """How many processes train: what the launcher was told, else what it starts by itself."""
    if draft.launch.entry.startswith("trl "):
        draft.derive("process.launcher", "accelerate", f"{draft.launch.entry} starts accelerate")
        _preset(draft)
    launcher, nodes = draft.value("process.launcher"), draft.value("process.nnodes", 1)
    seen = draft.value("placement.trainer_devices")
    # A script that is named by itself may be started in any way.
    if launcher == "none" and draft.launch.place is not None:
        draft.derive("process.total", 1, "started by python itself: one process")
    elif launcher == "torchrun" and draft.is_open("process.nproc"):
        draft.derive("process.nproc", 1, "torchrun starts one process unless told otherwise")
    elif launcher in ("accelerate", "deepspeed") and seen and draft.is_open("process.nproc"):
        how = f"{launcher} starts one process per visible device"
        draft.derive("process.total", len(seen) * nodes, how, "env.CUDA_VISIBLE_DEVICES")
    processes(draft)
    total = draft.value("process.total")
    draft.derive(
        "placement.trainer_gpus", total, "one device for each training process", "process.total", "process.nproc"
    )


def _preset(draft: Draft) -> None:
    """``--accelerate_config NAME`` of the ``trl`` command, and its options for accelerate."""
    if between(draft, "0.14", "0.29") and not draft.launch.entry.startswith("trl sft"):
        # trl/cli.py through 0.28: parse_args([script]) leaves them out; every visible device gets a process.
        for key in ("num_processes", "num_machines", "accelerate_config"):
            native = draft.natives.get(key)
            if native is not None:
                release = f"TRL {draft.launch.version_of('trl')}"
                text = f"{native.spelled}: {draft.launch.entry} of {release} does not hand it to accelerate"
                draft.note(text, native.file, native.line)
    named = draft.native("accelerate_config")
    if not isinstance(named, str):
        return
    if named in _PRESETS:
        total, strategy, stage = _PRESETS[named]
        how = f"accelerate_config {named}"
        draft.derive("process.total", total, how)
        draft.derive("trainer.strategy", strategy, how)
        draft.derive("trainer.zero_stage", stage, how)
        return
    from rldoctor.frameworks.accelerate import settings

    found, notes = settings(named, draft.launch.files)
    for option, setting in found.items():
        if draft.is_open(option):
            draft.put(option, setting)
    for text in notes:
        draft.note(text)


def placement(draft: Draft) -> None:
    """Where the engine runs. Settings of an engine that this launch does not start do not reach the plan."""
    algorithm, enabled = draft.value("trainer.algorithm"), draft.value("rollout.enabled")
    if algorithm == "async_grpo":
        # trl/experimental/async_grpo: the engine is a server, generation and training overlap
        draft.derive("rollout.enabled", True, "AsyncGRPO samples from a vLLM server")
        draft.derive("rollout.async", True, "AsyncGRPO: generation and training overlap")
        draft.derive("placement.mode", "server", "AsyncGRPO samples from a vLLM server")
    elif enabled is False or (algorithm == "rloo" and between(draft, "0", "0.22")):
        draft.override("placement.mode", "none", "use_vllm is false", "rollout.enabled")
        draft.derive("rollout.backend", "hf", "use_vllm is false", "rollout.enabled")
    elif enabled and algorithm in _PAIRWISE and between(draft, "0", "0.23"):
        # online_dpo_trainer.py 0.14 to 0.22: LLM(...) in every process, without a device
        draft.derive("placement.mode", "colocate", "every process has an engine", "rollout.enabled")
    elif enabled and between(draft, "0", "0.16"):
        _own_device(draft)
    elif enabled and between(draft, "0.16", "0.18"):
        # grpo_trainer.py 0.16: the trainer is a client of `trl vllm-serve`
        draft.override("placement.mode", "server", "use_vllm asks a server in this release", "rollout.enabled")
    if enabled:
        draft.derive("rollout.backend", "vllm", "use_vllm is true", "rollout.enabled")
    if between(draft, "0.16"):
        without(draft, "placement.engine_device", given=True)
    mode = draft.value("placement.mode")
    if mode in ("none", "server"):
        without(draft, "engine.", given=True)
    if mode in ("none", "colocate", "separate"):
        without(draft, "placement.server_")
        without(draft, "sync.port")
    if mode == "none":
        without(draft, "rollout.importance_correction")
    if mode == "server":
        server(draft)


def _own_device(draft: Draft) -> None:
    """``vllm_device`` of 0.14 and 0.15: one engine, on rank 0, on a device beside the training ones
    (grpo_trainer.py 0.14.0 lines 287-317, 0.15.0 from 373)."""
    total, seen = draft.value("process.total"), draft.value("placement.trainer_devices")
    device, visible = draft.value("placement.engine_device", "auto"), None if seen is None else len(seen)
    if device == "auto":
        if between(draft, "0.15") and (visible == 1 or (visible is None and total == 1)):
            unknown = Unresolved("auto", "cuda:0 where one device is visible, else the one after the training devices")
            device = "cuda:0" if visible == 1 else unknown
        elif total:
            device = f"cuda:{total}"
        draft.override("placement.engine_device", device, "vllm_device auto", "rollout.enabled", "process.total")
    index = int(device[5:]) if isinstance(device, str) and device[:5] == "cuda:" and device[5:].isdecimal() else None
    draft.derive("placement.engines", 1, "one engine, in the first process")
    draft.derive("placement.engine_gpus", 1, "one engine, in the first process")
    if index is None or not total:
        return
    how = f"{device} with {total} training process(es)"
    draft.derive("placement.mode", "colocate" if index < total else "separate", how, "placement.engine_device")
    ids = seen or list(range(max(total, index + 1)))
    if index < len(ids):
        draft.derive("placement.engine_devices", [ids[index]], how, "placement.engine_device")
    draft.override("placement.trainer_devices", ids[:total], f"the first {total} of the visible devices")


def server(draft: Draft) -> None:
    """The trainer's side of a server: NCCL group at 51216 (trl/extras/vllm_client.py; vllm_group_port from 0.27)."""
    draft.derive("sync.backend", "nccl", "weights go to the server by NCCL")
    if between(draft, "0", "0.27"):
        draft.derive("sync.port", 51216, "fixed in vllm_client.py")
    n = draft.value("batch.generations")
    draft.derive("sampling.n", n, "the server gets each prompt once", "batch.generations")


def engine(draft: Draft) -> None:
    """The colocated engine's arguments: trl/trainer/grpo_trainer.py (0.18.2 line 649, 0.19.1 657, 0.26.2 661), from
    0.28 trl/generation/vllm_generation.py; none but these can be given."""
    if "placement.engine_device" in draft.settings and draft.value("rollout.enabled"):
        separate(draft)
        return
    if draft.value("placement.mode") != "colocate":
        return
    draft.derive("engine.model", draft.value("model.path"), "the policy", "model.path")
    total = draft.value("process.total")
    draft.derive("placement.engine_gpus", total, "every training process has a part of an engine", "process.total")
    if draft.value("trainer.algorithm") in _PAIRWISE:
        pairwise(draft)
    elif grpo_like(draft) and between(draft, "0.18"):
        _grpo_engine(draft)


def separate(draft: Draft) -> None:
    """0.14 and 0.15: ``LLM(model, device, gpu_memory_utilization)``, 0.15 with prefix caching, dtype and context."""
    draft.derive("engine.model", draft.value("model.path"), "the policy", "model.path")
    draft.derive("engine.device", draft.value("placement.engine_device"), "vllm_device", "placement.engine_device")
    if between(draft, "0.15", "0.16"):
        draft.derive("engine.enable_prefix_caching", True, "fixed in grpo_trainer.py")


def _grpo_engine(draft: Draft) -> None:
    # 0.18 and 0.19 multiply by gradient_accumulation_steps, 0.20 (line 841) on by steps_per_generation
    factor = "batch.accumulation" if between(draft, "0", "0.20") else "batch.steps_per_generation"
    each, times, ranks = (
        draft.value("batch.per_device"),
        draft.value(factor),
        draft.value("engine.tensor_parallel_size"),
    )
    if each and times and ranks:
        how = f"{each} per device x {counted(ranks, 'rank')} x {counted(times, 'step')}"
        draft.derive("engine.max_num_seqs", each * ranks * times, how, "batch.per_device", factor)
    prompt, response = draft.value("lengths.prompt"), draft.value("lengths.response")
    if prompt and response and between(draft, "0", "0.26"):
        how = f"prompt {prompt} + completion {response}"
        draft.derive("engine.max_model_len", prompt + response, how, "lengths.response", "lengths.prompt")
    common(draft)
    if between(draft, "0.19"):
        draft.derive("engine.max_num_batched_tokens", 4096, "fixed in TRL")
    if (between(draft, "0.24") and draft.value("trainer.algorithm") != "rloo") or between(draft, "0.28"):
        draft.derive("engine.logprobs_mode", "processed_logprobs", "fixed in TRL")
    if between(draft, "0.26") and draft.value("model.quantization") == "4bit":
        draft.derive("engine.quantization", "bitsandbytes", "the policy is loaded in 4 bits", "model.quantization")
    if between(draft, "1.8"):
        draft.derive(
            "engine.trust_remote_code",
            draft.value("model.trust_remote_code"),
            "the policy's",
            "model.trust_remote_code",
        )


def pairwise(draft: Draft) -> None:
    """OnlineDPOTrainer (0.22.2 line 289; 0.23.1 from 505): two completions for each prompt."""
    draft.derive("batch.generations", 2, "fixed in online_dpo_trainer.py")
    draft.derive("sampling.n", 2, "fixed in online_dpo_trainer.py")
    if between(draft, "0", "0.23"):
        draft.derive("engine.dtype", "float32", "fixed in online_dpo_trainer.py")
        if between(draft, "0", "0.17"):
            draft.derive("engine.gpu_memory_utilization", 0.55, "fixed in online_dpo_trainer.py")
        draft.derive("placement.engines", draft.value("process.total"), "one engine in each process", "process.total")
        draft.derive("seed.per_replica", "same", "no seed is given to the engines")
    elif between(draft, "0.23"):
        each, ranks = draft.value("batch.per_device"), draft.value("engine.tensor_parallel_size")
        if each and ranks:
            # batch.per_device counts completions, per_device_train_batch_size prompts with two of them
            draft.derive(
                "engine.max_num_seqs", each // 2 * ranks, f"{each // 2} prompts x {ranks} ranks", "batch.per_device"
            )
        total, response = draft.value("lengths.total"), draft.value("lengths.response")
        if total and response:
            how = f"max_length {total} + max_new_tokens {response}"
            draft.derive("engine.max_model_len", total + response, how, "lengths.total", "lengths.response")
        draft.derive("engine.max_num_batched_tokens", 4096, "fixed in TRL")
        common(draft)


def common(draft: Draft) -> None:
    """Ranks, seeds and sleep of an engine beside each training process."""
    total, ranks = draft.value("process.total"), draft.value("engine.tensor_parallel_size")
    draft.derive("engine.distributed_executor_backend", "external_launcher", "fixed in TRL")
    replicas = total // ranks if total and ranks and total % ranks == 0 else None
    draft.derive(
        "placement.engines", replicas, f"{total} processes / {ranks} tensor parallel", "engine.tensor_parallel_size"
    )
    # seed=accelerator.process_index // vllm_tensor_parallel_size
    draft.derive("seed.engine", 0, "process_index // vllm_tensor_parallel_size")
    draft.derive("seed.per_replica", "replica", "process_index // vllm_tensor_parallel_size")
    differs = Unresolved("process_index // vllm_tensor_parallel_size", "every replica has its own")
    draft.derive("engine.seed", 0 if replicas == 1 else differs, "process_index // vllm_tensor_parallel_size")
    asleep = draft.value("engine.enable_sleep_mode")
    draft.derive("sleep.enabled", asleep, "vllm_enable_sleep_mode", "engine.enable_sleep_mode")
    if asleep:
        # self.llm.sleep(level=1) in 0.23 and 0.24, level=2 from 0.25
        level = 1 if between(draft, "0.23", "0.25") else 2
        draft.derive("sleep.level", level, "fixed in TRL", "engine.enable_sleep_mode")
    elif asleep is False:
        draft.derive("sleep.level", 0, "vllm_enable_sleep_mode is false", "engine.enable_sleep_mode")


def without(draft: Draft, prefix: str, given: bool = False) -> None:
    """Takes settings out that have no effect here: defaults, and with ``given`` those of the launch too (noted)."""
    for name in [name for name in draft.settings if name.startswith(prefix)]:
        setting = draft.settings[name]
        if setting.source is Source.DEFAULT or given:
            del draft.settings[name]
            if setting.source is Source.GIVEN and _means(setting):
                text = f"{setting.key} has no effect here: placement is {draft.value('placement.mode')}"
                draft.note(text, setting.file, setting.line)


def _means(setting: Setting) -> bool:
    return setting.value not in (None, False)
