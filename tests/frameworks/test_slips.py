"""Slips of the pen, and names of one's own that resemble others."""

from __future__ import annotations

import pytest

from rldoctor.frameworks.slips import slip


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("wadnb", "wandb"),
        ("wanddb", "wandb"),
        ("vlm", "vllm"),
        ("naiv", "naive"),
        ("gropo", "grpo"),
        ("grppo", "grpo"),
        ("aadamw", "adamw"),
        ("colocated", "colocate"),
        ("adamw8bit", "adamw_8bit"),
        ("low-var-kl", "low_var_kl"),
        ("all_linear", "all-linear"),
    ],
)
def test_a_slip(word: str, name: str) -> None:
    assert slip(word, ["other", name]) == name


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("grpo", "grpo"),
        ("dapo2", "dapo"),
        ("zero33", "zero3"),
        ("k1_", "k11"),
        ("rewards", "reward"),
        ("grpox", "grpo"),
        ("main_gppo", "main_ppo"),
        ("spo", "sapo"),
        ("k1", "k11"),
        ("", "a"),
        ("console", "wandb"),
    ],
)
def test_a_name_of_its_own(word: str, name: str) -> None:
    assert slip(word, [name]) is None
