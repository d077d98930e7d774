"""Which variables become facts."""

from __future__ import annotations

import pytest

from rldoctor.catalogue.probe import Request
from rldoctor.facts import environment


@pytest.mark.parametrize(
    "name",
    [
        "CUDA_VISIBLE_DEVICES",
        "NCCL_CUMEM_ENABLE",
        "VLLM_USE_V1",
        "RAY_ADDRESS",
        "PYTORCH_CUDA_ALLOC_CONF",
        "TORCH_NCCL_AVOID_RECORD_STREAMS",
        "TORCHELASTIC_USE_AGENT_STORE",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "HF_HUB_OFFLINE",
        "TRANSFORMERS_CACHE",
        "RANK",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "SLURM_PROCID",
        "http_proxy",
        "HTTPS_PROXY",
        "NO_PROXY",
        "OMP_NUM_THREADS",
        "NPROC_PER_NODE",
        "MAX_PIXELS",
        "TOKENIZERS_PARALLELISM",
        "PYTHONPATH",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
    ],
)
def test_what_decides_how_a_run_goes_is_kept(name: str) -> None:
    assert environment.select({name: "1"}) == {name: "1"}


@pytest.mark.parametrize(
    "name", ["HOME", "USER", "SSH_AUTH_SOCK", "AWS_ACCESS_KEY_ID", "OPENAI_API_KEY", "PS1", "rank"]
)
def test_everything_else_is_not_even_read(name: str) -> None:
    assert environment.select({name: "x"}) == {}


def test_a_token_is_kept_as_a_fact_without_its_value() -> None:
    found = environment.select({"HF_TOKEN": "hf_secret", "HF_HOME": "/data/hf"})
    assert found == {"HF_HOME": "/data/hf", "HF_TOKEN": "<removed:HF_TOKEN>"}


def test_the_request_brings_its_environment_or_has_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_PORT", "1234")
    assert environment.collect(Request())["VLLM_PORT"] == "1234"
    assert environment.collect(Request(environ={"VLLM_PORT": "5678"})) == {"VLLM_PORT": "5678"}
