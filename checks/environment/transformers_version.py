"""transformers is outside what vLLM or the framework works with.

What it looks for
    What every package here declares about transformers, and a table of breaks that metadata does not tell, because an
    upper bound can only be declared for a release that is out already: vLLM 0.9 and ``'aimv2' is already used by a
    Transformers config`` (transformers 4.54), vLLM before 0.12 and ``all_special_tokens_extended`` (transformers 5),
    verl before 0.7.1 and ``AutoModelForVision2Seq`` (transformers 5). In a log: these messages, and any other name of
    transformers that somebody imports in vain.

Why it hurts
    ``import vllm`` or the tokenizer's start fails. It comes by itself: an unpinned ``pip install`` brings the newest
    transformers to an older vLLM, whose metadata allows it.

How sure it is
    Every known break was read from both packages' sources, for every release of them. Below a declared bound, or
    outside what vLLM declares, is an error; above a framework's upper bound or beside its exact pin, with nothing known
    against it, is a warning. A framework that pins vLLM, and pins transformers too or asks for releases wholly above
    those that vLLM declares, ships that pair, and vLLM's own bound is not held against it (OpenRLHF 0.9.5, SkyRL 0.2).

The fix and its cost
    A transformers that all packages here accept: the fix carries the combined bounds. Models newer than that
    transformers need a newer vLLM instead.

References
    https://github.com/zai-org/GLM-V/issues/84
    https://github.com/vllm-project/vllm/pull/29686
    https://github.com/verl-project/verl/issues/5007
    https://github.com/verl-project/verl/issues/4337
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.api import Applicability, Case, Check, Finding, Fix, LogEvent, Reach, Severity
from rldoctor.api.logs import package_of
from rldoctor.api.packages import Demand, package_identity

from ..declared.linked import judge_links
from ..declared.requirements import Misfit, judge
from ..declared.version_fixes import declared_fixes, package_fixes, releases_with, unfit_finding
from ..observed.imports import install, named
from ..observed.logged_imports import link_of
from ..observed.moved_names import sought
from ..observed.unfit_calls import LITERALS, unfit

check = Check("RLD103", "transformers-incompatible", __doc__, before=("RLD101",))


@check.declared(needs=["packages.transformers"])
def outside_declared(case: Case) -> Iterator[Finding | Reach]:
    """A package here works with another transformers."""
    yield from judge(
        case, check, _on_transformers, _severity, nothing="no package here declares which transformers it works with"
    )


def _on_transformers(demand: Demand) -> bool:
    return demand.on == "transformers"


def _severity(misfit: Misfit) -> Severity:
    exact = misfit.declared is not None and misfit.declared.exact
    decided = misfit.known or misfit.too_old or (package_identity(misfit.by) == "vllm" and not exact)
    return Severity.ERROR if decided else Severity.WARNING


@check.declared(needs=["links"])
def not_there(case: Case) -> Iterator[Finding | Reach]:
    """A module that the launch imports looks in transformers for what is not in the installed source."""
    yield from judge_links(case, check, lambda module: module == "transformers")


@check.logged("cannot import name '", "No module named 'transformers.", "module 'transformers", "module transformers")
def lacks_a_name(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``cannot import name 'AutoModelForVision2Seq' from 'transformers'``."""
    name = sought(event, case)
    if name is None or name.package != "transformers" or name.shadow or name.importer == "transformers":
        return
    dropped = name.name in _DROPPED_BY_5
    why = ": transformers 5 dropped it" if dropped else ""
    yield check.finding(
        f"{named('transformers', case)} has no {name.said}, which {name.importer or 'the script'} uses{why}"
        f"{releases_with('transformers', name.said)}",
        fixes=declared_fixes(case, check, "transformers") or (_below("5", case),)
        if dropped
        else package_fixes(case, check, name),
    )


@check.logged(*LITERALS)
def does_not_accept(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A call or a lookup that other releases of transformers accept."""
    found = unfit(event, case)
    if found is not None and found.package == "transformers":
        yield unfit_finding(case, check, found)


@check.logged(
    "is already used by a Transformers config, pick another name.",
    "has no attribute all_special_tokens_extended",
    "has no attribute 'all_special_tokens_extended'",
)
def ahead_of_vllm(case: Case, event: LogEvent) -> Iterator[Finding]:
    """vLLM, or a framework, meets a transformers that it was not written for."""
    link = link_of(event)
    if link is None:
        return
    packages = [package_of(frame.file, frame.function) for frame in link.frames]
    if not packages and link.message.startswith("'aimv2' is already used"):
        packages = ["vllm"]  # the name that vLLM itself registers
    others = [package for package in packages if package not in ("transformers", "python")]
    if not others or others[-1] is None:
        return  # the user's own code registers or asks
    reported = link.message.splitlines()[0][:200]
    fixes = declared_fixes(case, check, "transformers")
    if event.literal.startswith("is already used"):
        fixes = fixes or (_below("4.54", case, "vllm>=0.9.0,<0.10.0"), _NEWER_VLLM)
    yield check.finding(
        f"{others[-1]} does not work with {named('transformers', case)}: {reported}",
        fixes=fixes or (_below("5", case, "vllm<0.12"), _NEWER_VLLM),
    )


# What models of several parts keep in the configuration of their text part.
_OF_TEXT = (
    "hidden_size",
    "vocab_size",
    "num_attention_heads",
    "num_key_value_heads",
    "num_hidden_layers",
    "intermediate_size",
    "max_position_embeddings",
    "head_dim",
    "tie_word_embeddings",
    "num_experts",
)
_MOVED = ("rope_theta", "rope_scaling", "rope_parameters", "pad_token_id")


@check.logged("Config' object has no attribute '")
def config_has_it_elsewhere(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A package reads a setting where the class of a model's configuration does not have it in this transformers."""
    link = link_of(event)
    said = re.search(r"'(?P<kind>\w+Config)' object has no attribute '(?P<name>\w+)'", link.message) if link else None
    packages = [package_of(frame.file, frame.function) for frame in link.frames] if link is not None else []
    asker = next((package for package in reversed(packages) if package not in ("transformers", "python")), None)
    if said is None or asker is None or unfit(event, case) is not None:
        return
    # transformers' own base class looks for it: vLLM has configurations of its own.
    of_model = packages[-1] == "transformers" or said["name"] in _MOVED
    if said["name"] not in _OF_TEXT and not (asker == "vllm" and of_model):
        return
    fixes = declared_fixes(case, check, "transformers")
    if said["name"] in _MOVED:
        fixes = fixes or (_below("5", case, "vllm<0.12"), _NEWER_VLLM)
    yield check.finding(
        f"{asker} does not work with {named('transformers', case)}: it reads {said['name']} from {said['kind']}, which "
        + ("keeps it in its text part" if said["name"] in _OF_TEXT else "does not have it"),
        fixes=fixes or (_OF_ONE_TIME, _NEWER_VLLM if asker == "vllm" else _NEWER_ASKER),
    )


# Processors of transformers 5 return it, and trainers hand on what processors return.
check.signature(
    "got an unexpected keyword argument 'mm_token_type_ids'",
    pattern=r"(?P<callee>[\w.]+)\(\) got an unexpected keyword argument 'mm_token_type_ids'",
    says="{callee} does not take mm_token_type_ids, which processors of transformers 5 return",
    fixes=lambda case, event, words: (
        _below("5", case),
        Fix(title="or a release of the trainer that knows it", commands=("rldoctor compat",)),
    ),
    url="https://github.com/huggingface/trl/issues/5175",
)

check.signature(
    "_encode_plus() got an unexpected keyword argument '",
    exception="TypeError",
    pattern=r"(?P<callee>[\w.]*_encode_plus)\(\) got an unexpected keyword argument '(?P<name>\w+)'",
    says="{callee} takes no {name}: what calls this tokenizer (a processor, or what another package put in its place) "
    "is of another time than the installed transformers",
    fixes=lambda case, event, words: (
        *declared_fixes(case, check, "transformers"),
        Fix(
            title="take transformers and what calls it of one time",
            commands=("pip install --upgrade transformers", "rldoctor compat"),
        ),
    ),
    url="https://github.com/unslothai/unsloth/issues/2853",
)

# https://github.com/huggingface/transformers/blob/main/MIGRATION_GUIDE_V5.md
_DROPPED_BY_5 = frozenset({"AutoModelForVision2Seq", "TFPreTrainedModel", "FlaxPreTrainedModel"})
_NEWER_VLLM = Fix(
    title="or a newer vLLM, which knows this transformers",
    side_effects="the framework has to accept that vLLM, and torch moves with it",
)


_OF_ONE_TIME = Fix(
    title="take a transformers of the time of the package that asks: model classes differ from release to release",
    commands=("rldoctor compat",),
)
_NEWER_ASKER = Fix(title="or a newer release of the package that asks, which reads the text part's configuration")


def _below(release: str, case: Case, valid_for: str | None = None) -> Fix:
    return Fix(
        title=f"install transformers before {release}",
        applicability=Applicability.UNSAFE,
        commands=(install(case, f"'transformers<{release}'"),),
        valid_for=valid_for,
        side_effects="models that came with a newer transformers are not known then",
    )
