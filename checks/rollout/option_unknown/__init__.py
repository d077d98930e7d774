"""An option that this version of the framework or engine does not know.

What it looks for
    Every option of the launch file against the options that the installed (or assumed) release declares, and its value
    against the choices or the type that are declared for it, where the release's parser holds them against each other;
    texts where the release has a truth value or a number, which Hydra lets pass (`off`, `60%`); overrides that Hydra's
    grammar does not have; sampling parameters outside what vLLM's own class takes. In a real
    rollout with the launch's engine options: switches and numbers that the running engine has otherwise; parameters of
    requests (temperature, cuts, penalties, bias, grammars, seeds, lengths, stops) that have no effect on what is
    drawn or on answers that are known beforehand. In a log: what argparse, Hydra, OmegaConf, dataclasses, pydantic and
    YAML print when they refuse one.

Why it hurts
    Hydra and argparse refuse to start; a keyword that is dropped silently leaves its default in force, and the run is
    not the one that was planned.

How sure it is
    vLLM 0.9.1 was seen to run V1 with chunked prefill although it was given ``enable_chunked_prefill=False``. Options
    are read from the release's own source where it is installed, else from a dated table of its published
    releases. A release outside the table is not judged; three options of an assumed release that none ever had are a
    fork's, and one warning. Draws are tested against the trainer's softmax with bounds that
    hold for any number of draws (G statistic: arXiv:1904.02291; sums: doi:10.1214/aop/1176996452), a healthy engine
    fails in at most one run of a million.

The fix and its cost
    The nearest real name of that release, where there is one. For an option that is not applied there is none but
    another release.

References
    https://docs.pytorch.org/docs/stable/elastic/run.html (torchrun gives LOCAL_RANK in the environment)
    https://hydra.cc/docs/advanced/override_grammar/basic/
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    NotApplicable,
    NotChecked,
    Reach,
    RolloutPlan,
    Severity,
    Source,
    cite,
    find,
    plan_of,
)
from rldoctor.api.engine import release
from rldoctor.api.plan import UnknownOption
from rldoctor.api.refusals import (
    declared_choices,
    default_number,
    is_of_another_algorithm,
    refused_values,
    unheard_texts,
)
from rldoctor.api.refusals import remedies as ways

from . import attention_variable
from .fixes import in_place, not_chosen, once, refusal, remedies, reported

# What to install where another release of an owner of options is wanted; the others are started from a clone.
PACKAGES = {name: name for name in ("trl", "ms-swift", "verl", "openrlhf", "vllm", "axolotl", "skyrl", "transformers")}

# Where vLLM judges the parameters of a request.
REQUESTS = "vllm.sampling_params:SamplingParams._verify_args"
SAMPLING = "sampling."

# Options that are named of those that nobody can judge.
SHOWN = 3
# So many options of no release, with no name like theirs in it, are a fork's.
FORKS = 3

check = Check("RLD219", "option-unknown-or-ignored", __doc__)


@check.declared(needs=["plan"])
def unknown_to_the_release(case: Case) -> Iterator[Finding | Reach]:
    """Names that the release does not declare."""
    plan = plan_of(case)
    anybody = " ".join(part for part in (plan.framework, plan.version) if part)
    elsewhere: dict[tuple[str, str], list[UnknownOption]] = {}
    unknown, forks = _apart(case, list(once(plan.unknown)))
    for owner, options in forks.items():
        yield check.finding(
            f"{owner} has none of these {len(options)} options, nor has any other release: {_listed(options)}. "
            "The launch is rather a fork's, which is judged in its checkout, or where it is installed",
            severity=Severity.WARNING,
            evidence=tuple(map(_named, options)),
            fixes=(Fix(title="judge it in the fork's checkout, or by --python PATH of its environment"),),
        )
    for option in unknown:
        if option.chosen_by:  # one choice is one finding, however many options hang on it
            elsewhere.setdefault((option.chosen_by, option.owner or anybody), []).append(option)
            continue
        owner = option.owner or anybody
        goes_on = option.ignored or bool(option.why)
        yield check.finding(
            f"{owner} {reported(option)}" + (" (it is ignored)" if option.ignored and not option.why else ""),
            severity=Severity.WARNING if goes_on else Severity.ERROR,
            evidence=(_named(option),),
            fixes=tuple(remedies(option, PACKAGES.get(owner.partition(" ")[0]))),
        )
    for (words, owner), options in elsewhere.items():
        yield check.finding(
            f"{owner} {not_chosen(options, words)}",
            severity=Severity.WARNING if all(option.ignored for option in options) else Severity.ERROR,
            evidence=tuple(map(_named, options)),
            fixes=(Fix(title=f"choose {words}, or take out what it alone has"),),
        )
    if plan.version is None:  # then they were compared with the options of all releases
        raise NotChecked(
            f"the release of {plan.framework} is not known: an option may belong to another one",
            how="--assume PACKAGE==VERSION",
        )
    _all_declared(plan)
    yield Reach(f"{len(plan.given)} options of {plan.framework} {plan.version}")


def _bare(name: str) -> str:
    """A name without the signs that a command line gives it."""
    return name.lstrip("+-").replace("-", "_")


def _listed(options: Sequence[UnknownOption]) -> str:
    names = [option.key for option in options[:SHOWN]]
    return ", ".join(names) + (f" and {len(options) - SHOWN} more" if len(options) > SHOWN else "")


def _apart(case: Case, options: Sequence[UnknownOption]) -> tuple[list[UnknownOption], dict[str, list[UnknownOption]]]:
    """The options that are judged one by one, and by owner those that make up a fork's launch: no release has them, of
    an owner that is only assumed to be installed."""
    alone: list[UnknownOption] = []
    foreign: dict[str, list[UnknownOption]] = {}
    for option in options:
        installed = find(case.packages, option.owner.partition(" ")[0]) if case.packages is not None else None
        stated = "" if installed is None or installed.location else f"{installed.name} {installed.version} "
        listed = bool(stated) and option.owner.startswith(stated)  # and no checkout's
        anybodys = option.since or option.until or option.chosen_by or option.why or option.ignored or option.ambiguous
        if not listed or anybodys or (option.nearest and _bare(option.nearest[0]) == _bare(option.key)):
            alone.append(option)
        else:
            foreign.setdefault(option.owner, []).append(option)
    for owner, found in list(foreign.items()):
        # Fewer without any name like them are somebody's mistakes.
        if sum(not option.nearest for option in found) < FORKS:
            alone += foreign.pop(owner)
    order = {id(option): at for at, option in enumerate(options)}
    return sorted(alone, key=lambda option: order[id(option)]), foreign


@check.declared(needs=["plan"])
def value_refused(case: Case) -> Iterator[Finding | Reach]:
    """Values outside what the release declares for their option."""
    plan = plan_of(case)
    for option in plan.refused:
        yield check.finding(
            refusal(option),
            evidence=(_quoted(option.key, option.value, option.file, option.line),),
            fixes=tuple(in_place(option)),
        )
    _all_declared(plan)
    yield Reach(f"the values of {len(plan.given)} options")


def _named(option: UnknownOption) -> Evidence:
    return Evidence(text=option.key, source=option.file, line=option.line or None, setting=option.key)


def _quoted(key: str, value: str, file: str, line: int) -> Evidence:
    """An option with its value, where the launch gives it."""
    return Evidence(text=f"{key} {value}", source=file, line=line or None, setting=key)


def _all_declared(plan: RolloutPlan) -> None:
    """Raises :class:`NotChecked` with the options of which nobody can say whether the release has them."""
    by_reason: dict[str, list[str]] = {}
    for key, reason in plan.undeclared.items():
        by_reason.setdefault(reason, []).append(key)
    if by_reason:
        raise NotChecked("; ".join(f"{reason}: {', '.join(keys[:SHOWN])}" for reason, keys in by_reason.items()))


@check.declared(needs=["plan"])
def text_unheard_of(case: Case) -> Iterator[Finding | Reach]:
    """Texts that the framework's release compares with others, and raises for any that is none of them."""
    plan = plan_of(case)
    refused = {(option.file, option.line, option.value) for option in plan.refused}
    texts = (one for one in plan.given if isinstance(one.value, str))
    given = {one.key: one for one in texts if (one.file, one.line, one.value) not in refused}
    if not given or plan.version is None or plan.role == "server":
        raise NotApplicable("the launch gives no texts to a release of a framework that is known")
    owner, _, group = plan.group.partition(":")
    asked = {key: one.value for key, one in given.items()}
    for found in unheard_texts(owner, plan.version, asked, is_of_another_algorithm(plan)):
        one, best = given[found.key], found.known[0]
        # What the release declares is taken: where it is compared, another part of the package is at work.
        if found.value in declared_choices(owner, plan.version, group or None, one.key):
            continue
        yield check.finding(
            f"{plan.framework} {plan.version} raises for {one.key} {found.value}: it knows {', '.join(found.known)}",
            evidence=(
                _quoted(one.key, found.value, one.file, one.line),
                Evidence(text=f"{found.function} in {found.module}"),
            ),
            fixes=(Fix.unsafe(f"write {best}", {one.option: best}) if one.option else Fix(title=f"write {best}"),),
        )
    yield Reach(f"the texts of {len(given)} options")


@check.declared(needs=["plan"])
def sampling_refused(case: Case) -> Iterator[Finding | Reach]:
    """Sampling parameters for which the release's ``SamplingParams`` raises, with every request."""
    plan = plan_of(case)
    given = {
        name.removeprefix(SAMPLING): setting.value
        for name, setting in plan.settings.items()
        if name.startswith(SAMPLING) and setting.source is Source.GIVEN and isinstance(setting.value, int | float)
    }
    if not given or plan.usual("rollout.backend", "vllm") != "vllm":
        raise NotApplicable("the launch gives vLLM no sampling parameters")
    vllm = find(case.packages, "vllm") if case.packages is not None else None
    if vllm is None:
        raise NotChecked("the release of vLLM is not known", how="--python PATH, or --assume vllm==VERSION")
    for refused in refused_values("vllm", vllm.version, REQUESTS, given):
        # A null may reach vLLM as it is, which compares it with a number.
        own = default_number("vllm", vllm.version, "SamplingParams", refused.field)
        yield check.finding(
            f"vLLM {vllm.version} refuses every request: {refused.message.rstrip('.')}",
            evidence=(*cite(plan, SAMPLING + refused.field), Evidence(text=f"raised when {refused.condition}")),
            fixes=(
                *(Fix(title=way.text) for way in ways("vllm", REQUESTS, [refused.condition], refused.message)),
                Fix(title="or leave it to the default")
                if own is None
                else Fix.unsafe("or give vLLM's own default", {SAMPLING + refused.field: own}),
            ),
        )
    yield Reach(f"the values of {len(given)} sampling parameters")


@check.declared(needs=[f"plan.{attention_variable.VARIABLE}", "packages.vllm"])
def variable_of_another_release(case: Case) -> Iterator[Finding | Reach]:
    """An attention backend asked for through a variable that this vLLM does not read, or by a name that it lacks."""
    plan, version = plan_of(case), release(case)
    asked = str(plan.value(attention_variable.VARIABLE))
    wrong = attention_variable.verdict(asked, version) if version is not None else None
    if wrong is None:
        yield Reach(f"VLLM_ATTENTION_BACKEND={asked}")
        return
    yield check.finding(
        wrong[1],
        severity=wrong[0],
        evidence=cite(plan, attention_variable.VARIABLE),
        fixes=attention_variable.remedies(asked),
        url=attention_variable.URL,
    )
