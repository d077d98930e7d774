"""Faults, one at a time, in a real engine: each is found under its own codes and no other, and without any the engine
is quiet. Faults of one group share their boots (``cases_of_faults``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from rldoctor.api import Case, Finding, Grade, Outcome
from rldoctor.api.facts import ModelFiles
from rldoctor.judge import judge
from rldoctor.probes import builtin
from rldoctor.probes.scenarios.sleep import sleep
from rldoctor.probes.scenarios.soak import soak
from tests.live import cases_of_faults
from tests.loaded import REGISTRY
from tests.probes.faults.table import FAMILIES, FAULTS, NUMBERS, PAGE, Fault, numbers, page
from tests.probes.scenarios.test_sleep import asleep

SEEN = (Grade.OBSERVED, Grade.REPRODUCED)
Played = Callable[[Fault], Case]
# The engine of each group as it is; one that plays what is ``often`` is so, too.
HEALTHY = {
    fault.group: replace(fault, name=fault.healthy, breaks="nothing", codes=())
    for fault in sorted(FAULTS, key=lambda fault: fault.often)
}

# What takes other arguments here than for a launch on this machine.
PLAYED = {
    "sleep": replace(sleep, runs=lambda *_: {"sleep": asleep(cycles=16)}),
    "soak": replace(soak, runs=lambda case, request, base: soak.runs(case, replace(request, soak=1), base)),
}


def marks(fault: Fault) -> tuple[pytest.MarkDecorator, ...]:
    return () if fault.often else (pytest.mark.power,)


@pytest.fixture(scope="module")
def played(patient: Path, request: pytest.FixtureRequest) -> Played:
    """What an engine with a fault shows. All faults of its group that this session asks for are played with it."""
    specs = [getattr(item, "callspec", None) for item in request.session.items]
    asked = [spec.params.get("fault") for spec in specs if spec is not None]
    chosen = [fault for fault in asked if isinstance(fault, Fault)]  # other tests name theirs

    @cache
    def group(scenarios: tuple[str, ...], launch: bool, family: str | None) -> dict[str, Case]:
        of_group = [fault for fault in chosen if fault.group == (scenarios, launch, family)]
        scenarios_of_group = [PLAYED.get(name) or getattr(builtin, name) for name in scenarios]
        names = dict.fromkeys([of_group[0].healthy, *(fault.played for fault in of_group)])
        plan = next((fault.launch for fault in of_group), None)
        model = ModelFiles(path="model", config=FAMILIES[family]) if family is not None else None
        return cases_of_faults(patient, *scenarios_of_group, faults=names, plan=plan, model=model)

    return lambda fault: group(*fault.group)[fault.played]


def seen(case: Case) -> list[Finding]:
    """What the engine showed; that a launch's framework is not installed here is another matter."""
    judged = judge(REGISTRY.checks.values(), case)
    # One that has crashed finds nothing, either.
    assert [one.traceback for one in judged if one.outcome is Outcome.CRASHED] == []
    return [one for result in judged for one in result.findings if one.grade in SEEN]


@pytest.mark.engine
@pytest.mark.parametrize(
    "fault",
    [pytest.param(f, id=f.name.replace(":", "-"), marks=marks(f)) for f in FAULTS],
)
def test_a_fault_is_found_under_its_codes_alone(played: Played, fault: Fault) -> None:
    found = seen(played(fault))
    assert tuple(sorted(one.code for one in found)) == fault.codes, [one.message for one in found]


@pytest.mark.engine
@pytest.mark.parametrize(
    "fault",
    [pytest.param(f, id="-".join((*f.scenarios, f.family or "usual")), marks=marks(f)) for f in HEALTHY.values()],
)
def test_without_a_fault_nothing_is_found(played: Played, fault: Fault) -> None:
    assert not seen(played(fault))


def test_the_documentation_and_the_budget_have_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.probes.faults.table"
    assert NUMBERS.read_text(encoding="utf-8") == numbers(), "python -m tests.probes.faults.table"


def test_every_fault_is_named_once_and_has_a_code() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 40
    assert all(fault.codes and set(fault.codes) <= REGISTRY.checks.keys() for fault in FAULTS)
