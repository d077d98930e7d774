"""How launches of the acme trainer are read: ``acme-train run --prompt 512 --answer 256 --nodes 2``."""

from __future__ import annotations

from typing import ClassVar

from rldoctor.frameworks.dialect import Dialect


class Acme(Dialect):
    """Its options, by the canonical names of the plan."""

    name, owner = "acme", "acme-trainer"
    entries: ClassVar[tuple[str, ...]] = ("acme-train run",)
    table: ClassVar[dict[str, str]] = {
        "prompt": "lengths.prompt",
        "answer": "lengths.response",
        "nodes": "placement.nodes",
    }


DIALECT = Acme()
