"""The rollout probe: where it runs, and what it records of a real engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.processes import failure_unrecognised
from rldoctor_checks.rollout import rotary_length

from rldoctor.api import Case, Gpu, GpuProcess, Gpus, ModelFiles, NotApplicable, Outcome, Request
from rldoctor.judge import judge_one
from rldoctor.probes.rollout import choose_device, rollout
from tests.live import rollout_case
from tests.observations import failed, imports_case, packages

GIB = 1 << 30


def gpu(index: int, used: int = 0, *pids: int) -> Gpu:
    processes = tuple(GpuProcess(pid=pid) for pid in pids)
    return Gpu(index=index, name="H100", memory_total=80 * GIB, memory_used=used * GIB, processes=processes)


def on(*devices: Gpu, vendor: str = "nvidia", **environment: str) -> Case:
    return Case(gpus=Gpus(vendor=vendor, devices=devices), environment=environment)


class TestWhere:
    """A device that is in use by others is not touched while there is an idle one."""

    def test_without_a_gpu_it_runs_on_the_cpu(self) -> None:
        (job,) = rollout.jobs(on(vendor="none"), Request()).values()
        assert choose_device(on(vendor="none"), Request()) is None
        assert "CUDA_VISIBLE_DEVICES" not in job.environ
        assert job.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"

    def test_the_idle_one_is_taken_with_a_small_share(self) -> None:
        case = on(gpu(0, 10, 4711), gpu(1, 2), gpu(2, 1, 4712))
        (job,) = rollout.jobs(case, Request()).values()
        assert job.environ["CUDA_VISIBLE_DEVICES"] == "1"
        assert job.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        assert job.arguments["engine"]["gpu_memory_utilization"] == 0.05

    def test_the_users_choice_and_the_environments_come_first(self) -> None:
        chosen = choose_device(on(gpu(0), gpu(1, 5)), Request(devices=(1,)))
        visible = choose_device(on(gpu(0), gpu(1, 5), CUDA_VISIBLE_DEVICES="1"), Request())
        assert chosen is not None and visible is not None
        assert (chosen.index, visible.index) == (1, 1)

    def test_what_cannot_be_probed_is_not_applicable(self) -> None:
        for case, request in (
            (on(gpu(0), vendor="amd"), Request()),
            (on(gpu(0)), Request(devices=(7,))),
            (imports_case(packages(vllm="0.11.0"), vllm=failed()), Request()),
        ):
            with pytest.raises(NotApplicable):
                rollout.jobs(case, request)


def records(case: Case) -> dict[str, Any]:
    job = case.observations["rollout"]["miniature"]
    assert job["ended"] == "done", job["tail"][-5:]
    return dict(job["records"])


@pytest.mark.engine
def test_what_is_recorded_of_a_healthy_engine(rollout: Callable[..., Case]) -> None:
    told = records(rollout())
    assert list(told["seconds"]) == ["import", "miniature", "boot", "inspect", "generate", "generate again"]
    engine = told["engine"]
    assert engine["max_model_len"] == 2048 and engine["enforce_eager"] is True and engine["tensor_parallel_size"] == 1
    assert engine["engine"] in ("V0", "V1") and engine["attention_backend"]
    assert {"max_num_batched_tokens", "max_num_seqs", "enable_chunked_prefill", "block_size", "seed"} <= engine.keys()
    assert sum(told["devices"]["parameters"]["count"].values()) > 10
    assert sum(told["devices"]["kv_cache"]["count"].values()) >= 1
    rows = told["completions"]
    assert [row["request"] for row in rows] == ["group"] * 8 + ["greedy", "greedy twin"] + ["group again"] * 8
    assert all(len(row["logprobs"]) == len(row["token_ids"]) and row["finish_reason"] for row in rows)
    assert all(-50 < value <= 0 for row in rows for value in row["logprobs"])
    assert rows[8]["token_ids"] == rows[9]["token_ids"]
    assert told["reach"]["sampled_tokens"] == sum(len(row["token_ids"]) for row in rows)


@pytest.mark.engine
def test_a_given_model_is_stood_in_for_with_its_own_shape(patient: Path, tmp_path: Path) -> None:
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": 4096,
        "head_dim": 128,
        "intermediate_size": 12288,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "num_hidden_layers": 36,
        "max_position_embeddings": 40960,
        "vocab_size": 20000,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000,
        "rope_scaling": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 20480},
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "eos_token_id": 19999,
    }
    case = rollout_case(patient, model=ModelFiles(path=str(tmp_path), config=config))
    told = records(case)
    assert (told["miniature"]["like"], told["miniature"]["weights"]) == ("Qwen3ForCausalLM", "written")
    assert told["rotary"][0]["kind"].startswith("YaRN")
    assert judge_one(rotary_length.check, case).outcome is Outcome.PASS
    assert "miniature Qwen3ForCausalLM" in str(judge_one(failure_unrecognised.check, case).reason)
