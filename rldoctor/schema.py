"""JSON Schemas as they are published in docs/: a format that changed without its schema fails a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec


def components(kind: Any) -> dict[str, Any]:
    """The schema of what msgspec reads as ``kind``; a value of type ``object`` is any JSON, a path a text."""
    return msgspec.json.schema(kind, schema_hook=_any)


def published(title: str, found: dict[str, Any]) -> str:
    """The schema as a file."""
    dated = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"rldoctor {title}", **found}
    return msgspec.json.format(msgspec.json.encode(dated), indent=1).decode() + "\n"


def _any(kind: type) -> dict[str, Any]:
    if kind is object:
        return {"description": "Any JSON."}
    if issubclass(kind, Path):
        return {"type": "string"}
    raise NotImplementedError(kind)
