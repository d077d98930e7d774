"""Tells text that a run merely shows (prompts, completions, rewards' input, commands) from what the run itself says."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rldoctor.expressions import expression
from rldoctor.logs.model import Origin
from rldoctor.logs.prefixes import Line

# Fields of samples as trainers print them, in a dict, in JSON or as a label of its own.
_FIELDS = (
    r"prompts?|completions?|responses?|outputs?|contents?|text|messages?|answers?|solutions?|questions?|queries|query|"
    r"inputs?|instructions?|ground_truth|generated(?:_text)?|sequences?|samples?|chosen|rejected|reward_func\w*|code|"
    r"system|user|assistant|observations?|reference"
)
# Those that no record of a program has: a data set's.
FIELDS_OF_SAMPLES = frozenset(
    {"prompt", "prompts", "completion", "completions", "response", "question", "questions", "problem", "instruction",
     "answer", "solution", "ground_truth", "chosen", "rejected", "role"}
)  # fmt: skip
_FIELD = expression(rf"['\"](?:{_FIELDS})['\"]\s*[:=]\s*(?:\[|\{{|u?b?r?['\"])", re.IGNORECASE)
_KEYWORD = expression(rf"\b(?:{_FIELDS})\s*[=:]\s*u?b?r?['\"][^'\"]*$", re.IGNORECASE)
# Other fields' names stand before what programs say: ``Message: The node was low on resource``.
_LABEL = expression(r"\s*(?:prompt|completion|response)s?:\s*$", re.IGNORECASE)
# What the cluster says: Kubernetes' status in YAML (``  message: 'The node was low on resource: memory``) or JSON, and
# Nomad of an end (``Exit Code: 137, Exit Message: "OOM Killed"``).
_STATUS = expression(
    r"(?:\s*(?:- )?['\"]?message['\"]?|.{0,200}['\"]error['\"]: ?\{[^{}]{0,200}['\"]message['\"]|"
    r".{0,200}\bExit Message): ['\"][^'\"]*$"
)
# What a model or a data set says in words: ``Answer: Because CUDA out of memory is raised when``.
_SPEAKER = expression(
    r"\s*(?:Prompt|Completion|Question|Answer|Response|[Pp]roblem|[Ss]olution|Assistant|User):\s+"
    r"(?:[\w,.':()\"-]+\s+){1,40}[(\"']?$"
)
# Somebody asks, where a program would state: ``Prompt: why did my job end (exit code 137)?``.
_QUESTION = expression(r"\s*(?:[A-Z]\w{0,20}: )?(?i:why|how|what|when|which|who)\b[^?]{1,400}\?[\s'\")]*$")
_TABLE = expression(r"\s*[│┃|╭╰┏┡├└┌╔║]")
_SHELL_TRACE = expression(r"\s*(?:\++ |\$ |> |# |// )")
# What a warning gives as an example of what may come.
_EXAMPLE = expression(r"\b(?:like|such as|e\.g\.,?|for example,?) `[^`]*$")
_ESCAPED_LINES = expression(r"\\n")

# Of documents and source files: so many lines are of one kind.
_MARKDOWN = expression(r"#{1,6} \w|\s{0,6}(?:[-*]|\d{1,2}\.) \S|\|.+\|\s*$|.*\]\(\S+\)")
_CODE = expression(
    r"(?:import \w[\w., ]*|from [\w.]+ import .+|@\w[\w.]*(?:\(.*\))?|"
    r"\s*(?:(?:async )?def \w+\(.*|class \w+.*:|try:|(?:except|elif|if|for|while|with) .+:|else:|"
    r"raise \w+\(.*|return .+))$"
)
# What git shows of a history.
_HISTORY = expression(
    r"[* |/\\]{0,20}(?:commit [0-9a-f]{7,40}\b|Author: .+<\S+>$|(?:Author|Commit)?Date:  |[0-9a-f]{7,12} \S)"
)
_FEWEST_MARKS = 5
# An entry of a changelog: what was done, or which change did it. A text of nothing else is no log, however short.
_ENTRY = expression(
    r"\s{0,6}[-*] (?=.*(?:\(#\d+\)|\bin #\d+|\bby @\w|\b(?:is|are) now\b)|(?:\[[\w ]+\] ?|\**[\w./ -]{1,30}:\** )?"
    r"(?:Fix|Add|Handl|Avoid|Remov|Rais|Improv|Support|Chang|Updat|Prevent|Catch|Document|Warn|Refactor|Bump|Revert|"
    r"Allow|Drop|Deprecat|Clarif)(?:e|es|ed|s|y|ies|ied|ped)?\b)"
)

# Labels that open a shown sample and what closes it again: a field in brackets, or a title.
_OPENS = expression(
    rf"\s*(?:\[(?:{_FIELDS})\]"
    r"|(?:#+ |=+ ?|-+ ?|\*+ ?)?(?:prompt|completion|response|generated text|sample|model output)s?(?: \d+)?\s*"
    r"(?::|=+|-+|\*+)\s*$|<\|im_start\|>|<think>|<answer>|```\w*\s*$)",
    re.IGNORECASE,
)
_LABELS = expression(rf"\s*\[(?:{_FIELDS})\]", re.IGNORECASE)
_CLOSES = expression(
    r"\s*(?:\[(?:score|reward|ground_truth|acc\w*|format|overall)\]|<\|im_end\|>|</think>|</answer>|```\s*$"
    r"|(?:score|reward|advantage)s?\s*[:=])",
    re.IGNORECASE,
)
# Lines after which an open sample is taken to be over.
_LONGEST_SAMPLE = 400


def is_quoted(line: str, at: int) -> bool:
    """Whether what stands at ``at`` in ``line`` is shown rather than said, by the line itself."""
    head = line[:at]
    if _TABLE.match(line) or _SHELL_TRACE.match(line) or _QUESTION.match(line):
        return True
    if _STATUS.match(head):
        return False
    if _FIELD.search(head) or _KEYWORD.search(head) or _LABEL.match(head) or _SPEAKER.match(head):
        return True
    if "`" in head and _EXAMPLE.search(head):
        return True
    return _ESCAPED_LINES.search(line) is not None and ("'" in head or '"' in head)


def opens_sample(line: str) -> bool:
    """Whether the line is the label under which a trainer shows a prompt or a completion."""
    return _OPENS.match(line) is not None


def labels_sample(line: str) -> bool:
    """Whether such a label is one of those that have a counterpart, as ``[response]`` has ``[score]``."""
    return _LABELS.match(line) is not None


def closes_sample(line: str) -> bool:
    """Whether the line ends what such a label opened."""
    return _CLOSES.match(line) is not None


class Samples:
    """Keeps track of samples that are shown over several lines; ``shower`` is the process that shows one, or None."""

    def __init__(self) -> None:
        self.shower: Origin | None = None
        self._length = 0
        self._labelled = False

    def follow(self, line: Line) -> None:
        """Takes the next line."""
        if closes_sample(line.text):
            self.forget()
        elif opens_sample(line.text):
            self.shower, self._length, self._labelled = line.origin, 0, labels_sample(line.text)
        elif self.shower is not None:
            self._length += 1
            said = not self._labelled and line.origin == self.shower and bool(line.level or line.tag)
            if said or self._length > _LONGEST_SAMPLE:
                self.forget()

    def forget(self) -> None:
        """Whatever was open is over."""
        self.shower = None


def is_changelog(lines: Sequence[Line]) -> bool:
    """Whether the text is nothing but entries of a changelog, be it a single one."""
    words = [line for line in lines if line.text.strip()]
    return bool(words) and all(_ENTRY.match(line.text) for line in words)


def is_document(lines: Sequence[Line]) -> bool:
    """Whether the text is Markdown, Python or a history that somebody wrote, and no program wrote a record in it: it
    speaks of failures, and quotes what runs print."""
    if is_changelog(lines):
        return True
    marks = max(sum(1 for line in lines if kind.match(line.text)) for kind in (_MARKDOWN, _CODE, _HISTORY))
    return marks >= _FEWEST_MARKS and not any(line.level or line.tag or line.origin.pid for line in lines)
