"""New weights sent to a live engine."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Evidence, Finding, Fix, Grade, NotApplicable, Reach, Severity

from ...exceptions import root_of
from ...observed.agreement import between, difference, noise_of
from ...observed.rollout import describe, records, require, runs
from . import check
from .fixes import for_name


@check.observed(needs=["observations.weights"])
def refused_here(case: Case) -> Iterator[Finding | Reach]:
    """The trainer's own weights, changed a little, for the running engine."""
    for job in runs(case, "weights"):
        way, rejected = require(job, "way"), records(job).get("rejected")
        if way["name"] is None:
            raise NotApplicable(way["why"])
        if rejected is None:
            yield Reach(f"{describe(job)} takes the trainer's weights through {way['name']}")
            continue
        root = root_of(rejected["exceptions"]) or {}
        yield check.finding(
            f"{describe(job)} refuses {rejected['what']}: {root.get('type')}: {root.get('message')}"[:400],
            grade=Grade.OBSERVED,
            evidence=(
                Evidence(text=f"sent through {way['name']}: {way['why']}", source="weights probe"),
                *(
                    Evidence(text=f"in {frame['function']}", source=frame["file"], line=frame["line"])
                    for frame in root.get("frames", ())[-2:]
                ),
            ),
            fixes=for_name(str(root.get("message"))),
        )


@check.observed(needs=["observations.weights"])
def anything_goes(case: Case) -> Iterator[Finding | Reach]:
    """A tensor under a name that the model does not have, and one with a row too few."""
    for job in runs(case, "weights"):
        if require(job, "way")["name"] is None:
            raise NotApplicable(require(job, "way")["why"])
        if "refusals" not in records(job) and "rejected" in records(job):
            raise NotApplicable("the engine refuses the trainer's own weights")
        fresh = [row for row in records(job).get("after", ()) if not row["seen"]]
        if fresh and between(fresh, "engine", "trainer").beyond(noise_of(job)):
            raise NotApplicable("the engine does not follow weights that fit either (RLD402)")
        restored = records(job).get("restored")
        if restored and difference(restored["start"], restored["end"]).beyond(noise_of(job)):
            raise NotApplicable("the engine does not follow every update that fits either (RLD402)")
        for what, reported in require(job, "refusals").items():
            root = root_of(reported["exceptions"] or ())
            if root is not None:
                yield Reach(f"a wrong {what} is refused with {root['type']}")
                continue
            moved = difference(reported["before"], reported["after"])
            yield check.finding(
                f"{describe(job)} takes a weight of a wrong {what} without a word"
                + (", and computes with it" if moved.beyond(noise_of(job)) else ", and ignores it")
                + f": a sync that sends a wrong {what} will not be noticed",
                severity=Severity.WARNING if what == "shape" else Severity.NOTE,
                grade=Grade.OBSERVED,
                evidence=(
                    Evidence(
                        text=f"sent {reported['sent']}; log-probabilities of fixed tokens: {moved}",
                        source="weights probe",
                    ),
                ),
                fixes=(
                    Fix(
                        title="compare both sides' log-probabilities after a sync, as the frameworks' metrics of the "
                        "difference between rollout and training do"
                    ),
                ),
            )
