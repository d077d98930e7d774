"""Which code comes first, as checks say it of each other, plugins included."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rldoctor.api import Case, Check, Finding, Kind, LogEvent, LogRun
from rldoctor.catalogue import registry
from rldoctor.catalogue.precedence import Precedence
from rldoctor.logs.triage import triage_text

CRASH = """Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/acme/flux.py", line 21, in step
    raise RuntimeError("flux capacitor drained, plutonium chamber empty")
RuntimeError: flux capacitor drained, plutonium chamber empty
"""


def seeing(code: str, literal: str, before: tuple[str, ...] = ()) -> Check:
    check = Check(code, f"{code.lower()}-seen", None, before=before)
    check.signature(literal, says="seen")
    return check


def test_a_check_comes_before_another_by_its_code_or_its_name() -> None:
    later = "chamber empty"
    for before in ((), ("TST100",), ("tst100-seen",)):
        checks = [seeing("TST100", "flux capacitor drained"), seeing("TST200", later, before)]
        found = [finding.code for finding in triage_text(CRASH, checks).findings]
        assert found[0] == ("TST200" if before else "TST100")


def test_a_name_that_a_check_had_is_still_understood() -> None:
    renamed = Check("TST100", "tst100-ended", None, formerly=("tst100-died",))
    precedence = Precedence.of([renamed, Check("TST200", "cause", None, before=("tst100-died",))])
    assert precedence.ordered(["TST100", "TST200"]) == ["TST200", "TST100"]


def test_what_is_said_of_a_check_that_is_not_there_does_not_count() -> None:
    assert Precedence.of([seeing("TST100", "flux capacitor", ("GONE1",))]).before == ()


def test_a_conclusion_withdraws_those_that_it_explains() -> None:
    checks = [concluding("TST100"), concluding("TST200", ("TST100",))]
    assert [finding.code for finding in triage_text(CRASH, checks).findings] == ["TST200"]
    checks = [concluding("TST100"), concluding("TST200")]
    assert {finding.code for finding in triage_text(CRASH, checks).findings} == {"TST100", "TST200"}


def concluding(code: str, explains: tuple[str, ...] = ()) -> Check:
    check = Check(code, f"{code.lower()}-concluded", None, explains=explains)

    @check.concluded
    def judge(case: Case, run: LogRun) -> Iterator[Finding]:
        yield check.finding("concluded")

    return check


def test_a_stall_is_a_kind_that_a_plugin_has_too() -> None:
    for kind, said in ((Kind.STALL, "stalled"), (Kind.CAUSE, "crashed")):
        check = Check("TST100", "waits", None, kind=kind)

        @check.logged("still waiting for the door", silent=True)
        def waits(case: Case, event: LogEvent, check: Check = check) -> Iterator[Finding]:
            yield check.finding("waits")

        incident = triage_text("step 1\nstill waiting for the door\n", [check]).incident
        assert incident is not None and incident.kind == said


def test_the_built_in_checks_name_codes_that_exist_and_go_in_no_circle() -> None:
    checks = registry.load().checks
    names = {check.name for check in checks.values()} | set(checks)
    for check in checks.values():
        assert set(check.before) | set(check.explains) <= names, check.code
    after: dict[str, set[str]] = {}
    for first, second in Precedence.of(checks.values()).before:
        after.setdefault(first, set()).add(second)

    def reached(code: str, seen: frozenset[str] = frozenset()) -> bool:
        return code in seen or any(reached(later, seen | {code}) for later in after.get(code, ()))

    assert [code for code in after if reached(code)] == []


def test_a_word_instead_of_a_tuple_is_refused() -> None:
    with pytest.raises(TypeError, match="TST100: before and explains are tuples"):
        Check("TST100", "seen", None, before="RLD101")  # type: ignore[arg-type]
