"""The vLLM in the environment is not one that the RL framework works with.

What it looks for
    What each framework's own metadata declares about vLLM: its requirement, or its extra of that name, which pip does
    not enforce once it was left out (``trl[vllm]``, ``openrlhf[vllm]``). Beside it a table of names that a framework
    imports and that vLLM removed or did not have yet, each read from both packages' sources. Where metadata is not at
    hand (an assumed machine), the published release's metadata stands for it. Where the sources are at hand, every name
    that the framework's modules ask of vLLM as the launch imports them is looked up in the installed vLLM. In a log: a
    name or argument of vLLM that a framework or the script uses and this vLLM lacks, and a framework that refuses
    vLLM's version.

Why it hurts
    The import of the trainer fails (``cannot import name 'GuidedDecodingParams' from 'vllm.sampling_params'``), or an
    engine argument is unknown, after the model was loaded and every rank was up.

How sure it is
    A name that is not there is an error, and so is a vLLM below a declared lower bound. A vLLM newer than declared, or
    beside an exact pin, with nothing known against it, is a warning: the framework was not tested with it. Where
    another extra (OpenRLHF's ``vllm-latest``) lets it in, it is a note; so is TRL's extra under ms-swift, which builds
    its engines itself. A development build of vLLM is not judged.

The fix and its cost
    The vLLM that the framework declares: vLLM pins its torch, so pip moves torch too, and compiled packages follow. Or
    a release of the framework that accepts the vLLM at hand, which may rename options.

References
    https://github.com/huggingface/trl/issues/4617
    https://github.com/OpenRLHF/OpenRLHF/blob/v0.8.5/openrlhf/trainer/ray/vllm_engine.py
    https://github.com/verl-project/verl/issues/4202
    https://packaging.python.org/en/latest/specifications/core-metadata/#requires-dist-multiple-use
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.api import Case, Check, Finding, LogEvent, NotApplicable, NotChecked, Reach, Severity
from rldoctor.api.logs import package_of
from rldoctor.api.packages import FRAMEWORKS, is_framework
from rldoctor.api.releases import SymbolRequest, accepting, mended, replaced

from ..declared.linked import judge_links
from ..declared.requirements import Misfit, between_vllm_and, judge
from ..declared.version_fixes import releases_with, vllm_fixes
from ..observed.imports import distribution, named
from ..observed.logged_imports import link_of
from ..observed.moved_names import sought
from ..observed.unfit_calls import LITERALS, unfit

check = Check("RLD101", "vllm-version-incompatible", __doc__)


@check.declared(needs=["packages.vllm"])
def outside_declared(case: Case) -> Iterator[Finding | Reach]:
    """A framework declares, or is known to need, another vLLM."""
    assert case.packages is not None
    if not any(is_framework(d) for d in case.packages.distributions):
        if case.packages.complete:
            raise NotApplicable("no RL framework is installed beside vLLM")
        raise NotChecked("the assumed environment names no RL framework", how="--assume trl==VERSION")
    yield from judge(
        case,
        check,
        between_vllm_and,
        lambda misfit: Severity.NOTE if _is_replaced(case, misfit) else _severity(misfit),
        FRAMEWORKS,
        "no framework here declares which vLLM it works with",
    )


def _is_replaced(case: Case, misfit: Misfit) -> bool:
    """Whether the launch's framework builds engines itself over the one that demands this vLLM, whose declarations are
    about its own then; a break that is known holds unless the framework mends it."""
    if not replaced(case, misfit.by.name):
        return False
    return misfit.known is None or mended(case, misfit.by.name, misfit.known.reason or "")


def _severity(misfit: Misfit) -> Severity:
    if misfit.tolerated:
        return Severity.NOTE
    return Severity.ERROR if misfit.known or misfit.too_old else Severity.WARNING


@check.declared(needs=["links"])
def not_there(case: Case) -> Iterator[Finding | Reach]:
    """A module that the launch imports looks in vLLM for what is not in the installed source."""
    yield from judge_links(case, check, lambda module: module == "vllm")


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
    if not into_vllm or caller not in _FRAMEWORKS:
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
    if caller in _FRAMEWORKS:
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


# Objects of vLLM that frameworks read from, and those that unsloth puts classes of its own in place of.
_OF_VLLM = re.compile(
    r"'(?P<owner>LoRAConfig|ModelConfig|ParallelConfig|SchedulerConfig|VllmConfig|SamplingParams|RequestOutput"
    r"|CompletionOutput|EngineArgs|LoRARequest|(?:LRUCache)?WorkerLoRAManager|LoRAModelManager)' object has no "
    r"attribute '(?P<name>\w+)'"
)
_REPLACED = re.compile(r"(?:LRUCache)?WorkerLoRAManager$|LoRAModelManager$")


# What a framework that lags behind, or runs ahead of, the installed vLLM calls.
_CALLED = re.compile(r"(?:LLM|(?:Async)?EngineArgs|AsyncLLM\w*|LLMEngine|SamplingParams|LoRA\w+|Worker\w*)(?:\.|$)")
_FRAMEWORKS = frozenset(
    {
        "areal",
        "axolotl",
        "ms-swift",
        "nemo-rl",
        "open-r1",
        "openrlhf",
        "prime-rl",
        "skyrl",
        "skyrl-train",
        "trl",
        "unsloth",
    }
    | {"unsloth-zoo", "verl"}
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
    if caller not in _FRAMEWORKS:
        return
    yield check.finding(
        f"{caller} calls into {named('vllm', case)} without the context that this vLLM asks for "
        "(set_current_vllm_config)",
        fixes=vllm_fixes(case, check, event, "", caller),
        url="https://github.com/NVIDIA-NeMo/RL/pull/3168",
    )
