"""Whether a failure is a cause or follows from one: what a row that describes it says, never a mere literal."""

from __future__ import annotations

import re
from itertools import product

import pytest

from rldoctor.catalogue.check import Check, Role
from rldoctor.catalogue.signature import Signature
from rldoctor.logs.fatality import Failure, judge
from rldoctor.logs.reading import read
from rldoctor.logs.runs import slices
from rldoctor.logs.sources import TextSource
from rldoctor.logs.table import Table
from rldoctor.logs.triage import triage_text
from tests.loaded import REGISTRY

# A cause that is no row's, and one that only passes on what happened elsewhere.
OWN, CARRIED = "ValueError", "ray.exceptions.RayTaskError(ValueError)"


def looks_for(*signatures: Signature) -> Table:
    """What somebody looks for who knows nothing but these signatures."""
    check = Check("OWN1", "own", None)
    check.signatures = list(signatures)
    return Table([check])


def failures(text: str, table: Table) -> list[Failure]:
    """The failures of a log for whom these literals are all there are."""
    return judge(slices(read(TextSource("log", text.encode()), table)), table).failures


def raised(kind: str, message: str) -> str:
    return (
        'Traceback (most recent call last):\n  File "/home/user/train.py", line 7, in <module>\n    main()\n'
        f"{kind}: {message}\n"
    )


def test_a_literal_without_its_pattern_changes_nothing() -> None:
    rows = [signature for check in REGISTRY.checks.values() for signature in check.signatures if signature.row]
    tried, moved = 0, []
    for signature in rows:
        pattern = signature.row.pattern if signature.row is not None else None
        if pattern is None:
            continue
        table = looks_for(signature)
        for literal, kind in product(signature.literals, (OWN, CARRIED)):
            text = raised(kind, f"what {literal} is")
            # A line and its exception are both looked at, so that it stands there twice.
            if re.search(pattern, text + text) is None:
                tried += 1
                if [failure.secondary for failure in failures(text, table)] != [kind == CARRIED]:
                    moved.append((literal, kind))
    assert moved == []
    assert tried > 200


@pytest.mark.parametrize("literal", ["Terminated", "Hangup", "Worker Terminated: too many retries"])
def test_a_failure_with_a_word_of_an_ending_stays_the_cause(literal: str) -> None:
    later = raised("KeyError", "'answer'").replace("train", "later")
    report = triage_text(raised("RuntimeError", f"{literal} by the reward pool") + later)
    assert report.incident is not None
    assert report.incident.exception == f"RuntimeError: {literal} by the reward pool"


def test_a_row_that_describes_the_failure_says_what_it_is() -> None:
    check = Check("OWN1", "own", None)
    passed_on = check.signature("went away", pattern=r"worker (?P<n>\d+) went away", says="{n}", role=Role.CASCADE)
    (follows,) = failures(raised("RuntimeError", "worker 3 went away"), looks_for(passed_on))
    (cause,) = failures(raised("RuntimeError", "the file went away"), looks_for(passed_on))
    assert (follows.secondary, cause.secondary) == (True, False)


def test_a_text_that_rules_a_row_out_counts_too() -> None:
    check = Check("OWN1", "own", None)
    row = check.signature("went away", says="gone", unless=("on purpose",), role=Role.CASCADE)
    (cause,) = failures(raised("RuntimeError", "went away on purpose"), looks_for(row))
    assert not cause.secondary


def test_what_only_the_verdict_can_tell_is_no_reason_against_a_row() -> None:
    check = Check("OWN1", "own", None)
    open_yet = check.signature("went away", says="", when=lambda case, event: not event.finished, role=Role.CASCADE)
    asked = check.signature("went away", says="", when=lambda case, event: "x" in event.line, role=Role.CASCADE)
    text = raised("RuntimeError", "it went away")
    assert [f.secondary for f in failures(text, looks_for(open_yet))] == [True]
    assert [f.secondary for f in failures(text, looks_for(asked))] == [False]


def test_what_many_systems_say_comes_after_what_one_says() -> None:
    check = Check("OWN1", "own", None)
    check.signature("was taken", says="somebody took it", general=True)
    check.signature("seat of the pod", says="the pod lost its seat")
    report = triage_text("ERROR the machine was taken\nERROR seat of the pod: none\n", [check])
    assert [finding.message for finding in report.findings] == ["the pod lost its seat"]
