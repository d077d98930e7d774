"""RLD112: kernels that are compiled at run time without a toolchain."""

from __future__ import annotations

from dataclasses import replace

from rldoctor_checks.environment.jit_toolchain import check

from rldoctor.api import Outcome
from rldoctor.api.facts import Distribution, Gpu, Gpus, Packages
from rldoctor.api.results import CheckResult
from rldoctor.judge import judge_one
from tests.cases import HOST
from tests.logs.asking import finding, raised
from tests.logs.raising import found, traceback
from tests.plans import case

GPUS = Gpus(vendor="nvidia", devices=(Gpu(index=0, name="H100", memory_total=80 << 30),))


def judged(gpus: Gpus = GPUS, include: str | None = "/usr/include/python3.12", **compilers: str) -> CheckResult:
    packages = Packages(
        python="3.12",
        distributions=(Distribution(name="triton", version="3.2.0"),),
        executable="/opt/venv/bin/python",
        include=include,
    )
    host = replace(HOST, compilers=compilers)
    return judge_one(check, replace(case(), packages=packages, host=host, gpus=gpus))


def test_a_gpu_machine_without_a_compiler() -> None:
    (finding,) = judged().findings
    assert "this machine has none" in finding.message


def test_a_compiler_without_python_headers() -> None:
    (finding,) = judged(include=None, gcc="13.2").findings
    assert "compiles against Python.h" in finding.message


def test_a_toolchain_or_no_gpu_is_quiet() -> None:
    assert judged(gcc="13.2").outcome is Outcome.PASS
    assert judged(gpus=Gpus(vendor="none")).outcome is Outcome.NOT_APPLICABLE


def test_deepspeed_finds_no_compiler() -> None:
    error = "RuntimeError: DeepSpeedCPUAdam requires the cpu_adam op, which failed to build/load."
    text = traceback(error, "deepspeed/ops/adam/cpu_adam.py __init__", lead="/bin/sh: 1: clang++-19: not found")
    (finding,) = found(check, text)
    assert "(building " in finding.message or "compile" in finding.message


# triton/runtime/build.py (3.2.0)
def test_triton_finds_no_compiler() -> None:
    error = "RuntimeError: Failed to find C compiler. Please specify via CC environment variable."
    (finding,) = found(check, traceback(error, "triton/runtime/build.py _build"))
    assert finding.message == "kernels are compiled at run time and there is no C compiler"
    assert finding.fixes[1].edits[0].option == "engine.enforce_eager"


def test_torch_finds_no_ninja_and_no_cuda() -> None:
    ninja = traceback("RuntimeError: Ninja is required to load C++ extensions", "torch/utils/cpp_extension.py f")
    (finding,) = found(check, ninja)
    assert finding.fixes[0].commands == ("pip install ninja",)
    cuda = "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root."
    (finding,) = found(check, traceback(cuda, "torch/utils/cpp_extension.py _join_cuda_home"))
    assert "nvcc" in finding.message


def test_a_compiler_pass_that_fails() -> None:
    (finding,) = found(
        check, traceback("RuntimeError: PassManager::run failed", "triton/backends/nvidia/compiler.py x")
    )
    assert "PassManager" in finding.message


def test_too_many_recompilations() -> None:
    error = "torch._dynamo.exc.FailOnRecompileLimitHit: recompile_limit reached with one_graph=True."
    (finding,) = found(check, traceback(error, "torch/_dynamo/convert_frame.py compile"))
    assert finding.message.startswith("torch.compile fails (FailOnRecompileLimitHit)")


def test_a_toolkit_of_another_cuda_than_torch() -> None:
    error = (
        "deepspeed.ops.op_builder.builder.CUDAMismatchException: >- DeepSpeed Op Builder: Installed CUDA version 12.1 "
        "does not match the version torch was compiled with 11.8, unable to compile cuda/cpp extensions without a "
        "matching cuda version."
    )
    (finding,) = found(check, traceback(error, "deepspeed/ops/op_builder/builder.py assert_no_cuda_mismatch"))
    assert finding.message.startswith("the CUDA toolkit on this node is 12.1, torch was built with 11.8")
    assert finding.fixes[0].commands == ("export CUDA_HOME=/usr/local/cuda-11.8",)


def test_a_checkpoint_of_another_version_is_no_toolkit() -> None:
    error = "RuntimeError: the checkpoint's version does not match the version that this run writes"
    assert found(check, traceback(error, "train.py load")) == []


def test_tritons_compiler_that_finds_no_entry() -> None:
    # https://github.com/OpenPipe/ART/issues/97
    where = "/opt/venv/lib/python3.10/site-packages/triton/backends/nvidia/compiler.py make_llir"
    assert finding(check, raised("IndexError", "map::at", where, code="pm.run(mod)")).message.endswith("map::at")
