"""The answer for programs. Keys are only ever added within a ``schema_version``."""

from __future__ import annotations

import msgspec

from rldoctor import __version__
from rldoctor.compat.model import Answer

SCHEMA_VERSION = 1


def render(answer: Answer, terminal: bool | None = None) -> str:
    """The answer as indented JSON."""
    reported = msgspec.to_builtins(answer, order="deterministic")
    document = {"schema_version": SCHEMA_VERSION, "tool": {"name": "rldoctor", "version": __version__}, **reported}
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode()
