"""An unknown failure names the patterns that it resembles and says why it is none of them; nonsense is kept back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rldoctor.api import Case, Check, Finding, LogEvent, LogRun
from rldoctor.logs.triage import triage_text

from .asking import raised

LIBRARY = "/opt/venv/lib/python3.11/site-packages/gizmo/engine.py turn"
LITERAL = "gizmo flange must be aligned to the sprocket grid"


def near(text: str, *checks: Check) -> list[tuple[str, str]]:
    """What a conclusion gets to know of the nearest patterns."""
    last, seen = Check("TST900", "last", None), list[LogRun]()

    @last.concluded
    def conclude(case: Case, run: LogRun) -> Iterator[Finding]:
        seen.append(run)
        yield last.finding("unknown")

    triage_text(text, [*checks, last])
    return [(n.code, n.reason) for run in seen for n in run.near]


def check(code: str = "TST101", literal: str = LITERAL, says: bool = False, unless: tuple[str, ...] = ()) -> Check:
    made = Check(code, "gizmo-misaligned", None)

    @made.logged(literal, unless=unless)
    def judge(case: Case, event: LogEvent) -> Iterator[Finding]:
        if says:
            yield made.finding("x")

    return made


def test_a_signature_that_found_nothing_in_its_text() -> None:
    found = near(raised("GizmoError", LITERAL, LIBRARY), check())
    assert found == [
        ("TST101", f"line 6 has “{LITERAL}”, but its numbers or surroundings are not those of the pattern")
    ]


def test_a_text_that_rules_it_out() -> None:
    found = near(raised("GizmoError", f"{LITERAL} (dry run)", LIBRARY), check(unless=("(dry run)",), says=True))
    assert found == [("TST101", f"line 6 has “{LITERAL}”, but “(dry run)” rules it out")]


def test_a_text_of_which_a_word_is_not_there() -> None:
    found = near(raised("GizmoError", "gizmo flange must be aligned to the widget grid", LIBRARY), check())
    assert found == [("TST101", f"its text is “{LITERAL}”, of which “sprocket” is not there")]


def test_nothing_is_reported_where_the_pattern_is_found() -> None:
    assert near(raised("GizmoError", LITERAL, LIBRARY), check(says=True)) == []


@pytest.mark.parametrize(
    "message",
    [
        "the gizmo is on fire",
        "object must be aligned to the grid",
        "grid sprocket the to aligned be must flange",
        "'Gizmo' object has no attribute 'turn'",
    ],
)
def test_what_shares_a_few_words_is_no_neighbour(message: str) -> None:
    others = check("TST102", "object has no attribute 'rope_scaling'"), check("TST103", "KeyError: '")
    assert near(raised("GizmoError", message, LIBRARY), check(), *others) == []
    assert near(raised("KeyError", "'a'", LIBRARY), *others) == []


def test_at_most_three_are_reported_the_nearest_first() -> None:
    parts = ("flange", "pulley", "spindle", "ratchet", "cogwheel")
    checks = [check(f"TST10{i}", f"{part} must be aligned to the {part} sprocket") for i, part in enumerate(parts)]
    message = "\n".join(f"{part} must be bolted to the {part} sprocket" for part in parts)
    found = near(raised("GizmoError", message, LIBRARY), *checks)
    assert len(found) == 3


def test_the_report_of_an_unknown_failure_names_them() -> None:
    text = raised("ValueError", "Unknown quantization method: fp8x is not supported.", LIBRARY)
    (finding,) = triage_text(text).findings
    assert finding.code == "RLD900"
    assert [e.text.split(":")[0] for e in finding.evidence if e.source == "near"] == [
        "not RLD218 precision-unsupported"
    ]
