"""What programs print of their settings, held against what Python itself prints."""

from __future__ import annotations

import argparse
import enum
import json
import random
from pprint import pformat
from typing import Any

import pytest

from rldoctor.formats.printed import read_printed
from rldoctor.formats.source import Source
from rldoctor.formats.values import Unresolved


def printed(text: str, line: int = 1) -> Any:
    return read_printed(Source(text, "run.log", line))


def _any(rng: random.Random, depth: int) -> Any:
    leaves: list[Any] = [None, True, False, 0, 17, -3, 0.5, 1e-6, "vllm", "it's", 'a "b"', "x, y=[1}", "a b " * 30, ""]
    if depth == 0 or rng.random() < 0.4:
        return rng.choice(leaves)
    size = rng.randrange(4)
    if rng.random() < 0.3:
        return [_any(rng, depth - 1) for _ in range(size)]
    return {f"key_{n}": _any(rng, depth - 1) for n in range(size)}


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("form", [repr, pformat, json.dumps, lambda value: json.dumps(value, indent=2)])
def test_what_python_prints_is_read_back(seed: int, form: Any) -> None:
    settings = {"actor": _any(random.Random(seed), 4), "rollout": {"name": "vllm"}}
    assert printed(form(settings)) == settings


def test_every_entry_knows_its_line() -> None:
    tree = printed("{'actor': {'lr': 1e-06,\n           'clip': 0.2},\n 'seed': 1}", 41)
    assert tree.lines == {"actor": 41, "seed": 43}
    assert tree["actor"].lines == {"lr": 41, "clip": 42}


def test_a_namespace_is_read() -> None:
    shown = repr(argparse.Namespace(vllm_num_engines=2, pretrain="a, b", eps=(0.2, 0.3), bf16=True, none=None))
    assert printed(shown) == {
        "vllm_num_engines": 2,
        "pretrain": "a, b",
        "eps": [0.2, 0.3],
        "bf16": True,
        "none": None,
    }


def test_arguments_that_print_a_line_each_have_texts_without_quotes() -> None:
    shown = "GRPOConfig(\n_n_gpu=1,\naccelerator_config={'even_batches': True},\noutput_dir=a, b,\nbf16=True,\n)"
    tree = printed(shown, 7)
    assert tree == {"_n_gpu": 1, "accelerator_config": {"even_batches": True}, "output_dir": "a, b", "bf16": True}
    assert tree.lines["bf16"] == 11


def test_an_enumeration_is_its_value_and_an_object_is_not_known() -> None:
    class Strategy(enum.Enum):
        STEPS = "steps"

    shown = f"model='Qwen', strategy={Strategy.STEPS!r}, dtype=torch.bfloat16, part=Config(a='x, y', b=[1]), seed=3"
    tree = printed(shown)
    assert isinstance(tree.pop("part"), Unresolved)
    assert tree == {"model": "Qwen", "strategy": "steps", "dtype": "bfloat16", "seed": 3}


@pytest.mark.parametrize("text", ["", "{", "{'a': ", "{'a': {'b': [1, ", "Namespace(", "a=", "}", "{'a' 'b'", "{1, 2}"])
def test_a_text_that_was_cut_off_is_no_fault(text: str) -> None:
    assert isinstance(printed(text), dict)


def test_what_was_read_before_the_cut_is_kept() -> None:
    assert printed("{'rollout': {'n': 8, 'name': 'vl")["rollout"]["n"] == 8
