"""How frameworks refuse settings that do not go together."""

from __future__ import annotations

from rldoctor.api import Applicability, Fix

from . import check
from .conflicts import NO_SERVER, server_mode

# What the framework prints -> what is wrong, and the fixes.
REFUSALS: dict[str, tuple[str, tuple[Fix, ...]]] = {
    "set vllm_mode to `server` since vllm": (
        "a rollout server is named, so ms-swift switched vllm_mode from colocate to server and dropped the settings of "
        "the colocated engine",
        (server_mode(Applicability.UNSAFE), NO_SERVER),
    ),
    "set vllm_mode to `colocate` since vllm": (
        "no rollout server is named, so ms-swift switched vllm_mode from server to colocate",
        (Fix(title="name the server: --vllm_server_host HOST --vllm_server_port PORT"),),
    ),
    "Expected to have finished reduction in the prior iteration": (
        "DistributedDataParallel waits for gradients of parameters that this step did not use",
        (
            Fix(title="set ddp_find_unused_parameters=True (find_unused_parameters of DistributedDataParallel)"),
            Fix(title="or freeze what is not trained (a vision tower, a value head) before the model is wrapped"),
        ),
    ),
    "Expected to mark a variable ready only once": (
        "DistributedDataParallel met a parameter's gradient twice in one step",
        (
            Fix(title="checkpoint without re-entering: gradient_checkpointing_kwargs={'use_reentrant': False}"),
            Fix(title="and set ddp_find_unused_parameters=False"),
        ),
    ),
    "need to convert all torch.Tensor to DTensor before calling": (
        "a part of the model is sharded (DTensor) and what it meets is not: it was called past the wrapper, or does "
        "not go with this parallel plan",
        (
            Fix(title="call the wrapped model's forward, and no submodule or weight of it directly"),
            Fix(title="or run without tensor parallelism in the trainer, or with another attention implementation"),
        ),
    ),
    "When connecting to an existing cluster, num_cpus and num_gpus must not be provided": (
        "a Ray cluster is there already (started on this node, or named by RAY_ADDRESS), and the program tells it "
        "num_cpus or num_gpus, which only a new one takes",
        (
            Fix(title="take num_cpus and num_gpus out (verl: ray_kwargs.ray_init.num_cpus=null)"),
            Fix(title="or let it start one of its own", commands=("ray stop", "unset RAY_ADDRESS")),
        ),
    ),
    "You are using ZeRO-Offload with a client provided optimizer": (
        "DeepSpeed offloads the optimizer and wants its own CPU optimizer for it",
        (
            Fix(title='let DeepSpeed make it: an "optimizer" section in its configuration, or DeepSpeedCPUAdam'),
            Fix(title='or set "zero_force_ds_cpu_optimizer": false in the configuration'),
        ),
    ),
    "does not support ray.": (
        "the distributed executor 'ray' does not go with this device",
        (Fix.unsafe("let vLLM start its workers itself", {"engine.distributed_executor_backend": "mp"}),),
    ),
    "(enforce_eager = False) if free cache engine": (
        "verl frees the engine's cache, which its release does not combine with CUDA graphs",
        (Fix.unsafe("run without CUDA graphs", {"engine.enforce_eager": True}),),
    ),
    " with mode sync not found": (
        "this verl has no such rollout backend in synchronous mode",
        (
            Fix.unsafe(
                "take the asynchronous engine of vLLM", {"rollout.backend": "vllm", "rollout.async_engine": True}
            ),
        ),
    ),
    "'GRPOTrainer' object has no attribute 'vllm_client'": (
        "the trainer talks to a rollout server that it is not configured to use: vllm_mode=server without use_vllm",
        (Fix.unsafe("switch vLLM on", {"rollout.backend": "vllm"}),),
    ),
    "Async GRPO requires vLLM backend with vllm_cfg.async_engine=True": (
        "asynchronous GRPO needs the asynchronous engine",
        (Fix.unsafe("take the asynchronous engine", {"rollout.async_engine": True}),),
    ),
    "When pipeline_parallel_size > 1, async_engine must be set to True": (
        "pipeline parallel engines need the asynchronous engine",
        (Fix.unsafe("take the asynchronous engine", {"rollout.async_engine": True}),),
    ),
}

# torch/distributed/fsdp/_flat_param.py; before 2.1 a shorter sentence.
_FLAT = (
    "FSDP flattens the parameters of a layer into one, and cannot where some are frozen and others trained (LoRA)",
    (
        Fix(title="let it keep them apart: fsdp_use_orig_params: true (accelerate), use_orig_params=True (torch)"),
        Fix(title="or take FSDP2, which flattens nothing (fsdp_version: 2)"),
    ),
)
REFUSALS |= dict.fromkeys(("uniform `requires_grad`", "uniform requires_grad when use_orig_params=False"), _FLAT)


for _literal, (_says, _fixes) in REFUSALS.items():
    check.signature(_literal, says=_says, fixes=_fixes)


check.signature(
    "Please correct the following DeepSpeed config values that mismatch TrainingArguments values",
    details=(r"(?m)^- ds (?P<ds>[^\n=]{1,60}=\S+) vs hf (?P<hf>[^\n]{1,80})",),
    says="the DeepSpeed configuration and the trainer's arguments disagree[[: DeepSpeed {ds}, trainer {hf}]]",
    fixes=(Fix(title='write "auto" for these values in the DeepSpeed configuration: the trainer fills them in'),),
    url="https://huggingface.co/docs/transformers/deepspeed",
)
check.signature(
    "requires setting the environment variable CUDA_DEVICE_MAX_CONNECTIONS to 1",
    "CUDA_DEVICE_MAX_CONNECTIONS must be set to 1",
    says="Megatron's tensor or sequence parallel ranks need one connection to the device",
    fixes=(Fix.safe("give it one, in the environment of every rank", {"env.CUDA_DEVICE_MAX_CONNECTIONS": "1"}),),
    url="https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/tensor_parallel/layers.py",
)


# ray/_private/runtime_env/setup_hook.py, where an engine hands the environment of its process on to workers of its own.
check.signature(
    "__RAY_WORKER_PROCESS_SETUP_HOOK_ENV_VAR, is not permitted",
    exception="AssertionError",
    says="the engine's process has a worker_process_setup_hook from Ray's runtime environment, and may not hand it on "
    "to workers of its own",
    fixes=(
        Fix.unsafe(
            "let the engine start its workers without Ray",
            {"engine.distributed_executor_backend": "mp"},
            side_effects="an engine stays on one node",
        ),
        Fix(title="or take the hook out of the runtime environment (ray.init, ray job submit, the framework's own)"),
        Fix(title="or take a Ray that accepts the same hook again (after 2.54)"),
    ),
    url="https://github.com/ray-project/ray/pull/61473",
)
