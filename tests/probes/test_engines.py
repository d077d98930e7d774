"""How boots are played: a run that ends its engine costs the others another boot, and takes the end upon itself."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from rldoctor.api import Case, Level
from rldoctor.api.probes import Basis, Engine, Request, Run, Scenario
from rldoctor.probes.boots import Asked, plan_boots
from rldoctor.probes.engines import play
from tests.live import CHILD_HEAD

# A child with the protocol of the real one and no engine: a run's arguments say what becomes of it.
CHILD = (
    CHILD_HEAD
    + """
def main(arguments):
    emit("engine", {"max_model_len": 2048})
    emit("completions", [])
    if os.path.exists(sys.path[0] + "/down"):
        raise RuntimeError("no engine")
    if os.path.exists(sys.path[0] + "/lacks"):
        exec(compile("raise NotImplementedError('no kernel')", open(sys.path[0] + "/lacks").read(), "exec"))
    told = {}
    for asked in arguments["runs"]:
        record = told[asked["key"]] = {"ended": None, "began": report.elapsed(), "records": {"reach": {"requests": 1}}}
        emit("runs", told)
        what = asked["arguments"]["what"]
        if what == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if what == "hang":
            with report.deadline(1.0):
                time.sleep(60)
        if what == "long":
            time.sleep(60)
        if what == "crash at its limit":
            time.sleep(1.1)
            os.kill(os.getpid(), signal.SIGSEGV)
        if what == "down":
            open(sys.path[0] + "/down", "w").close()
            os._exit(3)
        record["ended"] = "raised" if what == "raise" else "done"
        emit("runs", told)
        if what == "raise":
            return

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
run(main)
"""
)


PLAIN, REFERENCE = Engine(), Engine(reference=True)


@pytest.fixture
def child(tmp_path: Path) -> Path:
    file = tmp_path / "child.py"
    file.write_text(CHILD)
    return file


def played(
    child: Path, until: float | None = None, engine: Engine = PLAIN, **runs: str
) -> tuple[dict[str, Any], list[str]]:
    """The observations of scenarios that end as their values say, and what was announced."""
    asked = [
        Asked(
            Scenario(name=name, level=Level.COMPARE, program=child, runs=lambda *_: {}),
            "run",
            Run(engine=engine, arguments={"what": end}, time_limit=1.0),
        )
        for name, end in runs.items()
    ]
    reported: list[str] = []
    return play(Case(), Request(until=until), Basis(), plan_boots(asked, Basis()), reported.append, child), reported


def endings(observations: dict[str, Any]) -> dict[str, str]:
    return {name: job["ended"] for name, jobs in observations.items() for job in jobs.values()}


def test_runs_that_go_well_share_one_boot(child: Path) -> None:
    observations, reported = played(child, a="done", b="done")
    assert endings(observations) == {"rollout": "done", "a": "done", "b": "done"}
    assert reported == ["miniature, a, b"]
    job = observations["a"]["run"]
    assert job["boot"] == "miniature"
    assert job["records"]["reach"] == {"requests": 1} and job["records"]["engine"] == {"max_model_len": 2048}
    assert "runs" not in observations["rollout"]["miniature"]["records"]


@pytest.mark.parametrize(("end", "ended"), [("crash", "died"), ("raise", "raised"), ("hang", "stalled")])
def test_a_run_that_ends_its_engine_costs_the_others_another_boot(child: Path, end: str, ended: str) -> None:
    observations, reported = played(child, a="done", b=end, c="done")
    assert endings(observations) == {"rollout": "done", "a": "done", "b": ended, "c": "done"}
    assert reported == ["miniature, a, b, c", "miniature, c"]
    assert observations["b"]["run"]["signal"] == ("SIGSEGV" if end == "crash" else None)


def test_a_run_whose_stack_cannot_be_written_when_its_time_is_over_is_stalled_too(child: Path) -> None:
    observations, _ = played(child, a="crash at its limit")
    assert endings(observations)["a"] == "stalled"


def test_an_engine_that_does_not_come_up_again_leaves_the_rest_unplayed(child: Path) -> None:
    observations, reported = played(child, a="down", b="done")
    assert {name: job["ended"] for name, job in observations["rollout"].items()} == {
        "miniature": "done",
        "miniature, boot 2": "raised",
    }
    assert (observations["a"]["run"]["ended"], observations["b"]["run"]["ended"]) == ("died", "not-run")
    assert observations["b"]["run"]["why"] == "its engine did not come up: RuntimeError: no engine at stage start"
    assert len(reported) == 2


def test_an_engine_that_never_comes_up_is_its_own_failure(child: Path) -> None:
    (child.parent / "down").touch()
    observations, reported = played(child, a="done", b="done")
    assert endings(observations) == {"rollout": "raised", "a": "not-run", "b": "not-run"}
    assert len(reported) == 1


@pytest.mark.parametrize(
    ("file", "ended"),
    [
        ("/venv/vllm/model_executor/layers/fused_moe/oracle/unquantized.py", "not-run"),
        ("/venv/vllm/v1/attention/backends/cpu_attn.py", "not-run"),
        # What refuses an option does so on every platform.
        ("/venv/vllm/engine/arg_utils.py", "raised"),
        ("/venv/vllm/model_executor/models/registry.py", "raised"),
    ],
)
def test_what_vllm_for_the_cpu_does_not_have_is_no_failure(child: Path, file: str, ended: str) -> None:
    (child.parent / "lacks").write_text(file)
    observations, _ = played(child, a="done")
    assert endings(observations) == {"rollout": ended, "a": "not-run"}
    why = observations["a"]["run"]["why"]
    assert why.endswith("NotImplementedError: no kernel at stage start")
    assert ("cannot run this model" in why) is (ended == "not-run")


def test_a_reference_that_does_not_come_up_is_no_failure(child: Path) -> None:
    (child.parent / "down").touch()
    observations, _ = played(child, engine=REFERENCE, a="done")
    assert endings(observations) == {"a": "not-run"}
    assert observations["a"]["run"]["why"] == "its engine did not come up: RuntimeError: no engine at stage start"


@pytest.mark.parametrize(
    ("end", "why"), [("crash", "it failed: SIGSEGV at stage b: run"), ("hang", "it failed: no end within")]
)
def test_what_fails_on_a_reference_was_not_reached(child: Path, end: str, why: str) -> None:
    observations, _ = played(child, engine=REFERENCE, a="done", b=end, c="done")
    assert endings(observations) == {"a": "done", "b": "not-run", "c": "done"}
    assert observations["b"]["run"]["why"].startswith(why)


def test_where_the_budget_is_spent_no_engine_is_booted(child: Path) -> None:
    observations, reported = played(child, until=0.0, a="done")
    assert (observations["a"]["run"]["ended"], observations["a"]["run"]["why"]) == (
        "not-run",
        "the budget was spent before it",
    )
    assert reported == []


def test_what_still_runs_when_the_budget_is_spent_is_ended_and_no_failure(child: Path) -> None:
    observations, reported = played(child, until=time.monotonic() + 8, a="done", b="long", c="done")
    assert endings(observations) == {"rollout": "done", "a": "done", "b": "not-run", "c": "not-run"}
    assert observations["b"]["run"]["why"] == "the budget was spent before its end"
    assert observations["c"]["run"]["why"] == "the budget was spent before it"
    assert reported == ["miniature, a, b, c"]
