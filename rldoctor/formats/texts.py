"""Values as texts of a format: the shell, Hydra, YAML, Python, JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from rldoctor.plan.model import Form


def value_text(value: Any, form: Form, inside_json: bool = False) -> str:
    """``value`` as a form writes it, unquoted for the shell."""
    if inside_json:
        return json.dumps(value)
    if form is Form.KEYWORD:
        return json.dumps(value) if isinstance(value, str) else repr(value)
    if isinstance(value, list | dict):
        return hydra_text(value) if form is Form.OVERRIDE else json.dumps(value)
    if form is Form.YAML and isinstance(value, str):
        return yaml_text(value)
    if form is Form.OVERRIDE and isinstance(value, str):
        return hydra_text(value)
    return shown(value)


def shown(value: Any) -> str:
    """A scalar as shells and YAML write it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def yaml_text(text: str) -> str:
    """A string as a YAML scalar that reads back as the same string."""
    from rldoctor.formats.values import scalar

    if scalar(text) == text and re.fullmatch(r"[\w./][\w./@+-]*(:[\w./@+-]+)*", text):
        return text
    return json.dumps(text)


def hydra_text(value: Any, bare: bool = True) -> str:
    """A value of an override. Plain words stand ``bare``, as people write them; else every text is quoted, and stays
    one whatever it looks like (``'1'``)."""
    if isinstance(value, list):
        return "[" + ",".join(hydra_text(part, bare) for part in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{hydra_text(part, bare)}" for key, part in value.items()) + "}"
    if not isinstance(value, str) or (bare and re.fullmatch(r"[\w./@+:-][\w./@+: -]*", value)):
        return shown(value)
    # Backslashes are meant as they stand, but for those before a quote.
    return "'" + re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), value) + "'"


def shell_quoted(text: str) -> str:
    """``text`` as one shell word."""
    if re.fullmatch(r"[\w./:@%+=,-]+", text):
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"


def shell_word(text: str) -> str:
    """``a.b=value`` as one shell word, quoting the value alone where it needs it."""
    key, sep, value = text.partition("=")
    return key + sep + shell_quoted(value) if sep else shell_quoted(text)
