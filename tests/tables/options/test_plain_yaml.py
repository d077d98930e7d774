"""The fast reader agrees with the full parser, or leaves the text to it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from rldoctor.tables.options import plain_yaml
from rldoctor.tables.options.plain_yaml import _NotPlainError, _Reader

PLAIN = """\
# a comment
defaults:

  - model_engine: dp   # chosen
  - _self_
a:
  b: 1.0e-6
  c: [1, "two", null, [a, b]]
  d: {x: 1, y: {z: True}}
  "quoted key": 'it is # no comment'
  path: ~/data
  ref: ${oc.select:data.max_prompt_length,512}
  folded: ${mul:${policy.tensor_parallel_size},
    2}
  at: 00:03:45:00
list:
- 1
- name: x
  value: 2
-
  nested: {}
empty:
"""


def full(text: str) -> object:
    return YAML(typ="safe", pure=True).load(text)


def test_a_plain_document_is_read_by_the_fast_reader() -> None:
    assert _Reader(PLAIN).document() == full(PLAIN)
    assert plain_yaml.load(PLAIN)["a"]["b"] == 1e-6


@pytest.mark.parametrize(
    "text",
    [
        "a: &x 1\nb: *x\n",
        "a: |\n  two\n  lines\n",
        "a: 1\n---\nb: 2\n",
        "a: two\n\n  paragraphs\n",
        "a: 'two\n  lines'\n",
        "a: [1,\n  2]\n",
        "a: 012\n",
        "a: 'it''s'\n",
        "<<: {a: 1}\n",
        "a: 1\na: 2\n",
        "? a\n: 1\n",
        "a:\t1\n",
    ],
)
def test_what_is_not_plain_goes_to_the_full_parser(text: str) -> None:
    with pytest.raises(_NotPlainError):
        _Reader(text).document()


def test_what_is_no_yaml_says_so() -> None:
    with pytest.raises(ValueError, match="not readable as YAML"):
        plain_yaml.load("a: [1\nb: }\n")
    with pytest.raises(ValueError, match="not readable as YAML"):
        plain_yaml.load("[" * 5000)


def test_no_document_is_none() -> None:
    assert plain_yaml.load("") is None
    assert plain_yaml.load("# only a comment\n") is None


_WORD = st.text("abz_.-01e ${}[]'\"#:,&*!|>~", min_size=1, max_size=8)
_LINE = st.builds(lambda indent, key, value: f"{'  ' * indent}{key}: {value}", st.integers(0, 2), _WORD, _WORD)


@settings(max_examples=400, deadline=None)
@given(st.lists(_LINE | st.builds("- {}".format, _WORD), max_size=5))
def test_it_never_reads_something_else_than_the_full_parser(lines: list[str]) -> None:
    text = "\n".join(lines)
    try:
        fast = _Reader(text).document()
    except _NotPlainError:
        return
    try:
        slow = full(text)
    except (YAMLError, ValueError):
        return  # more lenient than the full parser is no wrong value
    assert repr(fast) == repr(slow)
