"""What programs print of how they were started: commands, variables, whole configurations, the engine's own line."""

from __future__ import annotations

import re
from dataclasses import field
from enum import Enum

from rldoctor.expressions import expression
from rldoctor.formats.printed import TABLE
from rldoctor.frameworks import trainers
from rldoctor.logs.model import Origin
from rldoctor.logs.prefixes import Line
from rldoctor.records import dataclass

# A whole configuration has some hundred lines; what is longer is cut off.
_MOST_LINES = 2500
_MOST_CHARACTERS = 256 << 10
# Of one log. Every rank and every replica may print its own.
MOST = 200
# A mapping in YAML, whose lines follow the first key and its value; what is no deeper and no key is not part of it.
_MAPPING = expression(r"[A-Za-z_]\w*:(?: \S.*)?$")
_IN_MAPPING = expression(r"\s+\S|- |[A-Za-z_]\w*:(?: |$)")
_QUOTED = expression(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")


class Kind(Enum):
    """What a printed text is: a command of a shell, a variable that one sets, Hydra's overrides of a job, the settings
    of a whole launch, vLLM's engine as it runs, or the engine's arguments that are no defaults."""

    COMMAND = "command"
    VARIABLE = "variable"
    OVERRIDES = "overrides"
    SETTINGS = "settings"
    ENGINE = "engine"
    ARGUMENTS = "arguments"


@dataclass(frozen=True)
class Form:
    """How such a text is found: a line with ``literal`` in which ``pattern`` matches; its first group is the text.
    ``entry`` is what runs where the text does not say it, ``has`` what must stand in it."""

    literal: str
    pattern: re.Pattern[str]
    kind: Kind
    entry: str = ""
    has: str = ""


def _form(literal: str, pattern: str, kind: Kind) -> Form:
    return Form(literal, expression(pattern), kind)


# A shell's trace (set -x) names the program first; sudo, nohup and variables are the unwrapping's business.
_TRACED = (
    *("python", "torchrun ", "accelerate launch", "deepspeed ", "uv run", "ray job submit", "srun "),
    *("vllm serve", *(f"{program} " for framework in trainers() for program in framework.programs)),
)

FORMS: tuple[Form, ...] = (
    *(_form(f"+ {program}", r"^\++ (.+)", Kind.COMMAND) for program in _TRACED),
    _form("+ export ", r"^\++ export (\w+=.*)", Kind.VARIABLE),
    # deepspeed/launcher/runner.py
    _form("cmd = ", r"\bcmd = (\S*python.+)", Kind.COMMAND),
    _form("Command: ", r"\bCommand: (.+)", Kind.COMMAND),
    # hydra/_internal/utils.py
    _form("Error executing job with overrides: [", r"Error executing job with overrides: (\[.+\])", Kind.OVERRIDES),
    # vllm/v1/engine/core.py, vllm/engine/llm_engine.py
    _form("LLM engine (v", r"LLM engine \(v[^)]{1,60}\) with config: (.+)", Kind.ENGINE),
    # vllm/entrypoints/utils.py
    _form("non-default args: ", r"non-default args: (\{.*)", Kind.ARGUMENTS),
    *(_form(*row, Kind.COMMAND) for framework in trainers() for row in framework.words.commands),
    *(
        Form(row.literal, expression(row.pattern), Kind.SETTINGS, row.entry, row.has)
        for framework in trainers()
        for row in framework.words.settings
    ),
)


@dataclass(frozen=True)
class Printed:
    """One such text, which began in line ``number``."""

    form: Form
    text: str
    number: int
    origin: Origin

    @property
    def kind(self) -> Kind:
        return self.form.kind


@dataclass
class Collecting:
    """A text whose lines are still coming in."""

    form: Form
    number: int
    origin: Origin
    lines: list[str] = field(default_factory=list)
    depth: int = 0
    size: int = 0
    open: bool = True

    @property
    def is_mapping(self) -> bool:
        """Whether it is a mapping in YAML, which nothing closes."""
        return _MAPPING.match(next(filter(None, self.lines), "")) is not None

    @property
    def is_table(self) -> bool:
        """Whether it is a table under its title, which a line like the title closes."""
        return bool(self.lines) and TABLE.match(self.lines[0]) is not None

    def feed(self, text: str, record: bool = False) -> None:
        """Takes one more line of the process, until the text is over; a logger's ``record`` is none of a mapping's."""
        if self.is_mapping and (record or not _IN_MAPPING.match(text)):
            self.open = False
            return
        self.lines.append(text)
        self.size += len(text) + 1
        if self.form.kind in (Kind.COMMAND, Kind.VARIABLE, Kind.OVERRIDES, Kind.ENGINE):
            self.open = False
            return
        if self.is_table:
            self.open = len(self.lines) == 1 or not (record or TABLE.match(text))
            self.open &= len(self.lines) < _MOST_LINES and self.size < _MOST_CHARACTERS
            return
        bare = _QUOTED.sub("", text)
        self.depth += sum(bare.count(c) for c in "{[(") - sum(bare.count(c) for c in "}])")
        begins = len(self.lines) == 1 and not text  # in the next line
        self.open = (
            (self.depth > 0 or begins or self.is_mapping)
            and len(self.lines) < _MOST_LINES
            and self.size < _MOST_CHARACTERS
        )

    def finished(self) -> Printed:
        number = self.number + (not self.lines[0])
        return Printed(self.form, "\n".join(self.lines).lstrip("\n"), number, self.origin)


def begun(form: Form, line: Line, number: int) -> Collecting | None:
    """The text that begins in a line, its first line taken; None where none does."""
    match = form.pattern.search(line.text)
    if match is None or line.text.startswith("# "):
        return None
    found = Collecting(form, number, line.origin)
    text = match[1]
    if form.kind is Kind.SETTINGS and text.startswith(("'", '"')):
        # The brace that opens it has a line of its own, which nobody can look for.
        text = "{" + text
    found.feed(text)
    return found
