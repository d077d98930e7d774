"""Which known patterns come nearest to a failure that none explains, and why they do not match."""

from __future__ import annotations

import builtins
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rldoctor.catalogue.check import Check, Role, Signature
from rldoctor.logs.events import Asked
from rldoctor.logs.model import LoggedException, LogRun, Neighbour
from rldoctor.logs.ranking import ASIDE, closeness

MOST_SHOWN = 3
# A literal is near where this share of its words, by their weight, stands in a line in the same order,
_SHARE = 0.6
# where they weigh as much as two words that hardly any other literal has,
_WEIGHT = 1.6
# and where its most telling words are among them. A name in code tells more than a word.
_NAME = 0.5
_LINES, _LONGEST, _CODE_LINES = 12, 400, 3
_SHOWN = 100
_WORD = re.compile(r"[A-Za-z][A-Za-z_]+|\d+")
# Of every message, and of those that Python itself writes.
_PLAIN = frozenset(
    re.findall(
        r"\w+",
        "a an and are argument at attribute be but by cannot directory errno error file for from got has have import "
        "in is it its keyword missing module must name named no not object of on or positional required should such "
        "than that the this to type unexpected value was with",
    )
) | {name.lower() for name in dir(builtins)}


def nearest(run: LogRun, checks: Sequence[Check], asked: Iterable[Asked], declined: Iterable[Asked]) -> list[Neighbour]:
    """At most :data:`MOST_SHOWN` patterns: those whose text is there but were not asked or said no, then those whose
    text is nearly there. ``declined`` are the ones that were asked and found nothing."""
    found: dict[str, Neighbour] = {}
    for neighbour in (*_there(asked, declined), *_nearly(run, checks)):
        found.setdefault(neighbour.code, neighbour)
    return list(found.values())[:MOST_SHOWN]


def _there(asked: Iterable[Asked], declined: Iterable[Asked]) -> Iterator[Neighbour]:
    """Signatures whose text stands in the failure itself."""
    for item in (*declined, *(a for a in asked if a.refusal is not None)):
        telling = set(_words(item.event.literal)) - _PLAIN
        if item.event.literal not in item.signature.literals:
            continue  # one that is asked of every line
        if item.signature.role is Role.CAUSE and closeness(item.event) < ASIDE and len(telling) > 1:
            why = item.refusal or "its numbers or surroundings are not those of the pattern"
            place = f"line {item.event.number} has “{item.event.literal[:_SHOWN]}”"
            yield Neighbour(item.check.code, item.check.name, f"{place}, but {why}")


def _nearly(run: LogRun, checks: Sequence[Check]) -> list[Neighbour]:
    """Signatures of whose text most words stand in one line of the failure, the nearest first."""
    lines = list(dict.fromkeys(_lines(run.root))) if run.root is not None else []
    literals = [(check, literal, _words(literal)) for check, s in _causes(checks) for literal in s.literals]
    weight = _weights([said for _, _, said in literals])
    found: list[tuple[float, Neighbour]] = []
    for line in lines:
        words = _words(line)
        present = set(words)
        for check, literal, said in literals:
            whole = sum(weight[word] for word in said)
            if literal in line or sum(weight[word] for word in said if word in present) < max(_WEIGHT, _SHARE * whole):
                continue
            common = _common(said, words, weight)
            heavy = sum(weight[word] for word in common)
            if heavy >= max(_WEIGHT, _SHARE * whole) and _tells(said, common, weight):
                absent = [word for word in said if word not in common and weight[word]]
                differs = f"of which “{' '.join(absent)[:60]}” is not there" if absent else "in other signs"
                reason = f"its text is “{literal[:_SHOWN]}”, {differs}"
                found.append((heavy / whole, Neighbour(check.code, check.name, reason)))
    return [neighbour for _, neighbour in sorted(found, key=lambda item: -item[0])]


def _weights(texts: Sequence[list[str]]) -> dict[str, float]:
    """How telling each word is: 1 for a word of one text only, towards 0 the more texts have it."""
    frequent = Counter(word for said in texts for word in set(said))
    most = math.log(len(texts) + 1)
    return {
        word: 0.0 if word in _PLAIN else 1 - math.log(count) / most + (_NAME if "_" in word else 0.0)
        for word, count in frequent.items()
    }


def _tells(said: list[str], common: list[str], weight: dict[str, float]) -> bool:
    """Whether the most telling words are there, of several equals at least half."""
    most = max(weight[word] for word in said)
    heaviest = {word for word in said if weight[word] == most}
    return 2 * len(heaviest & set(common)) >= len(heaviest)


def _causes(checks: Sequence[Check]) -> Iterator[tuple[Check, Signature]]:
    for check in checks:
        for signature in check.signatures:
            if signature.role is Role.CAUSE:
                yield check, signature


def _lines(root: LoggedException) -> Iterator[str]:
    """The lines of the failure that patterns are looked for in: its messages and the code that raised it."""
    for link in reversed(root.chain):
        said = [line for line in f"{link.type}: {link.message}".splitlines() if line.strip()]
        yield from (line[:_LONGEST] for line in said[:_LINES])
        yield from (frame.code[:_LONGEST] for frame in link.frames[-_CODE_LINES:] if frame.code)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _common(said: list[str], words: list[str], weight: dict[str, float]) -> list[str]:
    """The heaviest words of ``said`` that stand in ``words`` in the same order."""
    best: list[tuple[float, list[str]]] = [(0.0, [])] * (len(words) + 1)
    for word in said:
        before = best[0]
        for at, other in enumerate(words, 1):
            here = best[at]
            if word == other and before[0] + weight[word] > max(here[0], best[at - 1][0]):
                best[at] = (before[0] + weight[word], [*before[1], word])
            elif best[at - 1][0] > here[0]:
                best[at] = best[at - 1]
            before = here
    return best[-1][1]
