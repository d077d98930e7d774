"""Options that exclude or silently override each other.

What it looks for
    Pairs of settings of which the framework refuses the combination, or drops one: a colocated engine with the
    address of a rollout server, two settings of which one gives the other, workers that lack what another setting
    leaves to them. Where the framework is installed, the statements of its own argument class (TRL's ``GRPOConfig``)
    are followed with the launch's values, without running them: what it certainly raises is reported; of a release
    that is not at hand, what its messages' conditions say of the values that the launch gives. At the level
    `imports` the packages' own validators are run with these settings, in a process of the environment's interpreter
    and without a device: vLLM's `EngineArgs(...).create_engine_config()` as on the launch's GPUs, the framework's
    argument class or schema (TRL, ms-swift, axolotl, NeMo-RL, prime-rl) or what its program does before it trains
    (OpenRLHF); Ray's `RuntimeEnv` takes what the job is submitted with.

Why it hurts
    A refused pair costs a start. A dropped one costs the run: it trains in another mode, on other devices and with
    other memory than the file says, and nothing in the log looks wrong.

How sure it is
    Each row is one condition in the framework's source, for the versions that have it. What a validator raised was
    raised here, for every model, device and number of processes that the launch leaves open.

The fix and its cost
    Say one thing: keep the mode that was meant and take out what belongs to the other.

References
    ms-swift ``swift/llm/argument/rlhf_args.py`` (3.5.0 line 163: a server host switches the mode; 3.12.0 line 365: it
    does not), https://github.com/modelscope/ms-swift/issues/4275
    TRL ``trl/trainer/grpo_trainer.py`` (``vllm_mode``), ``grpo_config.py`` (``__post_init__``)
    verl ``vllm_rollout_spmd.py`` (0.4.1 line 90), ``workers/config/rollout.py`` (0.7.0 line 225), ``ray_trainer.py``
    verl ``validate_config`` and ``check_mutually_exclusive``, EasyR1 ``fsdp_workers.py``
    SkyRL ``utils/utils.py`` (``validate_cfg``), OpenRLHF ``openrlhf/cli/train_ppo_ray.py``
    NeMo-RL ``nemo_rl/algorithms/grpo.py`` (0.4.0 line 1564)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    Grade,
    NotApplicable,
    NotChecked,
    Reach,
    RolloutPlan,
    cite,
    plan_of,
)
from rldoctor.api.plan import cite_given
from rldoctor.api.refusals import remedies

from .conflicts import CONFLICTS

check = Check("RLD212", "mode-flags-conflict", __doc__)


@check.declared(needs=["plan"])
def conflicting(case: Case) -> Iterator[Finding | Reach]:
    """The combinations that are known for this framework."""
    plan = plan_of(case)
    known = [row for row in CONFLICTS if row.concerns(case)]
    if not known:
        raise NotApplicable(f"no conflict is known for this release of {plan.framework}")
    for row in known:
        if row.covers(case) and row.holds(plan):
            native = (one for one in plan.given if one.key in row.cites)
            lines = (*cite(plan, *row.cites), *map(cite_given, native))
            yield check.finding(row.message, evidence=lines, fixes=row.fixes)
    yield Reach(f"{len(known)} combinations")


@check.declared(needs=["plan"])
def refused(case: Case) -> Iterator[Finding | Reach]:
    """What the framework's own argument class raises for these settings, by its source or by what is known of the
    release's messages, where no other code knows the message."""
    plan = plan_of(case)
    followed = case.links["frameworks"] if case.links is not None else []
    if not followed:
        raise NotApplicable("the source of no framework was read")
    for framework in followed:
        found = framework.get("refusal")
        if found is None or found.get("explained"):
            continue  # the code that knows the message has it
        where = Evidence(text=f"raised when {found['condition']}", source=found["file"], line=found["line"])
        if _place(found) == _place(_refusal(case, "arguments")):
            continue  # it was really raised, which says more
        given = (one for one in plan.given if {one.field, one.key} & set(found["reads"]))
        options = [name for name in found["reads"] if name in plan.settings]
        yield check.finding(
            f"{framework['name']} {framework['version']} refuses this in {_where(found)}: "
            f"{found['message'] or found['type']}",
            evidence=(
                *map(cite_given, given),
                *cite(plan, *options),
                where,
            ),
            fixes=_ways_out(framework["name"], found),
        )
    read = [framework["name"] for framework in followed if framework.get("validated")]
    if not read:
        raise NotApplicable(f"no code of {plan.framework} is known that validates a launch like this")
    yield Reach(f"the argument classes of {', '.join(read)}")


def _ways_out(package: str, found: Mapping[str, Any]) -> tuple[Fix, ...]:
    """What the condition itself asks to be changed."""
    ways = remedies(package, found["function"], [found["condition"]], found["message"])
    return tuple(Fix(title=f"or {way.text}" if position else way.text) for position, way in enumerate(ways))


@check.observed(needs=["plan", "observations.validators"])
def refused_here(case: Case) -> Iterator[Finding | Reach]:
    """What the packages' own validators really raise for these settings, where no other code knows the message."""
    plan = plan_of(case)
    not_asked = []
    for name, job in case.observations["validators"].items():
        records, error = job.get("records", {}), job.get("error") or {}
        package = records.get("package") or {}
        who = f"{package.get('name', name)} {package.get('version') or ''}".rstrip()
        if job.get("ended") == "done":
            yield Reach(f"{who} itself accepts {len(records.get('taken', ()))} settings")
        elif _refusal(case, name) is None:
            not_asked.append(
                f"{who}'s own validators could not be asked: {_first_line(error.get('message') or job['ended'])}"
            )
        elif not job.get("explained"):
            yield _refused(plan, who, error, _refusal(case, name) or {}, _WHOLE.get(name, ()))
    if not_asked:
        raise NotChecked("; ".join(not_asked))


# Settings that a validator takes as they are.
_WHOLE = {"runtime_env": ("ray.runtime_env",)}


def _refused(
    plan: RolloutPlan, who: str, error: Mapping[str, Any], place: Mapping[str, Any], whole: tuple[str, ...]
) -> Finding:
    said = str(error.get("message") or error.get("type"))
    read = {*place["names"], *re.findall(r"\w+", said)}
    known = (name for name in plan.settings if name.startswith("engine.") and name.removeprefix("engine.") in read)
    given = {one.option for one in plan.given if one.field in read and one.option is not None}
    lines = cite(plan, *sorted({*given, *known, *whole}))
    return check.finding(
        f"{who} refuses this in {_where(place)}: {_first_line(said)}",
        grade=Grade.REPRODUCED,
        evidence=(
            *lines,
            Evidence(text=f"raised when {place['condition']}", source=place["file"], line=place["line"]),
        ),
    )


def _where(place: Mapping[str, Any]) -> str:
    """The function that refuses, or the program."""
    name, file = str(place["function"]), Path(str(place["file"]))
    return file.name if name in ("", "<module>") else name


def _refusal(case: Case, name: str) -> Mapping[str, Any] | None:
    """Where a validator of the probe refused, or None where it did not."""
    records: Mapping[str, Any] = case.observations.get("validators", {}).get(name, {}).get("records", {})
    place: Mapping[str, Any] | None = records.get("place") if records.get("stage") == "refused" else None
    return place


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), text)[:400]


def _place(refusal: Mapping[str, Any] | None) -> tuple[str, int] | None:
    """The file, below its package, and the line of a refusal."""
    return None if refusal is None else (Path(refusal["file"]).name, refusal["line"])
