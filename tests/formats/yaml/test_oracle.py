"""The reader against PyYAML and OmegaConf themselves: the same values from generated documents and from odd scalars."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from rldoctor.formats.source import Source
from rldoctor.formats.yaml.reader import read_yaml
from rldoctor.formats.yaml.scalars import Rules

SCALARS = (
    "1", "-1", "+1", "0", "010", "0o10", "0x10", "0b11", "1_000", "1.", ".5", "-.5", "1e-6", "1E5", "1.e5", "1.0e+5",
    "1.5e3", ".5e3", ".5e+3", "1e5.0", "1_0.5", "190:20:30", "190:20:30.15", ".inf", "-.inf", "+.INF", ".nan", "nan",
    "inf", "true", "True", "TRUE", "tRUE", "yes", "No", "on", "OFF", "y", "n", "~", "null", "Null", "NULL", "none", "",
    "2024-01-01", "2024-01-01 10:00:00", "12:30", "1e", "e5", "0.1.2", "--x", "a", "<<x", "${a}", "${a.b}x",
    "???", "1,000", "0x", "0xg", "08", "09", "1__0", "_1", "'1'", '"on"', "!!str 1", "!!int '8'", "!!float 1",
    "|\n    a\n",
    ">\n    a\n    b\n", "[1, on, 1e-6, 'x']", "{a: 1, on: 2}", "a b", "'it''s'", '"\\u00e9\\n"', "!!null x",
    "!!bool yes",
)  # fmt: skip


def by_pyyaml(text: str) -> Any:
    return pyyaml.safe_load(text)


def by_omegaconf(text: str) -> Any:
    return OmegaConf.to_container(OmegaConf.create(text), resolve=False)


READERS: list[tuple[Rules, Callable[[str], Any]]] = [(Rules.PYYAML, by_pyyaml), (Rules.OMEGACONF, by_omegaconf)]


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, dict):
        theirs = {str(key): value for key, value in theirs.items()}
        if not isinstance(ours, dict) or len(ours) != len(theirs):
            return False
        # A key keeps its text: "on" is not True.
        named = ours.keys() == theirs.keys()
        pairs = (
            [(ours[key], theirs[key]) for key in theirs] if named else zip(ours.values(), theirs.values(), strict=True)
        )
        return all(same(mine, other) for mine, other in pairs)
    if isinstance(theirs, list):
        return isinstance(ours, list) and len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(theirs, datetime.date):
        return isinstance(ours, str)  # a date stays the text that it is
    if isinstance(theirs, float) and math.isnan(theirs):
        return isinstance(ours, float) and math.isnan(ours)
    return type(ours) is type(theirs) and bool(ours == theirs)


@pytest.mark.parametrize(("rules", "theirs"), READERS, ids=["PyYAML", "OmegaConf"])
@pytest.mark.parametrize("text", SCALARS)
def test_odd_scalars_mean_what_they_mean_to_the_reader_of_the_framework(
    text: str, rules: Rules, theirs: Callable[[str], Any]
) -> None:
    document = f"x: {text}\n"
    ours = read_yaml(Source(document, "c.yaml"), rules).value["x"]
    assert same(ours, theirs(document)["x"]), ours


words = st.sampled_from(
    ["a", "lr", "n-1", "rollout", "x y", "on", "1", "é", "a.b", "#c", "- d", "e: f", "'", '"', "\\", "\n", ""]
)
leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**12), 10**12), st.floats(allow_nan=False), words, st.text(max_size=20)
)
keys = st.sampled_from(["a", "b", "lr", "rollout", "n", "tp", "key with blank"])
trees = st.dictionaries(
    keys,
    st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3)),
    max_size=4,
)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(trees, st.sampled_from([None, True, False]), st.sampled_from([None, '"', "'"]))
def test_documents_that_pyyaml_writes_are_read_as_pyyaml_reads_them(
    tree: dict[str, Any], flow: bool | None, quote: str | None
) -> None:
    text = pyyaml.safe_dump(tree, default_flow_style=flow, default_style=quote, allow_unicode=True)
    assert same(read_yaml(Source(text, "c.yaml"), Rules.PYYAML).value, by_pyyaml(text))


@pytest.mark.parametrize(
    "text",
    [
        "base: &b {n: 1, tp: 2}\nrun:\n  <<: *b\n  n: 8\n",
        "a: &x [1, 2]\nb: [*x, *x]\n",
        "a: &x {p: 1}\nb: &y {q: 2, p: 3}\nc:\n  <<: [*x, *y]\n",
        "# only\n---\na: 1\n...\n",
        "a:\n- 1\n-   b: 2\n    c: 3\n",
        "? a\n: 1\n",
        "a: 'x\n  y'\nb: x\n  y\n",
    ],
)
def test_structures_are_the_same(text: str) -> None:
    assert same(read_yaml(Source(text, "c.yaml"), Rules.PYYAML).value, by_pyyaml(text))
