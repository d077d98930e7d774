"""The import probe in real environments, some of them broken on purpose."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rldoctor.api import Case, NotApplicable
from rldoctor.api.probes import Request
from rldoctor.probes.imports import imports
from tests.live import imports_case, run_child
from tests.observations import packages
from tests.probes.environments import Environment, extension

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "venv")


def reported(case: Case) -> dict[str, dict[str, Any]]:
    job = case.observations["imports"]["stack"]
    assert job["ended"] == "done"
    return dict(job["records"]["packages"])


def test_what_a_framework_brings_along_is_not_imported_again(environment: Environment) -> None:
    environment.install("trl", "1.0", {"trl.py": "import torch\n__version__ = '1.0'\nGRPOTrainer = GRPOConfig = 1\n"})
    environment.install("torch", "2.8.0", {"torch.py": "__version__ = '2.8.0'\n"})
    environment.install("numpy", "2.0", {"numpy.py": ""})
    found = reported(imports_case(environment.python))
    assert found["trl"]["version"] == "1.0" and found["trl"]["through"] is None
    assert found["torch"] == {"ended": "done", "version": "2.8.0", "through": "trl"}
    assert found["numpy"]["through"] is None and found["numpy"]["version"] is None


def test_only_what_is_installed_is_tried(environment: Environment) -> None:
    environment.install("numpy", "2.0", {"numpy.py": ""})
    assert list(reported(imports_case(environment.python))) == ["numpy"]
    with pytest.raises(NotApplicable):
        imports.jobs(Case(packages=packages(requests="2.0")), Request())


def test_a_failure_comes_with_its_whole_chain(environment: Environment) -> None:
    lazy = """
def __getattr__(name):
    try:
        import peft.models
    except ImportError as error:
        raise ModuleNotFoundError(f"Could not import module {name!r}") from error
"""
    environment.install("peft", "0.1", {"peft/__init__.py": lazy, "peft/models.py": "import cbor2\n"})
    found = reported(imports_case(environment.python))["peft"]
    assert found["ended"] == "raised"
    outer, cause = found["exceptions"]
    assert (outer["type"], outer["link"], outer["name"]) == ("ModuleNotFoundError", None, None)
    assert (cause["link"], cause["name"]) == ("cause", "cbor2")
    assert cause["frames"][-1]["package"] == "peft"
    assert cause["frames"][-1]["file"].endswith("peft/models.py")


@needs_gcc
def test_a_library_with_an_undefined_symbol_is_named_with_its_owner(environment: Environment) -> None:
    environment.install("flash-attn", "2.0", {"flash_attn/__init__.py": "from . import _C\n"})
    body = "_ZN3c105ErrorC2Ev();"
    environment.compile("flash_attn._C", extension("_C", body, "void _ZN3c105ErrorC2Ev(void);"), "-Wl,-z,now")
    found = reported(imports_case(environment.python))["flash-attn"]
    (error,) = found["exceptions"]
    assert "undefined symbol: _ZN3c105ErrorC2Ev" in error["message"]
    assert error["libraries"][0]["package"] == "flash_attn"


@needs_gcc
def test_a_library_that_a_package_does_without_is_noted(environment: Environment) -> None:
    source = "try:\n    from . import _C\nexcept ImportError:\n    pass\nflash_attn_func = 1\n"
    environment.install("flash-attn", "2.0", {"flash_attn/__init__.py": source})
    body = "_ZN3c105ErrorC2Ev();"
    environment.compile("flash_attn._C", extension("_C", body, "void _ZN3c105ErrorC2Ev(void);"), "-Wl,-z,now")
    found = reported(imports_case(environment.python))["flash-attn"]
    assert found["ended"] == "done"
    (failure,) = found["native_failures"]
    assert failure["module"] == "flash_attn._C" and failure["package"] == "flash_attn"


@needs_gcc
def test_a_native_crash_costs_only_the_package_that_crashes(environment: Environment) -> None:
    environment.install("torchaudio", "2.0", {"torchaudio/__init__.py": "from torchaudio import _C\n"})
    environment.compile("torchaudio._C", extension("_C", "*(volatile int *)0 = 1;"))
    environment.install("numpy", "2.0", {"numpy.py": ""})
    found = reported(imports_case(environment.python))
    assert found["numpy"]["ended"] == "done"
    assert (found["torchaudio"]["ended"], found["torchaudio"]["exit_code"]) == ("died", -11)
    assert found["torchaudio"]["loading"]["module"] == "torchaudio._C"
    assert any("Segmentation fault" in line for line in found["torchaudio"]["tail"])


def test_a_hang_costs_only_the_package_that_hangs(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rldoctor.probes.imports.SECONDS_EACH", 5.0)
    monkeypatch.setattr("rldoctor.probes.imports.SECONDS_ALL", 60.0)
    environment.install("torchaudio", "2.0", {"torchaudio.py": "import time\ntime.sleep(600)\n"})
    environment.install("numpy", "2.0", {"numpy.py": ""})
    found = reported(imports_case(environment.python))
    assert found["numpy"]["ended"] == "done"
    assert found["torchaudio"]["ended"] == "timed-out"
    assert any("torchaudio.py" in line for line in found["torchaudio"]["tail"])


def test_a_package_that_leaves_the_interpreter_is_no_success(environment: Environment) -> None:
    environment.install("numpy", "2.0", {"numpy.py": "import os\nprint('so long')\nos._exit(0)\n"})
    found = reported(imports_case(environment.python))["numpy"]
    assert (found["ended"], found["exit_code"], found["tail"]) == ("died", 0, ["so long"])


@pytest.mark.engine
def test_the_patients_whole_stack_is_proven_by_one_import(patient_imports: Case) -> None:
    found = reported(patient_imports)
    assert {name: record["ended"] for name, record in found.items()} == dict.fromkeys(found, "done")
    assert found["vllm"]["through"] is None
    assert {found[name]["through"] for name in ("torch", "transformers", "numpy")} == {"vllm"}
    torch = patient_imports.observations["imports"]["stack"]["records"]["torch"]
    assert torch["version"] == found["torch"]["version"]
    assert isinstance(torch["architectures"], list)


def test_what_an_import_waits_for_a_processor_is_no_hang(tmp_path: Path) -> None:
    source = """
import import_all
def main(_):
    hanging = {"name": "hanging", "module": "time", "attributes": [], "modules": []}
    job = import_all.Import(hanging, [], 50.0)
    job.started -= 100.0
    for waited in (1e6, 0.0):
        import_all.waited_for_processors = lambda process: waited
        emit(str(waited), job._over())
    job.started += 100.0
    emit("early", job._over())
    os.killpg(job.process.pid, 9)
    job.process.wait()
run(main)
"""
    records = run_child(tmp_path, source).records
    assert records == {"1000000.0": False, "0.0": True, "early": False}
