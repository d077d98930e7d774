"""Logs of real runs that were broken on purpose, with what each shows: on a CPU (vLLM 0.32, torch 2.13, TRL 1.16, Ray
2.60; the middle of long ones left out), and those of ``gpu_*`` on an NVIDIA H200 (vLLM 0.26, torch 2.11, CUDA 13.0,
2026-11-27). Paths are replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.logs.triage import triage_text

from .asking import shown

LOGS = Path(__file__).with_name("real")

# The first finding, the first failing rank, and how the exception begins.
EXPECTED: dict[str, tuple[str, str | None, str]] = {
    "cpu_index": ("RLD216", None, "IndexError: index out of range in self"),
    "cuda_load": ("RLD106", None, "RuntimeError: Attempting to deserialize object on a CUDA device"),
    "dist_ddp_param_mismatch": ("RLD900", "2", "RuntimeError: [2]: params[0] in this process with sizes"),
    "dist_ddp_unused": ("RLD212", "2", "RuntimeError: Expected to have finished reduction in the prior iteration"),
    "dist_gather_shapes": ("RLD321", "0", "gloo::EnforceNotMet"),
    "dist_nccl_backend_missing": ("RLD320", "0", "RuntimeError: Distributed package doesn't have NCCL built in"),
    "dist_new_group_missing_rank": ("RLD324", "2", "ValueError: Rank 5 is out of range"),
    "dist_object_unpicklable": ("RLD407", "0", "_pickle.PicklingError: Can't pickle <function <lambda>"),
    "dist_port_taken": ("RLD323", None, "torch.distributed.DistNetworkError: The server socket has failed to listen"),
    "dist_rank_exit": ("RLD901", "1", "torch.distributed.elastic.multiprocessing.errors.ChildFailedError"),
    "dist_rank_hangs": (
        "RLD321",
        "1",
        "RuntimeError: [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp",
    ),
    "dist_rank_killed": ("RLD901", "1", "torch.distributed.elastic.multiprocessing.errors.ChildFailedError"),
    "fork_cuda_mp_daemon": ("RLD605", None, "AssertionError: daemonic processes are not allowed"),
    "gpu_beyond_the_last": ("RLD303", None, "torch.AcceleratorError: CUDA error: invalid device ordinal"),
    "gpu_flash_attn_missing": ("RLD108", None, "ImportError: FlashAttention2 has been toggled on"),
    "gpu_forked": ("RLD605", None, "RuntimeError: Cannot re-initialize CUDA in forked subprocess"),
    "gpu_gather": ("RLD305", None, "torch.AcceleratorError: CUDA error: device-side assert triggered"),
    "gpu_graph_capture": ("RLD305", None, "torch.AcceleratorError: CUDA error: operation failed due to a previous"),
    "gpu_ids_on_the_cpu": ("RLD301", None, "RuntimeError: Expected all tensors to be on the same device, but got i"),
    "gpu_illegal_access": ("RLD305", None, "torch.AcceleratorError: CUDA error: an illegal memory access"),
    "gpu_label_beyond_classes": ("RLD305", None, "torch.AcceleratorError: CUDA error: device-side assert triggered"),
    "gpu_none_visible": ("RLD303", None, "RuntimeError: No CUDA GPUs are available"),
    "gpu_out_of_its_fraction": ("RLD206", None, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32"),
    "gpu_out_of_memory": ("RLD206", None, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.27 GiB"),
    "gpu_probabilities_nan": ("RLD404", None, "torch.AcceleratorError: CUDA error: device-side assert triggered"),
    "gpu_ranks_on_one": ("RLD302", "1", "torch.distributed.DistBackendError: NCCL error in"),
    "gpu_rewards_on_the_cpu": ("RLD301", None, "RuntimeError: Expected all tensors to be on the same device, but f"),
    "gpu_rotary_table": ("RLD204", None, "torch.AcceleratorError: CUDA error: device-side assert triggered"),
    "gpu_token_beyond_embedding": ("RLD216", None, "torch.AcceleratorError: CUDA error: device-side assert triggered"),
    "gpu_two_dtypes": ("RLD218", None, "RuntimeError: expected mat1 and mat2 to have the same dtype"),
    "gpu_vllm_flashinfer": ("RLD108", "0", "ModuleNotFoundError: No module named 'flashinfer'"),
    "gpu_vllm_float32_flash": ("RLD218", "0", "ValueError: Selected backend AttentionBackendEnum.FLASH_ATTN is not"),
    "gpu_vllm_measured_meanwhile": ("RLD206", "0", "AssertionError: Error in memory profiling"),
    "gpu_vllm_no_blocks": ("RLD205", "0", "ValueError: No available memory for the cache blocks"),
    "gpu_vllm_two_ranks": ("RLD303", None, "pydantic_core._pydantic_core.ValidationError: 1 validation error for"),
    "ray_actor_exit": ("RLD603", None, "ray.exceptions.ActorDiedError"),
    "ray_actor_init_raises": ("RLD902", "Rollout pid=5336, on 192.0.2.2", "KeyError: 'tensor_parallel'"),
    "ray_cpu_pending": ("RLD602", None, "ray.exceptions.GetTimeoutError"),
    "ray_max_restarts": ("RLD603", None, "ray.exceptions.ActorDiedError"),
    "ray_missing_module": ("RLD108", None, "ray.exceptions.RuntimeEnvSetupError"),
    "ray_pg_timeout": ("RLD602", None, "ray.exceptions.GetTimeoutError"),
    "ray_segfault": ("RLD603", "Worker pid=8968", "SIGSEGV: *** SIGSEGV received"),
    "ray_unpicklable": ("RLD407", "A pid=9268, on 192.0.2.2", "TypeError: cannot pickle '_thread.lock' object"),
    "ray_unpicklable_arg": ("RLD407", None, "TypeError: Could not serialize the argument"),
    "trl_chat_no_template": ("RLD215", None, "ValueError: Cannot use chat template functions"),
    "trl_ckpt_disk": ("RLD610", None, "safetensors._safetensors_rust.SafetensorError"),
    "trl_dataset_no_prompt": ("RLD902", None, "KeyError: 'prompt'"),
    "trl_deepspeed_missing": ("RLD108", None, "importlib.metadata.PackageNotFoundError"),
    "trl_loss_type": ("RLD219", None, "ValueError: Unknown loss type: grpox"),
    "trl_peft_targets": ("RLD214", None, "peft.utils.error.NoMatchingPeftModuleError: Target modules"),
    "trl_reward_tensor_shape": ("RLD902", None, "ValueError: only one element tensors"),
    "trl_torchrun_rank_reward": ("RLD902", "1", "TimeoutError: the judge did not answer in 30 s"),
    "trl_unknown_arg": ("RLD219", None, "TypeError: GRPOConfig.__init__() got an unexpected keyword argument"),
    "trl_vllm_colocate_gpuless": ("RLD401", "0", "AttributeError: 'Parameter' object has no attribute 'weight_loader'"),
    "trl_vllm_server_no": ("RLD607", None, "requests.exceptions.ConnectionError: The vLLM server can't be reached"),
    "vllm_chat_no_template": ("RLD215", None, "vllm.renderers.chat_utils.ChatTemplateResolutionError"),
    "vllm_dtype_fp8": ("RLD218", None, "pydantic_core._pydantic_core.ValidationError: 1 validation error"),
    "vllm_head_dim_16": ("RLD218", "0", "RuntimeError: Unsupported CPU attention configuration: head_dim=16"),
    "vllm_kv_dtype": ("RLD218", None, "pydantic_core._pydantic_core.ValidationError: 1 validation error"),
    "vllm_logprobs_limit": ("RLD213", None, "vllm.exceptions.VLLMValidationError: Requested sample logprobs of 50"),
    "vllm_lora_path": ("RLD214", "0", "vllm.exceptions.LoRAAdapterNotFoundError"),
    "vllm_max_len_too_long": ("RLD203", None, "pydantic_core._pydantic_core.ValidationError"),
    "vllm_min_tokens": ("RLD212", None, "vllm.exceptions.VLLMValidationError: min_tokens must be less than"),
    "vllm_missing_lora_flag": ("RLD214", None, "vllm.exceptions.VLLMValidationError: Got lora_request"),
    "vllm_n_greedy": ("RLD212", None, "vllm.exceptions.VLLMValidationError: n must be 1 when using greedy sampling"),
    "vllm_rpc_unknown": ("RLD110", "0", "AttributeError: 'CPUWorker' object has no attribute 'update_named_param'"),
    "vllm_seqs_budget": ("RLD202", None, "pydantic_core._pydantic_core.ValidationError"),
    "vllm_token_oov": ("RLD216", None, "vllm.exceptions.VLLMValidationError: Token id 99999 is out of vocabulary"),
    "vllm_tp_ray": ("RLD212", "EngineCore pid=29916", "ValueError: current platform cpu does not support ray."),
    "vllm_unknown_arch": ("RLD115", None, "pydantic_core._pydantic_core.ValidationError"),
    "vllm_unknown_model_type": ("RLD115", None, "pydantic_core._pydantic_core.ValidationError"),
    "vllm_unknown_option": ("RLD219", None, "TypeError: EngineArgs.__init__() got an unexpected keyword argument"),
    "vllm_vocab_size": ("RLD216", "0", "AssertionError"),
    "vllm_wrong_shape_weights": ("RLD115", "0", "RuntimeError: start (0) + length (256) exceeds dimension size (128)"),
}


def test_every_log_has_its_answer() -> None:
    assert sorted(EXPECTED) == sorted(path.stem for path in LOGS.iterdir())


@pytest.mark.parametrize("name", EXPECTED)
def test_a_real_failure(name: str) -> None:
    text = (LOGS / f"{name}.log").read_text(encoding="utf-8")
    code, rank, exception = EXPECTED[name]
    report = triage_text(text)
    assert report.incident is not None
    assert (report.findings[0].code, report.incident.first_rank) == (code, rank)
    assert report.incident.exception is not None
    assert report.incident.exception.startswith(exception)
    assert triage_text(shown(text)).findings == ()


def test_an_assertion_far_in_front_of_its_traceback_is_read_with_it() -> None:
    """The kernel's own words come first, and the exception may have more frames than lines are kept."""
    told = {finding.code for finding in triage_text((LOGS / "gpu_probabilities_nan.log").read_text()).findings}
    assert told == {"RLD404"}


def test_weights_that_are_loaded_for_an_update_are_weight_sync() -> None:
    incident = triage_text((LOGS / "trl_vllm_colocate_gpuless.log").read_text(encoding="utf-8")).incident
    assert incident is not None
    assert (incident.stage, incident.framework) == ("weight sync", "trl")
