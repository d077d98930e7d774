"""A dialect's table: native keys to canonical names and back, sections, options without a value."""

from __future__ import annotations

import pytest

from rldoctor.frameworks.rule import Boolean, Rule
from rldoctor.frameworks.table import Rows, parents

ROWS = Rows(
    {
        "rollout.n": "sampling.n",
        "rollout.samples": Rule("sampling.n", spelled=False),
        "rollout.eager": Rule("engine.enforce_eager", boolean=Boolean.FLAG),
        "rollout.lora": "lora.enabled",
        "engine.*": "engine.*",
        "env:SEED": "seed.engine",
    },
    beside=("optim.*", "logger.name"),
)


@pytest.mark.parametrize(
    ("key", "option"),
    [
        ("rollout.n", "sampling.n"),
        ("rollout.samples", "sampling.n"),
        ("engine.max-model-len", "engine.max_model_len"),
        ("engine.compilation_config.level", None),
        ("engine.", None),
        ("other", None),
    ],
)
def test_the_canonical_name_of_a_native_key(key: str, option: str | None) -> None:
    found = ROWS.rule(key)
    assert (None if found is None else found[0]) == option


@pytest.mark.parametrize(
    ("option", "keys"),
    [
        ("sampling.n", ["rollout.n"]),
        ("engine.enforce_eager", ["rollout.eager", "engine.enforce_eager"]),
        ("seed.engine", []),
    ],
)
def test_what_may_be_written_for_a_canonical_name(option: str, keys: list[str]) -> None:
    assert [key for key, _ in ROWS.native_keys(option)] == keys


def test_sections_are_what_has_keys_below_it() -> None:
    assert {"rollout", "engine", "optim", "logger"} == ROWS.sections
    assert list(parents("a.b.c")) == ["a.b", "a"]


def test_keys_beside_the_matter() -> None:
    assert ROWS.beside.match("optim.lr")
    assert not ROWS.beside.match("rollout.n")


def test_options_without_a_value_by_their_own_rule_or_the_frameworks() -> None:
    assert ROWS.flags(Boolean.VALUE) == {"rollout.eager"}
    assert ROWS.flags(Boolean.FLAG) == {"rollout.eager", "rollout.lora"}
