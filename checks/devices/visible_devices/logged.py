"""What frameworks say when processes, engines and visible devices do not fit, in their own words over the versions.

Read from ms-swift 3.3.0 to 4.5.2 (``rlhf_args.py``, ``train_args.py``, ``deploy_args.py``, ``env.py``), TRL 0.14.0
(``grpo_trainer.py``), vLLM 0.12.0 to 0.32.0 (``config/parallel.py``, ``gpu_worker.py``), DeepSpeed
(``launcher/runner.py``). Beside them what helps."""

from __future__ import annotations

from rldoctor.api import Fix

AGREE = Fix(
    title="start as many processes on a node as CUDA_VISIBLE_DEVICES lists, without a device_map beside them",
    commands=("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 ...", "nvidia-smi -L"),
)
SHOW_A_DEVICE = (
    Fix(title="give the actor or task its GPUs (num_gpus), or the process its CUDA_VISIBLE_DEVICES"),
    Fix.unsafe(
        "or keep Ray from emptying the variable where another part places the process",
        {"env.RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"},
    ),
    Fix(title="see what the process sees", commands=("nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES",)),
)
_NPROC = Fix(title="one process for each visible GPU", commands=("export NPROC_PER_NODE=<number of visible GPUs>",))
_SMALLER = Fix(title="a tensor parallel size that the visible devices hold, or more visible devices")
_VLLM_DEVICE = (
    Fix(
        title="one training process less than there are GPUs",
        commands=("accelerate launch --num_processes <number of GPUs - 1> ...",),
    ),
    Fix.unsafe(
        "on one GPU put the engine beside the trainer", {"placement.engine_device": "cuda:0"}, valid_for="trl<0.16"
    ),
    Fix.unsafe("or colocate it", {"placement.mode": "colocate"}, valid_for="trl>=0.18"),
)
# What frameworks say before they stop, the numbers to look for in it, what it means, and the remedies.
REFUSALS: dict[str, tuple[str, str, tuple[Fix, ...]]] = {
    "GRPO with vLLM is not compatible with `device_map`": (
        "",
        "several GPUs are visible to one ms-swift process: NPROC_PER_NODE is not set to their number",
        (_NPROC, Fix(title="or show the trainer one GPU", commands=("export CUDA_VISIBLE_DEVICES=0",))),
    ),
    "DeepSpeed is not compatible with `device_map`": (
        r"n_gpu: (\d+), local_world_size: (\d+)",
        "ms-swift sees {0} GPUs for {1} processes on the node, and spreads no model under DeepSpeed",
        (_NPROC, AGREE),
    ),
    ", local_world_size: ": (
        r"^(?:AssertionError: )?n_gpu: (\d+), local_world_size: (\d+)",
        "{1} processes and {0} visible GPUs: ms-swift wants a whole number of GPUs for each process",
        (_NPROC, AGREE),
    ),
    "Colocate mode requires device_count(": (
        r"device_count\((\d+)\) == num_infer_workers\((\d+)\)",
        "{0} visible GPUs and {1} colocated inference workers: NPROC_PER_NODE must be both",
        (_NPROC, AGREE),
    ),
    "Async mode requires total GPUs(": (
        r"GPUs\((\d+)\) = training GPUs\((\d+)\) \+ inference workers\((\d+)\)",
        "{0} visible GPUs are not the {1} training processes and {2} inference workers together",
        (Fix(title="leave one GPU for each inference worker", commands=("export NPROC_PER_NODE=<GPUs - workers>",)),),
    ),
    "Error: local_device_count (": (
        r"local_device_count \((\d+)\)[\s\S]*required_device_count = (\d+)",
        "the rollout server sees {0} GPUs and asks for {1}",
        (_SMALLER,),
    ),
    "The requested device for vllm (": (
        r"requested device for vllm \((cuda:\d+)\)",
        "the engine's device {0} does not exist: every visible GPU has a training process already",
        _VLLM_DEVICE,
    ),
    "larger than the number of available GPUs": (
        r"size \((\d+)\)[\s\S]{0,60}?available GPUs \((\d+)\)",
        "the engine asks for {0} devices and sees {1}",
        (_SMALLER,),
    ),
    "is larger than the number of available GPUs": (
        r"size \((\d+)\)[\s\S]{0,60}?available GPUs \((\d+)\)",
        "the engine asks for {0} devices and sees {1}",
        (_SMALLER,),
    ),
    "be less than or equal to the number of visible devices": (
        r"local_world_size \((\d+)\)[\s\S]{0,80}?visible devices \((\d+)\)",
        "the engine has {0} ranks on the node and sees {1} devices",
        (_SMALLER,),
    ),
    "specified on host '": (
        r"No slot '(\d+)' specified on host '([^']+)'",
        "DeepSpeed is asked for GPU {0}, which {1} does not have",
        (AGREE,),
    ),
}
