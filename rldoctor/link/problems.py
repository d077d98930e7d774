"""What the linker finds: a name that one package looks for in another, and that is not there; what a framework refuses
of the settings of a launch."""

from __future__ import annotations

from dataclasses import asdict, replace
from enum import Enum
from typing import Any

from rldoctor.records import dataclass


class When(Enum):
    """``IMPORT``: the launch cannot start. ``PERHAPS``: if a condition holds that is not known here. ``CALL``: once a
    function is called."""

    IMPORT = "import"
    PERHAPS = "perhaps"
    CALL = "call"


@dataclass(frozen=True)
class Problem:
    """``file:line`` of package ``by`` asks ``owner`` (a module or callable of the package ``of``) for ``name``.

    ``kind`` is ``name``, ``module``, ``attribute``, ``argument``, ``missing-argument``, ``positions`` (``name`` is how
    many are given), ``override-`` before one of these three (a method that stands for ``owner`` does not fit how ``of``
    calls it), ``always`` (a module ``name`` that is not installed, where ``owner``, asked whether it is, returns what
    is always true) or ``refused`` (the file raises for the version of ``owner``; ``name`` is what it says); ``entry``
    is the module through which the launch reaches the file."""

    kind: str
    by: str
    file: str
    line: int
    name: str
    owner: str
    of: str
    when: When
    entry: str

    def plain(self) -> dict[str, Any]:
        """The problem as plain JSON."""
        return {**asdict(self), "when": self.when.value}


@dataclass(frozen=True)
class Refusal:
    """An exception that the settings lead to: its type and message (``…`` for what is not known), where it is raised
    (a module without a line where the source is not at hand), the condition around it, the settings that it reads."""

    type: str
    message: str
    file: str
    line: int | None
    function: str
    condition: str
    reads: tuple[str, ...]

    def below(self, section: str) -> Refusal:
        """The refusal of a class whose fields are a section of the settings."""
        return replace(self, reads=tuple(f"{section}.{name}" for name in self.reads))

    def plain(self) -> dict[str, Any]:
        """The refusal as plain JSON."""
        return {**asdict(self), "reads": list(self.reads)}
