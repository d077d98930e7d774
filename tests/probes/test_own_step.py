"""A step of the user's own on pretended devices: mistakes are named with their line, what is right is quiet."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.devices import device_mismatch

from rldoctor.api import Case, Grade, NotApplicable, Outcome
from rldoctor.api.probes import Job, Request
from rldoctor.judge import judge_one
from rldoctor.probes.own_step import own_step
from rldoctor.probes.runner import run_job
from tests.probes.ranks import FAULTS, plan

OWN = Path(__file__).parent / "own"


def functions(file: Path) -> list[str]:
    """The steps in a file: its functions that take nothing or a device."""
    nodes = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)]
    return [node.name for node in nodes if node.name not in ("ids", "selected")]


def rows(patient: Path, name: str, rank: int) -> dict[str, Any]:
    """What became of every step of a file."""
    file = OWN / name
    told = {"file": str(file), "functions": functions(file), "rank": rank, "ranks": 2, "devices": 8}
    job = run_job(FAULTS / "own_steps.py", Job(arguments=told, time_limit=300), "own steps", Request(python=patient))
    assert job.ended == "done", job.tail[-8:]
    found: dict[str, Any] = job.records["rows"]
    assert set(found) == set(functions(file))
    return found


@pytest.mark.engine
def test_mistakes_are_named_with_their_line(patient: Path) -> None:
    source = (OWN / "mistakes.py").read_text().splitlines()
    found = rows(patient, "mistakes.py", rank=1)
    assert len(found) >= 20
    for name, row in found.items():
        assert row["ended"] == "mixed", (name, row)
        reported = Case(observations={"own_step": {"rank 1": {"ended": "done", "records": {"step": row}}}})
        (finding,) = judge_one(device_mismatch.check, reported).findings
        assert finding.grade is Grade.SIMULATED and "as rank 1 mixes" in finding.message
        # The step itself is on the path to the operation, or the line that made the tensor is in it.
        lines = [one.line for one in finding.evidence if one.source == str(OWN / "mistakes.py")]
        node = next(n for n in ast.parse("\n".join(source)).body if isinstance(n, ast.FunctionDef) and n.name == name)
        assert any(line is not None and node.lineno <= line <= (node.end_lineno or 0) for line in lines), (name, lines)
        marked = [line for line in lines if line is not None and source[line - 1].endswith("# here")]
        assert marked or "# here" not in ast.get_source_segment("\n".join(source), node), (name, lines)  # type: ignore[operator]


@pytest.mark.engine
def test_what_is_right_is_quiet_on_both_ranks(patient: Path) -> None:
    for rank in (0, 1):
        found = rows(patient, "healthy.py", rank)
        assert len(found) >= 15
        assert {
            name: row.get("error") or row.get("mixed") for name, row in found.items() if row["ended"] != "done"
        } == {}


def test_which_ranks_are_played() -> None:
    with pytest.raises(NotApplicable, match="--step"):
        own_step.jobs(Case(), Request())
    asked = Request(step=(Path("/a/step.py"), "step"))
    assert list(own_step.jobs(Case(), asked)) == ["rank 0", "rank 1"]
    assert list(own_step.jobs(Case(plan=plan(process__total=1)), asked)) == ["rank 0"]
    # Workers of Ray see one device each.
    assert list(own_step.jobs(Case(plan=plan("verl", process__launcher="ray", process__total=8)), asked)) == ["rank 0"]


def test_a_step_that_fails_by_itself_is_not_judged() -> None:
    row = {"ended": "failed", "error": {"type": "KeyError", "message": "'a'"}}
    reported = Case(observations={"own_step": {"rank 0": {"ended": "done", "records": {"step": row}}}})
    result = judge_one(device_mismatch.check, reported)
    assert result.outcome is Outcome.NOT_CHECKED and "KeyError: 'a'" in str(result.reason)
