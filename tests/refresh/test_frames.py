"""From source to the layout of its functions, and from the releases to a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.refresh import frames
from rldoctor.refresh.releases import Publications
from rldoctor.tables.frames import Position, Table, functions_of
from tests.served import Serve, wheel

TEXT = """\
import os

class A:
    def one(self):
        def inner():
            return 1
        return inner()

    async def two(self):
        return 2

def three(): return 3
"""


def test_functions_with_their_depths_and_lines() -> None:
    assert functions_of(frames.layout(TEXT)) == [("one", 1, 4), ("inner", 2, 5), ("two", 1, 9), ("three", 0, 12)]
    assert functions_of(frames.layout("x = 1")) == []


def test_a_table_tells_releases_apart_and_grows(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Table, "folder", tmp_path)
    releases = {
        "peft-0.13.0-py3-none-any.whl": wheel({"peft/a.py": TEXT}),
        "peft-0.14.0-py3-none-any.whl": wheel({"peft/a.py": f"import sys\nimport re\n\n{TEXT}"}),
    }
    served = serve()
    served.offer("peft", releases)
    said: list[str] = []
    assert frames.refresh("peft", Publications(tmp_path, served.index), said.append) == [
        "2 new releases, 0.13.0 to 0.14.0"
    ]
    served.offer("peft", {**releases, "peft-0.15.0-py3-none-any.whl": wheel({"peft/a.py": "def three():\n    pass"})})
    changed = frames.refresh("peft", Publications(tmp_path, served.index), said.append)
    assert changed == ["a new release, 0.15.0"]
    table = Table.load("peft")
    assert table.releases_of([Position("peft.a", "inner", 6)]) == ("0.13.0",)
    assert table.releases_of([Position("peft.a", "two", 13)]) == ("0.14.0",)
    assert table.releases_of([Position("peft.a", "three", 2)]) == ("0.15.0",)
    assert table.releases_of([Position("peft.a", "one", 7)]) == ("0.13.0",)
    assert table.releases_of([Position("peft.a", "one", 90)]) == ()
    assert table.releases_of([Position("peft.a", "<module>", 90), Position("peft.gone", "f", 1)]) == tuple(
        table.releases
    )
    assert (table.last_with("peft.a", "two"), table.last_with("peft.a", "three")) == ("0.14.0", "0.15.0")
    assert table.last_with("peft.a", "four") is None and not table.covers("peft.gone")


@pytest.mark.parametrize("package", frames.COVERED)
def test_a_shipped_table_has_no_module_that_a_refresh_would_leave_out(package: str) -> None:
    """Else releases read later would lack it, and a frame in it would tell an older release."""
    for (module, _), _ in Table.load(package).rows():
        path = module.replace(".", "/")
        assert not all(frames._LEFT_OUT.search(f"{path}{ending}") for ending in (".py", "/__init__.py")), module


@pytest.mark.parametrize("path", ["swift/model/a.py", "swift/llm/model/a.py", "axolotl/monkeypatch/a.py"])
def test_what_frames_leave_out(path: str) -> None:
    assert frames._LEFT_OUT.search(path)
    assert not frames._LEFT_OUT.search(f"trl/trainer/{path}")
