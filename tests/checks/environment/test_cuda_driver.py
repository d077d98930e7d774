"""RLD106: no driver, or one too old for torch's CUDA."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rldoctor_checks.environment.cuda_driver import check

from rldoctor.api import Case, Outcome, Severity
from rldoctor.api.facts import Gpus
from rldoctor.logs.triage import triage_text
from tests.cases import assumed, gpus, judged, severities
from tests.logs.asking import finding, findings, raised


def _case(torch: str, devices: Gpus, **environment: str) -> Case:
    return replace(assumed(torch=torch), gpus=devices, environment=environment)


def test_cuda_13_on_a_driver_of_cuda_12() -> None:
    result = judged(check, _case("2.11.0", gpus(driver="570.86", cuda="12.8")))
    assert severities(result) == ["error"]
    assert "CUDA 13.0" in result.findings[0].message
    assert "580" in result.findings[0].fixes[0].title


def test_minor_versions_of_one_family_are_compatible() -> None:
    assert judged(check, _case("2.8.0", gpus(driver="525.105", cuda="12.0"))).outcome is Outcome.PASS
    assert not judged(check, _case("2.8.0", gpus(driver="580.65", cuda="13.0"))).findings


def test_the_label_counts_before_the_release() -> None:
    assert not judged(check, _case("2.11.0+cu126", gpus(driver="560.35", cuda="12.6"))).findings
    assert severities(judged(check, _case("2.9.0+cu130", gpus(driver="560.35", cuda="12.6")))) == ["error"]


def test_compatibility_libraries_leave_a_warning() -> None:
    case = _case("2.11.0", gpus(driver="550.54", cuda="12.4"), LD_LIBRARY_PATH="/usr/local/cuda-13/compat")
    assert severities(judged(check, case)) == ["warning"]


def test_hardware_without_a_driver_is_an_error_and_no_hardware_a_note() -> None:
    broken = Gpus(vendor="nvidia", error="NVML: Driver Not Loaded")
    assert severities(judged(check, _case("2.8.0", broken))) == ["error"]
    assert severities(judged(check, _case("2.8.0", Gpus(vendor="none")))) == ["note"]


def test_cpu_builds_and_other_vendors_are_not_judged() -> None:
    assert judged(check, _case("2.13.0+cpu", Gpus(vendor="none"))).outcome is Outcome.NOT_APPLICABLE
    assert judged(check, _case("2.8.0", Gpus(vendor="amd"))).outcome is Outcome.NOT_APPLICABLE
    assert judged(check, _case("2.8.0+rocm6.4", Gpus(vendor="amd"))).outcome is Outcome.NOT_APPLICABLE


def test_a_torch_whose_cuda_is_not_known_is_not_judged() -> None:
    result = judged(check, _case("99.0", gpus(driver="550.54", cuda="12.4")))
    assert result.outcome is Outcome.NOT_CHECKED


def test_devices_whose_drivers_cuda_is_not_known_are_no_pass() -> None:
    result = judged(check, _case("2.7.0", gpus()))
    assert result.outcome is Outcome.NOT_CHECKED
    assert "which CUDA the driver serves is not known (--from BUNDLE" in str(result.reason)


def test_a_pass_names_both_versions_of_cuda() -> None:
    result = judged(check, _case("2.8.0", gpus(driver="525.105", cuda="12.0")))
    assert result.reason == "the driver serves CUDA 12.0, torch 2.8.0 is built with 12.8"


SITE = "/opt/venv/lib/python3.11/site-packages"


def test_a_log_without_a_driver() -> None:
    message = "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU"
    found = finding(check, raised("RuntimeError", message, f"{SITE}/torch/cuda/__init__.py _lazy_init"))
    assert found.severity is Severity.ERROR
    assert "nvidia-smi" in found.fixes[0].commands


def test_the_warning_of_a_run_on_the_cpu_is_not_its_end() -> None:
    warning = (
        f"{SITE}/torch/cuda/__init__.py:129: UserWarning: CUDA initialization: Found no NVIDIA driver on your system."
    )
    (beside,) = findings(check, f"{warning}\n" + raised("RuntimeError", "no answer"))
    assert beside.severity is Severity.WARNING
    assert findings(check, f"{warning}\n" + raised("KeyError", "'answer'")) == []
    assert findings(check, f"{warning}\n{{'loss': '0.1'}}\nDONE\n") == []


def test_the_version_that_a_driver_serves_is_reported() -> None:
    message = "The NVIDIA driver on your system is too old (found version 12020). Please update your GPU driver"
    assert "(it serves CUDA 12.2)" in finding(check, raised("RuntimeError", message)).message


def test_vllm_that_finds_no_platform() -> None:
    text = raised("RuntimeError", "Device string must not be empty", f"{SITE}/vllm/config/device.py __post_init__")
    assert "found no platform" in finding(check, text).message
    assert findings(check, raised("RuntimeError", "Device string must not be empty")) == []


def test_a_driver_that_does_not_initialise() -> None:
    text = (
        "CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable "
        "CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero."
    )
    found = finding(check, raised("RuntimeError", text, "torch/cuda/__init__.py _lazy_init"))
    assert found.message == "the NVIDIA driver does not initialise CUDA in this process"
    assert findings(check, raised("RuntimeError", "CUDA error: unknown error", "torch/cuda/__init__.py sync")) == []


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file", "nvidia-smi"),
        ("detection error: nvml error: unknown error: unknown", "nvidia-smi"),
        ("initialization error: nvml error: driver/library version mismatch", "reboot"),
        ("requirement error: unsatisfied condition: cuda>=12.8, please update your driver", "newer NVIDIA driver"),
    ],
)
def test_a_container_that_was_not_given_its_gpus(said: str, fix: str) -> None:
    text = (
        "docker: Error response from daemon: failed to create task for container: OCI runtime create failed: error "
        "running hook #0: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'\n"
        f"nvidia-container-cli: {said}\n"
    )
    assert [found.code for found in triage_text(text).findings][:1] == ["RLD106"]
    found = finding(check, text)
    assert found.message == f"the container was not given its GPUs: {said}"
    assert any(fix in f"{one.title} {one.commands}" for one in found.fixes)


def test_what_the_container_runtime_says_of_other_things() -> None:
    assert findings(check, "nvidia-container-cli: mount error: file creation failed: /etc/x\n") == []
