"""How a log shows that a framework and the installed vLLM do not go together (RLD101)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.api import Case, Finding, LogEvent
from rldoctor.api.logs import package_of
from rldoctor.api.packages import FRAMEWORKS
from rldoctor.api.releases import SymbolRequest, accepting

from ...declared.version_fixes import releases_with, vllm_fixes
from ...observed.imports import distribution, named
from ...observed.logged_imports import link_of
from ...observed.moved_names import sought
from ...observed.unfit_calls import LITERALS, unfit
from . import check

# Objects of vLLM that frameworks read from, and those that unsloth puts classes of its own in place of.
_OF_VLLM = re.compile(
    r"'(?P<owner>LoRAConfig|ModelConfig|ParallelConfig|SchedulerConfig|VllmConfig|SamplingParams|RequestOutput"
    r"|CompletionOutput|EngineArgs|LoRARequest|(?:LRUCache)?WorkerLoRAManager|LoRAModelManager)' object has no "
    r"attribute '(?P<name>\w+)'"
)
_REPLACED = re.compile(r"(?:LRUCache)?WorkerLoRAManager$|LoRAModelManager$")

# What a framework that lags behind, or runs ahead of, the installed vLLM calls.
_CALLED = re.compile(r"(?:LLM|(?:Async)?EngineArgs|AsyncLLM\w*|LLMEngine|SamplingParams|LoRA\w+|Worker\w*)(?:\.|$)")


@check.logged("cannot import name '", "No module named 'vllm.", "module 'vllm")
def lacks_a_name(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``cannot import name 'GuidedDecodingParams' from 'vllm.sampling_params'``."""
    name = sought(event, case)
    if name is None or name.package != "vllm" or name.shadow or name.importer == "vllm":
        return
    yield check.finding(
        f"{named('vllm', case)} has no {name.said}, which {name.importer or 'the script'} uses"
        f"{releases_with('vllm', name.said)}",
        fixes=vllm_fixes(case, check, event, name.said, name.importer),
    )


@check.logged(*LITERALS)
def does_not_accept(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``LLMEngine.add_request() missing 1 required positional argument: 'params'``, where other releases have another
    signature."""
    found = unfit(event, case)
    if found is None or found.package != "vllm":
        return
    yield check.finding(
        f"{named('vllm', case)}: {found.said.format(found.caller or 'the script')} ({found.history})",
        fixes=vllm_fixes(case, check, event, found.name, found.caller, found.history),
    )


@check.logged("got an unexpected keyword argument '")
def lacks_an_argument(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A framework calls vLLM with an argument that this release does not take (any more, or yet)."""
    link = link_of(event)
    call = re.search(r"([\w.]+)\(\) got an unexpected keyword argument '(\w+)'", link.message) if link else None
    if link is None or call is None or not link.frames:
        return
    packages = [package_of(f.file, f.function) for f in link.frames]
    outside = [p for p in packages if p not in ("vllm", "python")]
    caller = distribution(outside[-1], case.packages) if outside and outside[-1] else ""
    into_vllm = _CALLED.match(call[1]) is not None or packages[-1] == "vllm" or "vllm" in link.frames[-1].file
    if not into_vllm or caller not in FRAMEWORKS:
        return
    if accepting("vllm", SymbolRequest("argument", call[1], (call[2],))):
        return  # which releases take it is known
    yield check.finding(
        f"{call[1]} of {named('vllm', case)} takes no {call[2]}, which {caller} passes",
        fixes=vllm_fixes(case, check, event, call[2], caller),
    )


@check.logged("' object has no attribute '")
def lacks_an_attribute(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A framework reads from an object of vLLM, or vLLM from one that a framework put in its place, what another
    release has there."""
    link = link_of(event)
    asked = _OF_VLLM.match(link.message) if link is not None and link.type == "AttributeError" else None
    if link is None or asked is None or not link.frames:
        return
    if unfit(event, case) is not None:
        return  # which releases have it is known
    asker = package_of(link.frames[-1].file, link.frames[-1].function)
    caller = distribution(asker, case.packages) if asker else ""
    if caller in FRAMEWORKS:
        yield check.finding(
            f"{asked['owner']} of {named('vllm', case)} has no {asked['name']}, which {caller} reads",
            fixes=vllm_fixes(case, check, event, asked["name"], caller),
        )
    elif asker == "vllm" and _REPLACED.match(asked["owner"]):
        yield check.finding(
            f"vLLM asks its {asked['owner']} for {asked['name']}, which the class that stands in its place does not "
            "have: it was patched for another release",
            fixes=vllm_fixes(case, check, event, asked["name"], "unsloth-zoo"),
        )


@check.logged(
    "the version of vLLM is too old, please upgrade vLLM",
    # verl defines it beside vLLM 0.7 and later alone.
    "cannot import name 'vLLMAsyncRollout' from 'verl.",
    " not supported and SGLang also not Found. Currently supported ",
    " support has been removed. vLLM 0.5.4 and 0.6.3 are no longer ",
    "OpenRLHF only supports vLLM",
    "vLLM version must be greater than ",
    " is required to use AsyncRolloutWorker",
    " is required to use WeightTransferClient",
    "rollout_importance_sampling_mode is not supported in vLLM version <",
)
def refused_by_the_framework(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The framework looks at vLLM's version and stops."""
    link = link_of(event)
    if link is None:
        return
    said = next((line.strip() for line in link.message.splitlines() if event.literal.strip() in line), event.line)
    yield check.finding(
        f"the framework refuses {named('vllm', case)}: {said[:240]}",
        fixes=vllm_fixes(case, check, event, "", event.incident.framework or ""),
    )


@check.logged("Current vLLM config is not set")
def config_context_expected(case: Case, event: LogEvent) -> Iterator[Finding]:
    """Code of a framework calls into vLLM outside of the context that newer releases ask for."""
    frames = event.exception.frames if event.exception else ()
    callers = [package for frame in frames if (package := package_of(frame.file, frame.function)) != "vllm"]
    caller = distribution(callers[-1], case.packages) if callers and callers[-1] else None
    if caller not in FRAMEWORKS:
        return
    yield check.finding(
        f"{caller} calls into {named('vllm', case)} without the context that this vLLM asks for "
        "(set_current_vllm_config)",
        fixes=vllm_fixes(case, check, event, "", caller),
        url="https://github.com/NVIDIA-NeMo/RL/pull/3168",
    )
