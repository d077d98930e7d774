"""What is said of, and done about, an option that a release does not know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from rldoctor.api import Applicability, Edit, Fix
from rldoctor.api.plan import RefusedValue, UnknownOption

# So alike are two spellings of one word (utilisation and utilization: 0.96); max_tokens and max_model_len are at 0.61.
SAME_WORD = 0.9
# A value that is meant to be another one shares most of its letters (colocated and colocate: 0.94).
ALIKE = 0.75
# What one framework calls otherwise than the others, where likeness leads to something else.
# https://github.com/modelscope/ms-swift/issues/4958, https://github.com/modelscope/ms-swift/issues/8259
OTHERWISE = {("ms-swift", "max_prompt_length"): "max_length"}
# More accepted values are counted, not named.
MOST_VALUES = 16
# Who drops the rest of a command that a comment cuts in two.
SHELL = "the shell"


def once(options: Sequence[UnknownOption]) -> Iterator[UnknownOption]:
    """The options, and of a section that is unknown as a whole either the section or, where tables know the release
    that brings each of its keys, those."""
    for option in options:
        section = next((one for one in options if option.key.startswith(f"{one.key}.")), None)
        inside = [one for one in options if one.key.startswith(f"{option.key}.")]
        dated = [one.since for one in options if section is not None and one.key.startswith(f"{section.key}.")]
        if (inside and all(one.since for one in inside)) or (section is not None and not all(dated)):
            continue
        yield option


def reported(option: UnknownOption) -> str:
    """What is wrong with the option, with the release that has it or the name that was meant."""
    meant = f"; did you mean {as_written(option, named)}?" if (named := _meant(option)) else ""
    if option.why:
        return f"does not apply {option.key}: {option.why}" + (meant if _misspelled(option) else "")
    if option.nearest and option.nearest[0] == option.key.removeprefix("+") != option.key:
        return f"has the key of {option.key} already: Hydra refuses the + (`An item is already at`)"
    if option.nearest and option.nearest[0] == f"+{option.key}":
        return f"reads {option.key}, and its config lacks the key: Hydra takes it with a + in front alone"
    if option.since:
        return f"knows no option {option.key}, which came with {option.since}"
    if option.until:
        return f"knows no option {option.key}, which {option.until} took away" + meant
    if option.ambiguous:
        return f"cannot tell which of {_all_meant(option)} {option.key} is the start of (`ambiguous option`)"
    return f"knows no option {option.key}" + meant


def not_chosen(options: Sequence[UnknownOption], words: str) -> str:
    """What is wrong with options that another choice of the launch (``words``) would bring."""
    first, more = options[0].key, len(options) - 1
    return f"knows no option {first} here: {words} has it" + (f", and {more} more that are given" if more else "")


def remedies(option: UnknownOption, package: str | None) -> Iterator[Fix]:
    """The real name; the release that has the option; or without it."""
    if option.owner == SHELL:
        yield Fix(title="move the comment out of the command, or take the blank behind the backslash away")
    elif option.why and option.ignored and not _misspelled(option):
        yield Fix(title=f"take {option.key} out, which has no effect here")
    if option.why and not _misspelled(option):
        return
    if option.ambiguous:
        yield Fix(title=f"write out one of {_all_meant(option)}")
        return
    right = _meant(option)
    if right is not None:
        yield renamed(option, right, sure=option.renamed == right)
    if option.why:
        return
    if option.since:
        wanted = f"{package}>={option.since}" if package else f"a release of at least {option.since}"
        yield Fix(
            title=f"{'or ' if right else ''}install the release that the launch was written for: {wanted}",
            commands=(f"pip install '{wanted}'",) if package else (),
        )
    if option.since or option.until:
        # What a release calls otherwise is not always to be seen: the tables then show one that went and one that came.
        yield Fix(title=f"or take {option.key} out, or give what this release has in its place, if anything")


def refusal(option: RefusedValue) -> str:
    """What is wrong with the value, and what the release takes."""
    if option.why:
        return f"{' '.join(filter(None, (option.key, option.value)))}: {option.why}"
    taken = option.takes or f"one of {_listed(option.accepted)}"
    return f"{option.owner} refuses {' '.join(filter(None, (option.key, option.value)))}: it takes {taken}"


def in_place(option: RefusedValue) -> Iterator[Fix]:
    """The accepted value that is spelled most alike, where one is; else a number written out."""
    best = next(iter(option.accepted), None)
    if best is not None and (len(option.accepted) == 1 or _likeness(best, option.value) >= ALIKE):
        edits = (Edit(option=option.option, value=best),) if option.option is not None else ()
        yield Fix(title=f"write {best}", applicability=Applicability.UNSAFE, edits=edits)
    elif option.accepted:
        yield Fix(title=f"choose one of {_listed(option.accepted)}")
    else:
        yield Fix(title=f"write {option.takes}" + (f" for {option.key}" if option.value else ""))


def _listed(values: Sequence[object]) -> str:
    """The values, the likeliest first; of very many the rest is counted."""
    shown = values if len(values) <= MOST_VALUES else values[: MOST_VALUES // 2]
    rest = f" and {len(values) - len(shown)} more" if len(shown) < len(values) else ""
    return ", ".join(map(str, shown)) + rest


def _likeness(one: object, other: str) -> float:
    return SequenceMatcher(None, str(one).lower(), other.lower()).ratio()


def renamed(option: UnknownOption, right: str, sure: bool = False) -> Fix:
    """The same value under another name, which the edit spells: safe where tables show both for one meaning (``sure``),
    or where the name is a misspelling of the other in the same section."""
    return Fix(
        title=f"rename {option.key}",
        applicability=Applicability.SAFE if sure or _same_word(option.key, right) else Applicability.UNSAFE,
        edits=(Edit(option=f"native.{option.key}", value=right),),
    )


def as_written(option: UnknownOption, name: str) -> str:
    """A name of an option as the launch writes such: ``--max-model-len`` beside ``--max-num-batchd-tokens``."""
    if not option.key.startswith("--") or name.startswith("-"):
        return name
    return f"--{name.replace('_', '-') if '-' in option.key[2:] and not option.exact else name}"


def _all_meant(option: UnknownOption) -> str:
    return ", ".join(as_written(option, name) for name in option.nearest)


def _misspelled(option: UnknownOption) -> bool:
    """Whether the name is nearly one of the release's, so that no other reason is needed why it is not applied."""
    right = _meant(option)
    return right is not None and right != option.key and _same_word(option.key, right)


def _same_word(wrong: str, right: str) -> bool:
    return _section(wrong) == _section(right) and _alike(wrong, right) >= SAME_WORD


def _meant(option: UnknownOption) -> str | None:
    """The name that was meant: of a real option of another release this one's name for it, where tables show both for
    one meaning; else the nearest real name."""
    otherwise = OTHERWISE.get((option.owner.partition(" ")[0], _leaf(option.key)))
    if otherwise is not None or option.renamed is not None:
        return otherwise or option.renamed
    return None if option.since or option.until else next(iter(option.nearest), None)


def _section(name: str) -> str:
    return name.lstrip("+-").rpartition(".")[0]


def _leaf(name: str) -> str:
    return name.rpartition(".")[2].removeprefix("--").replace("-", "_")


def _alike(one: str, other: str) -> float:
    return SequenceMatcher(None, _leaf(one), _leaf(other)).ratio()
