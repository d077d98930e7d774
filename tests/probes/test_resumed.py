"""What an engine showed is kept, and taken by a run that is told the same of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rldoctor.api import Case
from rldoctor.api.probes import Job, Request
from rldoctor.catalogue.probe import JobResult
from rldoctor.catalogue.scenario import Basis, Engine, Run
from rldoctor.probes import engines
from rldoctor.probes.boots import Asked, plan_boots
from rldoctor.probes.resumed import Kept
from rldoctor.probes.scenarios.answers import answers
from tests.observations import packages

JOB = Job(arguments={"engine": {"seed": 0}})
CASE = Case(packages=packages(vllm="0.32.0"))
SHOWN: dict[str, dict[str, Any]] = {"rollout": {"miniature": {"ended": "done", "records": {"logprob": "-inf"}}}}


def kept(folder: Path, case: Case = CASE, request: Request = Request(), job: Job = JOB) -> Kept:  # noqa: B008
    return Kept(folder, case, request, job)


def test_what_was_kept_comes_back_without_its_log(tmp_path: Path) -> None:
    shown = {"rollout": {"miniature": {**SHOWN["rollout"]["miniature"], "log": "/tmp/log.txt"}}}
    kept(tmp_path / "new").keep(shown)
    assert kept(tmp_path / "new").observations() == {
        "rollout": {"miniature": {**shown["rollout"]["miniature"], "log": None}}
    }
    assert [file.suffix for file in (tmp_path / "new").iterdir()] == [".json"]


@pytest.mark.parametrize(
    "other",
    [
        {"case": Case(packages=packages(vllm="0.31.0"))},
        {"request": Request(python=Path("/other/bin/python"))},
        {"job": replace(JOB, arguments={"engine": {"seed": 1}})},
        {"job": replace(JOB, environ={"VLLM_USE_V1": "0"})},
    ],
    ids=["another release", "another interpreter", "another option", "another variable"],
)
def test_what_depends_on_something_else_is_played_again(tmp_path: Path, other: dict[str, Any]) -> None:
    kept(tmp_path).keep(SHOWN)
    assert kept(tmp_path, **other).observations() is None


def test_what_failed_or_was_cut_off_is_played_again(tmp_path: Path) -> None:
    kept(tmp_path).keep({**SHOWN, "answers": {"answers": {"ended": "died"}}})
    assert kept(tmp_path).observations() is None
    kept(tmp_path).keep(SHOWN)
    kept(tmp_path).file.write_text("{")
    assert kept(tmp_path).observations() is None


def test_a_run_goes_on_behind_the_engines_that_were_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run is interrupted at its second engine."""
    basis, booted = Basis(model_len=2048), []

    def child(*given: Any) -> engines.Played:
        boot, left = given[3], given[4]
        booted.append(boot.name)
        if len(booted) == 2:
            raise KeyboardInterrupt
        done = JobResult(ended="done", records={"boot": boot.name})
        return engines.Played(boot=done, runs={one.key: done for one in left})

    monkeypatch.setattr(engines, "play_boot", child)
    asked = [
        Asked(answers, "answers", Run()),
        Asked(answers, "other", Run(engine=Engine(replica=1))),
    ]
    boots = plan_boots(asked, basis)
    request = Request(keep=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        engines.play(CASE, request, basis, boots, lambda _: None)
    said: list[str] = []
    seen = engines.play(CASE, request, basis, boots, said.append)
    first, second = [boot.name for boot in boots]
    assert booted == [first, second, second]
    assert set(seen["answers"]) == {"answers", "other"} and set(seen["rollout"]) == {first, second}
    assert said[0] == f"{first}: played before, taken from {tmp_path}"
