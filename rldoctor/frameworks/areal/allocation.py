"""AReaL's letters for devices: ``sglang:d4p1t2`` for one role, ``sglang:d4t2+fsdp:d8`` for a run of older releases.

areal/api/alloc_mode.py, 0.4.0 to 1.0.4: d, t, p, c and e are the data, tensor, pipeline, context and expert parallel
sizes; ``megatron:(attn:d2p2|ffn:p2e2)`` gives experts sizes of their own."""

from __future__ import annotations

import re
from dataclasses import field
from math import prod
from typing import Any

from rldoctor.records import dataclass

ENGINES = frozenset({"sglang", "vllm"})
_ROLE = re.compile(
    r"(?:(?P<backend>[a-z]+)(?:\[\w+\])?[:.])?(?P<sizes>(?:[dtpce]\d+)+|\((?P<attention>[^)|]*)(?P<rest>[^)]*)\))"
)
_SIZE = re.compile(r"([dtpce])(\d+)")
# Experts are spread over the ranks that there are.
_RANKS = "dtpc"


@dataclass(frozen=True)
class Role:
    """The program of one role (``fsdp``; empty where the letters stand alone) and its sizes by letter."""

    backend: str
    sizes: dict[str, int] = field(default_factory=dict)

    def size(self, letter: str) -> int:
        return self.sizes.get(letter, 1)

    @property
    def devices(self) -> int:
        return prod(self.size(letter) for letter in _RANKS)


def role(text: Any) -> Role | None:
    """One role, or None where the text is none."""
    found = _ROLE.fullmatch(text.replace(" ", "")) if isinstance(text, str) else None
    return None if found is None else _of(found)


def roles(text: Any) -> tuple[Role | None, Role | None]:
    """The engine's role and the trainer's of an ``allocation_mode``, None where it does not name them."""
    parts = re.split(r"[+|](?![^(]*\))", text.replace(" ", "")) if isinstance(text, str) else []
    found = [role(part) for part in parts]
    engine = next((one for one in found if one is not None and one.backend in ENGINES), None)
    trainer = next((one for one in found if one is not None and one.backend not in ENGINES), None)
    return engine, trainer


def resized(text: str, letter: str, size: int, engine: bool) -> str | None:
    """The text with another size of the engine's role or the trainer's; None where it has no plain letters for it."""
    for part in re.split(r"[+|](?![^(]*\))", text):
        found = _ROLE.fullmatch(part.strip())
        if found is None or "(" in part or ((found["backend"] or "") in ENGINES) is not engine:
            continue
        sizes = found["sizes"]
        new, count = re.subn(rf"{letter}\d+", f"{letter}{size}", sizes, count=1)
        return text.replace(part, part.replace(sizes, new if count else f"{sizes}{letter}{size}"), 1)
    return None


def _of(found: re.Match[str]) -> Role:
    text = found["attention"] or found["sizes"]
    sizes = {letter: int(number) for letter, number in _SIZE.findall(text)}
    experts = dict(_SIZE.findall(found["rest"] or ""))
    if "e" in experts:
        sizes["e"] = int(experts["e"])
    return Role(found["backend"] or "", sizes)
