"""TOML with the line of every value, as tomllib reads it; what would grow out of a small file is refused."""

from __future__ import annotations

import sys
import time

import pytest

from rldoctor.errors import InputError
from rldoctor.formats.source import Source
from rldoctor.formats.toml.reader import read_toml
from rldoctor.formats.yaml.reader import YamlFile

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEXT = """\
# a run
seed = 1
model.name = "org/model"
[trainer]
lr = 1e-6  # low
"quoted key" = 'a.b.c'
steps = [1, 2]

[trainer.optim]
betas = [0.9, 0.99]
note = '''
x = 1
'''

[[env]]
id = "math"
[[env]]
id = "code"
"""


def toml(text: str) -> YamlFile:
    return read_toml(Source(text, "c.toml"))


def test_values_are_those_of_tomllib() -> None:
    assert toml(TEXT).value == tomllib.loads(TEXT)


def test_values_have_their_lines() -> None:
    found = toml(TEXT)
    lines = {"seed": 2, "model.name": 3, "model": 3, "trainer": 4, "trainer.lr": 5, "trainer.optim.betas": 10}
    assert {path: found.line(path) for path in lines} == lines


@pytest.mark.parametrize(
    "text",
    [
        "a." * 20_000 + "b = 1",
        "[" + "a." * 20_000 + "b]",
        "x = {" + "a." * 500 + "b = 1}",
        '"a" . ' * 500 + "b = 1",
        "x = " + "[" * 20_000,
        "a = 1\n" * 30_000,
        "x" * 600_000,
        '\\"' * 100_000,
    ],
    ids=["dotted key", "header", "inline", "quoted", "lists", "lines", "size", "escapes"],
)
def test_what_multiplies_is_refused_at_once(text: str) -> None:
    start = time.process_time()
    with pytest.raises(InputError):
        toml(text)
    assert time.process_time() - start < 2


def test_a_text_with_many_dots_is_a_value() -> None:
    assert toml('x = "' + "a." * 200 + '"\ny = 1 # ' + "b." * 200).get("y") == 1
