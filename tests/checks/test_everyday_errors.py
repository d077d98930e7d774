"""Errors of the libraries around a run (storage, hub, data sets, checkpoints, kernels, containers), and their
siblings."""

from __future__ import annotations

import pytest

from rldoctor.logs.triage import triage_text
from tests.loaded import REGISTRY
from tests.logs.asking import shown
from tests.logs.raising import traceback

CHECKS = REGISTRY.select()
MCORE = "megatron/core/optimizer/distrib_optimizer.py"
STEPS = "{'loss': 0.1, 'grad_norm': 0.2, 'reward': 0.5, 'epoch': 0.1}\n"
HUB = "requests.exceptions.{}: HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /x "

# What is printed, who raised it -> the code, and a word of what helps.
RAISED = {
    "a lost mount": ("RLD114", "mount", "OSError: [Errno 116] Stale file handle: '/mnt/a'", "datasets/x.py get"),
    "a home of nobody": ("RLD114", "HOME", "OSError: [Errno 30] Read-only file system: '/.cache'", "datasets/x.py f"),
    "another's cache": (
        "RLD114",
        "HF_HOME",
        "PermissionError: [Errno 13] Permission denied: '/.cache/huggingface/hub'",
        "huggingface_hub/x.py f",
    ),
    "watches": ("RLD114", "inotify", "OSError: [Errno 28] inotify watch limit reached", "watchfiles/main.py watch"),
    "no name server": (
        "RLD115",
        "HF_ENDPOINT",
        HUB.format("ConnectionError") + "(Caused by NameResolutionError(\"Failed to resolve 'huggingface.co'\"))",
        "requests/adapters.py send",
    ),
    "a proxy's certificate": (
        "RLD115",
        "REQUESTS_CA_BUNDLE",
        HUB.format("SSLError") + "(Caused by SSLError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate'))",
        "requests/adapters.py send",
    ),
    "no padding token": (
        "RLD115",
        "pad_token",
        "ValueError: Asking to pad but the tokenizer does not have a padding token. Please select one.",
        "transformers/tokenization_utils_base.py _get",
    ),
    "a folder without a state": (
        "RLD610",
        "resume",
        "ValueError: Can't find a valid checkpoint at /ckpt/checkpoint-5",
        "transformers/trainer.py _load_from_checkpoint",
    ),
    "no latest": (
        "RLD610",
        "CHECKPOINT",
        "ValueError: Unable to find latest file at /ckpt/latest, if trying to load latest checkpoint please ensure",
        "deepspeed/runtime/engine.py load_checkpoint",
    ),
    "no metadata": (
        "RLD610",
        "incomplete",
        "torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([0])\n"
        "FileNotFoundError: [Errno 2] No such file or directory: '/ckpt/step_50/.metadata'",
        "torch/distributed/checkpoint/state_dict_loader.py load",
    ),
    "another optimizer": (
        "RLD610",
        "adapters",
        "ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
        "torch/optim/optimizer.py load_state_dict",
    ),
    "objects beside tensors": (
        "RLD610",
        "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD",
        "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded",
        "torch/serialization.py load",
    ),
    "tied weights": (
        "RLD610",
        "save_pretrained",
        "RuntimeError: Some tensors share memory, this will lead to duplicate memory on disk and potential differences",
        "safetensors/torch.py save_file",
    ),
    "flat ranges": (
        "RLD610",
        "dp_reshardable",
        "megatron.core.dist_checkpointing.core.CheckpointingException: ShardedTensor.flattened_range is not supported.",
        "megatron/core/dist_checkpointing/mapping.py validate_metadata_integrity",
    ),
    "a state of another form": (
        "RLD610",
        "--no-load-optim",
        "AssertionError: (torch.Size([]), 0, 77856768)",
        f"{MCORE} sharded_state_dict",
    ),
    "scripts of data sets": (
        "RLD104",
        "datasets<4",
        "RuntimeError: Dataset scripts are no longer supported, but found gsm8k.py",
        "datasets/load.py dataset_module_factory",
    ),
    "a newer data set": (
        "RLD104",
        "--upgrade datasets",
        "ValueError: Feature type 'List' not found. Available feature types: ['Value', 'Sequence']",
        "datasets/features/features.py generate_from_dict",
    ),
    "weights that need torch 2.6": (
        "RLD104",
        "safetensors",
        "ValueError: Due to a serious vulnerability issue in `torch.load`, even with `weights_only=True`, we now "
        "require users to upgrade torch to at least v2.6 in order to use the function.",
        "transformers/modeling_utils.py check_torch_load_is_safe",
    ),
    "an older trainer": (
        "RLD104",
        "transformers>=4.46",
        "TypeError: Trainer.__init__() got an unexpected keyword argument 'processing_class'",
        "trl/trainer/grpo_trainer.py __init__",
    ),
    "a server without a trainer": (
        "RLD104",
        "accelerate",
        "RuntimeError: You must initialize the accelerate state by calling either `PartialState()` or `Accelerator()` "
        "before using the logging utility.",
        "accelerate/logging.py log",
    ),
    "bitsandbytes of another CUDA": (
        "RLD105",
        "python -m bitsandbytes",
        "RuntimeError: Configured CUDA binary not found at /opt/bitsandbytes/libbitsandbytes_cuda129.so",
        "bitsandbytes/cextension.py get_native_library",
    ),
    "fp8 before Ada": (
        "RLD107",
        "bfloat16",
        "AssertionError: Device compute capability 8.9 or higher required for FP8 execution.",
        "transformer_engine/pytorch/fp8.py fp8_autocast_enter",
    ),
    "an 8-bit kernel for a new GPU": (
        "RLD107",
        "--upgrade vllm",
        "RuntimeError: Currently, block scaled fp8 gemm is not implemented for Blackwell",
        "vllm/_custom_ops.py cutlass_scaled_mm",
    ),
    "a reporter": (
        "RLD108",
        "tensorboard",
        "RuntimeError: TensorBoardCallback requires tensorboard to be installed. Either update your PyTorch version or "
        "install tensorboardX.",
        "transformers/integrations/integration_utils.py __init__",
    ),
    "a program that Python starts": (
        "RLD108",
        "which ray",
        "FileNotFoundError: [Errno 2] No such file or directory: 'ray'",
        "tools/start.py start_head",
    ),
    "a long name": ("RLD114", "shorter", "OSError: [Errno 36] File name too long: '/out/run_1'", "trl/x.py save"),
    "a class of another release": (
        "RLD610",
        "release of the trainer",
        "AttributeError: Can't get attribute 'ModelMeta' on <module 'swift.megatron.model.register' from '/opt/x.py'>",
        "torch/serialization.py find_class",
    ),
    "a module of another release": (
        "RLD610",
        "safetensors",
        "ModuleNotFoundError: No module named 'swift.megatron.model.gpt_bridge'",
        "torch/serialization.py find_class",
    ),
    "an engine in each of the ranks": (
        "RLD324",
        "external_launcher",
        "RuntimeError: shape '[1, 1, 1]' is invalid for input of size 4",
        "vllm/distributed/parallel_state.py initialize_model_parallel",
    ),
    "no byte left for cuBLAS": (
        "RLD206",
        "smaller share",
        "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "torch/nn/modules/linear.py forward",
    ),
    "Ray that is there": (
        "RLD212",
        "ray stop",
        "ValueError: When connecting to an existing cluster, num_cpus and num_gpus must not be provided.",
        "ray/_private/worker.py init",
    ),
    "adapters in FSDP": (
        "RLD212",
        "fsdp_use_orig_params",
        "ValueError: Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`",
        "torch/distributed/fsdp/_flat_param.py _validate_tensors_to_flatten",
    ),
    "sharded in part": (
        "RLD212",
        "forward",
        "RuntimeError: aten.mm.default: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to "
        "DTensor before calling distributed operators!",
        "torch/distributed/tensor/_dispatch.py dispatch",
    ),
    "an image that is cut off": (
        "RLD902",
        "leave the rows out",
        "OSError: image file is truncated (12 bytes not processed)",
        "PIL/ImageFile.py load",
    ),
    "a row without text": (
        "RLD902",
        "isinstance",
        "ValueError: text input must be of type `str` (single example), `list[str]` (batch) or `list[list[str]]`",
        "transformers/tokenization_utils_base.py _call_one",
    ),
    "files of two tables": (
        "RLD902",
        "same columns",
        "datasets.exceptions.DatasetGenerationCastError: An error occurred while generating the dataset\n\nAll the "
        "data files must have the same columns, but at some point there are 1 new columns ({'level'})",
        "datasets/builder.py _prepare_split_single",
    ),
    "device memory over a descriptor": (
        "RLD407",
        "SYS_PTRACE",
        "RuntimeError: pidfd_getfd: Operation not permitted",
        "torch/multiprocessing/reductions.py rebuild_cuda_tensor",
    ),
    "device memory, and a kernel without the call": (
        "RLD407",
        "Linux 5.6",
        "RuntimeError: The kernel on this machine does not support the pidfd_open syscall needed to use IPC for CUDA "
        "tensors when expandable_segments:True is set.",
        "torch/multiprocessing/reductions.py reduce_tensor",
    ),
    "device files of Intel's GPUs": (
        "RLD320",
        "/dev/dri",
        "RuntimeError: oneCCL: ze_fd_manager.cpp:214 fill_device_fds: EXCEPTION: open failed: fd: -1, errno: No such "
        "file or directory",
        "torch/distributed/distributed_c10d.py all_reduce",
    ),
    "device memory of other devices": (
        "RLD407",
        "CUDA_VISIBLE_DEVICES",
        "RuntimeError: CUDA error: invalid resource handle",
        "torch/multiprocessing/reductions.py rebuild_cuda_tensor",
    ),
    "a scale at its end": (
        "RLD504",
        "bfloat16",
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
        "deepspeed/runtime/fp16/loss_scaler.py update_scale",
    ),
    "a name that is not served": (
        "RLD219",
        "--served-model-name policy",
        "openai.NotFoundError: Error code: 404 - {'message': 'The model `policy` does not exist.', 'code': 404}",
        "openai/_base_client.py _request",
    ),
    "V0 has no calls": ("RLD110", "V1", "NotImplementedError", "vllm/engine/async_llm_engine.py collective_rpc_async"),
}  # fmt: skip

# Lines that no exception stands around.
SAID = {
    "an instruction of another Blackwell": (
        "RLD107",
        "ptxas /tmp/tmppg3i0awm.ptx, line 818; error   : Feature '.tile::gather4 with destination state space as "
        ".shared::cluster' not supported on .target 'sm_120a'\nptxas fatal   : Ptx assembly aborted due to errors\n",
    ),
    "SGLang refuses a tensor": (
        "RLD401",
        "[2026-05-21 16:07:41 DP6 TP6] Failed to update parameter online: start out of range (expected to be in range "
        "of [-16, 16], but got 32).\n",
    ),
    "rocBLAS": ("RLD107", "rocBLAS error: Cannot read /opt/Tensile.dat: Illegal seek for GPU arch : gfx1150\n"),
    "hipBLASLt": ("RLD107", "rocblaslt error: Could not load /opt/hipblaslt/library/TensileLibrary_lazy_gfx942.dat\n"),
    "ROCm's fault": ("RLD305", "Memory access fault by GPU node-1 (Agent handle: 0x55) on address 0x7f.\n"),
    "bitsandbytes on an old GPU": (
        "RLD107",
        "Error named symbol not found at line 116 in file /home/user/git/bitsandbytes/csrc/ops.cu\n",
    ),
    "a shell without torchrun": ("RLD108", "train.sh: line 12: torchrun: command not found\n"),
    "another shell": ("RLD108", "sh: 1: vllm: not found\n"),
    "env": ("RLD108", "/usr/bin/env: \u2018accelerate\u2019: No such file or directory\n"),
    "a container without vllm": (
        "RLD108",
        'docker: Error response from daemon: OCI runtime create failed: exec: "vllm": executable file not found in '
        "$PATH: unknown.\n",
    ),
    "a link between Ascend's devices": (
        "RLD320",
        "[rank1]: EI0009: [PID: 2225827] 2025-09-24-20:59:48.119.066 Transport init error. Reason: [Create][DestLink]"
        "Create Dest error! createLink para:rank[1], dst_rank[0]-remote_ip_addr[172.16.0.114]\n",
    ),
    "Ray's monitor, in words of its own": (
        "RLD604",
        "Memory on the node (IP: 10.0.0.1, ID: 2c0c) where the task (task ID: 76b2, name=step, pid=664672, memory "
        "used=0.05GB) was running was 219.41GB / 230.40GB (0.952289), which exceeds the memory usage threshold of "
        "0.95.\n",
    ),
    "Ray 2.0's monitor": (
        "RLD604",
        "(raylet) [2022-08-29 15:18:33,592 E 30307 30344] (raylet) node_manager.cc:2963: System memory low at node "
        "with IP 172.17.0.2. Used memory (23.63GB) / total capacity (33.28GB) (0.709971) exceeds threshold 0.7, "
        "killing latest task\n",
    ),
    "a raylet that is gone": (
        "RLD611",
        "[2025-10-31 11:59:10,379 E 90821 90821] core_worker.cc:513: Failed to register worker to Raylet: IOError: "
        "[RayletClient] Unable to register worker with raylet. Failed to read data from the socket: End of file\n",
    ),
    "nothing free until the call ends": (
        "RLD602",
        "(autoscaler +3m11s) Warning: The following resource request cannot be scheduled right now: {'GPU': 1.0}. This "
        "is likely due to all cluster resources being claimed by actors.\n"
        + traceback("ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready.", "ray/x.py get"),
    ),
    "srun": ("RLD603", "srun: fatal: Can not execute torchrun\n"),
    "Megatron gives up": (
        "RLD610",
        "Unable to load optimizer from checkpoint /ckpt/iter_100. Specify --no-load-optim or --finetune, exiting ...\n",
    ),
    "what ranks call": (
        "RLD321",
        "Error during backward on rank0: Detected mismatch between collectives on ranks. Rank 0 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=16150, OpType=ALLREDUCE, TensorShape=[497464352]), but Rank 1 is not.\n",
    ),
}  # fmt: skip

SIBLINGS = {
    "a group of Intel GPUs that has run": (
        "RLD320",
        traceback(
            "RuntimeError: oneCCL: ze_primitives.cpp:60 ze_call: EXCEPTION: ze error ZE_RESULT_ERROR_DEVICE_LOST",
            "torch/distributed/distributed_c10d.py all_reduce",
        ),
    ),
    "another group that oneCCL names as it starts": ("RLD320", "2026:09:02 |CCL_INFO| oneCCL: version 2022\n" + STEPS),
    "a cache that is not writable, and a run that goes on": (
        "RLD114",
        "WARNING There was a problem when trying to write in your cache folder (/.cache). [Errno 30] Read-only file "
        "system: '/.cache'\n" + 3 * STEPS,
    ),
    "a hub that is asked again": (
        "RLD115",
        "'(MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Read timed out.\"), '1')' "
        "thrown while requesting HEAD https://huggingface.co/x\nRetrying in 1s [Retry 1/5].\n" + 3 * STEPS,
    ),
    "an assertion elsewhere in Megatron": (
        "RLD610",
        traceback("AssertionError: 3", "megatron/core/transformer/attention.py forward", code="assert q == k"),
    ),
    "a file that somebody else reads": (
        "RLD114",
        traceback("PermissionError: [Errno 13] Permission denied: '/data/secret.parquet'", "datasets/x.py f"),
    ),
    "a program that a script does without": ("RLD108", "run.sh: line 3: nvidia-smi: command not found\n" + 3 * STEPS),
    "a file that is called as a program": (
        "RLD108",
        traceback("FileNotFoundError: [Errno 2] No such file or directory: '/data/ray'", "datasets/x.py f"),
    ),
    "an object that its own class does not find": (
        "RLD610",
        traceback("AttributeError: Can't get attribute 'reward' on <module '__main__'>", "dill/_dill.py find_class"),
    ),
    "a shape elsewhere": (
        "RLD324",
        traceback("RuntimeError: shape '[2, 3]' is invalid for input of size 7", "vllm/attention/layer.py forward"),
    ),
    "what waits for a moment": (
        "RLD602",
        "(autoscaler +12s) Warning: The following resource request cannot be scheduled right now: {'GPU': 1.0}.\n"
        + 3 * STEPS,
    ),
    "an optimizer's step": (
        "RLD610",
        traceback("RuntimeError: The size of tensor a (7) must match that of tensor b", "torch/optim/x.py step"),
    ),
    "a model's name in a question": ("RLD219", STEPS + "sample: The model `gpt` does not exist.\n" + STEPS),
    "a handle that only one process uses": (
        "RLD407",
        traceback("RuntimeError: CUDA error: invalid resource handle", "torch/cuda/streams.py synchronize"),
    ),
    "a peer that left": (
        "RLD900",
        traceback(
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2021, remote process exited or "
            "there was a network error, NCCL version 2.21.5",
            "torch/distributed/distributed_c10d.py all_reduce",
        ),
    ),
    "an engine that its trainer took down": (
        "RLD606",
        3 * STEPS + "{'train_runtime': 3611.2, 'train_loss': 0.0041, 'epoch': 1.0}\nTraining completed.\n"
        "ERROR 11-03 10:11:12 [core_client.py:564] Engine core proc EngineCore_DP0 died unexpectedly, shutting down "
        "client.\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RAISED)
def test_what_is_raised(name: str) -> None:
    code, helps, error, frame = RAISED[name]
    log = traceback(error, frame)
    first = triage_text(log, CHECKS).findings[0]
    assert first.code == code, first.message
    fixes = " ".join(
        " ".join((fix.title, *fix.commands, *(f"{e.option}={e.value}" for e in fix.edits))) for fix in first.fixes
    )
    assert helps in fixes, fixes
    assert not triage_text(shown(log), CHECKS).findings


@pytest.mark.parametrize("name", SAID)
def test_what_is_said(name: str) -> None:
    code, line = SAID[name]
    assert triage_text("step 1 - loss 0.2\n" + line, CHECKS).findings[0].code == code
    assert not triage_text(shown(line), CHECKS).findings


@pytest.mark.parametrize("name", SIBLINGS)
def test_siblings(name: str) -> None:
    code, log = SIBLINGS[name]
    assert code not in [finding.code for finding in triage_text(log, CHECKS).findings]


def test_an_engine_that_died_before_the_end_is_told() -> None:
    log = 3 * STEPS + "ERROR 11-03 10:11:12 [core_client.py:564] Engine core proc EngineCore_DP0 died unexpectedly, x\n"
    assert [finding.code for finding in triage_text(log, CHECKS).findings] == ["RLD606"]


def test_what_a_parent_says_of_a_step_is_no_cause() -> None:
    log = traceback("RuntimeError: Step 1 exited with non-zero status 1", "lib/x.py launch_cmd")
    assert triage_text(log, CHECKS).findings[0].code == "RLD901"
