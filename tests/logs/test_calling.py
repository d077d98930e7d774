"""Who called the library in which a failure was raised."""

from __future__ import annotations

import pytest

from rldoctor.logs.triage import triage_text

SITE = "/env/lib/python3.12/site-packages"
ASKED = f"""\
Traceback (most recent call last):
  File "/home/me/train.py", line 9, in <module>
    trainer.train()
  File "{SITE}/trl/trainer/grpo_trainer.py", line 1136, in compute_loss
    logits = model(input_ids)
"""


def said_of(text: str) -> str:
    (found,) = triage_text(text).findings
    return found.message


@pytest.mark.parametrize(
    ("library", "said"),
    [
        (
            f'  File "{SITE}/torch/nn/modules/module.py", line 1784, in _call_impl\n    return forward_call(*args)\n'
            f'  File "{SITE}/torch/nn/modules/linear.py", line 125, in forward\n    return F.linear(x, w)\n'
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (77x768 and 4096x5120)\n",
            "no known pattern",
        ),
        (
            f'  File "{SITE}/torch/distributed/fsdp/_common_utils.py", line 429, in _assert_in_training_states\n'
            "    raise ValueError(msg)\nValueError: expected to be in states [1] but current state is IDLE\n",
            "raised by torch ",
        ),
    ],
    ids=["compiled", "Python"],
)
def test_what_a_library_refuses_was_wrong_before_it_came_there(library: str, said: str) -> None:
    message = said_of(ASKED + library)
    assert f": {said}" in message
    assert message.endswith(f"; torch was called by compute_loss ({SITE}/trl/trainer/grpo_trainer.py:1136)")


def test_who_called_is_told_of_libraries_alone() -> None:
    assert "was called by" not in said_of(ASKED + "KeyError: 'x'\n")
    alone = "Traceback (most recent call last):\n" + "".join(
        f'  File "{SITE}/torch/{file}.py", line 7, in forward\n    return f(x)\n' for file in ("nn/a", "nn/b")
    )
    assert "was called by" not in said_of(f"{alone}RuntimeError: it broke\n")
