"""Options that exclude or silently override each other.

What it looks for
    Pairs of settings of which the framework refuses the combination, or drops one: a colocated engine with the
    address of a rollout server, two settings of which one gives the other, workers that lack what another setting
    leaves to them. Where the framework is installed, the statements of its own argument class (TRL's ``GRPOConfig``)
    are followed with the launch's values, without running them: what it certainly raises is reported.

Why it hurts
    A refused pair costs a start. A dropped one costs the run: it trains in another mode, on other devices and with
    other memory than the file says, and nothing in the log looks wrong.

How sure it is
    Each row is one condition in the framework's source, for the versions that have it.

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

from collections.abc import Iterator

from rldoctor.api import Case, Check, Evidence, Finding, NotApplicable, Reach, cite, plan_of

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
            yield check.finding(row.message, evidence=cite(plan, *row.cites), fixes=row.fixes)
    yield Reach(f"{len(known)} combinations")


@check.declared(needs=["plan"])
def refused(case: Case) -> Iterator[Finding | Reach]:
    """What the installed framework's own argument class raises for these settings, where its source was read."""
    plan = plan_of(case)
    followed = case.links["frameworks"] if case.links is not None else []
    if not followed:
        raise NotApplicable("the source of no framework was read")
    for framework in followed:
        found = framework.get("refusal")
        if found is None:
            continue
        where = Evidence(text=f"raised when {found['condition']}", source=found["file"], line=found["line"])
        given = (one for one in plan.given if _field(one.key) in found["reads"])
        yield check.finding(
            f"{framework['name']} {framework['version']} refuses this in {found['function']}: "
            f"{found['message'] or found['type']}",
            evidence=(
                *(Evidence(text=f"{one.key} = {one.value}", source=one.file, line=one.line) for one in given),
                where,
            ),
        )
    yield Reach(f"the argument classes of {', '.join(framework['name'] for framework in followed)}")


def _field(key: str) -> str:
    return key.rpartition(".")[2].lstrip("-").replace("-", "_")


from . import logged  # noqa: E402, F401 - their detectors belong to the check
