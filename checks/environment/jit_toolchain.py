"""A kernel or extension is compiled at run time, and the compiler, its headers or ninja are missing or fail.

What it looks for
    In the environment: no C compiler while Triton compiles its launcher with one, no ``Python.h``, no ``ninja`` or
    ``nvcc`` where DeepSpeed's own operators are asked for.
    In a log: a build that fails in Triton, torch.compile (inductor), torch's extension loader, DeepSpeed or FlashInfer.

Why it hurts
    Minimal images have a driver and no toolchain. The engine loads its weights and fails in the first compiled kernel;
    DeepSpeed fails when the optimizer is built, after the model is on every rank.

How sure it is
    Triton (torch.compile, LoRA, mixture-of-experts kernels) always needs a C compiler and ``Python.h``. What a log says
    is what the build said.

The fix and its cost
    Install the compiler and the Python headers, or leave out what needs them: ``enforce_eager`` for CUDA graphs and
    torch.compile, torch's own AdamW instead of DeepSpeed's.

References
    https://github.com/triton-lang/triton/blob/v3.2.0/python/triton/runtime/build.py
    https://github.com/deepspeedai/DeepSpeed/blob/v0.17.1/op_builder/builder.py
    https://docs.vllm.ai/en/latest/getting_started/installation/gpu.html
    https://github.com/axolotl-ai-cloud/axolotl/issues/2526
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.api import Case, Check, Evidence, Finding, Fix, LogEvent, NotApplicable, Reach, Severity, find

check = Check("RLD112", "jit-toolchain-missing", __doc__)

C_COMPILERS = ("gcc", "cc", "clang")
_COMPILER = Fix(
    title="install a C and C++ compiler, and let CC and CXX point to it",
    commands=("apt-get install -y build-essential",),
)
_HEADERS = Fix(title="install the headers of this Python", commands=("apt-get install -y python3-dev",))
_NINJA = Fix(title="install ninja", commands=("pip install ninja",))
_NVCC = Fix(
    title="install the CUDA toolkit of torch's CUDA release and set CUDA_HOME to it",
    commands=("export CUDA_HOME=/usr/local/cuda",),
)
_EAGER = Fix.unsafe(
    "or run the engine without compilation", {"engine.enforce_eager": True}, side_effects="decoding is slower"
)
_CLEAN = Fix(
    title="remove what a failed or concurrent build left, and build once before the ranks start",
    commands=("rm -rf ~/.cache/torch_extensions ~/.triton/cache",),
)
_TORCH_ADAM = Fix(title="or take torch's AdamW (no optimizer offload) instead of DeepSpeed's operator")


@check.declared(needs=["host.compilers", "packages", "gpus"])
def no_compiler(case: Case) -> Iterator[Finding | Reach]:
    """A machine with a GPU and Triton, and no C compiler or Python headers."""
    host, packages, gpus = case.host, case.packages, case.gpus
    if host is None or packages is None or gpus is None or gpus.vendor != "nvidia" or not gpus.devices:
        raise NotApplicable("kernels are compiled at run time on GPUs")
    triton = find(packages, "triton")
    if triton is None:
        raise NotApplicable("no Triton is installed")
    if not any(name in host.compilers for name in C_COMPILERS):
        yield check.finding(
            f"Triton {triton.version} compiles its kernels' launchers with a C compiler, and this machine has none",
            severity=Severity.WARNING,
            evidence=(Evidence(text="no gcc, cc or clang on PATH", source="host"),),
            fixes=(_COMPILER, _EAGER),
        )
        return
    if packages.executable is not None and packages.include is None:
        yield check.finding(
            f"Triton {triton.version} compiles against Python.h, and the headers of {packages.executable} are "
            f"not there",
            severity=Severity.WARNING,
            evidence=(Evidence(text="no Python.h", source=packages.executable),),
            fixes=(_HEADERS, _EAGER),
        )
        return
    yield Reach(f"compilers {', '.join(sorted(host.compilers))}")


@check.logged(
    "Failed to find C compiler. Please specify via CC environment variable",
    "Failed to find C compiler",
    "Python.h: No such file or directory",
    "PY_SSIZE_T_CLEAN macro must be defined for '#' formats",
    "torch._inductor.exc.InvalidCxxCompiler",
    "No working C++ compiler found in torch._inductor.config.cpp.cxx",
    "Ninja is required to load C++ extensions",
    "CUDA_HOME environment variable is not set. Please set it to your CUDA install root",
    "CUDA_HOME does not exist, unable to compile CUDA op(s)",
    "nvcc: not found",
    "ninja: build stopped: subcommand failed",
    "RuntimeError: Ninja build failed. Ninja output:",
    "FileNotFoundError: [Errno 2] No such file or directory: 'ninja'",
    "FileNotFoundError: [Errno 2] No such file or directory: 'nvcc'",
    "which failed to build/load",
    "Error building extension '",
    "Could not find nvcc",
    "FlashInfer requires GPUs with sm75 or higher",
)
def build_failed(case: Case, event: LogEvent) -> Iterator[Finding]:
    """What the build said, most specific first."""
    text = "\n".join((event.text, *event.before))
    if event.exception is None and not event.fatal and event.literal == "ninja: build stopped: subcommand failed":
        return  # its exception follows
    said, fixes = _diagnosis(text)
    extension = re.search(r"Error building extension '(\w+)'|(\w+) requires the (\w+) op, which failed", text)
    name = next((g for g in extension.groups() if g), None) if extension else None
    cache = (_CLEAN,) if extension else ()
    yield check.finding(said + (f" (building {name})" if name else ""), fixes=(*fixes, *cache))


def _diagnosis(text: str) -> tuple[str, tuple[Fix, ...]]:
    if "FlashInfer requires GPUs with sm75" in text:
        return (
            "FlashInfer found no GPU that it can compile for: the CUDA toolkit in front is older than the GPU "
            "(Blackwell needs 12.8), or the GPU is older than compute capability 7.5",
            (_NVCC,),
        )
    gone = re.search(
        r"(?:/bin/sh: \d+: |sh: )(\S+): (?:command )?not found|No such file or directory: '(\S*(?:ninja|nvcc"
        r"|gcc|g\+\+|clang\S*))'",
        text,
    )
    missing = next((g for g in gone.groups() if g), None) if gone else None
    if (missing and "ninja" in missing) or "Ninja is required" in text:
        return "ninja is missing, with which extensions are built at run time", (_NINJA,)
    if (missing and "nvcc" in missing) or "CUDA_HOME" in text or "Could not find nvcc" in text:
        return "the CUDA compiler (nvcc) is not found, and an extension is built at run time", (_NVCC, _TORCH_ADAM)
    if missing:
        return f"the compiler {missing} was not found, and an extension is compiled at run time", (
            _COMPILER,
            _TORCH_ADAM,
        )
    if "Python.h" in text:
        return "the headers of Python are missing, and kernels are compiled against them", (_HEADERS, _EAGER)
    if "PY_SSIZE_T_CLEAN" in text:
        return "Triton's launcher does not work with this Python build", (
            Fix(
                title="take the Triton of the torch release; Triton 3.1.0 was reported to work",
                commands=("pip install triton==3.1.0",),
            ),
            _CLEAN,
        )
    if "C compiler" in text or "CxxCompiler" in text or "C++ compiler" in text:
        return "kernels are compiled at run time and there is no C compiler", (_COMPILER, _EAGER)
    header = re.search(r"fatal error: (\S+): No such file or directory", text)
    if header:
        return f"the build lacks the header {header[1]}", (_NVCC, _HEADERS)
    return "an extension that is compiled at run time does not build", (_COMPILER, _NVCC, _TORCH_ADAM)


_NO_COMPILATION = (
    _EAGER,
    Fix.unsafe(
        "or switch torch.compile off in the trainer",
        {"env.TORCH_COMPILE_DISABLE": "1"},
        side_effects="slower, and a little more memory",
    ),
    Fix(
        title="clear what an earlier release compiled",
        commands=("rm -rf ~/.cache/vllm/torch_compile_cache ~/.triton/cache",),
    ),
)
check.signature(
    "torch._dynamo.exc.BackendCompilerFailed: backend=",
    "torch._inductor.exc.InductorError: ",
    "torch._dynamo.exc.InternalTorchDynamoError: ",
    "torch._dynamo.exc.TorchRuntimeError: ",
    "torch._dynamo.exc.Unsupported: ",
    "torch._dynamo.exc.FailOnRecompileLimitHit: ",
    "torch._dynamo.exc.UserError: ",
    unless=(
        "raised exception ",
        "Dynamo failed to run FX node with fake tensors",
        "TorchRuntimeError: Failed running call_",
        "C compiler",
        "CxxCompiler",
        "Python.h",
        "out of memory",
        "PTXASError",
        "OutOfResources",
        "nvcc",
    ),
    pattern=r"torch\._(?:dynamo|inductor)\.exc\.(?P<kind>\w+): (?P<why>[^\n]{0,200})",
    says="torch.compile fails ({kind}): {why}",
    fixes=_NO_COMPILATION,
    url="https://docs.vllm.ai/en/latest/design/debug_vllm_compile/",
)
# What the compiled function raises itself, it would raise without compilation too.
check.signature(
    "Developer debug context: raised exception ",
    "torch._dynamo.exc.Unsupported: Observed exception",
    pattern=r"raised exception (?P<kind>\w+)\(\[?(?:(?P<quote>[\"'])(?P<why>[^\n]{1,200}?)(?P=quote))?",
    unless=("Unknown loss type: ",),
    says="what torch.compile traces raises {kind}[[: {why}]]: it would without compilation, too",
    fixes=(
        Fix(
            title="correct what is said there; run once without compilation, for a traceback of its own",
            commands=("export TORCH_COMPILE_DISABLE=1",),
        ),
    ),
    url="https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html",
)
check.signature(
    "LLVM ERROR: ",
    "PassManager::run failed",
    "IndexError: map::at",
    says="the compiler of Triton's kernels gave up: {line}",
    when=lambda case, event: (
        not re.search(r"Volta and Turing|V100|\bT4\b", "\n".join((*event.run.tail, *event.before)))
    ),
    fixes=(
        Fix(
            title="take the Triton that this torch release pins, and no newer one beside it",
            commands=("pip show triton torch",),
        ),
        *_NO_COMPILATION,
    ),
    silent=True,
)
# DeepSpeed compares the toolkit on the node with torch's before it builds its operators.
check.signature(
    "unable to compile cuda/cpp extensions without a matching cuda version",
    "does not match the version torch was compiled with",
    pattern=r"Installed CUDA version (?P<toolkit>[\d.]+) does not match the version torch was compiled with "
    r"(?P<torch>[\d.]*\d)",
    says="the CUDA toolkit on this node is {toolkit}, torch was built with {torch}, and an operator is to be compiled "
    "with both",
    fixes=(
        Fix(
            title="install the toolkit of torch's CUDA release, and let CUDA_HOME point to it",
            commands=("export CUDA_HOME=/usr/local/cuda-{torch}",),
        ),
        Fix(
            title="where only the minor number differs, the build may be allowed",
            commands=("export DS_SKIP_CUDA_CHECK=1",),
        ),
    ),
    url="https://www.deepspeed.ai/tutorials/advanced-install/",
)
