"""RLD107: the wheels hold no kernels for this GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rldoctor_checks.environment.gpu_arch import check

from rldoctor.api import Case, Outcome, Severity
from rldoctor.api.facts import Gpus
from tests.cases import assumed, commands, gpus, judged
from tests.logs.asking import finding, findings, raised


def _case(capability: str, **versions: str) -> Case:
    return replace(assumed(**versions), gpus=gpus(capability, name="GPU"))


@pytest.mark.parametrize(
    ("capability", "versions", "blamed"),
    [
        ("12.0", {"torch": "2.6.0", "vllm": "0.8.5"}, ["torch", "vllm"]),  # RTX 5090
        ("12.0", {"torch": "2.7.0+cu128", "vllm": "0.9.1"}, ["vllm"]),  # kernels for 12.0 came with 0.9.2
        ("10.0", {"torch": "2.7.1", "vllm": "0.10.0"}, ["torch"]),  # B200: PyPI's torch 2.7 is of CUDA 12.6
        ("12.0", {"torch": "2.7.1+cu126"}, ["torch"]),
        ("7.0", {"torch": "2.11.0", "vllm": "0.20.0"}, ["torch", "vllm"]),  # V100 and CUDA 13
        ("6.1", {"torch": "2.6.0", "vllm": "0.8.5"}, ["vllm"]),
    ],
)
def test_no_kernels(capability: str, versions: dict[str, str], blamed: list[str]) -> None:
    findings = judged(check, _case(capability, **versions)).findings
    assert [f.message.split()[0] for f in findings] == blamed


@pytest.mark.parametrize(
    ("capability", "versions"),
    [
        ("8.0", {"torch": "2.6.0", "vllm": "0.8.5"}),
        ("8.9", {"torch": "2.8.0", "vllm": "0.10.2"}),  # 8.6's kernels run on 8.9
        ("9.0", {"torch": "2.11.0", "vllm": "0.20.0"}),
        ("7.5", {"torch": "2.11.0", "vllm": "0.20.0"}),
        ("10.3", {"torch": "2.8.0", "vllm": "0.10.2"}),  # B300
        ("12.1", {"torch": "2.9.0+cu130", "vllm": "0.12.0"}),
        ("7.0", {"torch": "2.10.0", "vllm": "0.18.0"}),
    ],
)
def test_supported_devices_stay_quiet(capability: str, versions: dict[str, str]) -> None:
    assert judged(check, _case(capability, **versions)).outcome is Outcome.PASS


def test_blackwell_has_two_ways_out() -> None:
    result = judged(check, _case("12.0", torch="2.7.1", vllm="0.10.0"))
    assert commands(result)[0] == "uv pip install 'torch==2.7.1' --torch-backend=cu128 --reinstall"
    assert commands(result)[1].startswith("python -m pip install 'vllm>=0.10.2")


def test_the_fix_keeps_to_what_the_framework_accepts() -> None:
    result = judged(check, _case("12.0", torch="2.6.0", vllm="0.8.5", trl="0.24.0"))
    assert commands(result) == ["python -m pip install vllm==0.10.2"] * 2


def test_other_builds_and_other_vendors_are_not_judged() -> None:
    assert judged(check, _case("12.0", torch="99.0")).outcome is Outcome.NOT_CHECKED
    amd = replace(assumed(torch="2.6.0"), gpus=Gpus(vendor="amd"))
    assert judged(check, amd).outcome is Outcome.NOT_APPLICABLE


def test_a_pass_names_the_build_that_was_not_judged() -> None:
    result = judged(check, _case("9.0", torch="2.8.0", vllm="0.10.2.dev5+gabcdef0"))
    assert result.outcome is Outcome.PASS
    assert result.reason == "torch 2.8.0 on GPU (9.0); not judged: vllm 0.10.2.dev5+gabcdef0"


SITE = "/opt/venv/lib/python3.11/site-packages"


def test_a_log_of_a_gpu_without_kernels() -> None:
    """https://github.com/vllm-project/vllm/issues/14452"""
    warning = (
        "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.\n"
        "The current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90.\n\n"
    )
    died = raised("RuntimeError", "CUDA error: no kernel image is available for execution on the device")
    found = finding(check, warning + died)
    assert "no kernels for" in found.message
    assert "12.0" in found.fixes[0].title
    (warned, *_) = findings(check, warning + raised("RuntimeError", "no answer"))
    assert warned.severity is Severity.WARNING
    assert "compute capability 12.0" in warned.message


def test_the_warning_of_a_run_that_goes_on() -> None:
    text = "NVIDIA GB10 with CUDA capability sm_121 is not compatible with the current PyTorch installation.\n"
    assert findings(check, text + "{'loss': '0.1'}\n" * 9) == []


def test_an_amd_gpu_without_kernels() -> None:
    """https://github.com/vllm-project/vllm/issues/17170"""
    cut = (
        "ERROR 03-17 03:57:17 [engine.py:411] RuntimeError: HIP error: invalid device function\n"
        "Process SpawnProcess-1:\nTraceback (most recent call last):\n"
        f'  File "{SITE}/vllm/engine/multiprocessing/engine.py", line 413, in run_mp_engine\n    raise e\n'
    )
    for log in (raised("RuntimeError", "HIP error: invalid device function"), cut):
        found = finding(check, log)
        assert "rocminfo" in found.fixes[0].commands[0]
        assert found.severity is Severity.ERROR
