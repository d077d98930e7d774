"""Failures that public threads are full of, as a log shows them, and what is nearly the same and says nothing."""

from __future__ import annotations

import pytest

from rldoctor.logs.triage import triage_text
from tests.loaded import REGISTRY
from tests.logs.raising import traceback

CHECKS = REGISTRY.select()

TRAINER = "transformers/trainer.py training_step"
SYNC = "verl/workers/sharding_manager/fsdp_vllm.py update_params"
LOADER = "vllm/model_executor/layers/linear.py weight_loader"
REWARD = "verl/workers/reward_manager/naive.py __call__"

FIRES = {
    # SGLang as the rollout engine
    "static share": (
        "RLD205",
        "larger static share",
        traceback(
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: "
            "mem_fraction_static=0.3",
            "sglang/srt/model_executor/model_runner.py init_memory_pool",
        ),
    ),
    "memory saver": (
        "RLD206",
        "smaller static share",
        "step 4 - loss 0.1\n[torch_memory_saver.cpp] CUresult error: 2 (out of memory)  file=csrc/utils.h "
        "func=cu_mem_create line=104\n",
    ),
    "graphs": (
        "RLD206",
        "--cuda-graph-max-bs",
        traceback(
            "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 2.00 GiB.",
            "sglang/srt/model_executor/cuda_graph_runner.py __init__",
        ),
    ),
    "occupied": (
        "RLD206",
        "end what else is on these devices",
        traceback(
            "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes.",
            "sglang/srt/model_executor/model_runner.py init_torch_distributed",
        ),
    ),
    # chat templates
    "processor": (
        "RLD215",
        "-Instruct",
        traceback(
            "ValueError: No chat template is set for this processor. Please either set the `chat_template` attribute, "
            "or provide a chat template as an argument.",
            "transformers/processing_utils.py apply_chat_template",
        ),
    ),
    "field of a message": (
        "RLD215",
        "content",
        traceback("jinja2.exceptions.UndefinedError: 'dict object' has no attribute 'content'", "jinja2/x.py render"),
    ),
    # adapters and gradients
    "adapter for inference": (
        "RLD214",
        "is_trainable=True",
        traceback(
            "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
            TRAINER,
            lead="trainable params: 0 || all params: 1,551,946,240 || trainable%: 0.0000",
        ),
    ),
    "no gradient": (
        "RLD502",
        "requires_grad",
        traceback("RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn", TRAINER),
    ),
    "checkpointing": (
        "RLD502",
        "enable_input_require_grads",
        traceback(
            "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
            TRAINER,
            lead="UserWarning: None of the inputs have requires_grad=True. Gradients will be None",
        ),
    ),
    "a tensor of inference mode": (
        "RLD502",
        "torch.no_grad()",
        traceback("RuntimeError: Inference tensors cannot be saved for backward. To work around you can make", TRAINER),
    ),
    "a tensor of unsloth's inference mode": (
        "RLD502",
        "newer unsloth",
        traceback(
            "RuntimeError: Inference tensors cannot be saved for backward. To work around you can make",
            "/content/unsloth_compiled_cache/UnslothGRPOTrainer.py compute_loss",
        ),
    ),
    "second adapter of one name": (
        "RLD214",
        "delete_adapter",
        traceback(
            "ValueError: Adapter with name default already exists. Please use a different name.",
            "transformers/integrations/peft.py add_adapter",
        ),
    ),
    "second round": (
        "RLD214",
        "unload_lora_adapter",
        traceback(
            "requests.exceptions.HTTPError: 400: The lora adapter 'policy' has already been loaded. If you want to "
            "load the adapter in place, set 'load_inplace' to True.",
            "trl/extras/vllm_client.py load_adapter",
        ),
    ),
    # images
    "one placeholder too many": (
        "RLD217",
        "placeholders",
        traceback(
            "ValueError: Attempted to assign 1156 = 1156 multimodal tokens to 1157 placeholders",
            "vllm/model_executor/models/utils.py _merge_multimodal_embeddings",
        ),
    ),
    "limit of images": (
        "RLD217",
        "limit_mm_per_prompt",
        traceback("ValueError: At most 1 image(s) may be provided in one prompt.", "vllm/multimodal/processing.py x"),
    ),
    # weights
    "a shard for the whole": (
        "RLD401",
        "whole tensors",
        traceback("RuntimeError: start (0) + length (9728) exceeds dimension size (4864).", SYNC, LOADER),
    ),
    "another size": (
        "RLD401",
        "whole tensors",
        traceback(
            "AssertionError: Tried to load weights of size torch.Size([3584])to a parameter of size torch.Size([1792])",
            SYNC,
            LOADER,
        ),
    ),
    "half-way": (
        "RLD401",
        "names",
        traceback(
            "RuntimeError: Failed to update parameter online: 'model.layers.0.weight'. The full weights of the "
            "ModelRunner are partially updated. Please discard the whole weights.",
            "sglang/srt/model_executor/model_runner.py update_weights_from_distributed",
        ),
    ),
    # releases that do not fit each other
    "hooks of ZeRO-3": (
        "RLD104",
        "trl>=0.16",
        traceback(
            "AttributeError: 'DeepSpeedZeRoOffload' object has no attribute '_register_hooks_recursively'",
            "trl/models/utils.py add_hooks",
        ),
    ),
    "compiled trainer": (
        "RLD104",
        "pip install --upgrade trl",
        traceback(
            "TypeError: _UnslothGRPOTrainer._get_train_sampler() takes 1 positional argument but 2 were given",
            "transformers/trainer.py _get_dataloader",
        ),
    ),
    "a trainer of another time": (
        "RLD104",
        "upgrade",
        traceback(
            "TypeError: GRPOTrainer.log() takes 2 positional arguments but 3 were given", "transformers/trainer.py f"
        ),
    ),
    "argument of a trainer": (
        "RLD219",
        "write num_generations",
        traceback(
            "TypeError: GRPOTrainer.__init__() got an unexpected keyword argument 'num_generations'", "trl/x.py f"
        ),
    ),
    # checkpoints
    "shards of objects": (
        "RLD610",
        "same number of ranks",
        traceback(
            "megatron.core.dist_checkpointing.core.CheckpointingException: Object shard "
            "/ckpts/step_160/rng_state/shard_0.3_1.4.pt not found",
            "megatron/core/dist_checkpointing/strategies/common.py load_sharded_object",
        ),
    ),
    "shards of ranks": (
        "RLD610",
        "same number of ranks",
        traceback(
            "FileNotFoundError: [Errno 2] No such file or directory: '/c/actor/model_world_size_8_rank_4.pt'",
            "verl/utils/checkpoint/fsdp_checkpoint_manager.py load_checkpoint",
        ),
    ),
    # rewards
    "reward server": (
        "RLD607",
        "--remote_rm_url",
        traceback(
            "Exception: Request error for 5 times, returning None. Please check the API server.",
            "openrlhf/utils/remote_rm_utils.py request_api_wrapper",
        ),
    ),
    "signature of a reward": (
        "RLD902",
        "**kwargs",
        traceback("TypeError: compute_score() got an unexpected keyword argument 'extra_info'", REWARD),
    ),
    "field of the data set": (
        "RLD902",
        "ground_truth",
        traceback("KeyError: 'reward_model'", REWARD),
    ),
    # what stood between launch and first step
    "register center": (
        "RLD601",
        "ray_wait_register_center_timeout",
        traceback(
            "AssertionError: failed to get register_center_actor: ch85ID_register_center in [{'name': "
            "'ch85IDWorkerDict_0:0', 'namespace': '2316'}]",
            "verl/single_controller/ray/base.py _init_with_resource_pool",
        ),
    ),
    "register center, with its limit": (
        "RLD601",
        "ray stop --force",
        traceback(
            "TimeoutError: Failed to get register_center_actor ab_register_center in [] for 300 seconds. Ensure that "
            "any lingering Ray resources from previous runs are cleaned up",
            "verl/single_controller/ray/base.py _init_with_resource_pool",
        ),
    ),
    "a service that is not up yet": (
        "RLD607",
        "still starts",
        traceback(
            "requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url: http://sandbox:9000/start",
            "requests/models.py raise_for_status",
        ),
    ),
    "the loader's line alone": (
        "RLD105",
        "torch.version.cuda",
        "ImportError: libcudart.so.13: cannot open shared object file: No such file or directory\n",
    ),
    "unsloth over another TRL": (
        "RLD104",
        "unsloth_zoo",
        traceback("IndexError: list index out of range", "unsloth/models/rl.py patch_functions"),
    ),
    "Megatron's layers": (
        "RLD111",
        "use_mbridge=True",
        traceback(
            "AttributeError: 'MoELayer' object has no attribute 'linear_fc1'",
            "verl/models/mcore/loader.py load_state_dict_to_megatron_gptmodel",
            "torch/nn/modules/module.py __getattr__",
        ),
    ),
    "checkpointed without a gradient": (
        "RLD502",
        "enable_input_require_grads",
        traceback(
            "RuntimeError: none of output has requires_grad=True, this checkpoint() is not necessary",
            "torch/utils/checkpoint.py backward",
        ),
    ),
    "no module is left": (
        "RLD214",
        "all-linear",
        traceback(
            "ValueError: No modules were targeted for adaptation. This might be caused by a combination of mismatched "
            "target modules and excluded modules.",
            "peft/tuners/tuners_utils.py inject_adapter",
        ),
    ),
    "a folder without metadata": (
        "RLD610",
        ".metadata",
        "Traceback (most recent call last):\n"
        '  File "/opt/venv/lib/python3.12/site-packages/torch/distributed/checkpoint/state_dict_loader.py", line 250, '
        "in local_step\n    assert metadata is not None\nAssertionError\n",
    ),
    "V0's workers disagree": (
        "RLD220",
        "rldoctor compat",
        traceback("AssertionError", "vllm/engine/async_llm_engine.py _run_workers_async"),
    ),
    "a program of several": (
        "RLD901",
        "OUTPUT_DIR/logs",
        "12:49:17 SUCCESS Startup complete. Showing trainer logs...\n"
        "12:50:40   ERROR Orchestrator failed with exit code 1\n",
    ),
    "what the watchdog says further": (
        "RLD321",
        "judge the logs of all ranks",
        "(ReferenceModelRayActor pid=5823, ip=10.164.227.153) [rank0]:[E1225 12:58:32.7 ProcessGroupNCCL.cpp:1834] "
        "[PG ID 0 PG GUID 0(default_pg) Rank 0] Timeout at NCCL work: 17284, last enqueued NCCL work: 17290, last "
        "completed NCCL work: 17283.\n",
    ),
}

QUIET = {
    "graphs, for another reason": (
        "RLD206",
        traceback(
            "Exception: Capture cuda graph failed: Connection closed by peer",
            "sglang/srt/model_executor/cuda_graph_runner.py __init__",
        ),
    ),
    "memory compared and let pass": (
        "RLD206",
        "WARNING The memory capacity is unbalanced. Some GPUs may be occupied by other processes.\nstep 1\n",
    ),
    "an adapter that is trained": ("RLD214", "trainable params: 40,370,176 || all params: 7,655,986,688\nstep 1\n"),
    "the checkpoint at start": (
        "RLD401",
        traceback(
            "RuntimeError: start (0) + length (9728) exceeds dimension size (4864).",
            "vllm/model_executor/model_loader/loader.py load_model",
            LOADER,
        ),
    ),
    "a slice in the trainer": (
        "RLD401",
        traceback("RuntimeError: start (0) + length (9) exceeds dimension size (4).", "torch/_tensor.py narrow"),
    ),
    "a function of the user's": (
        "RLD104",
        traceback("TypeError: f() takes 1 positional argument but 2 were given", "torch/x.py f"),
    ),
    "a file that is not there": (
        "RLD610",
        traceback("FileNotFoundError: [Errno 2] No such file or directory: '/data/train.parquet'", "datasets/x.py f"),
    ),
    "a config class": (
        "RLD902",
        traceback("TypeError: RewardConfig.__init__() got an unexpected keyword argument 'beta'", "trl/x.py f"),
    ),
    "an environment's key": ("RLD902", traceback("KeyError: 'data_source'", "datasets/table.py cast")),
    "a service that came up": (
        "RLD607",
        "WARNING 503 Server Error: Service Unavailable for url: http://sandbox:9000/start, trying again\n"
        "step:1 - actor/loss:0.1\nstep:2 - actor/loss:0.1\n",
    ),
    "a hub that is busy": (
        "RLD607",
        traceback(
            "requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url: https://huggingface.co/x",
            "requests/models.py raise_for_status",
        ),
    ),
    "a driver that is absent": (
        "RLD105",
        "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory\n",
    ),
    "unsloth's patched model": (
        "RLD104",
        traceback(
            "IndexError: list index out of range", "unsloth/models/rl.py patch_functions", "trl/trainer/utils.py pad"
        ),
    ),
    "a program that failed before": (
        "RLD901",
        "step:3 - loss:0.1\nTrainer failed with exit code 1 in an earlier attempt\n",
    ),
}


@pytest.mark.parametrize("name", FIRES)
def test_fires(name: str) -> None:
    code, helps, log = FIRES[name]
    first = triage_text(log, CHECKS).findings[0]
    assert first.code == code, first.message
    fixes = " ".join(" ".join((fix.title, *fix.commands)) for fix in first.fixes)
    assert helps in fixes, fixes


@pytest.mark.parametrize("name", QUIET)
def test_stays_quiet(name: str) -> None:
    code, log = QUIET[name]
    assert code not in [finding.code for finding in triage_text(log, CHECKS).findings]
