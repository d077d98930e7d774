"""Edits of TOML in place: comments, sections and the rest stay, and what cannot be made safely is refused."""

from __future__ import annotations

import pytest

from rldoctor.formats.toml.edit import literal, rewrite_toml
from rldoctor.formats.write import CannotEdit, Write
from rldoctor.plan.model import Form

TEXT = """\
max_steps = 20  # a try

[orchestrator]
batch_size = 128 # of samples
model.name = "org/# model"
betas = [
  0.9,
]

[orchestrator.train.sampling]
max_completions_tokens = 128

[[env]]
id = "math"
"""


def edited(key: str, value: str | None, text: str = TEXT, line: int = 1, **options: object) -> str:
    return rewrite_toml(text, Write(form=Form.YAML, file="rl.toml", line=line, key=key, value=value, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "value", "old", "new"),
    [
        ("max_steps", "40", "max_steps = 20  # a try", "max_steps = 40  # a try"),
        ("orchestrator.batch_size", "120", "batch_size = 128 # of", "batch_size = 120 # of"),
        ("orchestrator.model.name", "org/other", '"org/# model"', '"org/other"'),
        ("max_steps", None, "max_steps = 20  # a try\n", ""),
    ],
)
def test_a_value_is_set_where_it_stands(key: str, value: str | None, old: str, new: str) -> None:
    assert edited(key, value) == TEXT.replace(old, new)
    assert edited(key, value, edited(key, value)) == edited(key, value) or value is None


def test_a_new_value_joins_its_section_or_gets_one() -> None:
    assert "]\ngroup_size = 8\n\n[orchestrator.train.sampling]" in edited("orchestrator.group_size", "8")
    assert edited("inference.parallel.tp", "2").endswith('id = "math"\n\n[inference.parallel]\ntp = 2\n')
    assert edited("seed", "1").startswith("max_steps = 20  # a try\nseed = 1\n")


def test_a_key_gets_another_name() -> None:
    key = "orchestrator.train.sampling.max_completions_tokens"
    new = edited(key, None, rename=key.replace("completions", "completion"))
    assert new == TEXT.replace("max_completions_tokens", "max_completion_tokens")


def test_a_file_that_is_read_as_a_part_has_the_key_without_that_part() -> None:
    text = "[model]\nseq_len = 10\n"
    assert edited("trainer.model.seq_len", "20", text, line=2) == "[model]\nseq_len = 20\n"


@pytest.mark.parametrize("key", ["orchestrator.betas", "env.id", "max_steps.of"])
def test_what_stands_on_no_line_of_its_own_is_left_alone(key: str) -> None:
    with pytest.raises(CannotEdit):
        edited(key, "1")


@pytest.mark.parametrize(
    ("text", "said"), [("true", "true"), ("8", "8"), ("1e-6", "1e-6"), ("auto", '"auto"'), ("[1, 2]", "[1, 2]")]
)
def test_a_bare_text_is_written_as_toml_has_it(text: str, said: str) -> None:
    assert literal(text) == said
