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
        r"n_gpu: (?P<gpus>\d+), local_world_size: (?P<processes>\d+)",
        "ms-swift sees {gpus} GPUs for {processes} processes on the node, and spreads no model under DeepSpeed",
        (_NPROC, AGREE),
    ),
    ", local_world_size: ": (
        r"^(?:AssertionError: )?n_gpu: (?P<gpus>\d+), local_world_size: (?P<processes>\d+)",
        "{processes} processes and {gpus} visible GPUs: ms-swift wants a whole number of GPUs for each process",
        (_NPROC, AGREE),
    ),
    "Colocate mode requires device_count(": (
        r"device_count\((?P<gpus>\d+)\) == num_infer_workers\((?P<workers>\d+)\)",
        "{gpus} visible GPUs and {workers} colocated inference workers: NPROC_PER_NODE must be both",
        (_NPROC, AGREE),
    ),
    "Async mode requires total GPUs(": (
        r"GPUs\((?P<gpus>\d+)\) = training GPUs\((?P<processes>\d+)\) \+ inference workers\((?P<workers>\d+)\)",
        "{gpus} visible GPUs are not the {processes} training processes and {workers} inference workers together",
        (Fix(title="leave one GPU for each inference worker", commands=("export NPROC_PER_NODE=<GPUs - workers>",)),),
    ),
    "Error: local_device_count (": (
        r"local_device_count \((?P<seen>\d+)\)[\s\S]*required_device_count = (?P<wanted>\d+)",
        "the rollout server sees {seen} GPUs and asks for {wanted}",
        (_SMALLER,),
    ),
    "The requested device for vllm (": (
        r"requested device for vllm \((?P<device>cuda:\d+)\)",
        "the engine's device {device} does not exist: every visible GPU has a training process already",
        _VLLM_DEVICE,
    ),
    "larger than the number of available GPUs": (
        r"size \((?P<wanted>\d+)\)[\s\S]{0,60}?available GPUs \((?P<seen>\d+)\)",
        "the engine asks for {wanted} devices and sees {seen}",
        (_SMALLER,),
    ),
    "is larger than the number of available GPUs": (
        r"size \((?P<wanted>\d+)\)[\s\S]{0,60}?available GPUs \((?P<seen>\d+)\)",
        "the engine asks for {wanted} devices and sees {seen}",
        (_SMALLER,),
    ),
    "local_world_size (": (
        r"local_world_size \((?P<ranks>\d+)\)[\s\S]{0,80}?visible devices \((?P<seen>\d+)\)",
        "the engine has {ranks} ranks on the node and sees {seen} devices",
        (_SMALLER,),
    ),
    "specified on host '": (
        r"No slot '(?P<gpu>\d+)' specified on host '(?P<host>[^']+)'",
        "DeepSpeed is asked for GPU {gpu}, which {host} does not have",
        (AGREE,),
    ),
}
