"""YAML with the line of every value; what would construct, multiply or contain itself is refused."""

from __future__ import annotations

import pytest

from rldoctor.errors import InputError
from rldoctor.formats.source import Source
from rldoctor.formats.values import Unresolved
from rldoctor.formats.yaml.reader import YamlFile, read_yaml


def yaml(text: str) -> YamlFile:
    return read_yaml(Source(text, "c.yaml"))


def test_values_and_lines_by_dotted_path() -> None:
    found = yaml("# head\na:\n  b: 8192  # why\n  c:\n    - 1\n    - x\nd: 'no'\n")
    assert found.get("a.b") == 8192
    assert found.line("a.b") == 3
    assert found.get("a.c") == [1, "x"]
    assert found.get("d") == "no"
    assert found.line("a") == 2
    assert not found.has("a.e")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", 1e-6),
        ("1_000", 1000),
        ("yes", True),
        ("off", False),
        ("~", None),
        ("", None),
        ("0x10", 16),
        ("8k", "8k"),
        ("1.", 1.0),
        ("'8'", "8"),
        ("!!int '8'", 8),
        ("${a.b}", "${a.b}"),
        ("12345678901234567890", 12345678901234567890),
    ],
)
def test_scalars_mean_what_they_mean_to_the_frameworks(text: str, value: object) -> None:
    assert yaml(f"x: {text}").get("x") == value


def test_settings_carry_the_lines_of_their_parts() -> None:
    native = next(iter(yaml("rollout:\n  n: 8\n  tp: 2\n").natives()))
    assert [(part.key, part.value, part.line) for part in native.parts()] == [("rollout.n", 8, 2), ("rollout.tp", 2, 3)]


def test_a_repeated_anchor_is_read_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    found = yaml("a: &n 1\nb: *n\nc: &n 2\nd: *n\n")
    assert (found.get("b"), found.get("d")) == (1, 2)
    assert not recwarn.list


def test_anchors_and_merges_are_followed_the_own_value_wins_and_the_last_of_two_keys() -> None:
    found = yaml("base: &b {n: 1, tp: 2}\nrun:\n  <<: *b\n  n: 8\n  n: 9\n")
    assert found.get("run") == {"n": 9, "tp": 2}
    assert found.line("run.n") == 5
    assert found.line("run.tp") == 1


BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{key}: &{key} [{','.join([f'*{before}'] * 10)}]\n" for before, key in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "c.yaml:5: more than 50000 values, aliases that multiply"),
        ("x: 1\na: &x [1, *x]", "c.yaml:2: an alias that contains itself"),
        ("x: 1\ny: !!python/object/apply:os.system [ls]", "c.yaml:2: the tag"),
        ("- 1\n- 2", "c.yaml:1: a YAML list where settings are expected"),
        ("just text", "c.yaml:1: a YAML scalar where settings are expected"),
        ("a: 1\nb: 'x", "c.yaml:2: not valid YAML"),
        ("a: b: c", "c.yaml:1: not valid YAML"),
        ("a: *nobody", "c.yaml:1: not valid YAML"),
        ("? [1]\n: 2", "c.yaml:1: a key that is a list"),
        ("a: " + "[" * 5000, "c.yaml:1: nested too deeply"),
        ("a: 1\n" * 200_000, "c.yaml: 976 KiB is too large for a YAML config"),
    ],
    ids=lambda value: value[:20],
)
def test_what_cannot_be_settings_is_an_error_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        yaml(text)
    assert str(raised.value).startswith(message)


def test_a_tag_of_ones_own_constructs_nothing_and_is_unknown() -> None:
    assert yaml("a: !env HOME").get("a") == Unresolved("HOME", "the tag !env is not read")


def test_an_empty_file_has_no_settings() -> None:
    assert list(yaml("# nothing\n").natives()) == []


def test_keys_that_stand_twice() -> None:
    found = yaml("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\nrows:\n  - {e: 1, e: 2}\na: 4\n")
    assert (found.get("a"), found.get("b.c")) == (4, 3)
    assert sorted(found.replaced()) == [("a", 8, 1), ("b.c", 5, 3), ("rows.e", 7, 7)]
    assert list(yaml("a: &x {b: 1}\nc:\n  <<: *x\n  b: 2\n").replaced()) == []
