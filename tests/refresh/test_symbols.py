"""From the source of releases to a table of symbols."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.refresh import symbols
from rldoctor.refresh.releases import Publications
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


def test_names_that_others_give() -> None:
    text = "import torch.nn.functional as F\nimport os.path\nfrom typing import *\nfrom .own import *\n"
    assert list(dict(symbols.symbols(text))) == ["F", "*", "*typing"]


def test_a_table_grows_by_what_is_new(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Table, "folder", tmp_path)
    releases = {
        "transformers-4.46.0-py3-none-any.whl": wheel({"transformers/a.py": "def f(x): ..."}),
        "transformers-4.46.1-py3-none-any.whl": wheel(
            {"transformers/a.py": "def f(x): ...\nold = 1", "transformers/tests/test_a.py": "t = 1"}
        ),
        "transformers-4.47.0-py3-none-any.whl": wheel({"transformers/a.py": "def f(x, y): ..."}),
    }
    served = serve()
    served.offer("transformers", releases)
    said: list[str] = []
    assert symbols.refresh("transformers", Publications(tmp_path, served.index), said.append) == [
        "2 new releases, 4.46.1 to 4.47.0"
    ]
    assert said == ["transformers 4.46.1: 1 modules", "transformers 4.47.0: 1 modules"]
    served.offer(
        "transformers",
        {**releases, "transformers-4.48.0-py3-none-any.whl": wheel({"transformers/b.py": "def f(x, y): ..."})},
    )
    assert symbols.refresh("transformers", Publications(tmp_path, served.index), said.append) == [
        "a new release, 4.48.0"
    ]
    table = Table.load("transformers")
    assert table.releases == ["4.46.1", "4.47.0", "4.48.0"]
    assert table.spans("transformers.a", "f") == (Span("4.46.1", "4.46.1", "x"), Span("4.47.0", "4.47.0", "x,y"))
    assert table.spans("transformers.a", "old") == (Span("4.46.1", "4.46.1"),)
    assert table.spans("transformers.b") == (Span("4.48.0", "4.48.0"),)
    assert set(table.homes("f")) == {"transformers.a", "transformers.b"}


def test_of_a_library_only_what_changed_is_kept(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Table, "folder", tmp_path)
    text = "from .b import *\ndef same(): ...\ndef f({}): ...\n"
    text += "class Class:\n    def always(self): ...\n    def {}(self): ...\n"
    served = serve()
    served.offer(
        "deepspeed",
        {
            "deepspeed-0.16.3-py3-none-any.whl": wheel(
                {"deepspeed/a.py": text.format("x", "old"), "deepspeed/ops/adam.py": "gone = 1"}
            ),
            "deepspeed-0.16.4-py3-none-any.whl": wheel(
                {"deepspeed/a.py": text.format("x, y", "new"), "deepspeed/b.pyi": "compiled: int"}
            ),
        },
    )
    for _ in range(2):
        symbols.refresh("deepspeed", Publications(tmp_path, served.index), lambda _: None)
    table = Table.load("deepspeed")
    assert table.changes
    assert set(table.names("deepspeed.a")) == {"", "*", "f", "Class", "Class.old", "Class.new"}
    assert set(table.modules()) == {"deepspeed.a", "deepspeed.b"}
    assert table.spans("deepspeed.a", "Class.old") == (Span("0.16.3", "0.16.3"),)
