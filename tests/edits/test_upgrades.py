"""What pip would take for a fix goes together with what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.api import Fix
from rldoctor.edits.upgrades import fitting
from tests.cases import assumed, installed
from tests.checks.launches import LaunchFile

VERL = {"verl": "0.6.1", "vllm": "0.11.0", "torch": "2.8.0", "transformers": "4.57.1"}


@pytest.mark.parametrize(
    ("there", "asked", "command"),
    [
        (VERL, "pip install 'verl>=0.7.1'", "pip install 'verl>=0.7.1,<=0.8.0'"),  # 0.9 asks for transformers 5
        (VERL, "python -m pip install 'verl>=0.7.1,<0.8'", "python -m pip install 'verl>=0.7.1,<0.8'"),
        (VERL, "pip install verl==0.9.1", "pip install verl==0.9.1"),
        (VERL, "pip install --upgrade verl", "pip install --upgrade verl"),
        (VERL, "pip install 'pytest>=8'", "pip install 'pytest>=8'"),
        (VERL, "pip install 'peft>=0.5'", "pip install 'peft>=0.5'"),  # not there: the newest is as good as any
        (
            {"ms-swift": "3.8.1", "trl": "0.23.0"},
            "pip install 'ms-swift>=3.9'",
            "pip install 'ms-swift>=3.9.0,<=3.12.6'",
        ),
    ],
)
def test_a_lower_bound_alone_ends_where_the_rest_would_have_to_move(
    there: dict[str, str], asked: str, command: str
) -> None:
    fix = fitting(assumed(**there), Fix(title="move it", commands=(asked,)))
    assert (fix.commands, fix.side_effects) == ((command,), None)


def test_an_option_that_the_nearest_releases_drop_is_named(tmp_path: Path) -> None:
    text = "swift rlhf --rlhf_type grpo --model m --use_vllm true --num_infer_workers 2\n"
    (case,) = LaunchFile(tmp_path, text, {"ms-swift": "3.3.0"}).cases()
    asked = Fix(title="move it", commands=("pip install 'ms-swift>=3.4'",))
    assert fitting(case, asked).commands == ("pip install 'ms-swift>=3.4.0,<=3.5.3'",)
    asked = Fix(title="move it", commands=("pip install 'ms-swift>=3.6'",))
    assert fitting(case, asked).side_effects == "it no longer has the launch's num_infer_workers"


def test_what_fits_no_release_is_said_to_move_too() -> None:
    case = installed({"openrlhf": "0.8.5", "vllm": "0.9.1", "torch": "2.7.0", "transformers": "4.52.4"})
    fix = fitting(case, Fix(title="a newer vLLM", commands=("pip install 'vllm>=0.20.1'",), side_effects="slow"))
    assert fix.commands == ("pip install 'vllm>=0.20.1'",)
    assert fix.side_effects == "slow; openrlhf and transformers have to move with it (rldoctor compat)"
