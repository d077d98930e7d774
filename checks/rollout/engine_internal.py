"""An assertion or deadlock inside the engine that only another engine release (or switching a feature off) cures.

What it looks for
    In a log: assertions of vLLM's scheduler, block manager and caches that no setting of the launch explains, each with
    the feature that was on when others met it.
    In a running engine: an assertion, a missing key or an index beyond its list in vLLM's scheduler, block manager or
    worker while traffic ran, and requests of a single caller that are lost, mixed up, answered twice or go on after
    they were aborted, or that wait while later ones are answered; answers of a batch that are missing, in another order
    or stand beside another request's prompt. Under ``--soak``:
    free KV blocks that become fewer cycle by cycle, files, sockets, threads, processes and shared memory that become
    more, steps that take longer, and requests, the same every time, that from some cycle on get each other's answers or
    go on after they were aborted.

Why it hurts
    The engine's process dies in the middle of a run; the trainer sees ``EngineDeadError`` or waits.

How sure it is
    The assertion stands in the engine's own frames, and the threads name the releases. More specific patterns (two
    callers on one engine, chunked prefill on V0, sleep mode) go before. Live traffic has a single caller, so what is
    lost or mixed up there is the engine's own doing; that requests really lost their place in the cache is counted.

The fix and its cost
    Another release, or the feature off that the thread names: asynchronous scheduling, the multimodal cache, prefix
    caching. Each costs some speed.

References
    https://github.com/vllm-project/vllm/issues/30142, https://github.com/vllm-project/vllm/issues/57562
    https://github.com/modelscope/ms-swift/issues/9863
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from rldoctor.api import (
    Applicability,
    Case,
    Check,
    Edit,
    Evidence,
    Finding,
    Fix,
    Grade,
    LogEvent,
    LogRun,
    NotChecked,
    Reach,
    Severity,
    dataclass,
)
from rldoctor.api.logs import LoggedException

from ..exceptions import places, root_of
from ..observed import answers, least_answers
from ..observed.agreement import grade_of
from ..observed.rollout import Job, describe, frames, records, require, runs, scenario_runs
from ..observed.soak import BLOCKS, OPEN, Quantity, measured, reach, served, soaked, traffic_faults, trend, turned
from ..observed.traces import beyond_the_budget, faults, not_the_likeliest, other_lengths, overtaken, unscheduled

check = Check("RLD220", "engine-internal-error", __doc__, explains=("RLD900",))

# The code that decides who runs and who owns which block of the cache.
SCHEDULES = re.compile(r"/vllm/(?:v1/)?(?:core|engine|executor|worker)/")
# Where an assertion without a word can only be about the engine's own books.
_BOOKS = re.compile(
    r"/vllm/(?:v1/)?core/(?:scheduler|sched/|block|kv_cache)|/vllm/distributed/kv_transfer/"
    r"|/vllm/(?:engine/(?:async_)?llm_engine|worker/(?:multi_step_)?model_runner)\.py$"
)
BOOKKEEPING = ("AssertionError", "KeyError", "IndexError")
SHOWN = 4

# Of the quicker steps, which take milliseconds. A busy machine slows them down, too, but not steadily and by half.
STEP = Quantity("step", "step time", "ms", 0.0, scale=1e-3)
SLOWER = 1.5
MORE_THAN_SOCKETS = 1.2

_RELEASE = Fix(
    title="take another vLLM release within what the framework declares, and look the assertion up in vLLM's issues",
    commands=("rldoctor compat",),
)


def _off(what: str, option: str, value: object, costs: str) -> Fix:
    edits = (Edit(option=option, value=value),)
    return Fix(title=f"switch {what} off", applicability=Applicability.UNSAFE, edits=edits, side_effects=costs)


_ANEW = Fix(title="start the engine anew every so many steps")
_SYNCHRONOUS = _off("asynchronous scheduling", "engine.async_scheduling", False, "steps no longer overlap")
_NO_MM_CACHE = _off("the multimodal cache", "engine.mm_processor_cache_gb", 0, "images are processed each time")
_NO_PREFIX = _off("prefix caching", "engine.enable_prefix_caching", False, "equal prompts are prefilled again")
_TRY_WITHOUT = replace(_NO_PREFIX, title="see whether it happens without prefix caching, too: switch that off")


@check.observed(needs=["observations.soak"])
def leaks(case: Case) -> Iterator[Finding | Reach]:
    """Cycle by cycle the engine has fewer free KV blocks while nothing runs, or more files, threads or processes."""
    job, windows = measured(case)
    blocks = trend(served(windows), BLOCKS)
    seen = [one for one in (blocks, *(trend(windows, quantity) for quantity in OPEN)) if one is not None]
    grown = [one for one in seen if one.grows]
    sockets = sum(one.per_cycle for one in grown if one.quantity.name == "sockets")
    # Every socket is an open file.
    for one in [one for one in grown if one.quantity.name != "files" or one.per_cycle > MORE_THAN_SOCKETS * sockets]:
        lost = one.quantity.falls
        yield check.finding(
            f"{describe(job)} {'loses' if lost else 'leaks'} {one.quantity.what.removeprefix('free ')} under traffic: "
            f"{one.rate}",
            severity=Severity.WARNING,
            grade=Grade.OBSERVED,
            evidence=(one.evidence(),),
            fixes=(_NO_PREFIX, _RELEASE) if lost else (_RELEASE, _ANEW),
        )
    if not grown:
        yield reach(windows, seen)


@check.observed(needs=["observations.soak"])
def slows_down(case: Case) -> Iterator[Finding | Reach]:
    """The engine's quicker steps, which other work on the machine hardly touches, take longer cycle by cycle."""
    job, windows = measured(case)
    steps = trend(windows, STEP)
    if steps is None:
        raise NotChecked("the engine's steps were not timed")
    # Growth before the settled part counts, too; what is compiled in the first steps only makes them longer.
    quickest = min(window["step"] for window in windows if window["step"] is not None)
    if steps.grows and steps.values[-1] >= SLOWER * quickest:
        yield check.finding(
            f"{describe(job)} becomes slower under steady traffic: a step takes {steps.said(quickest)} at its quickest "
            f"and {steps.said(steps.values[-1])} after {windows[-1]['cycles']} cycles",
            severity=Severity.WARNING,
            grade=Grade.OBSERVED,
            evidence=(steps.evidence(),),
            fixes=(_RELEASE, _ANEW),
        )
    else:
        yield Reach(f"steps of {steps.said(min(steps.values))} to {steps.said(max(steps.values))}")


@check.observed(needs=["observations.soak"])
def goes_wrong_in_time(case: Case) -> Iterator[Finding | Reach]:
    """Requests that are the same every time lose their answers, or get each other's, from some cycle on."""
    job, windows = soaked(case)
    blocks = trend(served(windows), BLOCKS)
    # That requests are left over once all blocks are lost is no second finding.
    told = served(windows) if blocks is not None and blocks.grows else windows
    turn, met = turned(job, told), traffic_faults(job, told)
    reported = [f"{name}: {turn.answers[name][1]}, another's answer" for name in turn.others] if turn else []
    if turn and met is None and not reported:
        reported = [f"{name}: not answered any more" for name in turn.unanswered]
    cycles = turn.cycles[1] if reported and turn else 0
    if met is not None and not reported:
        reported, cycles = met[1], met[0]["cycles"]
    if reported:
        what = f"requests of a single caller after {cycles} cycles: {len(reported)} faults"
        yield _mixed_up(case, job, what, reported, "soak")
    else:
        yield Reach(f"fixed requests kept their own answers through {windows[-1]['cycles']} cycles")


@check.observed(needs=["observations.rollout"])
def traffic_fails(case: Case) -> Iterator[Finding | Reach]:
    """An assertion or a lost entry in the engine's own bookkeeping ended traffic."""
    played = list(scenario_runs(case))
    for job in played:
        if job.get("explained") or not explains(job):
            continue
        where = frames(job)
        root = root_of(records(job)["exceptions"]) or {}
        fixes = tuple(_remedies(job))
        yield check.finding(
            f"{describe(job)} fails in its own bookkeeping while {records(job).get('stage')} runs: "
            f"{root['type']} {root['message'][:200]} in {where[-1]['function']}",
            grade=grade_of(case, fixes),
            evidence=(
                *(Evidence(text=place, source="traceback") for place in places(where)[-SHOWN:]),
                Evidence(text=_circumstances(job), source="resolved engine configuration"),
            ),
            fixes=fixes,
        )
    through = sum(job.get("ended") == "done" for job in played)
    if not through:
        raise NotChecked("no run of traffic came to its end")
    yield Reach(f"{through} of {len(played)} runs of traffic went to their end without an assertion in the engine")


@check.knows
def explains(job: Job) -> bool:
    """Whether traffic on a running engine ended because the engine's own bookkeeping was wrong."""
    if job.get("ended") != "raised" or "boot" not in job or least_answers.explains(job):
        return False
    where, root = frames(job), root_of(records(job).get("exceptions", ()))
    return bool(root and where and root["type"] in BOOKKEEPING and SCHEDULES.search(where[-1]["file"]))


@check.observed(needs=["observations.chunked_prefill"])
def requests_go_wrong(case: Case) -> Iterator[Finding | Reach]:
    """One caller's requests, more than the cache holds and some aborted: each must get its own answer, once."""
    told = False  # the engines differ in how they prefill: what both do wrong has one cause
    for job in runs(case, "chunked_prefill"):
        trace, engine = require(job, "trace"), records(job).get("engine", {})
        if job.get("ended") != "done":
            raise NotChecked(f"the traffic {job.get('ended')} before it was through")
        short = beyond_the_budget(trace, engine)
        lost = [name for name in unscheduled(trace) if name not in short]
        reported = [*faults(trace), *(f"{name}: never got a token in {trace['steps']} steps" for name in lost)]
        if not max_tokens_is_off(case):
            reported += other_lengths(trace)
        if not greedy_is_off(case):
            reported += not_the_likeliest(trace)
        if gone_on := records(job).get("gone_on"):
            reported.append(f"an aborted request of several completions: {gone_on} of them go on")
        if records(job).get("waited_on"):
            reported.append("a request that was aborted while it waited goes on")
        if records(job).get("passed_over"):
            reported.append("a request that came behind one that was aborted is not answered")
        if reported and not told:
            told = True
            what = f"requests of a single caller: {len(reported)} faults in {len(trace['answers'])} requests"
            yield _mixed_up(case, job, what, reported, "chunked_prefill scenario")
        behind = overtaken(trace, engine)
        if behind and not told:
            told = True
            yield check.finding(
                f"{describe(job)} answers requests out of the order in which they came: {len(behind)} of "
                f"{len(trace['answers'])} began after a later one, and may wait for ever",
                severity=Severity.WARNING,
                grade=Grade.OBSERVED,
                evidence=tuple(Evidence(text=line, source="chunked_prefill scenario") for line in behind[:SHOWN]),
                fixes=(_RELEASE,),
            )
        aborted = sum(answer["aborted"] for answer in trace["answers"].values())
        yield Reach(
            f"{len(trace['answers'])} requests in {trace['steps']} steps, {aborted} aborted, {trace['preemptions']} "
            f"preempted, each with its own answer from {describe(job)}"
        )


def max_tokens_is_off(case: Case) -> bool:
    """Whether answers are of another length than asked for without traffic, too (RLD219)."""
    jobs = case.observations.get("answers", {}).values()
    return any("rows" in records(job) and answers.length_off(job) for job in jobs)


def greedy_is_off(case: Case) -> bool:
    """Whether greedy answers are not greedy without traffic, too (RLD219)."""
    jobs = case.observations.get("answers", {}).values()
    return any("logprobs" in records(job) and answers.not_greedy(job) for job in jobs)


@check.observed(needs=["observations.answers"])
def answers_go_wrong(case: Case) -> Iterator[Finding | Reach]:
    """One batch in which every request is forced to an answer of its own: each gets that one, in its place."""
    for job in runs(case, "answers"):
        reported = answers.mixed_up(job)
        if reported:
            what = f"answers of one batch: {len(reported)} faults in {len(answers.rows(job))} answers"
            yield _mixed_up(case, job, what, reported, "answers scenario")
        told = len(answers.beside_their_prompts(job))
        if not told and not reported:
            raise NotChecked("no answer of the batch says to which prompt it is")
        yield Reach(f"{told} of {len(answers.rows(job))} forced answers of one batch say to which prompt they are")


def _mixed_up(case: Case, job: Job, what: str, reported: list[str], scenario: str) -> Finding:
    fixes = tuple(_remedies(job))
    return check.finding(
        f"{describe(job)} loses or mixes up {what}",
        grade=grade_of(case, fixes),
        evidence=(
            *(Evidence(text=line, source=scenario) for line in reported[:SHOWN]),
            Evidence(text=_circumstances(job), source="resolved engine configuration"),
        ),
        fixes=fixes,
    )


def _circumstances(job: Job) -> str:
    """What else was on, which is what threads about such failures ask for."""
    engine = records(job).get("engine", {})
    names = ("enable_chunked_prefill", "enable_prefix_caching", "async_scheduling", "max_num_batched_tokens")
    return ", ".join(f"{name}={engine[name]}" for name in names if name in engine)


def _remedies(job: Job) -> Iterator[Fix]:
    engine = records(job).get("engine", {})
    if engine.get("async_scheduling"):
        yield _SYNCHRONOUS
    if engine.get("enable_prefix_caching"):
        yield _NO_PREFIX
    yield _RELEASE


@dataclass(frozen=True)
class Assertion:
    """A line that only the fault prints, what it says of the engine, and what helped others."""

    literal: str
    said: str
    fixes: tuple[Fix, ...]
    url: str | None = None


ASSERTIONS = (
    Assertion(
        "num_output_placeholders >= 0",
        "asynchronous scheduling lost count of a request's tokens",
        (_SYNCHRONOUS,),
        "https://github.com/vllm-project/vllm/issues/30142",
    ),
    Assertion(
        "Expected a cached item for mm_hash=",
        "the multimodal cache of the engine's process and that of its front end differ",
        (_NO_MM_CACHE,),
        "https://github.com/modelscope/ms-swift/issues/9863",
    ),
    Assertion(
        "Encoder cache miss for ",
        "an image's features left the encoder cache before they were used",
        (_NO_MM_CACHE, _NO_PREFIX),
    ),
    *(
        Assertion(literal, said, fixes)
        for said, fixes, literals in (
            (
                "the V1 scheduler overran its budget or scheduled nothing",
                (_SYNCHRONOUS,),
                (
                    "assert total_num_scheduled_tokens <= self.max_num_scheduled_tokens",
                    "assert token_budget >= 0",
                    "assert len(self.running) <= self.max_num_running_reqs",
                ),
            ),
            (
                "the V1 scheduler lost count of a request's tokens",
                (_SYNCHRONOUS, _TRY_WITHOUT),
                (
                    "assert num_new_tokens > 0",
                    "assert num_tokens_scheduled > 0",
                    "assert num_computed_tokens <= request.num_tokens",
                ),
            ),
            (
                "the KV block pool lost count of a block",
                (_TRY_WITHOUT,),
                ("assert block.ref_cnt == 0", "assert curr_block.ref_cnt == 0"),
            ),
            (
                "the KV block pool lost count of the blocks that prompts share",
                (_NO_PREFIX,),
                (
                    "assert blk.block_hash is None",
                    "assert prev_block.block_hash is not None",
                    "assert parent_block.block_hash is not None",
                    "assert len(req_blocks) == 0",
                    "assert len(new_computed_blocks) == 0",
                ),
            ),
            (
                "the V0 block manager lost count of a block",
                (_TRY_WITHOUT,),
                (
                    "assert refcount > 0",
                    "assert block_id in self._refcounts",
                    "assert len(self._free_ids) > 0",
                    "Double free! ",
                ),
            ),
        )
        for literal in literals
    ),
)
BY_LITERAL = {row.literal: row for row in ASSERTIONS}


@check.logged(*BY_LITERAL)
def assertion(case: Case, event: LogEvent) -> Iterator[Finding]:
    """An assertion in the engine's own frames."""
    error = event.exception
    if error is None or not any("vllm" in frame.file for frame in error.frames[-3:]):
        return
    row = BY_LITERAL[event.literal]
    version = event.versions.get("vllm")
    yield check.finding(
        f"an assertion inside vLLM{f' {version}' if version else ''}: {row.said}",
        fixes=(*row.fixes, _RELEASE),
        url=row.url,
    )


def unnamed(root: LoggedException | None) -> LoggedException | None:
    """The assertion without a message that the engine's own bookkeeping raised, or None."""
    link = next((x for x in root.chain if x.message or x.frames), None) if root is not None else None
    books = link is not None and link.type == "AssertionError" and not link.message and link.frames
    return link if books and link is not None and _BOOKS.search(link.frames[-1].file) else None


@check.concluded
def assertion_not_known(case: Case, run: LogRun) -> Iterator[Finding]:
    """The engine's scheduler or block manager met a state of its own that it rules out, and no row names it."""
    link = unnamed(run.root)
    if link is None:
        return
    version, frame = run.versions.get("vllm"), link.frames[-1]
    yield check.finding(
        f"an assertion inside vLLM{f' {version}' if version else ''} that is not known: {frame.code or frame.function}",
        evidence=(
            Evidence(text=str(frame), source=link.source, line=link.line),
            *run.new,
            *(Evidence(text=f"not {n.code} {n.name}: {n.reason}", source="near") for n in run.near),
        ),
        fixes=(_RELEASE,),
    )
