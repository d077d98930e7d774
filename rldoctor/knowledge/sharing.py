"""Which launches drive one ``vllm.LLM`` from two threads, for which it is not made."""

from __future__ import annotations

from rldoctor import frameworks
from rldoctor.case import Case
from rldoctor.case.lookup import installed_within


def one_engine_in_the_trainer(case: Case) -> bool:
    """Whether this launch's framework, in the release at hand, samples with an engine that a thread of its trainer may
    share with evaluation."""
    plan = case.plan
    framework = frameworks.framework(plan.framework) if plan is not None else None
    if plan is None or framework is None or framework.in_trainer is None:
        return False
    if plan.value("placement.mode") == "server" or plan.value("rollout.backend", "vllm") != "vllm":
        return False
    return installed_within(case, framework.packages[0].name, framework.in_trainer)


def samples_in_a_thread(case: Case) -> bool:
    """Whether the next batch is sampled while the trainer does something else."""
    return one_engine_in_the_trainer(case) and case.plan is not None and case.plan.value("rollout.async") is True


def evaluates_on_it(case: Case) -> bool:
    """Whether evaluation uses the engine that the trainer samples with."""
    return one_engine_in_the_trainer(case) and case.plan is not None and case.plan.value("rollout.evaluates") is True
