"""What is known of one option of a framework: its default, its type, and the releases that have it."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from rldoctor.records import dataclass


@dataclass(frozen=True)
class Computed:
    """A value that exists only while the program runs (``os.cpu_count()``); ``expression`` is its source text."""

    expression: str


class _Missing:
    """Stands where an option has no default."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()

# Containers under which a framework takes any key: nothing below them can be called unknown.
OPEN_TYPES = frozenset({"dict", "any"})


# The type of an option that a group below declares, and of which the group itself tells nothing but its names.
INHERITED = "inherited"


@dataclass(frozen=True)
class Option:
    """One option as one release declares it.

    ``default`` is a plain JSON value (tuples read as lists), :class:`Computed`, or ``MISSING`` where there is none;
    references (``${data.max_prompt_length}``) stand as they are written. Below a section whose own default is None the
    defaults hold once the section is given. Where the release is not certain, ``default`` can be ``Unknown``.
    ``type`` is made of ``bool int float str list dict any`` joined by ``|``, with a ``?`` where None is allowed, and
    empty where the source does not say. ``choices`` holds what the framework accepts, when it accepts nothing else;
    ``enforced`` says that the class itself raises for another text, however that gets there.
    ``names`` are the words among which its code looks the value up, ``closed`` where any other is refused.
    ``since`` and ``until`` (exclusive) are the releases read between which this very declaration stood; None means as
    far as was read. ``added`` marks a Hydra key that is absent from the YAML and therefore needs ``+`` in front.
    ``alias`` names the option that this one is another spelling of; ``count`` is how many values it takes where that
    is a number."""

    name: str
    default: Any = MISSING
    type: str = ""
    choices: tuple[Any, ...] | None = None
    enforced: bool = False
    required: bool = False
    deprecated: bool = False
    added: bool = False
    alias: str | None = None
    names: tuple[str, ...] | None = None
    closed: bool = False
    count: int | None = None
    since: str | None = field(default=None, compare=False)
    until: str | None = field(default=None, compare=False)

    @property
    def open(self) -> bool:
        """Whether any key may stand below this option."""
        return bool(OPEN_TYPES & set(self.type.rstrip("?").split("|")))


Options = dict[str, Option]
