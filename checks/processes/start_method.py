"""Processes are forked where they must be spawned, or spawned by a script that cannot be imported.

What it looks for
    A script that starts an engine at module level although vLLM is set to spawn its processes, and a V1 engine inside
    a Ray actor in releases that fork it there. In a log:
    ``Cannot re-initialize CUDA in forked subprocess``: the parent had used CUDA before it forked. And ``An attempt
    has been made to start a new process before the current process has finished its bootstrapping phase``: the script
    starts the engine at module level, and every spawned process runs the script again.

Why it hurts
    The engine's processes die before they begin.

How sure it is
    The script's syntax tree shows whether its work stands under a guard; the releases were read in vLLM's source
    (``_maybe_force_spawn``). Both messages are unmistakable and name the remedy's side.

The fix and its cost
    ``VLLM_WORKER_MULTIPROC_METHOD=spawn`` for the first, a main guard for the second. Neither costs anything.

References
    https://docs.vllm.ai/en/latest/usage/troubleshooting.html#python-multiprocessing
    https://github.com/huggingface/trl/issues/6679, https://github.com/vllm-project/vllm/pull/14705 (0.8.2)
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    Severity,
    cite,
    plan_of,
)
from rldoctor.api.engine import generation, release

check = Check("RLD605", "start-method-unsafe", __doc__)
_ONE_PROCESS = Fix.unsafe(
    "or keep the engine in this process",
    {"env.VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
    valid_for="vllm>=0.8",
    side_effects="tensor parallel workers are still processes",
)

METHOD, ONE_PROCESS = "env.VLLM_WORKER_MULTIPROC_METHOD", "env.VLLM_ENABLE_V1_MULTIPROCESSING"
# From here on vLLM spawns the engine where it finds itself in a Ray actor.
SPAWNS_IN_RAY = (0, 8, 2)


@check.declared(needs=["plan.process.main_guard", f"plan.{METHOD}"])
def spawned_without_a_guard(case: Case) -> Iterator[Finding | Reach]:
    """Every spawned process imports the script, and would start the engine again."""
    plan = plan_of(case)
    own = plan.dialect == "vLLM" and plan.value("engine.distributed_executor_backend") != "external_launcher"
    if not own or plan.value(METHOD) != "spawn" or plan.value(ONE_PROCESS) == "0":
        raise NotApplicable("no script spawns an engine's processes")
    if plan.value("process.main_guard"):
        yield Reach("the script starts its work under a guard")
        return
    yield check.finding(
        "vLLM is set to spawn its processes, and the script starts the engine at module level: every process would "
        "start it again",
        evidence=cite(plan, "process.main_guard", METHOD),
        fixes=(
            Fix(title='put what starts the engine under `if __name__ == "__main__":`'),
            Fix.unsafe("or let vLLM choose the start method", {METHOD: None}),
        ),
        url="https://docs.vllm.ai/en/latest/usage/troubleshooting.html#python-multiprocessing",
    )


@check.declared(needs=["plan.engine.distributed_executor_backend", "packages.vllm"])
def forked_in_a_ray_actor(case: Case) -> Iterator[Finding | Reach]:
    """V1 forked its engine out of the Ray actor, and the child finds no placement group."""
    plan = plan_of(case)
    if plan.value("process.launcher") != "ray" or plan.value("engine.distributed_executor_backend") != "ray":
        raise NotApplicable("no engine in a Ray actor uses Ray for its workers")
    vllm = release(case)
    if vllm is None:
        raise NotChecked("the vLLM release is not known")
    if generation(case).value != "V1" or vllm >= SPAWNS_IN_RAY or plan.value(ONE_PROCESS) == "0":
        yield Reach("the engine is not forked out of its Ray actor")
        return
    yield check.finding(
        "this V1 engine forks itself out of its Ray actor, and the child cannot find the actor's placement group: it "
        "hangs",
        severity=Severity.WARNING,
        evidence=(
            *cite(plan, "engine.distributed_executor_backend", "engine.tensor_parallel_size", "env.VLLM_USE_V1"),
            Evidence(text=f"vllm {'.'.join(map(str, vllm))}"),
        ),
        fixes=(
            Fix.safe("keep the engine in the actor's process", {ONE_PROCESS: "0"}),
            Fix(title="vLLM 0.8.2 and later spawn it", commands=('pip install "vllm>=0.8.2"',)),
        ),
        url="https://github.com/vllm-project/vllm/pull/14410",
    )


# torch refuses CUDA in a child that was forked from a process that had it.
check.signature(
    "Cannot re-initialize CUDA in forked subprocess",
    says="a process was forked after CUDA was initialised in its parent",
    fixes=(
        Fix.safe(
            "let vLLM spawn its workers",
            {"env.VLLM_WORKER_MULTIPROC_METHOD": "spawn"},
            side_effects="the script needs an `if __name__ == '__main__':` guard",
        ),
        Fix(title="touch CUDA (torch.cuda calls, a model on the GPU) only after the engine was started"),
    ),
    url="https://docs.vllm.ai/en/latest/usage/troubleshooting.html#python-multiprocessing",
)


# multiprocessing found itself in the middle of importing the main module.
check.signature(
    "An attempt has been made to start a new process before the",
    says="the script starts processes at module level[[ at {place}]], so every spawned process starts them again",
    fixes=(
        Fix(title='put what starts the engine or the training under `if __name__ == "__main__":`'),
        _ONE_PROCESS,
    ),
    url="https://docs.vllm.ai/en/latest/usage/troubleshooting.html#python-multiprocessing",
)


# multiprocessing refuses children to a process that is one itself with daemon=True.
check.signature(
    "daemonic processes are not allowed to have children",
    says="what starts an engine or a pool runs in a daemonic process, which may have no children",
    fixes=(
        Fix(title="start that process with daemon=False (a pool's workers are daemons: use a ProcessPoolExecutor)"),
        _ONE_PROCESS,
    ),
    url="https://docs.python.org/3/library/multiprocessing.html#multiprocessing.Process.daemon",
)


# `multiprocessing.set_start_method` may be called once; a library's import may have been first.
check.signature(
    "RuntimeError: context has already been set",
    says="the start method of processes is set a second time",
    fixes=(
        Fix(title="call set_start_method once, first thing under the main guard, or with force=True"),
        Fix.safe("for vLLM alone the variable is enough", {"env.VLLM_WORKER_MULTIPROC_METHOD": "spawn"}),
    ),
    url="https://docs.python.org/3/library/multiprocessing.html#multiprocessing.set_start_method",
)


def _in_multiprocessing(case: Case, event: LogEvent) -> bool:
    """Whether it was a new process that was to get it: Ray, data sets and caches pickle, too."""
    error = event.exception
    return error is not None and any("/multiprocessing/" in frame.file for frame in error.frames[-4:])


# A forked process inherits what a spawned one is sent.
check.signature(
    "Can't pickle local object '",
    "Can't get local object '",
    "Can't pickle <",
    "cannot pickle '",
    pattern=r"(?:pickle|get) local object '?(?P<what>[^'\n]{1,120})|cannot pickle '(?P<what_2>[^'\n]{1,80})'"
    r"|Can't pickle (?P<what_3><[^\n]{1,120}?>): ",
    when=_in_multiprocessing,
    says="a spawned process is to get {what}, which cannot be pickled",
    fixes=(
        Fix(
            title="define it at the top of a module (no lambda, no function in a function), and open locks, files and "
            "clients in the process that uses them"
        ),
        _ONE_PROCESS,
    ),
    url="https://docs.python.org/3/library/multiprocessing.html#the-spawn-and-forkserver-start-methods",
)
