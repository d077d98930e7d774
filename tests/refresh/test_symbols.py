"""From the source of releases to a table of symbols."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.refresh import symbols
from rldoctor.refresh.releases import Publications
from rldoctor.tables import symbols as tables
from rldoctor.tables.symbols import Span, Table
from tests.served import Serve, wheel

TEXT = """
from .other import Imported
try:
    import fast
    LIMIT = 1
except ImportError:
    LIMIT: int = 2
class Config(Base):
    name: str
    level = 3
    def __init__(self, a, b=1, *, c, d=None, **more): self.hidden = a
    def run(self, *args): ...
    def _inner(self): ...
async def serve(host, /, port=1): ...
"""


def test_names_with_their_parameters() -> None:
    assert dict(symbols.symbols(TEXT)) == {
        "Imported": "",
        "LIMIT": "",
        "Config": "",
        "Config.name": "",
        "Config.level": "",
        "Config.__init__": "a,b=,*,c,d=,**",
        "Config.run": "*",
        "serve": "host,port=",
    }
    assert dict(symbols.symbols(TEXT, classes_only=True)) == {"Config": ""}
    assert dict(symbols.symbols("def (:")) == {}


def test_a_table_grows_by_what_is_new(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (tables, symbols):
        monkeypatch.setattr(module, "DATA", tmp_path)
    Table.load.cache_clear()
    releases = {
        "peft-0.13.0-py3-none-any.whl": wheel({"peft/a.py": "def f(x): ..."}),
        "peft-0.13.1-py3-none-any.whl": wheel({"peft/a.py": "def f(x): ...\nold = 1", "peft/tests/test_a.py": "t = 1"}),
        "peft-0.14.0-py3-none-any.whl": wheel({"peft/a.py": "def f(x, y): ..."}),
    }
    served = serve()
    served.offer("peft", releases)
    said: list[str] = []
    assert symbols.refresh("peft", Publications(served.index), said.append) == ["2 new releases, 0.13.1 to 0.14.0"]
    assert said == ["peft 0.13.1: 1 modules", "peft 0.14.0: 1 modules"]
    served.offer("peft", {**releases, "peft-0.15.0-py3-none-any.whl": wheel({"peft/b.py": "def f(x, y): ..."})})
    Table.load.cache_clear()
    assert symbols.refresh("peft", Publications(served.index), said.append) == ["1 new releases, 0.15.0 to 0.15.0"]
    Table.load.cache_clear()
    table = Table.load("peft")
    Table.load.cache_clear()
    assert table.releases == ["0.13.1", "0.14.0", "0.15.0"]
    assert table.spans("peft.a", "f") == (Span("0.13.1", "0.13.1", "x"), Span("0.14.0", "0.14.0", "x,y"))
    assert table.spans("peft.a", "old") == (Span("0.13.1", "0.13.1"),)
    assert table.spans("peft.b") == (Span("0.15.0", "0.15.0"),)
    assert set(table.homes("f")) == {"peft.a", "peft.b"}
