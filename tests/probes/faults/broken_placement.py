"""The placement child with a model that is broken on purpose: what the check that judges it must find."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "rldoctor" / "probes" / "children"))

import placement  # noqa: E402
import report  # noqa: E402

load = placement.load


def host_buffer(model: Any) -> None:
    """A table made anew in each forward pass, and on the host: Qwen3-VL's position embedding did so
    (https://github.com/verl-project/verl/issues/5571)."""
    import torch

    layer = model.model.layers[1].mlp
    forward = layer.forward

    def scaled(hidden: Any) -> Any:
        scale = torch.linspace(0.5, 1.5, hidden.shape[-1], dtype=hidden.dtype)
        return forward(hidden * scale)  # host buffer

    layer.forward = scaled


def first_device(model: Any) -> None:
    """A device that is named in the code: right on the first device, wrong on every other."""
    import torch

    layer = model.model.layers[0].input_layernorm
    forward = layer.forward

    def shifted(hidden: Any) -> Any:
        shift = torch.zeros(hidden.shape[-1], dtype=hidden.dtype, device="cuda:0")
        return forward(hidden + shift)  # first device

    layer.forward = shifted


def main(arguments: dict[str, Any]) -> None:
    fault = arguments.pop("fault")
    faults = {"host_buffer": host_buffer, "first_device": first_device}

    def broken(path: str) -> Any:
        model = load(path)
        faults[fault](model)
        return model

    placement.load = broken
    placement.main(arguments)


if __name__ == "__main__":
    report.run(main)
