"""RLD108: the absent one is blamed, once, and only if it is absent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.environment.package_missing import check

from rldoctor.api import Case, Check, Finding, Outcome, Severity
from rldoctor.judge import judge_one
from tests.live import imports_case as real_imports
from tests.logs.asking import finding as ask
from tests.logs.asking import findings as all_of
from tests.logs.asking import raised
from tests.observations import failed, imports_case, link, packages, rollout_case
from tests.plans import case as planned
from tests.probes.environments import Environment


def the_finding(case: Case) -> Finding:
    result = judge_one(check, case)
    assert result.traceback is None
    (finding,) = result.findings
    return finding


def named(case: Case, **changes: object) -> Case:
    """The case as --python makes it."""
    assert case.packages is not None
    return replace(case, packages=replace(case.packages, named=True, executable="/venv/bin/python", **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("versions", "settings", "said"),
    [
        ({"torch": "2.8.0"}, {}, "verl and vllm are not installed in /venv/bin/python"),
        ({"verl": "0.6.1"}, {}, "vllm is not installed in /venv/bin/python"),
        ({"vllm": "0.11.0"}, {}, "verl is not installed in /venv/bin/python"),
        ({"vllm": "0.11.0"}, {"rollout__backend": "sglang"}, "verl is not installed in /venv/bin/python"),
    ],
)
def test_the_environment_that_the_launch_runs_in_lacks_it(
    versions: dict[str, str], settings: dict[str, Any], said: str
) -> None:
    found = the_finding(named(planned(versions=versions, **settings)))
    assert found.message.startswith(said) and found.severity is Severity.ERROR
    assert (found.evidence[0].source, found.evidence[0].line) == ("run.sh", 1)
    (command,) = found.fixes[0].commands
    assert command.startswith("/venv/bin/python -m pip install ")


@pytest.mark.parametrize(
    ("case", "outcome"),
    [
        (named(planned(versions={"verl": "0.6.1", "vllm": "0.11.0"})), Outcome.PASS),
        (named(planned(versions={"verl": "0.6.1"}, rollout__backend="sglang")), Outcome.PASS),
        (named(planned("TRL", versions={"trl": "0.24.0"}, placement__mode="server")), Outcome.PASS),
        (named(planned(versions={"vllm": "0.11.0"}), broken={"verl": "no version"}), Outcome.NOT_CHECKED),
        (replace(named(planned(versions={"vllm": "0.11.0"})), role="rollout"), Outcome.PASS),
        (planned(versions={"torch": "2.8.0"}), Outcome.NOT_APPLICABLE),
    ],
    ids=["both", "another engine", "a server has it", "unreadable", "its half", "not named"],
)
def test_the_environment_that_the_launch_runs_in(case: Case, outcome: Outcome) -> None:
    alone = Check(check.code, check.name, check.doc)
    alone.detectors = [detector for detector in check.detectors if detector.judge.__name__ == "not_installed"]
    assert judge_one(alone, case).outcome is outcome


def absent(module: str, *places: str) -> dict[str, object]:
    return link("ModuleNotFoundError", f"No module named {module!r}", *places, name=module)


def test_the_absent_one_is_blamed_with_all_that_it_stops() -> None:
    installed = packages({"vllm": ["cbor2>=5.0", "torch==2.8.0"]}, vllm="0.32.0", trl="1.0", torch="2.8.0")
    error = absent("cbor2", "vllm/config/__init__.py:13", "vllm/utils/hashing.py:12")
    finding = the_finding(imports_case(installed, vllm=failed(error), trl=failed(error)))
    assert finding.message == ("cbor2 is not installed, and vllm needs it; it stops the import of trl, vllm")
    assert finding.severity is Severity.ERROR
    assert finding.fixes[0].commands == ("/venv/bin/python -m pip install 'cbor2>=5.0'",)
    places = [(evidence.source, evidence.line) for evidence in finding.evidence if evidence.line]
    assert places == [("/venv/lib/python3.11/site-packages/vllm/utils/hashing.py", 12)]
    assert any(evidence.text == "Requires-Dist: cbor2>=5.0" for evidence in finding.evidence)


def test_the_module_and_its_distribution_have_different_names() -> None:
    case = imports_case(packages(vllm="0.11.0"), vllm=failed(absent("cv2", "vllm/multimodal/video.py")))
    assert the_finding(case).message.startswith("opencv-python-headless is not installed")


def test_what_only_an_optional_package_wants_is_a_warning() -> None:
    installed = packages({"deepspeed": ["mpi4py ; extra == 'mpi'"]}, deepspeed="0.17")
    case = imports_case(installed, deepspeed=failed(absent("mpi4py", "deepspeed/comm.py")))
    assert the_finding(case).severity is Severity.WARNING


def test_a_fallback_that_fails_too_is_the_answer() -> None:
    first = {**absent("tomllib", "trl/x.py"), "link": "context"}
    case = imports_case(packages(trl="1.0"), trl=failed(absent("tomli", "trl/x.py"), first))
    assert the_finding(case).message.startswith("tomli is not installed")


def test_a_system_library() -> None:
    error = link(
        "ImportError", "libGL.so.1: cannot open shared object file: No such file or directory", "cv2/__init__.py"
    )
    finding = the_finding(imports_case(packages(vllm="0.11.0"), vllm=failed(error)))
    assert finding.fixes[0].commands == ("apt-get install libgl1",)


def test_a_library_that_torch_takes_from_a_package_of_nvidia() -> None:
    error = link("ImportError", "libcudnn.so.9: cannot open shared object file: No such file", "torch/__init__.py")
    requires = {"torch": ["nvidia-cudnn-cu12==9.5.1.17", "nvidia-nccl-cu12==2.26.2"]}
    finding = the_finding(imports_case(packages(requires, torch="2.7.0"), torch=failed(error)))
    assert finding.message.startswith("nvidia-cudnn-cu12 is not installed, and torch needs it (libcudnn.so.9)")
    there = packages(requires, torch="2.7.0", nvidia_cudnn_cu12="9.5.1.17")
    assert judge_one(check, imports_case(there, torch=failed(error))).outcome is Outcome.PASS


def test_an_import_that_the_engine_makes_late() -> None:
    error = absent("intel_extension_for_pytorch", "vllm/attention/backends/torch_sdpa.py:559")
    finding = the_finding(rollout_case("raised", exceptions=[error]))
    assert finding.message.startswith("intel-extension-for-pytorch is not installed, and vllm needs it")
    assert finding.message.endswith("it stops the rollout")


@pytest.mark.parametrize(
    "error",
    [
        absent("vllm._C", "vllm/_custom_ops.py"),
        absent("transformers.models.moved", "vllm/x.py"),
        link("ImportError", "cannot import name 'AIMv2' from 'transformers'", "vllm/x.py", name="transformers"),
        link("ImportError", "libcuda.so.1: cannot open shared object file", "vllm/platforms/cuda.py"),
        link("ImportError", "libcudart.so.11.0: cannot open shared object file", "flash_attn/x.py"),
        link("RuntimeError", "operator torchvision::nms does not exist", "torchvision/x.py"),
    ],
    ids=["an extension", "a moved module", "a moved name", "the driver", "another CUDA", "an operator"],
)
def test_other_failures_are_left_to_others(error: dict[str, object]) -> None:
    case = imports_case(packages(vllm="0.11.0", transformers="4.57", torch="2.8.0"), vllm=failed(error))
    assert judge_one(check, case).outcome is Outcome.PASS


def test_a_real_environment_installed_without_dependencies(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    files = {"peft/__init__.py": "from peft.models import PeftModel, LoraConfig\n", "peft/models.py": "import torch\n"}
    environment.install("peft", "0.17", files, ["torch>=1.13.0"])
    finding = the_finding(real_imports(environment.python))
    assert finding.message == "torch is not installed, and peft needs it; it stops the import of peft"
    assert finding.severity is Severity.ERROR
    assert "'torch>=1.13.0'" in finding.fixes[0].commands[0]


@pytest.mark.engine
def test_the_patient_lacks_nothing(patient_imports: Case) -> None:
    assert judge_one(check, patient_imports).outcome is Outcome.PASS


SITE = "/opt/venv/lib/python3.11/site-packages"


def test_a_rollout_that_ended_otherwise_reached_no_further() -> None:
    result = judge_one(check, rollout_case("raised", exceptions=[link("KeyError", "'x'")], stage="boot"))
    assert "the rollout probe raised another error at stage boot" in str(result.reason)
    assert "a rollout made its late imports" in str(judge_one(check, rollout_case()).reason)


def test_a_log_names_the_absent_package() -> None:
    text = raised("ModuleNotFoundError", "No module named 'cbor2'", f"{SITE}/vllm/utils/hashing.py <module>")
    found = ask(check, text)
    assert found.message == "cbor2 is not installed, and vllm needs it"
    assert found.fixes[0].commands == ("python -m pip install 'cbor2'",)


def test_a_library_says_by_itself_what_it_lacks() -> None:
    message = (
        "FlashAttention2 has been toggled on, but it cannot be used due to the following error: the package for "
        "FlashAttention2 doesn't seem to be installed."
    )
    found = ask(
        check, raised("ImportError", message, f"{SITE}/transformers/modeling_utils.py _flash_attn_import_error")
    )
    assert found.message.startswith("flash-attn is not installed")
    assert [edit.value for fix in found.fixes for edit in fix.edits] == ["sdpa"]


def test_a_module_that_newer_releases_of_its_package_lack() -> None:
    text = raised(
        "ModuleNotFoundError", "No module named 'pkg_resources'", f"{SITE}/deepspeed/op_builder/builder.py load"
    )
    assert ask(check, text).fixes[0].commands == ("python -m pip install 'setuptools<81'",)


def test_python_itself_finds_no_module_to_run() -> None:
    assert ask(check, "/usr/bin/python3: No module named vllm\n").message.startswith("vllm is not installed")


def test_of_two_attempts_the_second_is_blamed() -> None:
    first = raised("ModuleNotFoundError", "No module named 'tomllib'", f"{SITE}/trl/x.py <module>")
    joint = "\nDuring handling of the above exception, another exception occurred:\n\n"
    second = raised("ModuleNotFoundError", "No module named 'tomli'", f"{SITE}/trl/x.py <module>")
    assert ask(check, first + joint + second).message.startswith("tomli is not installed")
    assert all_of(check, first + joint + raised("ValueError", "bad config")) == []


@pytest.mark.parametrize(
    "text",
    [
        raised("ModuleNotFoundError", "No module named 'vllm.model_executor.parallel_utils'"),  # RLD101
        raised("ModuleNotFoundError", "No module named '_ctypes'"),  # Python was built without it
        raised("FileNotFoundError", "bitsandbytes is not installed"),
        raised("ModuleNotFoundError", "No module named 'flash_attn'", f"{SITE}/trl/x.py <module>")
        + "falling back to sdpa\n"
        + "{'loss': '0.1', 'reward': '0.8'}\n" * 30,
    ],
)
def test_a_log_in_which_no_package_is_absent(text: str) -> None:
    assert all_of(check, text) == []


def test_the_adapter_of_a_device_is_missing() -> None:
    message = "Expected one of cpu, cuda, mps, meta, privateuseone device type at start of device string: npu"
    assert "torch_npu" in ask(check, raised("RuntimeError", message, f"{SITE}/verl/utils/device.py f")).message


def test_a_library_that_wants_the_latest_release_of_another() -> None:
    message = (
        "Using `bitsandbytes` 4-bit quantization requires the latest version of bitsandbytes: `pip install -U "
        "bitsandbytes`"
    )
    found = ask(check, raised("ImportError", message, f"{SITE}/transformers/quantizers/quantizer_bnb_4bit.py validate"))
    assert found.message.startswith("bitsandbytes is not installed")
