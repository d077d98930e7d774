"""Launch files written for one test, read with the shipped option tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rldoctor.frameworks import all_dialects
from rldoctor.frameworks.dialect import Dialect
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.option_table import OptionTable
from rldoctor.launch import recognise
from rldoctor.launch.recognise import read
from rldoctor.plan.model import RolloutPlan
from rldoctor.tables.options import OptionSet

Launches = Callable[..., list[RolloutPlan]]


@pytest.fixture
def launches(tmp_path: Path) -> Launches:
    """``launches({"run.sh": text, ...}, trl="0.24.0")``: the plans of the first file, for these versions."""

    def run(files: dict[str, str], environment: dict[str, str] | None = None, **versions: str) -> list[RolloutPlan]:
        named = {
            name.replace("_", "-") if name != "unsloth_zoo" else name: version for name, version in versions.items()
        }
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

        def known(owner: str, group: str | None) -> OptionSet | None:
            if owner not in named:
                return None
            try:
                return OptionTable.load(owner).at(named[owner], group, named)
            except KeyError:
                return None

        return read(tmp_path / next(iter(files)), version_of=named, known=known, environment=environment)

    return run


@pytest.fixture(autouse=True)
def nobody_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dialect that is not asked, since none of its marks stands in a launch, would not have claimed it."""
    asked = recognise._claimed

    def claimed(launch: Launch) -> tuple[int, Dialect] | None:
        found = asked(launch)
        again = replace(launch, notes=[*launch.notes], trees=[*launch.trees])
        every = max(((dialect.claims(again), dialect) for dialect in all_dialects()), key=lambda pair: pair[0])
        assert found == (every if every[0] else None)
        return found

    monkeypatch.setattr(recognise, "_claimed", claimed)
