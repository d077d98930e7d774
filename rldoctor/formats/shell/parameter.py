"""Shell parameters: ``$X`` and ``${X...}`` with defaults, trimming, replacement, substrings, lengths and array
elements."""

from __future__ import annotations

import re
from dataclasses import replace
from fnmatch import translate
from typing import TYPE_CHECKING

from rldoctor.formats.shell.phrases import without_secret
from rldoctor.formats.shell.reader import Piece, Variable, Word
from rldoctor.formats.values import Unresolved

if TYPE_CHECKING:
    from tree_sitter import Node

    from rldoctor.formats.shell.expand import Expander

Value = str | Unresolved
# What an expansion stands for: a variable, a text, or the parts of a default as they are written.
Found = Variable | Value | tuple[Piece, ...]
# Trimming tries every length: no path or option is longer.
MAX_TRIMMED = 4000
_DEFAULTS = frozenset({":-", "-", ":=", "=", ":+", "+", ":?", "?"})
# What a run takes from outside has a name, so that the reader knows why it is not known.
_SPECIAL = {
    "#": "the number of arguments given at the start",
    "@": "arguments given at the start",
    "*": "arguments given at the start",
    "?": "an exit code",
    "$": "a process id",
    "!": "a process id",
    "-": "the shell's own options",
    "_": "the last word of the command before",
}
# Set by bash itself, to something that only running tells.
SET_BY_BASH = frozenset(
    {"RANDOM", "SECONDS", "LINENO", "BASHPID", "PPID", "UID", "EUID", "HOSTNAME", "EPOCHSECONDS", "OLDPWD", "SRANDOM"}
    | {"GROUPS", "OSTYPE", "HOSTTYPE", "MACHTYPE", "BASH", "BASH_VERSION", "SHLVL", "SHELLOPTS", "BASHOPTS", "OPTIND"}
)


def kind_of(text: str) -> str:
    """``@`` or ``*`` where an expansion asks for all arguments or elements, else empty."""
    found = re.match(r"\$(?:([@*])|\{!?(?:([@*])|[A-Za-z_]\w*\[([@*])\]))", text)
    return next((kind for kind in found.groups() if kind), "") if found is not None else ""


def parameter(expander: Expander, node: Node) -> Found:
    """What a simple or braced expansion stands for: the variable itself, a computed text, or why it is not known."""
    if node.type == "simple_expansion":
        return _named(expander, node, expander.text(node)[1:])
    if node.has_error:
        return _misparsed(expander, node)
    names = [child for child in node.children if child.type in ("variable_name", "special_variable_name", "subscript")]
    if not names:
        return Unresolved(expander.text(node), "an expansion that is not read")
    subject = names[0]
    first = node.children[1]
    if not first.is_named and expander.text(first) in ("!", "#"):
        if len(node.children) > 4:
            return Unresolved(expander.text(node), "an expansion that is not read")
        return _marked(expander, node, subject, expander.text(first))
    found = _subject(expander, node, subject)
    after = [child for child in node.children[:-1] if child.start_byte >= subject.end_byte]
    mark = expander.text(after[0]) if after else ""
    if not after:
        return found
    if mark in _DEFAULTS:
        return _default(expander, node, subject, found, mark, after[1:])
    return _changed(expander, node, found, mark, after[0])


def _misparsed(expander: Expander, node: Node) -> Found:
    """``${X:-DEFAULT}`` whose default this grammar stumbles over: a bracket, or arithmetic that begins with one."""
    text = expander.text(node)
    found = re.fullmatch(r"\$\{([A-Za-z_]\w*):?-(.*)\}", text, re.DOTALL)
    if found is None:
        return Unresolved(text, "an expansion that is not read")
    variable = expander.lookup(found[1])
    if variable is not None and variable.value != "":
        return variable
    default = found[2]
    if default.startswith("$(((") and default.endswith("))"):
        return expander.computed(default, expander.line(node))
    if re.search(r"[$`\\'\"]", default):
        return Unresolved(text, "an expansion that is not read")
    return default


def _named(expander: Expander, node: Node, name: str) -> Variable | Value:
    if name in ("0", "BASH_SOURCE") and expander.script and (name == "0" or not expander.file):
        return expander.script
    if name == "BASH_SOURCE" and expander.file:
        return expander.file
    if name in ("@", "*") and expander.positional is not None:
        return Variable(expander.positional, expander.line(node), array=True)
    if name == "#" and expander.positional is not None and not any(word.open for word in expander.positional):
        return str(len(expander.positional))
    if name == "PWD" and name not in expander.variables:
        return "."
    if name in _SPECIAL:
        return Unresolved(expander.text(node), _SPECIAL[name])
    found = expander.lookup(name)
    if found is not None:
        return found
    if name.isdecimal() and name != "0":
        return Unresolved(expander.text(node), f"argument {name} given at the start")
    return Unresolved(expander.text(node), f"{name} is not set in this file")


def _subject(expander: Expander, node: Node, subject: Node) -> Variable | Value:
    if subject.type != "subscript":
        return _named(expander, node, expander.text(subject))
    name, index = expander.text(subject.children[0]), expander.text(subject)[:-1].partition("[")[2]
    if name == "BASH_SOURCE":
        return _named(expander, node, name) if index in ("0", "-1") else Unresolved(expander.text(node), "a caller")
    variable = expander.lookup(name)
    if variable is None:
        return Unresolved(expander.text(node), f"{name} is not set in this file")
    if index in ("@", "*"):
        return variable
    if name in expander.maps:
        return _of_map(expander, node, name, subject.children[2])
    if not re.fullmatch(r"-?\d{1,9}", index):
        return Unresolved(expander.text(node), f"element {index} of {name}")
    at, words = int(index), variable.words if variable.array else variable.words[:1]
    if any(word.open for word in (words[: at + 1] if at >= 0 else words)):
        return Unresolved(expander.text(node), f"element {index} of {name}")
    return Variable((words[at],), variable.line) if -len(words) <= at < len(words) else Variable((), variable.line)


def _of_map(expander: Expander, node: Node, name: str, key: Node) -> Variable | Value:
    word = expander.word(key)
    if isinstance(word.value, Unresolved):
        return Unresolved(expander.text(node), word.value.why)
    found = expander.variables.get(f"{name}[{word.value}]")
    if found is None and not expander.maps[name]:
        return Unresolved(expander.text(node), f"element {word.value} of {name}")
    return found or Variable((), expander.line(node))


def _default(
    expander: Expander, node: Node, subject: Node, found: Variable | Value, mark: str, rest: list[Node]
) -> Found:
    name = expander.text(subject)
    bare = name.partition("[")[0]
    # Unknown because the script never sets it: then the default holds. Unknown for another reason: then it may not.
    outside = bare in _SPECIAL or bare in SET_BY_BASH
    unset = isinstance(found, Unresolved) and not outside and expander.lookup(bare) is None
    if isinstance(found, Variable) and not found.words:
        unset = True
    value = found.value if isinstance(found, Variable) else found
    if isinstance(found, Variable) and len(found.words) > 1 and kind_of(expander.text(node)):
        value = "set"
    if isinstance(value, Unresolved) and not unset:
        return Unresolved(expander.text(node), value.why)
    empty = unset or (mark.startswith(":") and value == "")
    if mark.endswith("?"):
        return found if not empty else Unresolved(expander.text(node), f"{name} must be set at the start")
    if mark.endswith("+"):
        return () if empty else _parts(expander, node, rest)
    if not empty:
        return found
    default = _parts(expander, node, rest)
    if mark.endswith("="):
        line = expander.line(node)
        word = expander.join(default, expander.text(node), line, -1, -1)
        if bare == name:
            given = Variable((replace(word, pieces=(expander.piece(word.value, line),)),), line)
            expander.variables[name] = given = without_secret(name, given)
            return given.value
        return word.value
    return default


def _parts(expander: Expander, node: Node, rest: list[Node]) -> tuple[Piece, ...]:
    """The parts of a default: what is quoted in it stays together. Within double quotes, single ones mean nothing."""
    inside = _in_quotes(node)
    found: list[Piece] = []
    end = rest[0].prev_sibling.end_byte if rest and rest[0].prev_sibling is not None else node.end_byte
    for part in (part for child in rest for part in (child.children if child.type == "concatenation" else [child])):
        line = expander.line(part)
        # The grammar leaves blanks out.
        blanks = expander.raw[end : expander.begin(part)]
        end = part.end_byte
        if blanks.isspace():
            found.append(expander.piece(blanks.decode(), line, quoted=inside))
        if part.type == "raw_string" and inside:
            found.extend(piece for word in expander.written(f'"{expander.text(part)}"', line) for piece in word.pieces)
        elif part.type in ("string", "raw_string", "ansi_c_string", "translated_string"):
            found.extend(expander.pieces(part, True))
        elif part.type in ("word", "regex") and "`" in expander.text(part):
            found.append(expander.piece(Unresolved(expander.text(part), "a command's output"), line, quoted=inside))
        else:
            pieces = list(expander.pieces(part, inside))
            if pieces and not found and not inside:
                pieces[0] = expander.at_home(pieces[0])
            found.extend(replace(piece, quoted=inside) for piece in pieces)
    return tuple(found) if found or not inside else (expander.piece("", expander.line(node)),)


def _in_quotes(node: Node) -> bool:
    above = node.parent
    while above is not None and above.type in ("concatenation", "expansion"):
        above = above.parent
    return above is not None and above.type in ("string", "heredoc_body", "translated_string")


def _marked(expander: Expander, node: Node, subject: Node, mark: str) -> Variable | Value:
    found = _subject(expander, node, subject)
    every = kind_of(expander.text(node).replace("{#", "{", 1)) != ""
    whole = expander.text(node)
    if isinstance(found, Unresolved):
        return found
    if mark == "#" and every:
        many = isinstance(found, Variable) and any(word.open for word in found.words)
        words = found.words if isinstance(found, Variable) else (found,)
        return Unresolved(whole, "how many elements there are is not known") if many else str(len(words))
    value = found.value if isinstance(found, Variable) else found
    if isinstance(value, Unresolved):
        return Unresolved(whole, value.why)
    if mark == "#":
        return str(len(value))
    if every or subject.type == "subscript" or not re.fullmatch(r"[A-Za-z_]\w*", value):
        return Unresolved(whole, "a name that is not constant")
    return _named(expander, node, value)


def _changed(expander: Expander, node: Node, found: Variable | Value, mark: str, sign: Node) -> Found:
    """A value trimmed, replaced, cut or in other letters; of an array, each element."""
    whole = Unresolved(expander.text(node), "an expansion that is not read")
    rest = expander.raw[sign.end_byte : node.end_byte - 1].decode()
    if isinstance(found, Unresolved):
        return Unresolved(whole.raw, found.why)
    every = kind_of(expander.text(node)) != ""
    words = found.words if isinstance(found, Variable) else (_word(expander, found, expander.line(node)),)
    if not every:
        words = words[:1] or (_word(expander, "", expander.line(node)),)
    if any(isinstance(word.value, Unresolved) for word in words):
        return Unresolved(whole.raw, next(w.value.why for w in words if isinstance(w.value, Unresolved)))
    if mark == ":" and every:
        return _slice(expander, node, tuple(words), rest, whole)
    changed = [_text(str(word.value), mark, rest) for word in words]
    if any(text is None for text in changed):
        return whole
    line = expander.line(node)
    return Variable(tuple(_word(expander, text or "", line) for text in changed), line, array=every)


def _word(expander: Expander, text: str, line: int) -> Word:
    return Word(text, text, line, pieces=(expander.piece(text, line),), file=expander.file)


def _slice(expander: Expander, node: Node, words: tuple[Word, ...], rest: str, whole: Unresolved) -> Found:
    numbers = _numbers(rest)
    if numbers is None:
        return whole
    start, size = numbers
    if kind_of(expander.text(node)) and re.match(r"\$\{[@*]", expander.text(node)):
        if start == 0:
            return whole  # the script's own name comes first
        start -= start > 0
    if start < 0 or (size is not None and size < 0):
        return whole
    return Variable(words[start:] if size is None else words[start : start + size], expander.line(node), array=True)


def _numbers(rest: str) -> tuple[int, int | None] | None:
    found = re.fullmatch(r"\s*(?:(\d{1,9})|\(?(\s*-\d{1,9})\)?)\s*(?::\s*(-?\d{1,9})\s*)?", rest)
    if found is None or (found[2] is not None and rest[:1] == "-"):
        return None
    return int(found[1] or found[2]), int(found[3]) if found[3] is not None else None


def _text(value: str, mark: str, rest: str) -> str | None:
    """A text after ``${X<mark><rest>}``; None where that is not read."""
    if re.search(r"[$`\\'\"~]", rest):
        return None
    if mark in (",,", "^^", ",", "^"):
        if rest or not value.isascii():
            return None
        done = value if len(mark) == 2 else value[:1]
        return (done.lower() if mark[0] == "," else done.upper()) + value[len(done) :]
    if mark in ("%", "%%", "#", "##"):
        return _trimmed(value, mark, rest)
    if mark == ":":
        return _substring(value, rest)
    if mark in ("/", "//", "/#", "/%"):
        return _replaced(value, mark, rest)
    return None


def _substring(value: str, rest: str) -> str | None:
    numbers = _numbers(rest)
    if numbers is None:
        return None
    start, size = numbers
    if start < 0:
        start += len(value)
        if start < 0:
            return ""
    if size is None:
        return value[start:]
    end = start + size if size >= 0 else len(value) + size
    return value[start:end] if end >= start else None


def _replaced(value: str, mark: str, rest: str) -> str | None:
    old, _, new = rest.partition("/")
    expression = pattern(old)
    if expression is None or not old or "&" in new or re.search(r"[*]", old):
        return None
    anchored = {"/#": f"\\A(?:{expression})", "/%": f"(?:{expression})\\Z"}.get(mark, expression)
    return re.sub(anchored, lambda _: new, value, count=0 if mark == "//" else 1)


def _trimmed(value: str, mark: str, text: str) -> str | None:
    expression = pattern(text)
    if len(value) > MAX_TRIMMED or expression is None:
        return None
    fits = re.compile(expression).fullmatch
    sizes = range(len(value) + 1) if len(mark) == 1 else range(len(value), -1, -1)
    for size in sizes:
        if fits(value[len(value) - size :] if mark[0] == "%" else value[:size]):
            return value[: len(value) - size] if mark[0] == "%" else value[size:]
    return value


def pattern(text: str) -> str | None:
    """A shell pattern as a regular expression; None where it has more than stars, question marks and plain sets."""
    if re.search(r"\[(?![!^]?[\w.,:/@%+= -]+\])|\[\[|[?*+@!]\(", text) or "\\" in text:
        return None
    return translate(re.sub(r"\[\^", "[!", text)).removesuffix(r"\Z").removesuffix(r"\z")
