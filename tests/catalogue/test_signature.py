"""``check.signature``: a way a log shows a pattern, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rldoctor.api import Case, Check, Finding, Fix, LogEvent, Role, Severity
from rldoctor.api.facts import Distribution, Packages
from rldoctor.catalogue.signature import fill
from rldoctor.logs.triage import triage_text

LINE = "ValueError: LoRA rank 64 is greater than max_lora_rank 16."
CRASH = f"""Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/vllm/lora/models.py", line 21, in check
    raise ValueError("LoRA rank")
{LINE}
"""
LITERAL = "is greater than max_lora_rank"


def found(text: str = CRASH, case: Case | None = None, literal: str = LITERAL, **row: Any) -> Finding | None:
    check = Check("TST100", "seen", None)
    check.signature(literal, **{"says": "seen", **row})
    return next(iter(triage_text(text, [check], case).findings), None)


def test_groups_of_the_pattern_are_words_of_the_message_and_the_fixes() -> None:
    fix = Fix(title="give --max-lora-rank {rank}", commands=("awk '{print $1}' {unknown}",))
    finding = found(pattern=r"rank (?P<rank>\d+) is .*? (?P<limit>\d+)\.", says="{rank} over {limit}", fixes=(fix,))
    assert finding is not None and finding.message == "64 over 16"
    assert finding.fixes[0].title == "give --max-lora-rank 64"
    assert finding.fixes[0].commands == fix.commands  # braces that name no word stay
    assert finding.evidence[0].line == 4


def test_a_pattern_that_is_not_there_says_nothing_and_a_detail_may_be_missing() -> None:
    assert found(pattern="a rank of steel") is None
    row: dict[str, Any] = {"details": (r"on node (?P<node>\w+)",), "says": "refused[[ on {node}]], {node|nowhere}"}
    finding, other = found(**row), found(CRASH + "on node one\n", **row)
    assert finding is not None and finding.message == "refused, nowhere"
    assert other is not None and other.message == "refused on one, one"


def test_a_part_gives_way_to_another_where_its_word_is_missing() -> None:
    row: dict[str, Any] = {"details": (r"on node (?P<node>\w+)",), "says": "refused [[on {node}||somewhere]]"}
    finding, other = found(**row), found(CRASH + "on node one\n", **row)
    assert finding is not None and finding.message == "refused somewhere"
    assert other is not None and other.message == "refused on one"


@pytest.mark.parametrize("said", ["port: 29500", "[::]:29500"])
def test_a_word_may_stand_in_several_places(said: str) -> None:
    expression = r"port: (?P<port>\d+)|\[::\]:(?P<port_2>\d+)"
    finding = found(f"{CRASH}{said}\n", details=(expression,), says="port {port} is taken")
    assert finding is not None and finding.message == "port 29500 is taken"


def test_the_exception_is_named_with_or_without_its_module() -> None:
    assert found(exception="ValueError") is not None
    assert found(exception=("KeyError", "TypeError")) is None
    assert found(CRASH.replace("\nValueError:", "\nacme.errors.ValueError:"), exception="ValueError") is not None


def test_releases_must_be_known_and_within() -> None:
    def case(version: str) -> Case:
        return Case(packages=Packages(python="3.11", distributions=(Distribution(name="vllm", version=version),)))

    assert found(versions={"vllm": "<0.9"}) is None
    assert found(case=case("0.10.0"), versions={"vllm": "<0.9"}) is None
    assert found(case=case("0.8.5"), versions={"vllm": "<0.9"}) is not None


def test_a_condition_may_decline_or_give_words() -> None:
    def doubled(case: Case, event: LogEvent) -> Mapping[str, str] | None:
        return {"twice": event.line[-3:-1] * 2} if "16" in event.line else None

    finding = found(when=doubled, says="{twice}")
    assert finding is not None and finding.message == "1616"
    assert found(CRASH.replace("16", "32"), when=doubled, says="{twice}") is None


def test_fixes_may_be_worked_out() -> None:
    def larger(case: Case, event: LogEvent, words: Mapping[str, str]) -> list[Fix]:
        return [Fix.safe("raise it", {"engine.max_lora_rank": int(words["rank"])})]

    finding = found(pattern=r"rank (?P<rank>\d+) is", fixes=larger, severity=Severity.WARNING)
    assert finding is not None and finding.fixes[0].edits[0].value == 64 and finding.severity is Severity.WARNING


def test_the_line_and_its_exception_are_there_without_a_pattern() -> None:
    finding = found(says="{error}")
    assert finding is not None and finding.message == LINE


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"says": "{nowhere}"}, "TST100: '{nowhere}' uses nowhere, which no pattern names"),
        ({"says": "x", "literal": "short"}, "'short' must be one line of 6 characters or more"),
    ],
)
def test_a_row_that_could_not_be_searched_or_said_is_refused(row: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        found(**row)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rank {rank}", "rank 3"),
        ("rank {none}", None),
        ("rank {none|?}", "rank ?"),
        ("lost[[ on {none}]] by [[rank {rank}]]", "lost by rank 3"),
    ],
)
def test_words_in_a_text(text: str, said: str | None) -> None:
    assert fill(text, {"rank": "3"}) == said


def test_what_only_passes_a_failure_on_says_nothing() -> None:
    check = Check("TST100", "passes-on", None)
    check.passes_on(LITERAL)
    assert [(one.literals, one.role) for one in check.signatures] == [((LITERAL,), Role.WRAPPER)]
    assert triage_text(CRASH, [check]).findings == ()


def test_the_weight_may_depend_on_the_line() -> None:
    finding = found(severity=lambda event: Severity.NOTE if event.exception is not None else Severity.WARNING)
    assert finding is not None and finding.severity is Severity.NOTE
