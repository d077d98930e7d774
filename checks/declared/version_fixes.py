"""What mends a name that a package lacks in the installed version, by the versions that a log reveals."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rldoctor.api import Applicability, Case, Check, Finding, Fix, LogEvent, NotApplicable, NotChecked, Severity, find

from ..observed.imports import install, named
from ..observed.moved_names import Sought
from .requirements import judge

# Names of vLLM that frameworks use -> the releases that have them, and where newer ones keep them. Read in the sources
# of vLLM 0.6.3 to 0.23.0, https://github.com/vllm-project/vllm/tree/v0.23.0/vllm
VLLM_NAMES: dict[str, tuple[str, str]] = {
    "vllm.adapter_commons": ("<0.11", ""),
    "vllm.config.CompilationLevel": ("<0.11.1", "vllm.config.CompilationMode"),
    "vllm.config.lora.MaxLoRARanks": (">=0.11.1", ""),
    "vllm.core.scheduler": ("<0.11", "vllm.v1.core.sched.scheduler"),
    "vllm.executor": ("<0.11.1", "vllm.v1.executor"),
    "vllm.lora.models": ("<0.13", "vllm.lora.lora_model"),
    "vllm.model_executor.guided_decoding": ("<0.10.1", ""),
    "vllm.model_executor.layers.sampler": ("<0.11", "vllm.v1.sample.sampler"),
    "vllm.model_executor.model_loader.utils.process_weights_after_loading": (">=0.9.0", ""),
    "vllm.model_executor.parallel_utils": ("", "vllm.distributed"),
    "vllm.model_executor.sampling_metadata": ("<0.11", "vllm.v1.sample.metadata"),
    "vllm.sampling_params.GuidedDecodingParams": ("<0.12", "vllm.sampling_params.StructuredOutputsParams"),
    "vllm.transformers_utils.tokenizer": ("<0.22", "vllm.tokenizers"),
    "vllm.utils.FlexibleArgumentParser": ("<0.11.1", "vllm.utils.argparse_utils.FlexibleArgumentParser"),
    "vllm.utils.get_open_port": ("<0.14", "vllm.utils.network_utils.get_open_port"),
    "vllm.v1.engine.utils": (">=0.9.2", ""),
    "vllm.worker.worker_base": ("<0.11.1", "vllm.v1.worker.worker_base"),
    "vllm.worker": ("<0.11", "vllm.v1.worker"),
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


def vllm_fixes(case: Case, check: Check, event: LogEvent, name: str, importer: str) -> tuple[Fix, ...]:
    """For a name that vLLM lacks: ``name`` with its module, ``importer`` who uses it (empty for the user's script)."""
    return declared_fixes(case, check, "vllm") or tuple(_vllm_variants(case, event, name, importer))


def _vllm_variants(case: Case, event: LogEvent, name: str, importer: str) -> Iterator[Fix]:
    known = next((row for key, row in VLLM_NAMES.items() if name == key or name.startswith(f"{key}.")), ("", ""))
    releases, place = known
    if not importer:
        yield Fix(
            title=f"import it from {place}, where newer releases keep it"
            if place
            else f"look up where {named('vllm', case)} keeps it now, and correct the import"
        )
    if releases:
        yield Fix(
            title=f"install a vLLM that has {name}: vllm{releases}",
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


def package_fixes(case: Case, check: Check, sought: Sought) -> tuple[Fix, ...]:
    """For a name that another package lacks."""
    declared = declared_fixes(case, check, sought.package)
    if declared:
        return declared
    who = sought.importer or "the script"
    newer = Fix(
        title=f"install the {sought.package} that {who} was written for; where {sought.said} is new, the newest",
        applicability=Applicability.UNSAFE,
        commands=(install(case, "--upgrade", sought.package),),
        side_effects="packages that pin it have to follow",
    )
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
