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
