"""Which facts are collected, and what becomes of those that are not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rldoctor import bundle, facts
from rldoctor.case import Case, Unknown
from rldoctor.case.lookup import Absent
from rldoctor.catalogue.probe import Request
from rldoctor.errors import InputError
from rldoctor.facts import environment, gpus, host


def test_only_what_is_asked_for_is_collected() -> None:
    case = facts.collect({"environment", "observations"}, Request(environ={"NCCL_DEBUG": "INFO", "HOME": "/root"}))
    assert case.environment == {"NCCL_DEBUG": "INFO"}
    assert case.packages is None and case.host is None and case.gpus is None


def test_everything_of_this_machine_survives_the_bundle() -> None:
    case = facts.collect(set(facts.SECTIONS), Request(target=Path("train.sh")))
    assert case.packages is not None and case.host is not None and case.environment is not None
    assert case.target == "train.sh"
    assert case.unknown["model"].how == "--model DIRECTORY"
    assert bundle.parse(bundle.dump(case).encode(), "bundle") == case


def test_a_collector_says_why_it_has_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "collect", lambda request: Unknown(reason="the driver hangs"))
    monkeypatch.setattr(host, "collect", lambda request: Absent("no host"))
    case = facts.collect({"gpus", "host"}, Request())
    assert case.unknown == {"gpus": Unknown(reason="the driver hangs")}
    assert case.absent == {"host": "no host"}


def test_a_collector_that_breaks_costs_its_own_facts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(request: Request) -> dict[str, str]:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(environment, "collect", broken)
    case = facts.collect({"environment", "host"}, Request())
    assert case.unknown["environment"].reason == "environment could not be collected: ZeroDivisionError: oops"
    assert case.host is not None


def test_what_the_user_named_wrongly_is_an_error() -> None:
    with pytest.raises(InputError, match="--python /no/such/python: does not exist"):
        facts.collect({"packages"}, Request(python=Path("/no/such/python")))


def test_unasked_collectors_are_not_even_imported() -> None:
    program = (
        "import sys\n"
        "from rldoctor import facts\n"
        "from rldoctor.catalogue.probe import Request\n"
        "facts.collect({'environment'}, Request())\n"
        "print([m for m in sys.modules if m in ('psutil', 'pynvml', 'packaging', 'rldoctor.facts.host')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_a_case_without_sections_is_empty() -> None:
    case = facts.collect(set(), Request())
    assert case == Case(tool=case.tool)
    assert case.tool.startswith("rldoctor ")
