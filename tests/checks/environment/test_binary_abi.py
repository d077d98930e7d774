"""RLD105: whose extension does not fit what."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from rldoctor_checks.environment.binary_abi import check

from rldoctor.api import Case, Finding, Grade, Outcome, Severity
from rldoctor.api.results import CheckResult
from rldoctor.judge import judge_one
from tests.live import imports_case as real_imports
from tests.logs.asking import finding as ask
from tests.logs.asking import findings as all_of
from tests.logs.asking import raised
from tests.observations import died, failed, imported, imports_case, link, packages, rollout_case
from tests.probes.environments import Environment, extension

SITE = "/venv/lib/python3.11/site-packages"
NMS = link(
    "RuntimeError", "operator torchvision::nms does not exist", "torchvision/__init__.py:8", "torch/library.py:493"
)
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")


def the_finding(case: Case) -> Finding:
    result = judge_one(check, case)
    assert result.traceback is None
    (finding,) = result.findings
    return finding


def quiet(case: Case) -> CheckResult:
    result = judge_one(check, case)
    assert (result.outcome, result.findings) == (Outcome.PASS, ())
    return result


def test_one_torchvision_stops_three_imports_and_is_one_finding() -> None:
    wrapper = link(
        "ModuleNotFoundError", "Could not import module 'PreTrainedModel'.", "transformers/utils/import_utils.py"
    )
    installed = packages(
        {"torchvision": ["torch==2.7.1"]}, vllm="0.11.0", torch="2.8.0+cu128", transformers="4.57", torchvision="0.22.1"
    )
    reason = {
        "path": f"{SITE}/torchvision/_C.so",
        "module": None,
        "package": "torchvision",
        "type": "OSError",
        "message": "libcudart.so.11.0: cannot open shared object file: No such file or directory",
    }
    case = imports_case(
        installed,
        vllm=failed(NMS),
        transformers=failed(wrapper, {**NMS, "link": "cause"}),
        torchvision=failed(NMS, native_failures=[reason]),
        torch=imported("2.8.0+cu128"),
    )
    finding = the_finding(case)
    assert finding.message == (
        "torchvision 0.22.1 was not built for the installed torch 2.8.0+cu128; "
        "it stops the import of transformers, vllm"
    )
    assert (finding.severity, finding.grade) == (Severity.ERROR, Grade.OBSERVED)
    texts = [evidence.text for evidence in finding.evidence]
    assert "vllm: operator torchvision::nms does not exist" in texts
    assert "torchvision declares torch==2.7.1" in texts
    assert any("libcudart.so.11.0" in text for text in texts)
    assert finding.fixes[0].commands == (
        "/venv/bin/python -m pip install --force-reinstall --no-deps torchvision==0.23.0+cu128",
    )
    assert "pip uninstall torchvision" in finding.fixes[1].commands[0]


def test_a_build_for_cuda_beside_a_torch_for_the_cpu() -> None:
    """The versions agree, and PyPI's torchvision for Linux is a build for CUDA."""
    installed = packages({"torchvision": ["torch==2.13.0"]}, torch="2.13.0+cpu", torchvision="0.28.0")
    reason = {"path": "x/_C.so", "package": "torchvision", "message": "libc10_cuda.so: cannot open shared object file"}
    finding = the_finding(imports_case(installed, torchvision=failed(NMS, native_failures=[reason])))
    assert finding.message == "torchvision 0.28.0 is a build for CUDA, the installed torch 2.13.0+cpu one for the CPU"
    assert not any("declares" in evidence.text for evidence in finding.evidence)
    assert "torchvision==0.28.0+cpu" in finding.fixes[0].commands[0]


def test_an_undefined_symbol_blames_the_owner_of_the_library() -> None:
    message = f"{SITE}/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so: undefined symbol: _ZN3c105ErrorC2ENS_14Source"
    error = link("ImportError", message, "verl/utils/model.py", "flash_attn/flash_attn_interface.py:15")
    case = imports_case(packages(verl="0.6", flash_attn="2.7.4", torch="2.8.0"), verl=failed(error))
    finding = the_finding(case)
    assert finding.message.startswith("flash-attn 2.7.4 was not built for the installed torch 2.8.0; it stops")
    assert "flash-attn==2.7.4" in finding.fixes[0].commands[0]


def test_vllms_own_extension_asks_for_the_torch_that_vllm_declares() -> None:
    message = f"{SITE}/vllm/_C.abi3.so: undefined symbol: _ZN3c104impl22getGlobalPyInterpreterEv"
    installed = packages({"vllm": ["torch==2.7.0", "numpy"]}, vllm="0.9.1", torch="2.8.0")
    finding = the_finding(imports_case(installed, vllm=failed(link("ImportError", message, "vllm/_custom_ops.py"))))
    assert finding.fixes[0].commands == ("/venv/bin/python -m pip install torch==2.7.0",)


def test_a_library_that_vllm_swallows_counts() -> None:
    entry = {
        "path": f"{SITE}/vllm/_C.abi3.so",
        "module": "vllm._C",
        "package": "vllm",
        "type": "ImportError",
        "message": f"{SITE}/vllm/_C.abi3.so: undefined symbol: _ZN3c106detail14torchCheckFailE",
    }
    finding = the_finding(
        imports_case(packages(vllm="0.11.0", torch="2.9.0"), vllm=imported("0.11.0", native_failures=[entry]))
    )
    assert finding.message == "vllm 0.11.0 was not built for the installed torch 2.9.0"
    assert finding.severity is Severity.ERROR


def test_glibcxx_asks_for_another_c_library() -> None:
    message = (
        f"/lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by {SITE}/vllm/_C.abi3.so)"
    )
    case = imports_case(packages(vllm="0.9.2", torch="2.7.0"), vllm=failed(link("ImportError", message, "vllm/x.py")))
    finding = the_finding(case)
    assert finding.message == "vllm 0.9.2 needs a newer libstdc++ (GLIBCXX_3.4.32)"
    assert "GCC 13.2" in finding.fixes[0].title


@pytest.mark.parametrize(
    "message",
    [
        "numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, got 88",
        "numpy.core.multiarray failed to import",
    ],
)
def test_numpys_abi_blames_what_was_compiled_against_it(message: str) -> None:
    error = link("ValueError", message, "datasets/x.py", "pandas/_libs/__init__.py:18", "numpy/core/multiarray.py:10")
    case = imports_case(packages(datasets="2.0", pandas="2.1.4", numpy="2.3.5"), datasets=failed(error))
    finding = the_finding(case)
    assert finding.message.startswith("pandas 2.1.4 was compiled against another numpy than the installed numpy 2.3.5")


def test_another_nccl_in_front_is_no_fault_of_torchs_build() -> None:
    message = f"{SITE}/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister"
    finding = the_finding(
        imports_case(packages(torch="2.8.0"), torch=failed(link("ImportError", message, "torch/x.py")))
    )
    assert "NCCL in front" in finding.message
    assert "LD_LIBRARY_PATH" in finding.fixes[0].title


def test_a_native_crash_is_reported_from_an_exception() -> None:
    tail = (
        "Fatal Python error: Segmentation fault",
        "",
        "Current thread 0x00007f (most recent call first):",
        f'  File "{SITE}/xformers/ops/__init__.py", line 3 in <module>',
        '  File "<frozen importlib._bootstrap>", line 241 in _call_with_frames_removed',
    )
    case = imports_case(packages(vllm="0.11.0", xformers="0.0.30", torch="2.8.0"), vllm=died(-11, *tail))
    finding = the_finding(case)
    assert finding.message.startswith("xformers 0.0.30 crashes the process with SIGSEGV while it is imported")
    assert finding.message.endswith("it stops the import of vllm")


def test_an_optional_package_that_stops_nothing_is_a_warning() -> None:
    message = f"{SITE}/torchaudio/lib/libtorchaudio.so: undefined symbol: _ZNK5torch8autograd4Node4nameEv"
    error = link("OSError", message, "torchaudio/_extension/__init__.py")
    case = imports_case(packages(torch="2.8.0", torchaudio="2.7.0"), torchaudio=failed(error), torch=imported("2.8.0"))
    finding = the_finding(case)
    assert finding.severity is Severity.WARNING
    assert "torchaudio==2.8.0" in finding.fixes[0].commands[0]


@pytest.mark.parametrize(
    "error",
    [
        link("ModuleNotFoundError", "No module named 'cbor2'", "vllm/utils/hashing.py", name="cbor2"),
        link("ImportError", "libcuda.so.1: cannot open shared object file: No such file", "vllm/platforms/cuda.py"),
        link("ValueError", "'aimv2' is already used by a Transformers config, pick another name.", "transformers/x.py"),
        link("OSError", "libcudnn.so.9: cannot open shared object file: No such file", "torch/__init__.py"),
        link("RuntimeError", "operator does not exist", "vllm/x.py"),
    ],
    ids=["absent package", "no driver", "transformers too new", "torch's own library is absent", "no operator named"],
)
def test_other_failures_are_left_to_others(error: dict[str, object]) -> None:
    quiet(imports_case(packages(vllm="0.11.0", torch="2.8.0", transformers="4.57"), vllm=failed(error)))


def test_a_process_that_was_killed_from_outside_is_no_misfit() -> None:
    quiet(imports_case(packages(vllm="0.11.0", torch="2.8.0"), vllm=died(-9)))


def test_missing_driver_libraries_that_were_swallowed_are_normal_without_a_gpu() -> None:
    entry = {
        "path": "libnvidia-ml.so.1",
        "module": None,
        "package": None,
        "type": "OSError",
        "message": "libnvidia-ml.so.1: no",
    }
    own = {
        **entry,
        "package": "vllm",
        "message": "libcuda.so.1: cannot open shared object file: No such file or directory",
    }
    quiet(imports_case(packages(vllm="0.11.0", torch="2.8.0"), vllm=imported(native_failures=[entry, own])))


def test_a_rollout_that_meets_the_misfit_late() -> None:
    message = f"{SITE}/flash_attn_2_cuda.so: undefined symbol: _ZN2at4_ops5zeros4callE"
    case = rollout_case("raised", exceptions=[link("ImportError", message, "vllm/x.py", "flash_attn/y.py")])
    assert "flash-attn" in the_finding(case).message


class TestDeclared:
    """Versions alone, where nothing was imported."""

    def test_torchvision_of_another_minor_release(self) -> None:
        installed = packages({"torchvision": ["numpy", "torch (==2.7.1)"]}, torch="2.8.0+cu126", torchvision="0.22.1")
        finding = the_finding(Case(packages=installed))
        assert finding.message == "torchvision 0.22.1 was built for torch 2.7.1, torch 2.8.0+cu126 is installed"
        assert finding.grade is Grade.DECLARED
        assert "torchvision==0.23.0+cu126" in finding.fixes[0].commands[0]

    def test_without_metadata_the_table_tells(self) -> None:
        finding = the_finding(Case(packages=packages(torch="2.8.0", torchvision="0.21.0", torchaudio="2.8.0")))
        assert "built for torch 2.6.0" in finding.message

    @pytest.mark.parametrize(
        ("torch", "torchvision"),
        [("2.8.0", "0.23.0"), ("2.13.0+cpu", "0.28.0"), ("2.7.1", "0.22.0")],
        ids=["its own", "a local label", "a patch release"],
    )
    def test_stays_quiet(self, torch: str, torchvision: str) -> None:
        result = quiet(Case(packages=packages(torch=torch, torchvision=torchvision)))
        assert f"torchvision {torchvision} with torch {torch}" in str(result.reason)

    def test_the_stable_interface_takes_every_newer_torch_and_no_older_one(self) -> None:
        declared = {"torchvision": ["torch>=2.14.0"]}
        quiet(Case(packages=packages(declared, torch="2.15.0", torchvision="0.29.2")))
        finding = the_finding(Case(packages=packages(declared, torch="2.13.0+cpu", torchvision="0.29.2")))
        assert finding.message == "torchvision 0.29.2 was built for torch >=2.14.0, torch 2.13.0+cpu is installed"

    def test_a_release_that_is_not_known_is_no_pass(self) -> None:
        result = judge_one(check, Case(packages=packages(torch="2.8.0", torchvision="0.99.0")))
        assert (result.outcome, result.findings) == (Outcome.NOT_CHECKED, ())
        assert "which torch torchvision 0.99.0 was built for is not known (--level imports)" in str(result.reason)

    def test_what_was_imported_well_is_not_accused_from_versions(self) -> None:
        installed = packages(torch="2.8.0", torchvision="0.21.0")
        quiet(imports_case(installed, torchvision=imported("0.21.0"), torch=imported("2.8.0")))


class TestReal:
    """Real processes, real extensions."""

    @needs_gcc
    def test_an_extension_with_an_undefined_torch_symbol(self, tmp_path: Path) -> None:
        environment = Environment(tmp_path / "venv")
        environment.install("trl", "1.0", {"trl.py": "import flash_attn\nGRPOTrainer = GRPOConfig = 1\n"})
        environment.install("flash-attn", "2.7.4", {"flash_attn/__init__.py": "from flash_attn import _C\n"})
        environment.install("torch", "2.8.0", {"torch.py": "__version__ = '2.8.0'\n"})
        symbol = "_ZN3c106detail14torchCheckFailEv"
        environment.compile("flash_attn._C", extension("_C", f"{symbol}();", f"void {symbol}(void);"), "-Wl,-z,now")
        finding = the_finding(real_imports(environment.python))
        assert (
            finding.message
            == "flash-attn 2.7.4 was not built for the installed torch 2.8.0; it stops the import of trl"
        )

    @needs_gcc
    def test_a_native_crash_while_a_library_is_loaded(self, tmp_path: Path) -> None:
        environment = Environment(tmp_path / "venv")
        environment.install("deepspeed", "0.17", {"deepspeed.py": "import xformers\n"})
        environment.install("xformers", "0.0.30", {"xformers/__init__.py": "from xformers import _C\n"})
        environment.compile("xformers._C", extension("_C", "*(volatile int *)0 = 1;"))
        finding = the_finding(real_imports(environment.python))
        assert finding.message.startswith("xformers 0.0.30 crashes the process with SIGSEGV while it is imported")
        assert finding.message.endswith("it stops the import of deepspeed")

    @pytest.mark.engine
    def test_the_patient_fits(self, patient_imports: Case) -> None:
        quiet(patient_imports)

    @pytest.mark.engine
    def test_a_torchvision_whose_operators_were_never_registered(self, patient: Path, tmp_path: Path) -> None:
        """torchvision goes on when its library cannot be loaded, and torch raises at the first operator."""
        environment = Environment(tmp_path / "venv", beside=patient)
        source = 'import torch\n\n@torch.library.register_fake("torchvision::nms")\ndef nms(*_): ...\n'
        files = {"torchvision/__init__.py": source, "torchvision/io.py": "", "torchvision/transforms.py": ""}
        environment.install("torchvision", "0.22.1", files, ["torch==2.7.1"])
        finding = the_finding(real_imports(environment.python))
        assert finding.message.startswith("torchvision 0.22.1 was not built for the installed torch")
        assert finding.message.endswith("it stops the import of transformers, vllm")


SITE = "/opt/venv/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("kind", "message", "frame", "said"),
    [
        (
            "RuntimeError",
            "operator torchvision::nms does not exist",
            f"{SITE}/torch/library.py impl",
            "torchvision was not built for the installed torch",
        ),
        (
            "ImportError",
            f"{SITE}/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEi",
            f"{SITE}/flash_attn/flash_attn_interface.py <module>",
            "flash-attn was not built for the installed torch",
        ),
        (
            "ImportError",
            "/lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by "
            f"{SITE}/vllm/_C.abi3.so)",
            f"{SITE}/vllm/_custom_ops.py <module>",
            "vllm needs a newer libstdc++ (GLIBCXX_3.4.32)",
        ),
        (
            "AttributeError",
            "'_OpNamespace' '_C' object has no attribute 'rms_norm'",
            f"{SITE}/torch/_ops.py __getattr__",
            "vllm was not built for the installed torch",
        ),
    ],
)
def test_a_log_tells_of_the_same(kind: str, message: str, frame: str, said: str) -> None:
    assert ask(check, raised(kind, message, frame)).message == said


def test_another_nccl_in_front_is_another_code() -> None:
    message = f"{SITE}/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister"
    assert all_of(check, raised("ImportError", message, f"{SITE}/torch/__init__.py <module>")) == []


def test_a_probe_that_was_cut_off_is_no_pass() -> None:
    cut_off = {"stack": {"ended": "timed-out", "records": {"packages": {}}}}
    result = judge_one(check, Case(observations={"imports": cut_off}))
    assert result.outcome is Outcome.NOT_CHECKED
    assert result.reason is not None and "the imports probe timed-out before it came to an end" in result.reason


def test_a_symbol_without_its_library() -> None:
    (found,) = all_of(check, "ImportError: undefined symbol: _ZN3c104cuda9SetDeviceEi\n")
    assert "asks torch for _ZN3c104cuda9SetDeviceEi" in found.message
    assert all_of(check, "ImportError: undefined symbol: _ZN3foo3barEv\n") == []


def test_a_library_in_the_repr_of_what_it_raised() -> None:
    # https://github.com/sgl-project/sglang/issues/1321
    said = "/opt/conda/lib/python3.10/site-packages/vllm/_core_C.abi3.so: undefined symbol: _ZN5torch6detail10class_E"
    warned = f"WARNING 09-04 04:55:04 _core_ext.py:180] Failed to import with ImportError('{said}')\n"
    later = raised("NameError", "name 'torch' is not defined", "/opt/conda/lib/python3.10/site-packages/vllm/a.py f")
    assert "vllm was not built for the installed torch" in [found.message for found in all_of(check, warned + later)]


def test_a_package_that_hides_why_a_part_of_it_does_not_load() -> None:
    # https://github.com/NVIDIA/TransformerEngine/issues/1014, https://github.com/NVIDIA/Megatron-LM/issues/696
    said = "module 'transformer_engine' has no attribute 'pytorch'"
    assert "transformer_engine.pytorch does not load" in ask(check, raised("AttributeError", said)).message
    assert all_of(check, raised("AttributeError", said.replace("pytorch", "version"))) == []


def test_an_engine_without_its_extension() -> None:
    # https://github.com/vllm-project/vllm/issues/4229, https://github.com/vllm-project/vllm/issues/7991
    ops = "/opt/venv/lib/python3.10/site-packages/vllm/_custom_ops.py rms_norm"
    assert (
        "without its compiled extension"
        in ask(check, raised("NameError", "name 'vllm_ops' is not defined", ops)).message
    )
    assert all_of(check, raised("NameError", "name 'my_ops' is not defined")) == []
