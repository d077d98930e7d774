"""The table of what belongs to which torch."""

from __future__ import annotations

import pytest
from rldoctor_checks.environment.binary_abi.companions import TORCHVISION, built_for, companion


def test_companions_carry_torchs_label() -> None:
    assert companion("torchvision", "2.13.0+cpu") == "0.28.0+cpu"
    assert companion("torchaudio", "2.8.0+cu128") == "2.8.0+cu128"
    assert companion("torchvision", "2.8.0") == "0.23.0"


@pytest.mark.parametrize(
    ("name", "torch"), [("torchvision", "9.9.0"), ("torchaudio", "2.12.0"), ("torchtext", "2.8.0")]
)
def test_what_the_table_does_not_know_is_none(name: str, torch: str) -> None:
    assert companion(name, torch) is None


def test_each_torchvision_was_built_for_one_torch_until_the_interface_was_stable() -> None:
    for torch, torchvision in TORCHVISION.items():
        assert built_for("torchvision", torchvision) == (None if torch == "2.14.0" else torch)
    assert built_for("torchvision", "0.29.0") == "2.14.0"
