"""``pytest --rldoctor train.sh``: each launch file is a test, which fails as ``rldoctor check`` does.

pytest imports this at every start, as an entry point: what is heavier comes in when a launch is judged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_GROUP = "rldoctor"
_DEFAULT_LEVEL = "static"


class LaunchError(Exception):
    """What the doctor says of a launch."""


class Launch(pytest.Item):
    """One launch file."""

    def __init__(self, *, launch: Path, **more: Any) -> None:
        super().__init__(**more)
        self.launch = launch
        self.add_marker(_GROUP)

    def runtest(self) -> None:
        """Judges it, with the project's settings; anything but a pass is a failure."""
        from rldoctor import redact, report, verdict
        from rldoctor.errors import InputError
        from rldoctor.flow import examination, run, session
        from rldoctor.model import State
        from rldoctor.printable import printable

        redact.begin(os.environ)
        options = session.Options(
            level=self.config.getoption("rldoctor_level"), assume=tuple(self.config.getoption("rldoctor_assume"))
        )
        try:
            opened = session.open_session(options)
            judged = examination.join([one.report for one in run.examine_all(opened, [self.launch], lambda line: None)])
        except InputError as error:
            raise LaunchError(printable(redact.text(str(error)))) from None
        judged = verdict.over(judged, opened.settings.fail_on or "error")
        assert judged.verdict is not None
        if judged.verdict.state is not State.PASSED:
            raise LaunchError(report.renderer("rich", to_file=True)(redact.tree(judged)).rstrip())

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The report alone: a stack of ours says nothing about a launch."""
        if isinstance(excinfo.value, LaunchError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where pytest says that it is."""
        return self.launch, 0, f"{_GROUP}: {self.launch}"


class Launches(pytest.Collector):
    """All launch files of a command line."""

    def collect(self) -> Iterator[Launch]:
        """One test for each."""
        for launch in self.config.getoption("rldoctor"):
            yield Launch.from_parent(self, name=str(launch), launch=Path(launch))


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup(_GROUP, "rldoctor: launches of RL training as tests")
    group.addoption("--rldoctor", action="append", default=[], metavar="LAUNCH", help="a launch file; repeatable")
    assume = {"action": "append", "default": [], "metavar": "MACHINE"}
    group.addoption("--rldoctor-assume", **assume, help="judge for it, as rldoctor's --assume")
    group.addoption("--rldoctor-level", default=_DEFAULT_LEVEL, metavar="LEVEL", help="how deep (default: static)")


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marker known, by which ``-m`` chooses these tests."""
    config.addinivalue_line("markers", f"{_GROUP}: a launch file that rldoctor judges")


def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Adds the launches behind the tests of files."""
    if session.config.getoption("rldoctor"):
        items += Launches.from_parent(session, name=_GROUP, nodeid=_GROUP).collect()
