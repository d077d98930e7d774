"""The framework reaches into an engine that this vLLM does not have.

What it looks for
    Frameworks that take the model out of the engine's own process (``llm_engine.model_executor``) where vLLM runs its
    V1 engine in another one; an asynchronous V1 engine that the environment forbids (``VLLM_USE_V1=0``); V1 with an
    attention backend of V0; a V0 engine
    asked of a vLLM that has none; unsloth's in-process engine in the load modes that do not build one. In a log: the
    attribute errors and refusals that follow.

Why it hurts
    Weights cannot reach the engine: the run ends with the first weight sync, after everything was loaded.

How sure it is
    Which engine runs is derived as the release derives it (V1 by default from 0.8.0 on, the only one from 0.11.0 on);
    what a framework reaches for stands in its source.

The fix and its cost
    ``VLLM_USE_V1=0`` where the release still has V0, or the framework's release that was written for V1.

References
    https://github.com/OpenRLHF/OpenRLHF/issues/922, https://github.com/huggingface/trl/issues/3859
    TRL 0.15.2 ``trl/trainer/grpo_trainer.py`` line 513, OpenRLHF 0.5.7 ``openrlhf/trainer/ray/vllm_engine.py``
    vLLM ``v1/engine/llm_engine.py`` (0.8.5 line 102), ``v1/engine/async_llm.py``
    https://github.com/unslothai/unsloth/issues/2846, https://github.com/unslothai/unsloth/issues/3156
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import (
    Applicability,
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
    find,
    installed_within,
    plan_of,
    version_within,
)
from rldoctor.api.engine import ATTENTION_OF_V0, generation, release

from ...observed.servers import serving
from .reaches import ASYNC_V1, DETACHED, IN_PROCESS, REACHES, RUN_IN_PROCESS, V1, takes_v0

check = Check("RLD110", "engine-generation-mismatch", __doc__, before=("RLD101",))

V0_GONE = (0, 11, 0)
V1_FIRST, V1_REFUSES = (0, 7, 0), (0, 8, 0)
ATTENTION = "env.VLLM_ATTENTION_BACKEND"


@check.declared(needs=["plan", "packages.vllm"])
def model_taken_out_of_the_engine(case: Case) -> Iterator[Finding | Reach]:
    """A framework written for an engine in its own process, and V1 in another one."""
    plan, packages = plan_of(case), case.packages
    installed = find(packages, "vllm") if packages is not None else None
    if packages is None or installed is None or plan.usual("rollout.backend", "vllm") != "vllm":
        raise NotApplicable("the launch does not sample with vLLM")
    rows = [row for row in REACHES if row.covers(case)]
    rows = [row for row in rows if version_within(installed.version, row.vllm) and row.holds(plan)]
    if not rows:
        raise NotApplicable(f"no release of {plan.framework} at hand reaches into the engine's process")
    engine = generation(case)
    if engine.value is None:
        raise NotChecked(engine.why)
    if engine.value == "V0" or plan.value(IN_PROCESS) == "0":
        yield Reach(f"{engine.value} engine in the trainer's process: {engine.why}")
        return
    row = rows[0]
    version = _version(case, row.package)
    has_v0 = (release(case) or V0_GONE) < V0_GONE
    yield check.finding(
        f"{row.package} {version} {row.what}, and vLLM {installed.version} runs its V1 engine in another process "
        f"({engine.why})",
        evidence=(
            Evidence(text=f"{row.package} {version}", source=row.package),
            Evidence(text=f"vllm {installed.version}", source="vllm"),
            *cite(plan, V1, IN_PROCESS),
        ),
        fixes=(
            *((takes_v0(Applicability.SAFE),) if has_v0 else ()),
            Fix(title="or take the release that was written for this engine", commands=(row.remedy,)),
            *(() if has_v0 else (RUN_IN_PROCESS,)),
        ),
        url="https://github.com/OpenRLHF/OpenRLHF/issues/922",
    )


@check.declared(needs=["plan.env.VLLM_USE_V1", "packages.vllm"])
def engine_that_is_not_there(case: Case) -> Iterator[Finding | Reach]:
    """``VLLM_USE_V1`` asks for an engine that the release lacks, or that the framework does not use."""
    plan, version = plan_of(case), release(case)
    asked = str(plan.value(V1))
    if version is None or asked not in ("0", "1"):
        raise NotChecked("the vLLM release is not known")
    named = ".".join(map(str, version))
    to_v1 = Fix.safe("let the V1 engine run", {V1: "1"})
    if asked == "0" and version >= V0_GONE:
        refuses = version < (0, 11, 1)
        yield check.finding(
            f"VLLM_USE_V1=0 asks for the V0 engine, and vLLM {named} has none"
            + (": it refuses to start" if refuses else ": the variable is ignored and V1 runs"),
            severity=Severity.ERROR if refuses else Severity.WARNING,
            evidence=(*cite(plan, V1), Evidence(text=f"vllm {named}", source="vllm")),
            fixes=(to_v1, Fix(title="or take the last release with V0", commands=("pip install 'vllm<0.11'",))),
        )
        return
    package, versions = ASYNC_V1.get(plan.framework, ("", ""))
    if (
        asked == "0"
        and plan.value("rollout.async_engine") is True
        and package
        and installed_within(case, package, versions)
    ):
        yield check.finding(
            f"VLLM_USE_V1=0 forbids the V1 engine, and {plan.framework}'s asynchronous engine is V1: vLLM raises "
            "`Using V1 AsyncLLMEngine, but envs.VLLM_USE_V1=False`",
            evidence=cite(plan, V1, "rollout.async_engine"),
            fixes=(to_v1,),
        )
        return
    if asked == "1" and version < V1_FIRST:
        yield check.finding(
            f"VLLM_USE_V1=1 asks for the V1 engine, and vLLM {named} has only V0",
            severity=Severity.WARNING,
            evidence=(*cite(plan, V1), Evidence(text=f"vllm {named}", source="vllm")),
            fixes=(Fix.safe("take the variable out", {V1: "0"}),),
        )
        return
    backend = plan.value(ATTENTION)
    if asked == "1" and V1_REFUSES <= version < V0_GONE and backend in ATTENTION_OF_V0:
        yield check.finding(
            f"VLLM_USE_V1=1 asks for the V1 engine, and {backend} is an attention backend of V0: vLLM {named} raises "
            f"`VLLM_USE_V1=1 is not supported with VLLM_ATTENTION_BACKEND={backend}`",
            evidence=cite(plan, V1, ATTENTION),
            fixes=(Fix.safe("let the engine choose its attention backend", {ATTENTION: None}),),
            url="https://github.com/verl-project/verl/issues/940",
        )
        return
    yield Reach(f"VLLM_USE_V1={asked} on vLLM {named}")


@check.declared(needs=["plan.rollout.enabled"])
def engine_not_attached(case: Case) -> Iterator[Finding | Reach]:
    """unsloth with ``fast_inference`` in a load mode that builds no engine."""
    plan = plan_of(case)
    if plan.framework != "unsloth" or plan.value("rollout.enabled") is not True:
        raise NotApplicable("no engine is attached to the trained model")
    for option, excludes, name in DETACHED:
        if excludes(plan.value(option)):
            yield check.finding(
                f"fast_inference=True together with {name}: unsloth attaches no engine to a model that is loaded so",
                evidence=cite(plan, "rollout.enabled", option),
                fixes=(
                    Fix(title=f"train a 4-bit or 16-bit LoRA adapter with the engine, without {name}"),
                    Fix.unsafe(
                        "or sample without vLLM",
                        {"rollout.enabled": False},
                        side_effects="generation is many times slower",
                    ),
                ),
                url="https://github.com/unslothai/unsloth/issues/2846",
            )
            return
    yield Reach("unsloth attaches the engine as it loads the model")


def _version(case: Case, package: str) -> str:
    found = find(case.packages, package) if case.packages is not None else None
    return found.version if found is not None else ""


@check.logged(
    "has no attribute 'model_executor'",
    "has no attribute 'driver_worker'",
    "'SyncMPClient' object has no attribute 'engine_core'",
    "'AsyncMPClient' object has no attribute 'engine_core'",
)
def not_in_this_process(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``'LLMEngine' object has no attribute 'model_executor'``."""
    owner = event.search(r"'(\w+)' object has no attribute '(\w+)'")
    version = event.versions.get("vllm")
    release_at_hand = f" {version}" if version else ""
    fixes = (takes_v0(Applicability.UNSAFE), RUN_IN_PROCESS, *_newer(event))
    gone = version_within(version, ">=0.11") if version else None
    yield check.finding(
        f"the framework reaches for {owner[1]}.{owner[2]} of an engine in its own process, and "
        f"vLLM{release_at_hand} runs V1 in another one"
        if owner is not None
        else "the framework reaches into an engine that runs in another process",
        fixes=fixes[1:] if gone else fixes,
        url="https://github.com/OpenRLHF/OpenRLHF/issues/922",
    )


def _newer(event: LogEvent) -> tuple[Fix, ...]:
    remedy = {"openrlhf": "pip install 'vllm>=0.8.3'", "trl": "pip install 'trl>=0.23'"}.get(
        (event.incident.framework or "").lower()
    )
    title = "or take the release of the framework that was written for this vLLM"
    return (Fix(title=title, commands=(remedy,) if remedy else ("rldoctor compat",)),)


check.signature(
    "llm_engine.workers[",
    "llm_engine.driver_worker.",
    pattern=r"'(?P<owner>\w+)' object has no attribute '(?P<name>\w+)'",
    says="the code reaches for {owner}.{name} through the engine's workers, which this vLLM does not keep there",
    fixes=(takes_v0(Applicability.UNSAFE), RUN_IN_PROCESS),
)


def _raised(case: Case, event: LogEvent) -> bool:
    return event.exception is not None


_VLLM_CHOOSES = Fix(title="or take the variable out of the environment and let vLLM choose")
# The variable forbids the engine that the framework builds.
check.signature(
    "Using V1 LLMEngine, but envs.VLLM_USE_V1=False",
    "Using V1 AsyncLLMEngine, but envs.VLLM_USE_V1=False",
    "assert use_v1 == envs.VLLM_USE_V1",
    'assert envs.VLLM_USE_V1, "V1 is not enabled"',
    when=_raised,
    says="VLLM_USE_V1=0 forbids V1, and this framework (or this vLLM) has no other engine",
    fixes=(Fix.unsafe("let V1 run", {V1: "1"}), _VLLM_CHOOSES),
)
check.signature(
    "Using V0 LLMEngine, but envs.VLLM_USE_V1=True",
    "Using V0 AsyncLLMEngine, but envs.VLLM_USE_V1=True",
    when=_raised,
    says="VLLM_USE_V1=1 forbids V0, and the framework builds that engine",
    fixes=(Fix.unsafe("let V0 run", {V1: "0"}), _VLLM_CHOOSES),
)
check.signature(
    "VLLM_USE_V1=1 is not supported with ",
    pattern=r"VLLM_USE_V1=1 is not supported with (?P<feature>[^\n.]+)",
    when=_raised,
    says="V1 of this vLLM does not take {feature}, and VLLM_USE_V1=1 forbids the fallback to V0",
    fixes=(Fix.unsafe("let V0 run", {V1: "0"}), _VLLM_CHOOSES),
)


# vLLM 0.8 to 0.10: the asynchronous engine of V0 passes no call on to its workers.
check.signature(
    "in collective_rpc_async",
    exception="NotImplementedError",
    says="the rollout server runs vLLM's asynchronous V0 engine, which passes no call (weight sync) on to its workers",
    fixes=(
        Fix.unsafe("let V1 run", {V1: "1"}, valid_for="compute capability 8.0 and newer"),
        Fix(title="where V1 does not run here (V100, T4): a synchronous engine, one for the server"),
    ),
    url="https://github.com/modelscope/ms-swift/issues/6935",
)
# unsloth's trainer asks for the engine of a model that was loaded without one.
check.signature(
    "has no attribute 'vllm_engine'",
    "object has no attribute 'fast_generate'",
    says=(
        "the trainer is set to use vLLM and the model was loaded without an engine (fast_inference is off, or "
        "the load mode builds none)"
    ),
    fixes=(
        Fix.unsafe(
            "load the model with fast_inference=True (4-bit or 16-bit LoRA, an architecture that it supports)",
            {"rollout.enabled": True},
        ),
        Fix(title="or set use_vllm=False in GRPOConfig"),
    ),
    url="https://github.com/unslothai/unsloth/issues/2107",
)


# A trainer calls its weight-sync methods on workers of an engine that was started without its extension.
check.signature(
    "Worker' object has no attribute '",
    "WorkerBase' object has no attribute '",
    pattern=(
        r"'(?P<worker>\w*Worker\w*)' object has no attribute "
        r"'(?P<method>init_communicator|close_communicator|update_named_param|update_\w*weight\w*"
        r"|init_weight_update_group|update_adapter\w*|update_flattened_params|get_communicator\w*)'"
    ),
    # A worker of SGLang takes no extension.
    when=lambda case, event: event.exception is None or not any("/sglang/" in f.file for f in event.exception.frames),
    says=(
        "the trainer calls {method}, which the engine's {worker} does not have: the engine runs without the "
        "framework's worker extension"
    ),
    fixes=lambda case, event, words: (
        *(
            Fix(
                title="start the server with the framework's own command, which brings its worker extension",
                commands=(command,),
            )
            for command in serving(event)
        ),
        Fix(title="or give the engine the framework's class as worker_extension_cls, of the same release"),
    ),
)


# The engine looks a method of the framework's worker up by name and calls it with what the trainer sent.
check.signature(
    "() missing ",
    " positional argument but ",
    " positional arguments but ",
    "() got an unexpected keyword argument '",
    exception="TypeError",
    pattern=r"(?P<method>\w*Work\w*\.\w+)\(\) (?:missing \d|takes (?:from )?\d|got an unexpected)",
    when=lambda case, event: any(
        f.function in ("collective_rpc", "execute_method", "_handle_client_request") for f in event.frames[-3:]
    ),
    general=True,
    says="the trainer calls {method} through collective_rpc as another release of it is declared: {error}",
    fixes=(
        Fix(title="let trainer and engine load the worker extension from one installation of the framework"),
        Fix(title="or take the vLLM that this release of the framework names", commands=("rldoctor compat",)),
    ),
)
