"""An import fails because another package is not installed.

What it looks for
    Each heavy package is imported in a process of its own. Where the failure began with a module that no installed
    distribution provides (``No module named 'cbor2'``), or with a shared library of the system or of an NVIDIA package
    that is not there (``libGL.so.1``, ``libcudnn.so.9``), the absent one is blamed, once, with all imports that it
    stops. A rollout that ends at such a late import counts too. Where ``--python`` names the environment that a launch
    runs in: its framework, or vLLM, is not there. In a log: the exception that ended the run, whether
    Python raised it or a library that looked for the package.

Why it hurts
    The traceback ends in a package that the user never asked for, often after minutes of start-up: installed with
    ``--no-deps``, left out by an extra, or present in another environment than the one that runs.

How sure it is
    The import failed, and the module's distribution is absent: certain. A missing part of an installed package (a moved
    symbol, a build without an extension) is another pattern and not reported here. Where the importing package declares
    the absent one, the declaration is shown; an import that only an optional feature makes is a warning, except when
    vLLM, torch or transformers cannot do without it.

The fix and its cost
    Install the absent package in the version that is declared. If several are absent, the environment was installed
    without dependencies: install the importing package again with them.

References
    https://docs.python.org/3/library/exceptions.html#ModuleNotFoundError
    https://packaging.python.org/en/latest/specifications/core-metadata/#requires-dist-multiple-use
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from rldoctor.api import (
    Applicability,
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    Grade,
    LogEvent,
    NotApplicable,
    Reach,
    Severity,
    find,
    plan_of,
)
from rldoctor.api.packages import canonical, packages_of, programs

from ..observed.absent_packages import CALLED, NEEDED, OPTIONAL, SAID, Missing, in_namespace, missing
from ..observed.imports import (
    ENGINE,
    Failure,
    applies,
    distribution,
    failures,
    imports,
    install,
    named,
    owner,
    reached,
    requirements,
    rollout_failure,
    stopped,
)
from ..observed.logged_imports import answered_by_another, as_logged, failure_of, link_of

if TYPE_CHECKING:
    from packaging.requirements import Requirement

check = Check("RLD108", "package-missing", __doc__, before=("RLD603",))


@check.declared(needs=["plan", "packages"])
def not_installed(case: Case) -> Iterator[Finding | Reach]:
    """The environment that the run is to start with lacks the launch's framework, or its engine."""
    plan, packages = plan_of(case), case.packages
    assert packages is not None
    if not packages.named or not packages.complete:
        raise NotApplicable("no --python names the environment that the launch runs in")
    engine = plan.usual("rollout.backend", "vllm") == "vllm" and plan.value("rollout.enabled") is not False
    # A trainer that asks a server only needs the engine where the server is.
    elsewhere = plan.value("placement.mode") == "server" and plan.server is None and plan.role != "server"
    wanted = [packages_of(plan.framework), ("vllm",) if engine and not elsewhere else ()]
    there = {names: [name for name in names if find(packages, name) is not None] for names in wanted if names}
    absent = [names[0] for names, found in there.items() if not found and not packages.broken.keys() & {*names}]
    # One of several environments has its own half.
    if absent and not (case.role is not None and any(there.values())):
        where = packages.executable or packages.prefix or "this environment"
        yield check.finding(
            f"{' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} not installed in {where}, "
            f"the environment that the launch is to run in",
            evidence=(Evidence(text=plan.entry, source=plan.file, line=plan.line),),
            fixes=(
                Fix(
                    title=f"install {' and '.join(absent)}, or name another environment (--python)",
                    commands=(install(case, " ".join(absent)),),
                    side_effects="may bring or move other packages",
                ),
            ),
        )
        return
    yield Reach(f"{', '.join(name for found in there.values() for name in found) or 'nothing'} installed")


@check.observed(needs=["observations.imports"])
def imports_fail(case: Case) -> Iterator[Finding | Reach]:
    """An import failed for want of a package."""
    yield from _judge(failures(case), case)
    yield reached(case, "imports", "stack", f"{len(imports(case))} packages imported or tried")


@check.observed(needs=["observations.rollout"])
def rollout_fails(case: Case) -> Iterator[Finding | Reach]:
    """The rollout ended at an import that the engine makes late."""
    failure = rollout_failure(case)
    yield from _judge([failure] if failure else [], case)
    yield reached(case, "rollout", "miniature", "a rollout made its late imports")


@check.logged("No module named ", "No package metadata was found for ", ": cannot open shared object file")
def logged(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The same, as a log tells it. A module below a package that is there was moved, not left out."""
    failure = failure_of(event, case)
    if failure is None or failure.root is None or event.exception is None:
        return
    found = in_namespace(missing(failure, case), case)
    link = link_of(event)
    if found is None or (link is not None and answered_by_another(event, link, found.module)):
        return
    yield as_logged(_finding([(failure, found)], case), event)


@check.logged(": No module named ", "Error while finding module specification for '", silent=True)
def refused_by_python(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``/usr/bin/python3: No module named vllm``: nothing of ``python -m vllm`` ran."""
    reported = re.match(
        r"\S*python[\d.]*: (?:No module named (\w+)|Error while finding .*"
        r"\(ModuleNotFoundError: No module named '(\w+)'\))",
        event.line,
    )
    if reported is None or event.exception is not None or event.finished:
        return
    module = reported[1] or reported[2]
    found = Missing(distribution(module, case.packages), module, "")
    if case.packages is None or find(case.packages, found.package) is None:
        yield check.finding(
            f"{found.package} is not installed for the Python that was started with -m",
            fixes=(
                *_fixes(found, found.package, case),
                Fix(title="or start the Python of the environment that has it", commands=("which -a python python3",)),
            ),
        )


# Console programs that start a run, by the package that brings each.
_BROUGHT_BY = {
    "ray": "ray",
    "torchrun": "torch",
    "accelerate": "accelerate",
    "deepspeed": "deepspeed",
    **programs(),
}
_NAME = r"(?P<program>[\w-]+)"
_NOT_FOUND = tuple(
    re.compile(form.replace("NAME", _NAME))
    for form in (
        r"(?:^|[\s/])(?:ba|da|z|k)?sh: (?:(?:line )?\d+: )?NAME: (?:command )?not found$",
        r"^\S+: (?:line )?\d+: NAME: (?:command )?not found$",
        r"\benv: ['\u2018]NAME['\u2019]: No such file or directory$",
        r'\bexec: "NAME": executable file not found in \$PATH',
        r"^FileNotFoundError: \[Errno 2\] No such file or directory: 'NAME'$",
    )
)


@check.logged(
    *(f": {name}: command not found" for name in _BROUGHT_BY),
    *(f": {name}: not found" for name in _BROUGHT_BY),
    *(f"env: '{name}'" for name in _BROUGHT_BY),
    *(f"env: \u2018{name}\u2019" for name in _BROUGHT_BY),
    *(f"No such file or directory: '{name}'" for name in _BROUGHT_BY),
    "executable file not found in $PATH",
    silent=True,
)
def no_program(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A shell, a container's runtime or Python that does not find the program of a package."""
    said = next((found for form in _NOT_FOUND if (found := form.search(event.line.strip()))), None)
    program = said["program"] if said is not None and not event.finished else None
    package = _BROUGHT_BY.get(program) if program is not None else None
    if program is None or package is None or (event.exception is not None and link_of(event) is None):
        return
    yield check.finding(
        f"no program called {program} is found: {package} is not installed in this environment, or its folder is not "
        f"in PATH",
        fixes=(
            Fix(
                title="activate the environment that has it in the script itself: a job and a container start with "
                "another PATH than the shell of a login",
                commands=(f"which {program}", f"python -m pip show {package}"),
            ),
            *_fixes(Missing(package, program, ""), package, case),
        ),
    )


@check.logged(
    "doesn't seem to be installed",
    "seems to be not installed",
    "library but it was not found in your environment",
    "library but it was not found in the environment",
    "requires Accelerate: `pip",
    "requires accelerate: `pip",
    "requires accelerate (`pip",
    "requires bitsandbytes: `pip",
    "requires the latest version of bitsandbytes",
    "Please install bitsandbytes>=",
    " is not installed",
    "Callback requires ",
    "vLLM is not available and ",
    unless=("NRL_FORCE_REBUILD_VENVS",),
)
def reported_by_a_library(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A library that looked for an optional package raised an error of its own."""
    link = link_of(event)
    said = SAID.search(link.message) if link is not None and link.type.endswith(("Error", "NotFound")) else None
    failure = failure_of(event, case)
    if said is None or link is None or failure is None or failure.root is None or _ABOUT_FILES.search(link.type):
        return
    called = next(group for group in said.groups() if group)
    package = CALLED.get(
        canonical(called.replace(" ", "-")), distribution(called.replace(" ", "-").lower(), case.packages)
    )
    if said["absent"] and canonical(package) not in OPTIONAL:
        return
    found = Missing(package, called, owner(failure.root["frames"], case) or failure.package)
    finding = as_logged(_finding([(failure, found)], case), event)
    yield replace(finding, fixes=(*finding.fixes, _OTHER_ATTENTION)) if said["attention"] else finding


_ABOUT_FILES = re.compile(r"(?:OS|IO|FileNotFound|Permission|Key|Index)Error$")
_OTHER_ATTENTION = Fix.unsafe(
    "or take torch's own attention",
    {"model.attention": "sdpa"},
    side_effects="attn_implementation=sdpa uses more memory on padded batches than flash attention",
)


def _judge(failed: Iterable[Failure], case: Case) -> Iterator[Finding]:
    groups: dict[str, list[tuple[Failure, Missing]]] = {}
    for failure in failed:
        found = missing(failure, case)
        if found is not None:
            groups.setdefault(found.package, []).append((failure, found))
    for members in groups.values():
        yield _finding(members, case)


def _finding(members: list[tuple[Failure, Missing]], case: Case) -> Finding:
    found = members[0][1]
    failed = [failure for failure, _ in members]
    stops = stopped(failed)
    declared = _declaration(found, case)
    spec = f"{found.package}{declared.specifier if declared else NEEDED.get(found.module, '')}"
    needed = any(failure.package in ENGINE for failure in failed) or (declared is not None and applies(declared))
    evidence = [Evidence(text=f"{failure.package}: {failure.text}", source=failure.source) for failure, _ in members]
    last = members[0][0].root or {}
    frames = [frame for frame in last.get("frames", ()) if frame.get("package") not in (None, "python")]
    if frames:
        where = frames[-1]
        evidence.append(Evidence(text=f"in {where['function']}", source=where["file"], line=where["line"]))
    if declared is not None:
        evidence.append(Evidence(text=f"Requires-Dist: {declared}", source=named(found.importer, case)))
    return check.finding(
        f"{found.package} is not installed, and {found.importer or 'an import'} needs it"
        f"{'' if found.module == found.package else f' ({found.module})'}" + (f"; it stops {stops}" if stops else ""),
        severity=Severity.ERROR if needed else Severity.WARNING,
        grade=Grade.OBSERVED,
        evidence=tuple(evidence),
        fixes=_fixes(found, spec, case),
    )


def _fixes(found: Missing, spec: str, case: Case) -> tuple[Fix, ...]:
    if found.system:
        return (
            Fix(
                title=f"install the system library {found.module} (the package's name on Debian and Ubuntu)",
                commands=(f"apt-get install {found.package}",),
            ),
        )
    return (
        Fix(
            title=f"install {spec}",
            applicability=Applicability.UNSAFE,
            commands=(install(case, f"'{spec}'"),),
            side_effects="may bring or move other packages",
        ),
    )


def _declaration(found: Missing, case: Case) -> Requirement | None:
    """How the importing package declares the absent one, where it does; unconditional declarations first."""
    declared = [r for r in requirements(found.importer, case) if canonical(r.name) == canonical(found.package)]
    return min(declared, key=lambda requirement: not applies(requirement), default=None)


# A device that torch only knows where its adapter was imported.
check.signature(
    "device type at start of device string: npu",
    says="torch does not know the device npu: torch_npu is not installed, or was not imported",
    fixes=(
        Fix(
            title="install the torch_npu of this torch, and import it before the device is used",
            commands=("pip install torch_npu",),
        ),
    ),
    url="https://github.com/Ascend/pytorch/blob/master/README.md",
)


# NeMo-RL runs each kind of worker in an environment of its own, and this one was not built with vLLM.
check.signature(
    "NRL_FORCE_REBUILD_VENVS=true",
    pattern=r"ImportError: vLLM is not installed",
    says=(
        "the environment of NeMo-RL's vLLM workers holds no vLLM: it was not built, or not built again after a change"
    ),
    fixes=(
        Fix(
            title="build the workers' environments again, once",
            commands=("NRL_FORCE_REBUILD_VENVS=true uv run ...",),
        ),
    ),
    url="https://github.com/NVIDIA-NeMo/RL/issues/1244",
)
