"""Overrides against Hydra's own parser: the same key, sign, package and value, and the same refusals."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import QuotedString
from hydra.errors import HydraException
from hypothesis import given, settings
from hypothesis import strategies as st

from rldoctor.formats.hydra.grammar import parse_override
from rldoctor.formats.values import Unresolved

PARSER = OverridesParser.create()
SIGNS = {"CHANGE": "", "ADD": "+", "FORCE_ADD": "++", "DEL": "~"}
OVERRIDES = (
    "a=1", "a.b.c=x", "a=", "a= ", "~a", "~a=1", "+a=1", "++a.b=1", "a@p=x", "a/b=x", "a/b@p.q=x", "+a@_global_=x",
    "a-b=1",
    "a.0.b=1", "a.01=1", "a=on", "a=off", "a=yes", "a=010", "a=0x10", "a=1_000", "a=1e-6", "a=1.", "a=.5", "a=-1",
    "a=+1",
    "a=inf", "a=-inf", "a=nan", "a=null", "a=NULL", "a=None", "a=~", "a=true", "a=TRUE", "a='1'", 'a="x y"',
    "a='it\\'s'",
    "a='\\\\'", "a=\"\\\"q\\\"\"", "a='[1]'", "a=''", "a=x y", "a= x ", "a=[1, 2]", "a=[]", "a=[a,b c,'d,e']",
    "a=[[1],[2,[3]]]",
    "a={}", "a={b:1}", "a={b: 1, c: [x, {d: null}]}", "a={b:{c:1}}", "a={1:x,true:y}", "a={b: 'c d'}", "a={'b':1}",
    "a={b}",
    "a=1,2,3", "a=[1],[2]", "a=choice(1,2)", "a=range(1,5)", "a=range(start=1,stop=5)", "a=interval(0,1)", "a=glob(*)",
    "a=sort([3,1])", "a=int(3.5)", "a=str([1])", "a=nothing(1)", "a=tag(t,choice(a,b))", "a=[1", "a=1]", "a={b:1",
    "a='x",
    "a=b=c", "a=b:c", "a=https://x/y?z", "a=https://x?y=1", "a=${b}", "a=${b.c}x", "a=${oc.env:HOME}",
    "a=${oc.env:X,y}/z", "a=x${b}",
    "a=\\,", "a=a\\,b", "a=\\[x\\]", "a=\\\\", "a=a\\ b", "a=/p/q-r.s", "a=*.parquet", "a=a|b", "a=a@b", "a=a+b",
    "a=50%", "a=$x",
    "a=a#b", "a=a;b", "a=a!", "a=a&b", "a=é", "a=(b)", "a=b (c)", "=x", "a", "+a", "a b=c", "a..b=1", "a[0]=1",
    "1=2", "$a=1", "a.$b=1",
    "a=[1,]", "a=,", "a=1,", "a=[,]", "a={a:1,}", "a=\t1", "a=1\t", "a=[ 1 , 2 ]", "a={ b : 1 }", "a=x: y", "a=1:2",
    "a=1e5", "a=1E+5",
    "a=1e", "a=e5", "a=1__0", "a=_1", "a=1.2.3", "a=v1.2", "a=7B", "a=-x", "a=--x", "a=+", "a='a' 'b'", "a='a'b",
    "a=[a b, 'c d']",
    "++a={b:1}", "~a=b", "a=null x", "a=true,false", "a=[null,true,1.5,x]", "a=org/Model-7B-Instruct", "a=???",
    "a='${b}'", "a=}", "a={b:[}",
)  # fmt: skip


def theirs(text: str) -> Any:
    """Sign, key, package and value as Hydra has them; None where it refuses the text."""
    try:
        found = PARSER.parse_override(text)
    except (HydraException, ValueError):
        return None
    value = "sweep" if found.is_sweep_override() else plain(found._value)
    return SIGNS[found.type.name], found.key_or_group, found.package, value


def plain(value: Any) -> Any:
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {plain(key): plain(part) for key, part in value.items()}
    return "not a number" if isinstance(value, float) and math.isnan(value) else value


def agree(text: str) -> bool:
    expected = theirs(text)
    try:
        ours = parse_override(text)
    except ValueError:
        return expected is None
    if expected is None:
        # Hydra also refuses calls whose arguments do not fit; here they are unknown.
        return isinstance(ours.value, Unresolved)
    value = "sweep" if ours.sweep else plain(ours.value)
    if isinstance(value, Unresolved):
        return bool((ours.sign, ours.key, ours.package) == expected[:3])
    same = (ours.sign, ours.key, ours.package) == expected[:3]
    return bool(same and repr(value) == repr(expected[3]))


@pytest.mark.parametrize("text", OVERRIDES)
def test_overrides_are_read_as_hydra_reads_them(text: str) -> None:
    assert agree(text), (theirs(text), parse_override(text))


pieces = st.sampled_from(
    [
        *"ab01.,:=[]{}()'\"\\ $@/+-~*_",
        "true",
        "null",
        "1e-6",
        "inf",
        "${a.b}",
        "x y",
        "choice(",
        "'a b'",
        "\\,",
        "0x1",
        "1_0",
        "a.b",
    ]
)


@settings(max_examples=1500, deadline=None, derandomize=True)
@given(st.sampled_from(["a=", "+a.b=", "~a", "a/b@c=", ""]), st.lists(pieces, max_size=7))
def test_any_text_is_read_or_refused_as_hydra_does(head: str, parts: list[str]) -> None:
    text = head + "".join(parts)
    assert agree(text), (text, theirs(text))
