"""From the source of releases to a table of messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.refresh import messages as make
from rldoctor.refresh.releases import Publications
from rldoctor.tables.messages import Table
from tests.served import Serve, wheel

OLD = 'def check(n):\n    if n < 1:\n        raise ValueError(f"n is {n}")\n'
NEW = 'def check(n):\n    if n < 2:\n        raise ValueError(f"n is {n}")\n'


def test_a_table_grows_by_what_is_new(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Table, "folder", tmp_path)
    releases = {
        "peft-0.13.0-py3-none-any.whl": wheel({"peft/a.py": OLD}),
        "peft-0.13.1-py3-none-any.whl": wheel({"peft/a.py": OLD, "peft/tests/test_a.py": "assert 1"}),
        "peft-0.14.0-py3-none-any.whl": wheel({"peft/a.py": NEW}),
    }
    served = serve()
    served.offer("peft", releases)
    said: list[str] = []
    assert make.refresh("peft", Publications(tmp_path, served.index), said.append) == [
        "3 new releases, 0.13.0 to 0.14.0"
    ]
    assert said == [f"peft {version}: 1 messages" for version in ("0.13.0", "0.13.1", "0.14.0")]
    served.offer("peft", {**releases, "peft-0.15.0-py3-none-any.whl": wheel({"peft/a.py": OLD})})
    changed = make.refresh("peft", Publications(tmp_path, served.index), said.append)
    assert changed == ["a new release, 0.15.0"]
    table = Table.load("peft")
    spans = {place.conditions: place.spans for place in table.within("peft.a")}
    assert spans == {("n < 1",): (("0.13.0", "0.13.1"), ("0.15.0", "0.15.0")), ("n < 2",): (("0.14.0", "0.14.0"),)}
    (place, *_) = table.within("peft.a")
    assert (place.function, place.type, place.literals, place.holes) == ("check", "ValueError", ["n is ", ""], ["n"])


NESTED = """\
def check(self, n, m):
    if n:
        if m:
            raise ValueError(f"n is {n} beside m")
    assert n
    raise NotImplementedError
"""


def test_of_a_library_what_a_traceback_shows_by_itself_is_left_out(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Table, "folder", tmp_path)
    served = serve()
    files = {"peft/tuner.py": NESTED, "peft/config.py": NESTED, "peft/wire_pb2.py": NESTED}
    served.offer("peft", {"peft-0.13.0-py3-none-any.whl": wheel(files)})
    make.refresh("peft", Publications(tmp_path, served.index), lambda line: None)
    table = Table.load("peft")
    (kept,) = table.within("peft.tuner")
    assert (kept.type, kept.conditions, kept.whole) == ("ValueError", ("m",), False)
    # What a launch sets is held against every condition.
    assert {place.conditions for place in table.within("peft.config")} == {("n", "m"), ("not (n)",), ()}
    assert not list(table.within("peft.wire_pb2"))
