"""Two callers drive one engine, or it is used again after an interrupted step.

What it looks for
    In a launch file: ms-swift before 3.5 with ``async_generate`` and evaluation, where a background thread samples the
    next batch with the engine that evaluation uses.
    In a running asynchronous engine: many callers, whole answers and streams, groups, turns, some of which abort,
    cancel, run out of patience or use an id twice. Every answer must belong to its prompt, none may be lost or come
    twice, and the engine must be empty afterwards. Where the launch drives one engine from two threads, these threads.
    And an engine that is used again after a caller was interrupted.
    In a log: the V0 scheduler assertion ``len(running_scheduled.prefill_seq_groups) == 0``, ``Forward context is not
    set``, futures that end in an ``AssertionError`` of the engine, and a generation that returned another number of
    outputs than it got prompts.
    In a run that still stands (``rldoctor hang``): two threads of one process inside the engine at once.

Why it hurts
    ``LLM.generate()`` is not safe for threads. While one caller schedules, the other's requests are half-way through:
    V0 asserts, V1 breaks one call and hangs the other. After a step that was interrupted (a time limit by
    ``signal.alarm``, an exception that was caught) its requests stay in the engine and come back with the next call,
    paired with the wrong prompts. With chunked prefill the assertion does not come and the fault stays.

How sure it is
    The assertion was reproduced on vLLM 0.9.1 with two threads and with an interrupted step, and in no other way. From
    3.5 on ms-swift generates asynchronously only through a rollout server, and evaluation waits for the thread.
    Answers of a running engine are greedy and compared with those that it gives when nobody else asks; they may part
    where two tokens are equally likely. What an interruption leaves in an engine is a property of every release (0.32,
    too: the next call returns the leftovers first, or never returns); it is told, and no finding as long as aborting
    the leftovers cures it.

The fix and its cost
    One caller at a time (a lock around ``generate``, or asynchronous generation off): rollout and evaluation no longer
    overlap. After an interruption abort what is left, or make a new engine.

References
    https://github.com/modelscope/ms-swift/issues/3666, https://github.com/modelscope/ms-swift/issues/4194
    https://github.com/modelscope/ms-swift/issues/4234, https://github.com/modelscope/ms-swift/issues/4418
    ``evaluation_loop``: https://github.com/modelscope/ms-swift/blob/v3.4.1/swift/trainers/rlhf_trainer/grpo_trainer.py
    ``LLMEngine.step`` and ``abort_request``: https://github.com/vllm-project/vllm/blob/v0.9.1/vllm/engine/llm_engine.py
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Check, Finding, NotApplicable, Reach, cite, find, plan_of
from rldoctor.api.engine import evaluates_on_it, one_engine_in_the_trainer, samples_in_a_thread

from .fixes import APART, ASYNC

check = Check("RLD210", "engine-shared-concurrently", __doc__, before=("RLD201",))

# What makes a thread and evaluation use one engine.
TOGETHER = (ASYNC, "rollout.evaluates", "trainer.eval_strategy", "trainer.eval_every")


@check.declared(needs=["plan", "packages"])
def evaluation_beside_the_thread(case: Case) -> Iterator[Finding | Reach]:
    """Asynchronous generation and evaluation on one engine in the trainer's process."""
    plan = plan_of(case)
    if not one_engine_in_the_trainer(case):
        raise NotApplicable(f"no release of {plan.framework} at hand drives one engine from two threads")
    together = samples_in_a_thread(case) and evaluates_on_it(case)
    if not together or plan.value("placement.mode") != "async":
        yield Reach("generation and evaluation take turns")
        return
    from .live import collided  # what judges engines, for the few launches that come here

    if collided(case):
        yield Reach("generation and evaluation at the same time: played on an engine")
        return
    found = find(case.packages, "ms-swift") if case.packages is not None else None
    yield check.finding(
        f"ms-swift {found.version if found else ''} samples in a background thread (async_generate) with the engine "
        "that evaluation uses at the same time",
        evidence=cite(plan, *TOGETHER),
        fixes=APART,
        url="https://github.com/modelscope/ms-swift/issues/4194",
    )
