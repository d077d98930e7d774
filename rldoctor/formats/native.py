"""One setting as a launch file spells it, before any dialect has given it a meaning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rldoctor.formats.json_text import parse
from rldoctor.plan.model import Form, RefusedValue, UnknownOption
from rldoctor.records import dataclass


class Located(dict[str, Any]):
    """A dictionary that knows on which line each of its entries stands, and on which an entry stood before that a
    later one of the same key replaces (``replaced``)."""

    def __init__(self, values: dict[str, Any], lines: dict[str, int], replaced: dict[str, int] | None = None) -> None:
        super().__init__(values)
        self.lines = lines
        self.replaced = replaced or {}


@dataclass(frozen=True, kw_only=True)
class Native:
    """``key`` is the name that dialect tables use: the option without its dashes and with ``_`` for ``-``, the dotted
    path of a YAML value or override, the keyword, the variable. ``spelled`` is the name exactly as it stands in the
    file; ``path`` leads into its JSON value where the setting is a part of one. ``value`` may be an
    :class:`Unresolved`. ``operator`` is the ``+``, ``++`` or ``~`` of a Hydra override, ``package`` what
    stands behind the ``@`` of its group. ``group`` names the call or
    command that the setting belongs to."""

    key: str
    value: Any
    file: str
    line: int
    form: Form
    spelled: str = ""
    path: tuple[str, ...] = ()
    raw: str = ""
    operator: str = ""
    group: str = ""
    package: str | None = None

    def parts(self) -> Iterator[Native]:
        """The entries of a dictionary value (JSON text included) as settings of their own; nothing where it is none."""
        value = self.value
        if isinstance(value, str) and value.lstrip()[:1] == "{":
            try:
                value = parse(value)
            except ValueError:
                return
        if not isinstance(value, dict):
            return
        lines = value.lines if isinstance(value, Located) else {}
        for name, part in value.items():
            name = str(name)
            path = (*self.path, name)
            spelled = f"{self.spelled}.{name}" if self.form in (Form.YAML, Form.OVERRIDE) else self.spelled
            key, line = f"{self.key}.{name}", lines.get(name, self.line)
            yield replace(self, key=key, value=part, path=path, spelled=spelled, line=line)

    def as_unknown(
        self, *, owner: str, nearest: tuple[str, ...] = (), ignored: bool = False, why: str = "", key: str = ""
    ) -> UnknownOption:
        """This setting as an option that the framework's version does not know, or does not apply; ``key`` where not
        only its name is at fault."""
        return UnknownOption(
            key=key or self.spelled or self.key,
            file=self.file,
            line=self.line,
            form=self.form,
            nearest=nearest,
            owner=owner,
            ignored=ignored,
            why=why,
        )

    def as_refused(
        self,
        *,
        owner: str,
        value: str,
        accepted: tuple[Any, ...] = (),
        takes: str = "",
        option: str | None = None,
        why: str = "",
    ) -> RefusedValue:
        """This setting as one whose value is not taken, or not as it is meant."""
        return RefusedValue(
            key=self.spelled or self.key,
            value=value,
            file=self.file,
            line=self.line,
            form=self.form,
            owner=owner,
            accepted=accepted,
            takes=takes,
            option=option,
            why=why,
        )
