"""The words of a command line that Hydra takes for overrides."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rldoctor.formats.hydra.grammar import TooLargeError, parse_value
from rldoctor.formats.native import Native
from rldoctor.formats.values import SECRET, Refused, Unresolved
from rldoctor.plan.model import Form
from rldoctor.redact.marks import has_mark

if TYPE_CHECKING:
    from rldoctor.formats.shell.reader import Word

_HEAD = re.compile(r"(\+\+|\+|~)?([A-Za-z_$][\w./@$-]*)(=|$)")


def override(word: Word, file: str, group: str = "") -> Native | None:
    """One override (``a.b=c``, ``+a=c``, ``++a=c``, ``~a``), or None where the word is none."""
    known = word.value if isinstance(word.value, str) else word.prefix
    head = _HEAD.match(known)
    if head is None or (not head[3] and head[1] != "~"):
        return None
    value: Any = None
    if isinstance(word.value, Unresolved):
        value = Unresolved(word.raw.partition("=")[2], word.value.why)
    elif head[3]:
        value = parse(known[head.end() :])
    _, is_at, package = head[2].partition("@")
    return Native(
        key=head[2].replace("/", "."),
        value=value if head[1] != "~" else None,
        file=word.file or file,
        line=word.line,
        form=Form.OVERRIDE,
        spelled=head[2],
        raw=word.raw,
        operator=head[1] or "",
        group=group,
        package=package if is_at else None,
    )


def parse(text: str) -> Any:
    """The value of an override's text as Hydra reads it; what Hydra refuses is :class:`Refused`, and what a secret
    stands in is not known."""
    if has_mark(text):
        return Unresolved(text, SECRET)
    try:
        return parse_value(text)
    except (TooLargeError, RecursionError) as error:
        return Unresolved(text, str(error))
    except ValueError as error:
        from rldoctor.formats.shell.grammar import PLACEHOLDER

        if (named := PLACEHOLDER.search(text)) is not None:
            return Unresolved(text, f"{named[0]} is to be filled in")
        return Refused(text, f"Hydra refuses it: {error}")


def by_yaml(native: Native) -> Native:
    """The override as ``OmegaConf.from_cli`` reads it, for which a value is YAML: where Hydra's grammar refuses it
    (``a={"b": 1}``)."""
    from rldoctor.errors import InputError
    from rldoctor.formats.source import Source
    from rldoctor.formats.yaml.reader import read_value

    if native.form is not Form.OVERRIDE or not isinstance(native.value, Refused):
        return native
    try:
        return replace(native, value=read_value(Source(native.value.raw, native.file)))
    except InputError:
        return native
