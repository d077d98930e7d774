"""TensorBoard event files as torch's and tensorboardX's writers make them."""

from __future__ import annotations

import math
import random
from pathlib import Path

from rldoctor.logs.metrics import tensorboard


def test_scalars_of_torchs_writer(data: Path) -> None:
    found = tensorboard.read(data / "events.out.tfevents.1")
    assert found["reward"].steps == (1, 2, 3, 4)
    assert abs(found["grad_norm"].values[0] - 0.75589) < 1e-5
    assert found["completion_length_mean"].key == "train/completions/mean_length"
    assert math.isnan(found["loss"].values[4]), "written as a tensor, in the new style"


def test_evaluations_and_texts_are_left_out(data: Path) -> None:
    assert 9.0 not in tensorboard.read(data / "events.out.tfevents.1")["reward"].values


def test_scalars_of_tensorboardx(data: Path) -> None:
    assert tensorboard.read(data / "events.out.tfevents.2")["grad_norm"].steps == (1, 2, 3)


def test_an_unfinished_file_counts_as_far_as_it_goes(data: Path, tmp_path: Path) -> None:
    raw = (data / "events.out.tfevents.1").read_bytes()
    for size in range(0, len(raw), 7):
        file = tmp_path / "events.out.tfevents.1"
        file.write_bytes(raw[:size])
        reward = tensorboard.read(file).get("reward")
        assert reward is None or reward.steps == tuple(range(1, len(reward.steps) + 1))


def test_damaged_files_raise_nothing(data: Path, tmp_path: Path) -> None:
    raw = bytearray((data / "events.out.tfevents.1").read_bytes())
    chance = random.Random(1)
    for _ in range(300):
        damaged = bytearray(raw)
        for _ in range(4):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        file = tmp_path / "events.out.tfevents.1"
        file.write_bytes(damaged)
        tensorboard.read(file)
