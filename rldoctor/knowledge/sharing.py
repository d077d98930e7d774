"""Which launches drive one ``vllm.LLM`` from two threads, for which it is not made."""

from __future__ import annotations

from rldoctor.case import Case
from rldoctor.lookup import installed_within

# Before 3.5 ms-swift's engine lives in the trainer, and asynchronous generation is a thread beside it
# (https://github.com/modelscope/ms-swift/blob/v3.4.1/swift/trainers/rlhf_trainer/grpo_trainer.py, `evaluation_loop`);
# later releases demand a rollout server (`rlhf_args.py`).
SWIFT, SHARES = "ms-swift", "<3.5"


def one_engine_in_the_trainer(case: Case) -> bool:
    """Whether this launch's framework, in the release at hand, samples with an engine that a thread of its trainer may
    share with evaluation."""
    plan = case.plan
    if plan is None or plan.framework != SWIFT or plan.value("placement.mode") == "server":
        return False
    return plan.value("rollout.backend", "vllm") == "vllm" and installed_within(case, SWIFT, SHARES)


def samples_in_a_thread(case: Case) -> bool:
    """Whether the next batch is sampled while the trainer does something else."""
    return one_engine_in_the_trainer(case) and case.plan is not None and case.plan.value("rollout.async") is True


def evaluates_on_it(case: Case) -> bool:
    """Whether evaluation uses the engine that the trainer samples with."""
    return one_engine_in_the_trainer(case) and case.plan is not None and case.plan.value("rollout.evaluates") is True
