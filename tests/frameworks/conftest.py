"""Launch files written for one test, read with the shipped option tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rldoctor.frameworks.option_table import OptionTable
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
