"""W&B's offline files as wandb itself wrote them."""

from __future__ import annotations

import json
import math
import random
import struct
from pathlib import Path

from rldoctor.logs.metrics import wandb


def test_history(data: Path) -> None:
    found = wandb.read(data / "run-offline.wandb")
    assert found["reward"].steps == (1, 2, 3, 4)
    assert found["frac_reward_zero_std"].values == (1.0, 1.0, 1.0, 1.0)
    assert math.isnan(found["loss"].values[-1])


def test_records_that_span_blocks(tmp_path: Path) -> None:
    name = b"train/loss"
    items = [record(name, str(step).encode(), step) for step in range(1, 4000)]
    file = tmp_path / "run-x.wandb"
    file.write_bytes(framed(items))
    found = wandb.read(file)["loss"]
    assert found.steps == tuple(range(1, 4000)) and found.values == tuple(float(s) for s in range(1, 4000))


def test_summary(tmp_path: Path) -> None:
    file = tmp_path / "wandb-summary.json"
    file.write_text(json.dumps({"_step": 12, "train/loss": "NaN", "train/reward": 0.5, "train/global_step": 3}))
    found = wandb.read_summary(file)
    assert found["reward"].steps == (3,) and math.isnan(found["loss"].values[0])


def test_damaged_files_raise_nothing(data: Path, tmp_path: Path) -> None:
    raw = (data / "run-offline.wandb").read_bytes()
    chance = random.Random(2)
    file = tmp_path / "run-x.wandb"
    for trial in range(300):
        damaged = bytearray(raw[: chance.randrange(len(raw))] if trial % 2 else raw)
        for _ in range(min(4, len(damaged))):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        file.write_bytes(damaged)
        wandb.read(file)


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def record(name: bytes, value: bytes, step: int) -> bytes:
    return field(2, field(1, field(1, name) + field(16, value)) + field(2, varint(1 << 3) + varint(step)))


def framed(records: list[bytes]) -> bytes:
    """LevelDB's log format, with records cut at the borders of blocks of 32 KiB."""
    out = bytearray(b":W&B\xe1\xbe\x00")
    for content in records:
        first = True
        while True:
            room = 32768 - len(out) % 32768
            if room < 7:
                out += bytes(room)
                continue
            part, content = content[: room - 7], content[room - 7 :]
            kind = (1 if first else 4) if not content else (2 if first else 3)
            out += struct.pack("<IHB", 0, len(part), kind) + part
            first = False
            if not content:
                break
    return bytes(out)
