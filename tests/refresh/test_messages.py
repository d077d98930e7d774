"""From the source of releases to a table of messages."""

from __future__ import annotations

import hashlib
import inspect
from pathlib import Path

import pytest

from rldoctor.link import syntax
from rldoctor.refresh import message_sites, spelled, way
from rldoctor.refresh import messages as make
from rldoctor.refresh.declarations import SourceError
from rldoctor.refresh.releases import Publications
from rldoctor.tables.messages import Table
from tests.served import Serve, wheel

# Where this test fails the code that reads has changed. If the tables come out otherwise, raise ``EXTRACTOR`` and make
# them anew with ``python -m rldoctor.refresh``; then put the digest that the failure shows here.
EXTRACTED = (1, "34e00d2ed83b")

# Those that an earlier extractor made: their conditions have no marks, or not all of them. A refresh reads them anew.
EARLIER = {"datasets", "deepspeed", "huggingface-hub", "megatron-core", "ray", "sglang", "tensordict", "torch"}

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


def test_what_another_extractor_made_is_read_anew(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Table, "folder", tmp_path)
    served = serve()
    served.offer("peft", {"peft-0.13.0-py3-none-any.whl": wheel({"peft/a.py": OLD})})
    published = Publications(tmp_path / "kept", served.index)
    make.refresh("peft", published, lambda line: None)
    assert make.refresh("peft", published, lambda line: None) == []
    monkeypatch.setattr(make, "EXTRACTOR", make.EXTRACTOR + 1)
    assert make.refresh("peft", published, lambda line: None) == ["all 1 releases were read anew"]
    assert Table.load("peft").made_by == make.made_by("peft")


def test_of_what_this_python_does_not_read_no_message_is_lost(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Table, "folder", tmp_path)
    served = serve()
    files = {"peft/a.py": OLD, "peft/b.py": "raise of[later]: python"}
    served.offer("peft", {"peft-0.13.0-py3-none-any.whl": wheel(files)})
    said: list[str] = []
    make.refresh("peft", Publications(tmp_path / "1", served.index), said.append)
    assert said[0].startswith("peft 0.13.0: peft/b.py is not for Python 3.")
    before = Table.load("peft").rows()
    monkeypatch.setattr(make, "EXTRACTOR", make.EXTRACTOR + 1)
    served.offer("peft", {"peft-0.13.0-py3-none-any.whl": wheel({"peft/a.py": "raise of[later]: python"})})
    with pytest.raises(SourceError, match="stays as it is"):
        make.refresh("peft", Publications(tmp_path / "2", served.index), said.append)
    assert [*Table.load("peft").rows()] == [*before]


def test_every_table_was_made_by_the_extractor_at_hand() -> None:
    stale = {package for package in Table.packages() if Table.load(package).made_by != make.made_by(package)}
    assert stale == EARLIER, f"run python -m rldoctor.refresh {' '.join(sorted(stale ^ EARLIER))}"


def test_a_change_of_the_extractor_has_its_number() -> None:
    asked = (syntax.last_name, syntax.own_name, syntax.parts_of, syntax.constants_of, syntax.texts_of)
    decides = (message_sites, way, spelled, make._row, make._LOOP.pattern, make._READS_VALUES.pattern, *asked)
    text = "".join(one if isinstance(one, str) else inspect.getsource(one) for one in decides)
    assert (make.EXTRACTOR, hashlib.sha256(text.encode()).hexdigest()[:12]) == EXTRACTED
