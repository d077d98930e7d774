"""This release of a framework or engine has a known defect for this use.

What it looks for
    The installed releases and the launch's settings against a dated table of defects: each row with the affected range,
    the settings under which it shows, the release that fixes it and the thread. Defects whose pattern has a check of
    its own (a shared seed, sleep mode on an old Python) are in the table too, and are left to that check. In a log:
    errors that only such a defect prints.

Why it hurts
    The configuration is right and the run fails, or silently trains on the wrong thing. Nothing but another release, or
    a detour, helps.

How sure it is
    Ranges were read from the tagged sources or the thread. A row is reported only when every one of its conditions is
    known to hold; rows whose defect is rare or not settled are notes.

The fix and its cost
    The release that fixes it, as far as the other packages allow (``rldoctor compat``), or the setting that avoids it.

References
    Each row's own URL and date; the releases of vLLM are at https://github.com/vllm-project/vllm/releases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace

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
    find,
    plan_of,
    version_within,
)
from rldoctor.api.facts import aside
from rldoctor.api.logs import is_users, package_of
from rldoctor.api.packages import FRAMEWORKS, packages_of, required
from rldoctor.api.releases import KnownIssue, exports, known_issues, symbol_packages

from ..observed.imports import distribution
from ..observed.known_defects import fixes_of
from ..observed.unfit_calls import unfit

# What a row lacks that holds only in some launches.
LAUNCH = "a launch file"

check = Check("RLD111", "known-bad-release", __doc__, before=("RLD101",))


@check.declared(needs=["packages"])
def known_defect(case: Case) -> Iterator[Finding | Reach]:
    """The rows of the table that hold here."""
    packages = case.packages
    assert packages is not None
    table = [row for row in known_issues() if row.shown_by == check.code]
    run = _of_the_run(case, {row.package for row in table})
    shown = [row for row in table if row.package in run]
    rows = [row for row in shown if find(packages, row.package) is not None]
    for row in rows:
        if row.covers(case):
            yield _finding(row, case)
    if not rows and packages.complete:
        raise NotApplicable("no package with known defects is installed")
    if not rows:
        raise NotChecked("no package with known defects is named", how="--assume PACKAGE==VERSION")
    open_rows: dict[str, list[KnownIssue]] = {}
    for row in rows:
        if lacking := _lacking(row, case):
            open_rows.setdefault(lacking, []).append(row)
    left = [f"{_counted(several)} without {lacking}" for lacking, several in open_rows.items()]
    decided = [row for row in rows if not any(row in several for several in open_rows.values())]
    if not decided or any(lacking != LAUNCH for lacking in open_rows):
        raise NotChecked("; ".join(left), how=f"name {' and '.join(open_rows)}")
    yield Reach(f"none of {_counted(decided)}")
    if left:
        yield Reach(f"not judged: {', '.join(left)}")


def _of_the_run(case: Case, known: Set[str]) -> tuple[str, ...]:
    """The packages whose defects the run would meet: the framework, the engine, and what these ask for. Without a
    launch, or where no framework is known, every one that is there counts as a framework. ``known`` are the packages
    with rows: one that only comes along with a framework does not stand for it."""
    packages, plan = case.packages, case.plan
    assert packages is not None
    names = packages_of(plan.framework) if plan is not None else ()
    own = tuple(name for name in names if name in known) or names
    with aside():  # of several names of a framework one is enough
        there = [name for name in own or FRAMEWORKS if find(packages, name) is not None]
    engine = ("vllm",) if plan is None or plan.usual("rollout.backend", "vllm") == "vllm" else ()
    return required(case, (*(there or own[:1]), *engine, "transformers"))


def _lacking(row: KnownIssue, case: Case) -> str | None:
    """What a row waits for whose release is here: versions of other packages, or a launch."""
    packages = case.packages
    if packages is None or not replace(row, when={}, frameworks=(), beside={}).covers(case):
        return None
    unnamed = [name for name in row.beside if not packages.complete and find(packages, name) is None]
    if unnamed:
        return f"the version of {' and '.join(unnamed)}"
    launches = case.plan is None and (row.when or row.frameworks)
    return LAUNCH if launches and replace(row, when={}, frameworks=()).covers(case) else None


def _counted(rows: list[KnownIssue]) -> str:
    names = ", ".join(dict.fromkeys(row.package for row in rows))
    return f"{len(rows)} known defect{'s' if len(rows) > 1 else ''} of {names}"


def _finding(row: KnownIssue, case: Case) -> Finding:
    found = find(case.packages, row.package) if case.packages is not None else None
    version = found.version if found is not None else ""
    settings = [name.removeprefix("asked.") for name in row.when]
    evidence = cite(plan_of(case), *settings) if row.when and case.plan is not None else ()
    return check.finding(
        f"{row.package} {version}: {row.symptom}",
        severity=Severity(row.severity),
        evidence=(Evidence(text=f"{row.package} {version} ({row.versions})", source=row.package), *evidence),
        fixes=fixes_of(row),
        url=row.url,
    )


# A line that only one defect prints -> the row of the table.
PRINTED = {
    "generation_kwargs.update(self.args.generation_kwargs)": "trl-generation-kwargs-none",
    "max_model_len = self.llm.llm_engine.model_config.max_model_len": "trl-tools-max-model-len",
    "ds_active_sub_modules": "trl-zero3-active-submodules",
    "The following `model_kwargs` are not used by the model: [": "swift-model-kwargs-columns",
}


@check.logged(*PRINTED)
def printed(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A traceback through the defective line."""
    row = next(row for row in known_issues() if row.id == PRINTED[event.literal])
    version, error = event.versions.get(row.package), event.exception
    if error is None or (version is not None and version_within(version, row.versions) is False):
        return
    if row.package == "ms-swift" and event.incident.framework != "ms-swift":
        return  # the same words come from a user's own call of generate()
    named = f"{row.package} {version}" if version else f"{row.package}{row.versions}"
    yield check.finding(f"{named}: {row.symptom}", fixes=fixes_of(row), url=row.url)


# cuBLAS chooses a kernel by a table that has no row for this GPU.
check.signature(
    "(Floating point exception: integer divide by zero)",
    "Floating point exception",
    pattern=r"cublasLt\w*(?:MatmulAlgo|_for_cublas_)\w*|cublasGemmEx",
    says="cuBLAS divides by zero as it chooses a kernel: releases before 12.4.5 do so on an H20",
    fixes=(
        Fix(
            title="take a newer cuBLAS, and see that no older one stands in front of it",
            commands=("pip install nvidia-cublas-cu12==12.4.5.8", "pip list | grep -i cublas; echo $LD_LIBRARY_PATH"),
        ),
        Fix(title="or a torch whose wheels bring it: built with CUDA 12.4 or newer (vLLM 0.8.5 and later)"),
    ),
    url="https://github.com/vllm-project/vllm/issues/4392",
)


# Launchers and the interpreter call a framework's entry point.
_FEWEST_OWN = 2
_CALLERS = (None, "python", "torch", "hydra", "ray", "accelerate")


@check.logged(
    "Arguments' object has no attribute '",
    "Config' object has no attribute '",
    "'Namespace' object has no attribute '",
)
def own_option_missing(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A framework reads an option that its own class of options does not have."""
    error = event.exception
    said = event.search(
        r"AttributeError: '(?P<kind>\w+(?:Arguments|Config)|Namespace)' object has no attribute '(?P<name>\w+)'"
    )
    if said is None or error is None or len(error.frames) < _FEWEST_OWN:
        return
    frame = error.frames[-1]
    called = (package_of(each.file, each.function) for each in error.frames)
    owners = {distribution(package, case.packages) for package in called if package not in _CALLERS}
    if len(owners) != 1 or is_users(frame.file) or f"args.{said['name']}" not in frame.code:
        return
    if unfit(event, case) is not None:
        return  # a class above it, of another package, has the option in other releases
    name = owners.pop()
    if not exports(name, said["kind"]) and any(exports(other, said["kind"]) for other in symbol_packages()):
        return  # the options of another package, which the user's script gave
    yield check.finding(
        f"{frame.function} of {name} reads {said['name']}, which its own {said['kind']} does not have: a defect of "
        "this release, or an installation of which one part is older than the other",
        fixes=(
            Fix(title=f"install another release of {name}, whole: into an environment that holds no other copy of it"),
            Fix(title=f"until then set it before {frame.function} runs: args.{said['name']} = None"),
        ),
    )


def _own_part(case: Case, event: LogEvent) -> Mapping[str, str] | None:
    """A framework that asks an object of its own for what no part of it gives that object."""
    error = event.exception
    said = event.search(r"AttributeError: '(?P<kind>[A-Z]\w+)' object has no attribute '(?P<name>\w+)'")
    if said is None or error is None or not error.frames or unfit(event, case) is not None:
        return None
    frame, kind, asked = error.frames[-1], said["kind"], said["name"]
    name = distribution(package_of(frame.file, frame.function), case.packages)
    if is_users(frame.file) or name not in FRAMEWORKS or f".{asked}" not in frame.code:
        return None
    elsewhere = any(exports(other, kind) for other in symbol_packages() if other != name)
    # A method asks its own object, whose class may be called as the one of another package that it derives from.
    asks_itself = elsewhere and re.search(rf"\bself\.{asked}\b", frame.code) is not None
    if not asks_itself and (elsewhere or not exports(name, kind)):
        return None
    return {"function": frame.function, "package": name, "kind": kind, "name": asked}


check.signature(
    "' object has no attribute '",
    when=_own_part,
    general=True,  # some attributes are only there under a setting, which a check of its own names
    says="{function} of {package} asks its own {kind} for {name}, which it does not have: a way through this release "
    "that does not work with these settings, or an installation of which one part is older than the other",
    fixes=(
        Fix(title="install {package} whole: into an environment, or at a commit, that holds no other copy of it"),
        Fix(title="or take another release of {package}, or the settings of one of its examples"),
    ),
)


_UNBOUND = re.compile(
    r"UnboundLocalError: (?:local variable '(?P<name>\w+)' referenced before assignment"
    r"|cannot access local variable '(?P<name_2>\w+)' where it is not associated with a value)"
)


@check.logged("UnboundLocalError: ")
def branch_missing(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A function of a framework or an engine uses a variable that none of the ways to that line gives a value."""
    error, said = event.exception, event.search(_UNBOUND.pattern)
    frame = error.frames[-1] if error is not None and error.frames else None
    package = package_of(frame.file, frame.function) if frame is not None else None
    # What a framework wrote for the user lies in no folder of its own.
    if said is None or frame is None or is_users(frame.file) or f"{package}/" not in frame.file:
        return
    name = distribution(package, case.packages)
    if name not in (*FRAMEWORKS, "vllm"):
        return
    variable = said["name"] or said["name_2"]
    yield check.finding(
        f"{frame.function} of {name} uses {variable} without a value: it has no branch for what it was given, and does "
        "not say so",
        fixes=(
            Fix(
                title=f"look which values give {variable} one ({frame.file}:{frame.line} and above), and set the "
                "option that chooses among them to one of these"
            ),
            Fix(title=f"or take another release of {name}", commands=(f"pip install --upgrade {name}",)),
        ),
    )


# deepspeed/runtime/hybrid_engine.py and the containers of module_inject, which know few models and one form of adapter.
_HYBRID = re.compile(r"/deepspeed/(?:runtime/hybrid_engine\.py|module_inject/containers/)")
check.signature(
    "'DeepSpeedHybridEngine' object has no attribute '",
    "/deepspeed/runtime/hybrid_engine.py",
    "/deepspeed/module_inject/containers/",
    "The size of tensor a (",
    exception=("AttributeError", "IndexError", "KeyError", "TypeError", "RuntimeError"),
    when=lambda case, event: _in_the_hybrid_engine(event),
    says="DeepSpeed's hybrid engine fails over a model or an adapter whose form it does not know: {error}",
    fixes=(
        Fix(title="generate without it: leave out --enable_hybrid_engine (hybrid_engine.enabled: false)"),
        Fix(title="or take another DeepSpeed", commands=("pip install --upgrade deepspeed",)),
    ),
    url="https://github.com/deepspeedai/DeepSpeed/issues/4302",
)


def _in_the_hybrid_engine(event: LogEvent) -> bool:
    """Whether the hybrid engine raised itself; its name also stands in every traceback that went through it."""
    frames = event.frames
    if "'DeepSpeedHybridEngine' object" in str(event.exception):
        return "'mp_group'" not in str(event.exception) and (not frames or not is_users(frames[-1].file))
    if frames:
        return _HYBRID.search(frames[-1].file) is not None
    return (
        re.search(r"\bin _(?:un)?fuse_lora\b|lora_scaling \* torch\.matmul\(lora_left", "\n".join(event.before))
        is not None
    )


# verl's own way of Hugging Face's weights into Megatron, which knows few models; mbridge is the one that is kept up.
check.signature(
    "/models/mcore/loader.py",
    exception=("AttributeError", "KeyError", "AssertionError"),
    when=lambda case, event: any(f.file.endswith("/models/mcore/loader.py") for f in event.frames[-2:]),
    says="verl's own loader of weights for Megatron does not know the layers of this model: {error}",
    fixes=(
        Fix(
            title="let mbridge load them, for the actor and the reference model",
            commands=(
                "pip install mbridge",
                "actor_rollout_ref.actor.megatron.use_mbridge=True actor_rollout_ref.ref.megatron.use_mbridge=True",
            ),
        ),
    ),
    url="https://github.com/verl-project/verl/issues/2082",
)


# A branch that is left over for other processes, or for a value that was compared before it was made plain.
check.signature(
    " must be either '",
    " must be one of ",
    pattern=r"(?P<what>\w+) must be (?:either|one of) (?=[^\n]*'(?P<value>[\w./-]+)')(?P<asked>[^\n]{1,120}?)"
    r",? (?:but )?got:? '(?P=value)'",
    exception=("ValueError", "AssertionError"),
    when=lambda case, event: _asks_for_what_it_refuses(event.line),
    says="{what} is refused with the value that the message itself allows ({value}): a defect of this release",
    fixes=(Fix(title="take another release of the package that refuses it", commands=("rldoctor compat",)),),
)


def _asks_for_what_it_refuses(line: str) -> bool:
    asked, _, got = line.rpartition("got")
    value = re.match(r":? '([^']+)'", got)
    return value is not None and f"'{value[1]}'" in asked
