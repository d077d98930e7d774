"""Checks that are imported when something in them is asked for, and not before."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from rldoctor.api import Case, Check, Level, Reach
from rldoctor.api.probes import Basis, Request, Scenario
from rldoctor.catalogue import deferred, registry
from rldoctor.catalogue.deferred import DeferredCheck
from rldoctor.judge import judge_one

SOURCE = '''
"""What it looks for: a launch."""
from rldoctor.api import Check, Reach
check = Check("TST101", "test-one", __doc__, before=("RLD101",))

@check.declared(needs=["plan.engine.seed"])
def seeded(case):
    yield Reach("a seed")

@check.declared(needs=[])
def always(case):
    yield Reach("nothing at all")

@check.knows
def known(job):
    return job == {"known": True}
'''
LIVE = """
from rldoctor.api import Reach
from . import check

@check.observed(needs=["observations.rollout"])
def seen(case):
    yield Reach("an observation")
"""
PART = "from . import check\ncheck.signature('a literal of its own', says='seen')\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with one check, a folder with a part; what Python compiles of it may be kept."""
    folder = tmp_path / "deferred_checks"
    check = folder / "one"
    check.mkdir(parents=True)
    (folder / "__pycache__").mkdir()
    (folder / "__init__.py").write_text("")
    (check / "__init__.py").write_text(SOURCE)
    (check / "logged.py").write_text(PART)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    for name in [name for name in sys.modules if name.startswith("deferred_checks")]:
        monkeypatch.delitem(sys.modules, name)
    return folder


def keep(*parts: str) -> Check:
    """Keeps the package's check as a run would, and forgets its modules."""
    names = ["deferred_checks.one", *(parts or ["deferred_checks.one.logged"])]
    module, *_ = [importlib.import_module(name) for name in names]
    deferred.keep("deferred_checks", [deferred.row(module.check, names)])
    for name in [name for name in sys.modules if name.startswith("deferred_checks")]:
        del sys.modules[name]
    found: Check = module.check
    return found


def test_a_check_is_imported_when_one_of_its_detectors_can_judge(package: Path) -> None:
    real = keep()
    (check,) = deferred.kept("deferred_checks").checks
    assert (check.code, check.name, check.before, check.module) == (real.code, real.name, real.before, real.module)
    assert [d.needs for d in check.detectors] == [("plan.engine.seed",), ()]
    first, second = check.detectors
    check.detectors = [first]
    assert judge_one(check, Case()).outcome == "not-checked"
    assert "deferred_checks.one" not in sys.modules
    check.detectors = [first, second]
    assert judge_one(check, Case()).reason == judge_one(real, Case()).reason
    assert "deferred_checks.one" in sys.modules


def test_all_parts_of_a_check_are_there_once_it_is_asked_for(package: Path) -> None:
    keep()
    (check,) = deferred.kept("deferred_checks").checks
    assert [signature.literals for signature in check.signatures] == [("a literal of its own",)]
    assert check.doc == "What it looks for: a launch."
    assert check.known_by[0]({"known": True}) and not check.known_by[0]({})


def test_a_detector_is_had_without_the_other_parts(package: Path) -> None:
    (package / "one" / "live.py").write_text(LIVE)
    keep("deferred_checks.one.live", "deferred_checks.one.logged")
    (check,) = deferred.kept("deferred_checks").checks
    *_, seen = check.detectors
    assert list(seen.judge(Case())) == [Reach("an observation")]
    loaded = {name for name in sys.modules if name.startswith("deferred_checks.one")}
    assert loaded == {"deferred_checks.one", "deferred_checks.one.live"}


PARTS_BACKWARDS = """
import sys
import msgspec
from rldoctor.catalogue.deferred import DeferredCheck, Row
for row in msgspec.json.decode(sys.stdin.read(), type=list[Row]):
    check = DeferredCheck(row)
    for need in reversed(row.detectors):
        found = check.detector(need)
        assert (found.needs, found.grade, found.fallback) == (need.needs, need.grade, need.fallback), (row.code, need)
"""


def test_each_part_of_a_built_in_check_brings_its_own_detectors() -> None:
    """The parts are imported the last first, by a process that has none of them yet."""
    rows = [deferred.row(check, [check.module]) for check in registry.load().checks.values()]
    subprocess.run([sys.executable, "-c", PARTS_BACKWARDS], input=msgspec.json.encode(rows), check=True, timeout=60)


def test_a_built_in_probe_is_imported_when_it_is_asked_for_jobs(package: Path) -> None:
    """It is the same in all else, and asks for the same."""
    real = registry.load().probes
    deferred.keep("deferred_checks", [], map(deferred.probe_row, real.values()))
    found = {probe.name: probe for probe in deferred.kept("deferred_checks").probes}
    assert found.keys() == real.keys()
    for name, probe in found.items():
        asks = "runs" if isinstance(probe, Scenario) else "jobs"
        assert replace(probe, **{asks: getattr(real[name], asks)}) == real[name]
        request = Request(level=Level.ROLLOUT)
        given = (Case(), request, Basis()) if isinstance(probe, Scenario) else (Case(), request)
        assert answer(getattr(probe, asks), given) == answer(getattr(real[name], asks), given), name


def answer(asks: Callable[..., object], given: tuple[object, ...]) -> object:
    try:
        return asks(*given)
    except Exception as error:
        return repr(error)


def test_a_static_check_imports_no_probe() -> None:
    source = (
        "import sys; from rldoctor.cli import main\n"
        "try: main(['check', '--level', 'static'])\n"
        "except SystemExit: pass\n"
        "print(*(name for name in sys.modules if name.startswith('rldoctor.probes.scenarios.')), file=sys.stderr)"
    )
    for _ in range(2):  # the first may have to keep what is known of them
        done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.splitlines()[-1] == ""


def test_a_file_that_changed_makes_what_was_kept_void(package: Path) -> None:
    keep()
    (package / "one" / "logged.py").write_text(PART + "# another size\n")
    assert deferred.kept("deferred_checks").checks == []


@pytest.mark.parametrize("content", [b"", b"[]", b'{"state":', b"[0,[]]"])
def test_what_was_kept_badly_is_void(package: Path, content: bytes) -> None:
    keep()
    (package / "__pycache__" / deferred.FILE).write_bytes(content)
    assert deferred.kept("deferred_checks").checks == []


def test_where_python_keeps_nothing_nothing_is_kept(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (package / "__pycache__").rmdir()
    keep()
    assert deferred.kept("deferred_checks").checks == [] and not (package / "__pycache__").exists()


def test_the_built_in_checks_are_the_same_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = registry.load()
    rows = [deferred.row(check, [check.module]) for check in loaded.checks.values()]
    found = deferred.Known([DeferredCheck(row) for row in rows], [])
    monkeypatch.setattr(deferred, "kept", lambda package: found)
    late = registry.load(defer=True)
    assert late.broken == [] and late.checks.keys() == loaded.checks.keys()
    for code, check in late.checks.items():
        real = loaded.checks[code]
        assert isinstance(check, DeferredCheck) and check.real is real
        assert (check.name, check.kind, check.before, check.formerly, check.explains) == (
            real.name,
            real.kind,
            real.before,
            real.formerly,
            real.explains,
        )
        needed = [(d.needs, d.grade, d.fallback) for d in check.detectors]
        assert needed == [(d.needs, d.grade, d.fallback) for d in real.detectors]
        assert [check.detector(need) for need in check.row.detectors] == real.detectors
        assert (len(check.known_by), check.doc, check.signatures) == (
            len(real.known_by),
            real.doc,
            real.signatures,
        )
