"""What mends a name that a package lacks in the installed version, by the versions that a log reveals."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from rldoctor.api import Applicability, Case, Check, Finding, Fix, LogEvent, NotApplicable, NotChecked, Severity, find
from rldoctor.api.releases import SymbolHistory, symbol_history

from ..observed.imports import install, named
from ..observed.moved_names import Sought
from ..observed.unfit_calls import Unfit
from .requirements import judge

# What newer releases of vLLM call by another name, which no table of names can tell.
# https://github.com/vllm-project/vllm/tree/v0.23.0/vllm
_RENAMED = {
    "vllm.config.CompilationLevel": "vllm.config.CompilationMode",
    "vllm.core.scheduler": "vllm.v1.core.sched.scheduler",
    "vllm.executor": "vllm.v1.executor",
    "vllm.lora.models": "vllm.lora.lora_model",
    "vllm.model_executor.layers.sampler": "vllm.v1.sample.sampler",
    "vllm.model_executor.parallel_utils": "vllm.distributed",
    "vllm.model_executor.sampling_metadata": "vllm.v1.sample.metadata",
    "vllm.sampling_params.GuidedDecodingParams": "vllm.sampling_params.StructuredOutputsParams",
    "vllm.transformers_utils.tokenizer": "vllm.tokenizers",
    "vllm.worker.worker_base": "vllm.v1.worker.worker_base",
    "vllm.worker": "vllm.v1.worker",
}
# Frameworks that declare their vLLM as an extra of that name.
_EXTRAS = ("trl", "verl", "openrlhf", "axolotl", "skyrl-train")
_MOVES_TORCH = "pip also replaces torch by the one that this vLLM pins"


def declared_fixes(case: Case, check: Check, on: str) -> tuple[Fix, ...]:
    """What the declarations of the packages in the log say, where their known versions contradict each other."""
    if case.packages is None or find(case.packages, on) is None:
        return ()
    try:
        found = [
            f for f in judge(case, check, lambda d: d.on == on, lambda _: Severity.ERROR) if isinstance(f, Finding)
        ]
    except (NotChecked, NotApplicable):
        return ()
    return tuple(fix for finding in found for fix in finding.fixes)


def releases_with(package: str, name: str) -> str:
    """`` (vllm has it in 0.8.5 to 0.11.2)``: which releases define a name; empty where that is not known."""
    known = symbol_history(package, name)
    return f" ({known})" if known is not None else ""


def vllm_fixes(
    case: Case, check: Check, event: LogEvent, name: str, importer: str, known: SymbolHistory | None = None
) -> tuple[Fix, ...]:
    """For a name that vLLM lacks: ``name`` with its module, ``importer`` who uses it (empty for the user's script),
    ``known`` its history where that is at hand already."""
    known = known or symbol_history("vllm", name)
    return declared_fixes(case, check, "vllm") or tuple(_vllm_variants(case, event, name, importer, known))


def _vllm_variants(case: Case, event: LogEvent, name: str, importer: str, known: SymbolHistory | None) -> Iterator[Fix]:
    releases = known.wanted if known is not None else ""
    lacking = known is not None and not known.spans
    renamed = next((new for old, new in _RENAMED.items() if name == old or name.startswith(f"{old}.")), "")
    place = renamed or (known.place if known is not None else "")
    if not importer and "." not in name:
        yield Fix(title=f"write {name} as {named('vllm', case)} calls it now, or leave it out")
    elif not importer:
        yield Fix(
            title=f"import it from {place}, where newer releases keep it"
            if place
            else f"look up where {named('vllm', case)} keeps it now, and correct the import"
        )
    if releases:
        yield Fix(
            title=f"or install the vLLM of its time: vllm{releases}"
            if lacking
            else f"install a vLLM that has {name}: vllm{releases}",
            applicability=Applicability.UNSAFE,
            commands=(install(case, shlex.quote(f"vllm{releases}")),),
            valid_for=f"vllm{releases}",
            side_effects=_MOVES_TORCH,
        )
    framework = importer if importer not in ("", "vllm") else event.incident.framework or ""
    if framework in _EXTRAS:
        yield Fix(
            title=f"install the vLLM that this {framework} declares",
            applicability=Applicability.UNSAFE,
            commands=(install(case, shlex.quote(f"{framework}[vllm]")),),
            side_effects=_MOVES_TORCH,
        )
    if framework and framework != "vllm":
        yield Fix(
            title=f"or a {framework} release that accepts {named('vllm', case)} (rldoctor compat lists them)",
            applicability=Applicability.UNSAFE,
            commands=(install(case, "--upgrade", framework),),
            side_effects="options may be named otherwise in it",
        )
    elif not releases:
        yield Fix(
            title="or install the vLLM release that the script was written for",
            commands=(install(case, "'vllm==RELEASE'"),),
            side_effects=_MOVES_TORCH,
        )


# What a framework imports in its own modules, and gives names out for, only where it is installed.
_ENGINES = ("vllm", "sglang", "lmdeploy")


def package_fixes(case: Case, check: Check, sought: Sought, known: SymbolHistory | None = None) -> tuple[Fix, ...]:
    """For a name that another package lacks; ``known`` is its history where that is at hand already."""
    declared = declared_fixes(case, check, sought.package)
    if declared:
        return declared
    who = sought.importer or "the script"
    known = known or symbol_history(sought.package, sought.said)
    if known is not None and known.spans:
        wanted = f"{sought.package}{known.wanted}"
        having = Fix(
            title=f"install a {sought.package} that has {sought.said}: {wanted}",
            applicability=Applicability.UNSAFE,
            commands=(install(case, shlex.quote(wanted)),),
            valid_for=wanted,
            side_effects="packages that pin it have to follow",
        )
        place = f" (it is in {known.place} now)" if known.place else ""
        follow = (
            f"or a {who} that was written for {named(sought.package, case)}{place}"
            if sought.importer
            else f"or write it as {named(sought.package, case)} has it now{place}"
        )
        commands = (install(case, "--upgrade", sought.importer),) if sought.importer else ()
        after = (Fix(title=follow, applicability=Applicability.UNSAFE, commands=commands),) if known.specifier else ()
        return having, *after
    if known is not None:
        return _before_all(case, sought, known)
    newer = Fix(
        title=f"install the {sought.package} that {who} was written for; where {sought.said} is new, the newest",
        applicability=Applicability.UNSAFE,
        commands=(install(case, "--upgrade", sought.package),),
        side_effects="packages that pin it have to follow",
    )
    word = sought.said.rpartition(".")[2].lower()
    beside = next((engine for engine in _ENGINES if engine in word.split("_") and engine != sought.package), None)
    if beside is not None and (case.packages is None or find(case.packages, beside) is None):
        first = Fix(
            title=f"install {beside} where it is absent: {sought.package} gives such names out beside it alone",
            applicability=Applicability.UNSAFE,
            commands=(install(case, beside),),
        )
        return (first, replace(newer, title=f"or {newer.title}"))
    if not sought.importer:
        return (newer, Fix(title=f"or import what {named(sought.package, case)} calls it now"))
    return (
        newer,
        Fix(
            title=f"or, where {named(sought.package, case)} is newer than {who} and dropped it, a newer {who}",
            applicability=Applicability.UNSAFE,
            commands=(install(case, "--upgrade", sought.importer),),
        ),
    )


def _before_all(case: Case, sought: Sought, known: SymbolHistory) -> tuple[Fix, ...]:
    """For a name that no release of the table has."""
    older = f"{sought.package}{known.wanted}"
    own = Fix(title=f"correct the name, or write it as {named(sought.package, case)} has it now")
    follow = Fix(
        title=f"take a {sought.importer} that does without it: no {sought.package} since {known.first} has it",
        applicability=Applicability.UNSAFE,
        commands=(install(case, "--upgrade", sought.importer),),
    )
    return (
        follow if sought.importer else own,
        Fix(
            title=f"or install the {sought.package} of its time: {older}",
            applicability=Applicability.UNSAFE,
            commands=(install(case, shlex.quote(older)),),
            side_effects="packages that pin it have to follow",
        ),
    )


def unfit_finding(case: Case, check: Check, found: Unfit) -> Finding:
    """For a call that another package does not accept in this release."""
    who = found.caller or "the script"
    wanted = Sought(found.name, found.asked.owner, found.package, found.caller)
    return check.finding(
        f"{named(found.package, case)}: {found.said.format(who)} ({found.history})",
        fixes=package_fixes(case, check, wanted, found.history),
    )
