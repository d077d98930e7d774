"""Options in the text of a command that a YAML file holds: changed where they stand once and letter by letter."""

from __future__ import annotations

import pytest

from rldoctor.formats.write import CannotEdit, Write
from rldoctor.formats.yaml.edit import rewrite_yaml
from rldoctor.plan.model import Form

JOB = """\
spec:
  entrypoint: >-
    python3 -m verl.trainer.main_ppo rollout.tensor_model_parallel_size=8
    rollout.n=5 +rollout.seed=$SEED --max-model-len 4096
  tp: 8  # tensor_model_parallel_size
"""


def changed(key: str, value: str | None, form: Form = Form.OVERRIDE, text: str = JOB) -> str:
    return rewrite_yaml(text, Write(form=form, file="job.yaml", line=2, key=key, value=value))


def test_a_value_in_a_command_is_changed_in_its_place() -> None:
    new = changed("rollout.tensor_model_parallel_size", "4")
    assert new == JOB.replace("parallel_size=8", "parallel_size=4")
    assert changed("rollout.tensor_model_parallel_size", "4", text=new) == new
    longer = changed("--max_model_len", "8192", Form.OPTION)
    assert longer == JOB.replace("--max-model-len 4096", "--max-model-len 8192")


@pytest.mark.parametrize(
    ("key", "value", "form", "text"),
    [
        ("rollout.m", "4", Form.OVERRIDE, JOB),  # a new one
        ("n", "4", Form.OVERRIDE, JOB),  # the end of another key
        ("rollout.seed", "4", Form.OVERRIDE, JOB),  # what a variable holds
        ("rollout.n", "a b", Form.OVERRIDE, JOB),
        ("rollout.n", None, Form.OVERRIDE, JOB),
        ("rollout.n", "4", Form.OVERRIDE, JOB + "# rollout.n=8\n"),  # twice
        ("SEED", "4", Form.VARIABLE, JOB),
    ],
)
def test_what_does_not_stand_there_once_and_plainly_is_left_alone(
    key: str, value: str | None, form: Form, text: str
) -> None:
    with pytest.raises(CannotEdit):
        changed(key, value, form, text)
