"""Finds the places that can have printed what a failure shows.

The frame that raised decides first: module, function, exception type and template together. Without it the template
alone has to tell the place, so that only long ones count. Of a message that was cut, by whoever printed it or where a
line ended, the beginning decides in the same way."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from rldoctor.io import untrusted
from rldoctor.records import dataclass
from rldoctor.tables.messages import Place, Table

_LONGEST = 6_000  # characters of a message that are looked at
_SHORTEST = 12  # characters of the longest literal part, where nothing but the text speaks for a place
_FEWEST_LETTERS, _FEWEST_WORDS = 18, 3
_LONGEST_VALUE = 200
# How many packages may print the same words, and how many letters these must have then: code that one copied from
# another says as little as ``the 3-th partition is empty``, and what has less anybody may say. A whole sentence is no
# one else's, however many copied it.
_MOST_PACKAGES, _LETTERS_OF_SEVERAL, _LETTERS_OF_MANY = 3, 21, 30
# Validators' words around the message of what was raised within them.
_WITHIN = re.compile(r"(?P<kind>Value error|Assertion failed), (?P<said>[\s\S]*?)(?= \[type=|$)")
_WITHIN_TYPES = {"Value error": "ValueError", "Assertion failed": "AssertionError"}
# They do what torch's and the interpreter's compiled code does, and refuse it in the same words: of them only a frame
# tells, or their own name among the words.
_ALIKE = frozenset({"tensordict", "triton"})
_WORD = re.compile(r"[A-Za-z]{2,}")
# What stands where a message was cut; without it, one that may have gone on in the next line has at least so many
# characters, type included.
_CUT = re.compile(r"\s*(?:\.\.\.|…|<truncated>|\[(?:\.\.\. ?)?truncated[^\]]*\])$")
_LINE = 60
_SHARED = 4  # characters of a literal part behind a hole, from which on a text is taken to end in it


@dataclass(frozen=True)
class Shown:
    """What a failure shows: the exception's type and message, and the module, function and source line of the frame
    that raised it, empty where they are not known."""

    type: str
    message: str
    module: str = ""
    function: str = ""
    code: str = ""


@dataclass(frozen=True)
class Trace:
    """Where a message comes from. ``places`` are those that print it, of the release at hand where it is known, else
    of the newest that has it; ``others`` print the same in other releases from elsewhere, ``elsewhere`` are those of
    other packages that print it too. ``values`` are the words in the holes by their expressions."""

    places: tuple[Place, ...]
    others: tuple[Place, ...]
    values: Mapping[str, str]
    elsewhere: tuple[Place, ...] = ()

    @property
    def place(self) -> Place:
        return self.places[0]

    @property
    def homes(self) -> tuple[Place, ...]:
        """One place of each function that can have printed it, of the releases that ``places`` are of."""
        return _homes(self.places)


def trace(shown: Shown, packages: Iterable[str] = (), releases: Mapping[str, str] | None = None) -> Trace | None:
    """The places that can have raised what is ``shown``; None where there is none, or too many to say.

    ``packages`` are those whose code ran, the likeliest first (all, where there is none), ``releases`` the installed
    ones by package."""
    covered = Table.packages()
    among = [name for name in dict.fromkeys(packages) if name in covered]
    by_words = among or covered
    for said in _readings(shown):
        found = list(_by_frame(said, among)) or list(_by_text(said, by_words))
        if not found or (_CUT.search(said.message) is not None and not said.module):
            found += _by_beginning(said, among, by_words)
        found = found or list(_by_wrapped_text(said, by_words))
        if found:
            best = max(letters for letters, _ in found)
            return _chosen(said, [place for letters, place in found if letters == best], releases or {})
    return None


def _readings(shown: Shown) -> Iterator[Shown]:
    """The exception as it stands, and what a validator says was raised within it."""
    plain = replace(shown, type=shown.type.rpartition(".")[2], message=" ".join(shown.message[:_LONGEST].split()))
    yield plain
    for within in _WITHIN.finditer(plain.message):
        yield Shown(_WITHIN_TYPES[within["kind"]], within["said"])


def _by_frame(shown: Shown, packages: Iterable[str]) -> Iterator[tuple[int, Place]]:
    """The places of the function that raised."""
    if not shown.module:
        return
    for package in packages:
        for place in Table.load(package).within(shown.module):
            if place.function.rpartition(".")[2] != shown.function or place.type != shown.type:
                continue
            if not place.template and place.type == "AssertionError":
                if _asserted(place, shown):
                    yield 0, place
            elif bool(place.template) == bool(shown.message) and _filled(place, shown.message) is not None:
                yield _letters(place), place


def _by_text(shown: Shown, packages: Iterable[str]) -> Iterator[tuple[int, Place]]:
    """The places whose template tells them by itself."""
    for package in packages:
        for place in Table.load(package).holding(shown.type, f" {shown.message} ", _SHORTEST):
            if tells(place) and _filled(place, shown.message) is not None:
                yield _letters(place), place


def _by_wrapped_text(shown: Shown, packages: Iterable[str]) -> Iterator[tuple[int, Place]]:
    """The same where lines were wrapped, and whoever put them together did not know which of them ended at a blank."""
    if len(shown.type) + len(shown.message) < _LINE:
        return
    said = "".join(shown.message.split())
    for package in packages:
        for place in Table.load(package).holding_unspaced(shown.type, said, _SHORTEST):
            parts = (re.escape(part.replace(" ", "")) for part in place.literals)
            lost = any(part not in f" {shown.message} " for part in place.literals)
            if lost and tells(place) and re.search(".*?".join(parts), said):
                yield _letters(place), place


def _by_beginning(shown: Shown, among: Iterable[str], by_words: Iterable[str]) -> Iterator[tuple[int, Place]]:
    """The places with whose template a message begins that was cut: those of the function that raised, else those that
    the beginning tells by itself. Where nothing says that it was cut, it has to end within a literal part."""
    cut = _CUT.search(shown.message)
    said = shown.message[: cut.start()] if cut is not None else shown.message
    if cut is None and len(shown.type) + len(shown.message) < _LINE:
        return
    inside = [
        (begun, place)
        for package in (among if shown.module else ())
        for place in Table.load(package).within(shown.module)
        if place.function.rpartition(".")[2] == shown.function and place.type == shown.type
        if (begun := _begun(place, said)) and begun[0] and (cut is not None or not begun[1])
    ]
    alone = (
        (begun, place)
        for package in by_words
        for place in Table.load(package).beginning(shown.type, said)
        if tells(place) and (begun := _begun(place, said)) is not None
        if _tell(place.type, begun[0]) and (not begun[1] if cut is None else _value_like(begun[1]))
    )
    yield from ((sum(map(_letters_of, parts)), place) for (parts, _), place in (inside or alone))


def _begun(place: Place, said: str) -> tuple[list[str], str] | None:
    """The literal parts of a template as far as a text that was cut has them, the last of them perhaps in part, and
    what stands in the hole in which it ends, empty where it ends in a part; None where it begins otherwise."""
    found: list[str] = []
    at = 0
    for part in place.literals:
        start = said.find(part, at) if found else 0 if said.startswith(part) else -1
        if start < 0:
            rest = said[at:]
            sizes = range(min(len(part) - 1, len(rest)), 0, -1)
            shared = next((size for size in sizes if rest.endswith(part[:size])), 0)
            if not found:  # before the first hole stands nothing but the beginning
                return ([part[:shared]], "") if shared == len(said) else None
            return ([*found, part[:shared]], "") if shared >= _SHARED else (found, rest)
        found.append(part)
        at = start + len(part)
    return found, said[at:]


def _value_like(text: str) -> bool:
    """Whether a text may be a value, and is no sentence that goes on as the template does not."""
    return sum(word.isalpha() for word in text.split()) < _FEWEST_WORDS


# Python's own words, by type, which a ``__getattr__`` or an encoder repeats: they tell no place.
_PYTHONS_OWN = {
    "AttributeError": " has no attribute ",
    "IndexError": " index out of range",
    "TypeError": " is not JSON serializable",
}


def tells(place: Place) -> bool:
    """Whether a template is long enough to tell its place where nothing but the text speaks for it, and no other code
    says it."""
    own = place.package not in _ALIKE or any(place.package in part.lower() for part in place.literals)
    return own and _tell(place.type, place.literals)


def _tell(type_: str, literals: list[str]) -> bool:
    own = _PYTHONS_OWN.get(type_)
    if own is not None and any(own in part for part in literals):
        return False
    words = [word for part in literals for word in _WORD.findall(part)]
    letters = sum(map(_letters_of, literals))
    return max(map(len, literals)) >= _SHORTEST and letters >= _FEWEST_LETTERS and len(words) >= _FEWEST_WORDS


def _chosen(shown: Shown, found: list[Place], releases: Mapping[str, str]) -> Trace | None:
    """The places of the package that is at hand, where one alone is, else of the first; of many, of those at hand."""
    among = list(dict.fromkeys(place.package for place in found))
    here = [package for package in among if package in releases]
    letters = _letters(found[0])
    among = here if len(here) == 1 or (here and len(among) > _MOST_PACKAGES) else among
    if len(among) > 1 and letters < (_LETTERS_OF_SEVERAL if len(among) <= _MOST_PACKAGES else _LETTERS_OF_MANY):
        return None
    each = [_of_package(shown, [p for p in found if p.package == package], releases) for package in among]
    return replace(each[0], elsewhere=tuple(p for other in each[1:] for p in _homes((*other.places, *other.others))))


def _of_package(shown: Shown, found: list[Place], releases: Mapping[str, str]) -> Trace:
    package = found[0].package
    table = Table.load(package)
    at = releases.get(package)
    here = [place for place in found if at is not None and stands(place, at)]
    newest = max((last for place in found for _, last in place.spans), key=table.releases.index)
    here = here or [place for place in found if any(last == newest for _, last in place.spans)]
    home = (here[0].module, here[0].function)
    same = [place for place in found if (place.module, place.function) == home]
    chosen = [place for place in here if (place.module, place.function) == home]
    others = tuple(place for place in found if place not in same and place not in here)
    return Trace(
        (*chosen, *(place for place in here if place not in chosen)), others, _filled(here[0], shown.message) or {}
    )


def _homes(places: Iterable[Place]) -> tuple[Place, ...]:
    """The first place of each function."""
    found: dict[tuple[str, str, str], Place] = {}
    for place in places:
        found.setdefault((place.package, place.module, place.function), place)
    return tuple(found.values())


def stands(place: Place, release: str) -> bool:
    """Whether a release, or the one read in its stead, lies in one of the stretches in which the place stands."""
    table = Table.load(place.package)
    read = table.read_for(release)
    spans = ((table.releases.index(first), table.releases.index(last)) for first, last in place.spans)
    return read is not None and any(first <= read <= last for first, last in spans)


def _filled(place: Place, message: str) -> dict[str, str] | None:
    """The words in the holes of a template, by their expressions; None where the message is not of this template."""
    pattern = "(.*?)".join(re.escape(part) for part in place.literals)
    # What stands before and after it was added by who passed it on, and is no part of a word or number of its own.
    first, last = place.literals[0][:1], place.literals[-1][-1:]
    begins = r"(?<!\w)" if re.match(r"\w", first) else ""
    ends = "$" if not last else r"(?!\w)" if not last.isspace() else ""
    match = re.search(f"{begins}{pattern}{ends}", f" {message} ")  # a hole at its ends may be filled with nothing
    if match is None or (not place.template and message):
        return None
    named = zip(place.holes, match.groups(), strict=True)
    return {hole: words.strip()[:_LONGEST_VALUE] for hole, words in named if hole}


def _asserted(place: Place, shown: Shown) -> bool:
    """Whether an assertion without a message is the one whose line a traceback shows."""
    if shown.message:
        return False
    line = shown.code.strip().removeprefix("assert").strip().lstrip("(")
    condition = place.conditions[-1] if place.conditions else ""
    with contextlib.suppress(SyntaxError, RecursionError):  # it may be the first of several lines, or nest deeply
        line = ast.unparse(untrusted.python(line))
    plain = re.sub(r"[\s()]", "", condition).removeprefix("not").replace('"', "'")
    return bool(line) and plain.startswith(re.sub(r"[\s()]", "", line).replace('"', "'"))


def _letters(place: Place) -> int:
    return sum(map(_letters_of, place.literals))


def _letters_of(part: str) -> int:
    return len(part) - part.count(" ")
