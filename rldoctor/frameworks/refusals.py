"""Values that a known option does not take: outside its declared choices, or no text of its type."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from rldoctor.formats.native import Native
from rldoctor.formats.values import Unresolved, scalar, whole
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.rule import Boolean
from rldoctor.frameworks.slips import slip
from rldoctor.plan.model import Form, RefusedValue
from rldoctor.redact.marks import has_mark
from rldoctor.tables.options.model import Option
from rldoctor.tables.options.optionset import OptionSet

if TYPE_CHECKING:
    from rldoctor.frameworks.dialect import Dialect

# What the argument parser of transformers takes for a switch
# (https://github.com/huggingface/transformers/blob/v4.57.1/src/transformers/hf_argparser.py, string_to_bool).
SWITCH = frozenset({"yes", "true", "t", "y", "1", "no", "false", "f", "n", "0"})
# Words for true, and slips of the pen in them: as texts they count as true, which is what they mean.
_MEANS_TRUE = re.compile(r"(t\w{0,2}[ru]\w{0,2}|y|yes|on|1|enabled?)$", re.IGNORECASE)
# A path, an import, an expansion, several in one word, what is still to be given (???): no name.
_ELSEWHERE = re.compile(r"[/.,:{}$?\s]")
# Texts that stand for no value, or for one that is to be given.
_NOTHING = frozenset({"", "none", "null", "~", "???"})
# No number, nor several that an option may take in one text (``0.5_4.0``).
_NO_NUMBERS = re.compile(r"^(?![-+.\d]*e[-+\d]+$|[-+.]*(inf|nan)$|0x).*[^\W\d_]|%", re.IGNORECASE)
_MEANS_FALSE = re.compile(r"(f\w*|n|no|off|0|disabled?)$", re.IGNORECASE)
# What pydantic reads as a whole number, too (``42.0``).
_WHOLE = re.compile(r"(?<=\d)\.0+$")
# A number with a unit: vLLM's parser reads 16k and 1.5M.
_WITH_UNIT = re.compile(r"[+-]?\d+(\.\d+)?[kmgt]i?$", re.IGNORECASE)
# What vLLM's configuration holds against its choices however it gets there: on a command line, as an argument, or when
# the cache's type is looked up.
_HELD_BY_THE_ENGINE = frozenset({"kv_cache_dtype", "scheduling_policy", "logprobs_mode"})
# The option's own name in front of its value, as a command line has them.
_BEFORE = re.compile(r"^\s*-{1,2}[\w.-]+(\s+|=|$)")


def refused_value(dialect: Dialect, launch: Launch, native: Native) -> RefusedValue | None:
    """The native setting as one whose value is refused, or None where it is taken, or nobody can say."""
    found = _declared(dialect, launch, native)
    if found is None:
        return None
    options, option = found
    text = _text(native)
    owned = any(native.key.startswith(prefix) for prefix in dialect.owners)
    parsed = options.abbreviations and native.form is Form.OPTION
    miscounted = _miscounted(dialect, launch, native, option) if parsed and not owned and not dialect.units else None
    held = option.enforced and isinstance(native.value, str)
    # A parser's options in a file are its defaults, of which it reads the texts.
    filed = options.abbreviations and native.form is Form.YAML and not option.choices and not dialect.units
    held = held or options.validates or parsed or filed or (owned and option.name in _HELD_BY_THE_ENGINE)
    if miscounted is None and (text is None or not held):
        return None
    known_as = _understood(dialect, native)
    if miscounted is not None:
        return native.as_refused(owner=options.source, value=miscounted, takes=_takes(option), option=known_as)
    text = text or ""
    # Choices that the source gathers when it runs leave none.
    named = not (parsed or option.enforced) and "/" in text  # a path, or what lies on a hub, beside the words
    if option.choices and "|" not in option.type and not named:
        allowed = {_plain(choice) for choice in option.choices}
        nothing = ("null",) if native.form in (Form.YAML, Form.OVERRIDE) else ("none", "null")  # there None is a text
        if text in allowed or (text.lower() in nothing and "?" in option.type):
            return None
        likest = sorted(option.choices, key=lambda choice: -SequenceMatcher(None, _plain(choice), text).ratio())
        return native.as_refused(owner=options.source, value=text, accepted=tuple(likest), option=known_as)
    if not option.choices and native.form is Form.OPTION:
        plain = parsed and not owned and not dialect.units
        takes = _misread(option, text, dialect, plain)
        return native.as_refused(owner=options.source, value=text, takes=takes, option=known_as) if takes else None
    if not option.choices and native.form is not Form.KEYWORD and isinstance(native.value, str):
        takes = _unlike(option, native.value, options.validates, dialect.booleans)
        return native.as_refused(owner=options.source, value=text, takes=takes, option=known_as) if takes else None
    return None


def misfit(dialect: Dialect, launch: Launch, native: Native) -> RefusedValue | None:
    """A text where the release has a truth value or a number, which nothing refuses when the run starts: every text
    counts as true, and no number can be made of one. A text that means true is taken as it is meant."""
    untyped = native.form is Form.KEYWORD or (dialect.untyped and native.form in (Form.OVERRIDE, Form.YAML))
    found = _declared(dialect, launch, native) if untyped else None
    value = whole(native.value)
    if found is None or found[0].validates or not isinstance(value, str) or has_mark(value) or "$" in value:
        return None
    options, option = found
    accepted: tuple[bool, ...] = ()
    kind = option.type.removesuffix("?")
    if kind == "bool" and not _MEANS_TRUE.match(value):
        named = "/" in value or not _is_published(dialect, launch, native)
        if named and not _MEANS_FALSE.match(value):
            return None  # a path, or a fork's own switch that names what it switches on
        why, takes = "this is a text, and every text counts as true", "true or false"
        accepted = (False,) if _MEANS_FALSE.match(value) else ()
    elif _names(option) and native.form is Form.KEYWORD and value in ("True", "False"):
        why = f"this is a text and no truth value, where {options.source} has {option.default}"
        takes, accepted = "True or False", (value == "True",)
    elif option.type in _NUMBERS and native.form is not Form.KEYWORD and _NO_NUMBERS.search(value):
        usual = option.default if isinstance(option.default, int | float) else "a number"
        why, takes = f"this is a text, where {options.source} has {usual}", _NUMBERS[option.type][1]
    else:
        return None
    known_as = _understood(dialect, native)
    return native.as_refused(
        owner=options.source, value=value, accepted=accepted, takes=takes, option=known_as, why=why
    )


def _is_published(dialect: Dialect, launch: Launch, native: Native) -> bool:
    """Whether any release has the option, or may have it."""
    from rldoctor.frameworks.option_table import OptionTable

    owner, _, group = (dialect.option_group(launch, native) or dialect.owner).partition(":")
    return OptionTable.load(owner).known(native.key, None, group or None) is not False


def _names(option: Option) -> bool:
    """Whether an option is one of several words by default, as those are that were truth values once."""
    return option.type in ("str", "bool|str") and isinstance(option.default, str) and option.default.isidentifier()


def _understood(dialect: Dialect, native: Native) -> str | None:
    """The canonical name that a setting is understood as."""
    rule = dialect.rule(native.key)
    return None if rule is None else rule[0]


def no_name(dialect: Dialect, launch: Launch, native: Native) -> RefusedValue | None:
    """A value that must be a name which the framework knows, and is none; of several the first such."""
    given = native.value if isinstance(native.value, list) else [native.value]
    words = [one for one in given if isinstance(one, str) and one and not has_mark(one) and not _ELSEWHERE.search(one)]
    if not words or native.operator == "~":
        return None
    names, closed = _known_names(dialect, launch, native)
    for word in words if names else ():
        if word in names:
            continue
        meant = slip(word, names)
        if meant is None and not closed:
            continue
        likest = sorted(names, key=lambda name: (name != meant, -SequenceMatcher(None, name, word).ratio()))
        option = _understood(dialect, native) if len(given) == 1 else None
        return native.as_refused(owner=dialect.name, value=word, accepted=tuple(likest), option=option)
    return None


def _known_names(dialect: Dialect, launch: Launch, native: Native) -> tuple[Sequence[str], bool]:
    """The names that the framework's release has for a value, and whether it takes no other."""
    found = _declared(dialect, launch, native)
    group, _, name = dialect.lookups.get(native.key, "").rpartition(".")
    elsewhere = launch.options(group) if group else None
    other = elsewhere.get_option(name) if elsewhere is not None else None
    declared = found[0].worded(found[1]) if found is not None else None
    own = (declared.names or ()) if declared is not None else ()
    if elsewhere is not None and other is not None:
        return (*own, *map(str, elsewhere.worded(other).names or other.choices or ())), False
    if declared is not None and own:
        return own, declared.closed and not dialect.registers(launch)
    options = launch.options(dialect.main_group(launch))
    covered = options is not None and options.gap is None  # a release of which the names are known
    closed = native.key in dialect.closed and covered and not dialect.registers(launch)
    return dialect.words.get(native.key, "").split(), closed


def _declared(dialect: Dialect, launch: Launch, native: Native) -> tuple[OptionSet, Option] | None:
    """The option that a setting is one of, and the set it stands in."""
    key, group = native.key, dialect.option_group(launch, native)
    owned = next((prefix for prefix in dialect.owners if key.startswith(prefix)), None)
    if native.form is Form.VARIABLE or native.operator == "~" or (native.operator and owned is None):
        return None
    if owned is not None:
        key, group = key[len(owned) :], dialect.owners[owned]
    options = launch.options(group) if group is not None else None
    if options is None:
        return None
    option = options.get_option(key)
    if option is None and native.form is Form.OPTION and (whole_name := options.completed(key)) is not None:
        option = options.get_option(whole_name)
    return None if option is None else (options, option)


def _text(native: Native) -> str | None:
    """The value as a parser gets it; None for what is unknown, absent, a secret or no single word."""
    value = whole(native.value)
    if value is None or isinstance(value, Unresolved | list | dict) or (isinstance(value, str) and has_mark(value)):
        return None
    raw = _BEFORE.sub("", native.raw).strip("\"'")
    if native.form is Form.OPTION and isinstance(value, bool) and not raw:
        return None  # a switch without a value
    # A word that came out of a variable stands in the file as something else.
    return raw if raw and scalar(raw) == value else _plain(value)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _is(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    except RecursionError:  # JSON that is nested too deep to say
        pass
    return True


_NUMBERS: Mapping[str, tuple[Callable[[str], object], str]] = {
    "int": (int, "a whole number, written without a point or an exponent"),
    "float": (float, "a number"),
}


def _misread(option: Option, text: str, dialect: Dialect, plain: bool) -> str:
    """What an option of a command takes, in words, where ``text`` is none of it; empty otherwise. A parser that hands
    every number to Python is ``plain``; another may know a word and units for some."""
    booleans = dialect.booleans
    kind = option.type.removesuffix("?")
    if "dict" in kind.split("|") and text.startswith("{"):
        return "" if _is(json.loads, text) else "valid JSON"
    if kind in _NUMBERS:
        read, words = _NUMBERS[kind]
        if not plain and kind != option.type and text in ("", "None"):  # vLLM's optional_type
            return ""
        automatic = text.lower() == "auto" and option.name in dialect.automatic
        more = automatic or (option.name in dialect.units and _WITH_UNIT.match(text))
        return words if not more and not _is(read, text) else ""
    if kind == "bool" and booleans is Boolean.VALUE and text.lower() not in (SWITCH if plain else SWITCH | {"none"}):
        return "true or false"
    if kind == "bool" and booleans is Boolean.FLAG and text.lower() in SWITCH:
        return "no value: the name alone switches it on"
    return ""


def _unlike(option: Option, text: str, validated: bool, booleans: Boolean) -> str:
    """What a class or a parser that reads a file takes for an option, in words, where ``text`` is none of it; empty
    otherwise. What refers to another value may be anything."""
    kind = option.type.removesuffix("?")
    if "$" in text or "{{" in text or text.lower() in _NOTHING:
        return ""
    if kind in _NUMBERS:
        read, words = _NUMBERS[kind]
        return words if not _is(read, _WHOLE.sub("", text) if validated else text) else ""
    truths = SWITCH | {"on", "off"} if validated else SWITCH
    judged = kind == "bool" and (validated or booleans is Boolean.VALUE)
    return "true or false" if judged and text.lower() not in truths else ""


def _miscounted(dialect: Dialect, launch: Launch, native: Native, option: Option) -> str | None:
    """What stands behind an option where that is no word or one too many, as argparse counts them."""
    kind, value = option.type.removesuffix("?"), native.value
    if option.count is not None:
        words = value if isinstance(value, list) else [value]
        known = value is not None and not any(isinstance(word, Unresolved) or has_mark(str(word)) for word in words)
        return " ".join(map(str, words)) if known and len(words) != option.count and value is not True else None
    if isinstance(value, list) and len(value) > 1 and all(isinstance(word, str) for word in value):
        one = kind in (*_NUMBERS, "str", "bool")
        return " ".join(value) if one and not dialect.leaves(launch) else None
    # The parser of transformers takes no empty list; others may.
    asks = kind in (*_NUMBERS, "str") or (kind == "list" and dialect.booleans is Boolean.VALUE)
    return "" if asks and value is True and not _BEFORE.sub("", native.raw) else None


def _takes(option: Option) -> str:
    """How many values the option takes and of which type, in words."""
    kind = option.type.removesuffix("?")
    if option.count is not None:
        return f"{option.count} values, with blanks between them"
    one = "one value or several" if kind == "list" else "one value"
    return f"{one}, {_NUMBERS[kind][1]}" if kind in _NUMBERS else one
