"""Boots the planned engines one after another and sorts what their runs recorded by scenario."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from rldoctor.case import Case
from rldoctor.catalogue.probe import Job, JobResult, Request
from rldoctor.catalogue.scenario import MINIATURE, Basis
from rldoctor.probes.boots import Asked, Boot
from rldoctor.probes.feasible import runs_itself
from rldoctor.probes.resumed import Kept
from rldoctor.probes.runner import run_job
from rldoctor.records import dataclass

CHILD = Path(__file__).parent / "children" / "engine.py"
SAMPLES = 8
PROMPT_TOKENS = 24
MAX_TOKENS = 16
# For an engine to come up and give its first tokens.
BOOT_LIMIT = 300.0
# The model itself is larger than its miniature, by how much nobody told; a run's time limit grows by this factor.
OWN_PATIENCE = 5.0
# A run that ends its engine costs the others of that engine another boot; after so many they are given up.
MOST_REBOOTS = 3
NEVER_BEGUN, CUT = "the budget was spent before it", "the budget was spent before its end"
# Where vLLM has code for each platform. What is not implemented there a GPU may have; options are refused elsewhere.
PLATFORMS_OWN = re.compile(r"/vllm/(?:v1/)?(?:attention|platforms|worker|model_executor/layers)/")
# What a run's result repeats of its engine's, so that it can be judged by itself.
SHARED = ("basis", "versions", "miniature", "asked", "engine", "unread")

Progress = Callable[[str], None]
Observations = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Played:
    """What one boot left behind: its own result, and one for each run that it got to."""

    boot: JobResult
    runs: Mapping[str, JobResult]

    @property
    def why_not_more(self) -> str:
        """Why no further run was reached, as a clause."""
        if self.boot.ended == "done":
            return "runs before it ended its engine again and again"
        return f"its engine did not come up: {_ending(self.boot)}"


def play(
    case: Case, request: Request, basis: Basis, boots: Iterable[Boot], progress: Progress, child: Path = CHILD
) -> Observations:
    """Runs every boot. Returns, by scenario and run, the results in the form of a job's (``rollout`` holds the boots
    themselves, by their names, but for references); a run that was not reached, or that failed on a reference, has
    ``ended`` ``not-run``, and ``why``. Where the engine that the others add to hangs while it comes up, they are not
    tried: each would take as long. What an earlier run left in the folder that is asked for is not played again."""
    observations: Observations = {}
    hung: Played | None = None
    for boot in boots:
        own: Observations = {}
        left = [one for one in boot.asked if one.scenario.program is not None]
        if request.spent:
            never = msgspec.to_builtins(JobResult(ended="not-run"))
            told = {"boot": boot.name, "why": NEVER_BEGUN}
            for one in boot.asked:
                observations.setdefault(one.scenario.name, {})[one.name] = {**never, **told}
            continue
        kept = Kept(request.keep, case, request, job(case, request, basis, boot, left)) if request.keep else None
        known = kept.observations() if kept is not None else None
        if known is not None:
            progress(f"{boot.name}: played before, taken from {request.keep}")
            _join(observations, known)
            continue
        played, lacks = hung, None
        for attempt in range(0 if hung else 1 + MOST_REBOOTS):
            progress(", ".join([boot.name, *(one.scenario.name for one in left)]))
            played = play_boot(case, request, basis, boot, left, child)
            lacks = _lacking(played.boot, basis)
            if not boot.reference and (attempt == 0 or played.boot.ended != "done"):
                name = boot.name if attempt == 0 else f"{boot.name}, boot {attempt + 1}"
                reported = msgspec.to_builtins(played.boot)
                own.setdefault("rollout", {})[name] = (
                    {**reported, "ended": "not-run", "why": lacks} if lacks else reported
                )
            deliver(own, boot, played, left)
            reached = len(played.runs)
            left = [one for one in left if one.key not in played.runs]
            if not left or not reached or request.spent:
                break
        assert played is not None  # either this boot was tried or one hung before it
        if boot.name == MINIATURE and played.boot.ended == "timed-out":
            hung = played
        for one in left:
            never = msgspec.to_builtins(replace(played.boot, ended="not-run"))
            told = {"boot": boot.name, "why": NEVER_BEGUN if request.spent else lacks or played.why_not_more}
            own.setdefault(one.scenario.name, {})[one.name] = {**never, **told}
        if kept is not None:
            kept.keep(own)
        _join(observations, own)
    return observations


def _lacking(boot: JobResult, basis: Basis) -> str | None:
    """What an engine on the CPU, which stands in for the launch's devices, does not have for this model, or None."""
    error = boot.error if boot.ended == "raised" and basis.device == "cpu" else None
    if error is None or error.type != "NotImplementedError" or not PLATFORMS_OWN.search("".join(error.frames[-1:])):
        return None
    return f"vLLM for the CPU, where the probe runs, cannot run this model: {_ending(boot)}"


def _join(observations: Observations, more: Observations) -> None:
    for scenario, jobs in more.items():
        observations.setdefault(scenario, {}).update(jobs)


def deliver(observations: Observations, boot: Boot, played: Played, asked: Iterable[Asked]) -> None:
    """Sorts the runs that a boot got to into the observations."""
    for one in asked:
        if one.key in played.runs:
            run, why = played.runs[one.key], {}
            if run.ended == "not-run":
                why = {"why": CUT}
            elif boot.reference and run.ended != "done":
                run, why = replace(run, ended="not-run"), {"why": f"it failed: {_ending(run)}"}
            result = msgspec.to_builtins(run)
            observations.setdefault(one.scenario.name, {})[one.name] = {**result, "boot": boot.name, **why}


def play_boot(case: Case, request: Request, basis: Basis, boot: Boot, left: list[Asked], child: Path = CHILD) -> Played:
    """One child: the engine, and those of its runs that are left."""
    result = run_job(child, job(case, request, basis, boot, left), f"engine {boot.name}", request)
    result = replace(result, records={**result.records, "basis": msgspec.to_builtins(basis)})
    return separate(result, left, _patience(case, request))


def job(case: Case, request: Request, basis: Basis, boot: Boot, left: list[Asked]) -> Job:
    """What the child of a boot is told."""
    patience = _patience(case, request)
    runs = [
        {
            "key": one.key,
            "program": str(one.scenario.program),
            "arguments": dict(one.run.arguments),
            "limit": one.run.time_limit * patience,
        }
        for one in left
    ]
    return Job(
        arguments={
            "kind": boot.kind,
            "engine": {**basis.options, **boot.options},
            "config": case.model.config if case.model else None,
            # The child works in another folder.
            "files": str(Path(case.model.path).absolute()) if case.model and case.model.files else None,
            "own": runs_itself(case, request) and not boot.few_tokens,
            "few_tokens": boot.few_tokens,
            "samples": SAMPLES,
            "prompt_tokens": PROMPT_TOKENS,
            "max_tokens": MAX_TOKENS,
            # Each kind of batch has kernels of its own to compile; one engine shows what the others would repeat.
            "greedy": boot.name == MINIATURE,
            "boot_limit": BOOT_LIMIT * patience,
            "runs": runs,
        },
        environ={**basis.environ, **boot.environ},
        time_limit=(BOOT_LIMIT + sum(one.run.time_limit for one in left)) * patience,
    )


def _patience(case: Case, request: Request) -> float:
    """By what the time limits of a miniature are multiplied."""
    return OWN_PATIENCE if runs_itself(case, request) else 1.0


def separate(result: JobResult, asked: Iterable[Asked], patience: float = 1.0) -> Played:
    """Divides what a child recorded into the boot's own and each run's. A run in whose middle the child ended takes
    the end upon itself: the engine had come up well before it. ``patience`` multiplies each run's time limit."""
    reported: Mapping[str, Any] = result.records.get("runs", {})
    own = _own(result.records)
    runs: dict[str, JobResult] = {}
    for one in asked:
        run = reported.get(one.key)
        if run is None:
            continue
        records = {"stage": one.key, **{name: own[name] for name in SHARED if name in own}, **run["records"]}
        shared = replace(result, records=records, seconds=run.get("seconds", 0.0))
        if run["ended"] == "done":
            runs[one.key] = replace(shared, ended="done", exit_code=None, signal=None, error=None, tail=())
        elif run["ended"] == "raised":
            runs[one.key] = replace(shared, ended="raised")
        else:
            # A run whose time is over ends its child, whatever hangs in it (see children/report.py): by exit code 1, or
            # by a signal where a thread went on while its stack was being written.
            spent = round(result.seconds - run.get("began", 0.0), 1)
            stalled = result.ended == "died" and spent >= one.run.time_limit * patience
            runs[one.key] = replace(shared, ended="stalled" if stalled else result.ended, seconds=spent)
    if reported:
        result = replace(result, ended="done", exit_code=None, signal=None, error=None, tail=())
    elif result.ended == "died" and result.seconds >= BOOT_LIMIT * patience:
        result = replace(result, ended="timed-out", exit_code=None, signal=None)
    return Played(boot=replace(result, records=own), runs=runs)


def _ending(result: JobResult) -> str:
    """How an engine that did not come up, or a run on one, ended, and where."""
    stage = result.records.get("stage", "start")
    if result.error is not None:
        lines = result.error.message.strip().splitlines()
        said = f"{result.error.type}: {lines[0][:200]}" if lines else result.error.type
    elif result.ended in ("timed-out", "stalled"):
        said = f"no end within {result.seconds:.0f} s"
    else:
        said = result.signal or ("no word" if result.exit_code is None else f"exit code {result.exit_code}")
    return f"{said} at stage {stage}"


def _own(records: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in records.items() if name != "runs"}
