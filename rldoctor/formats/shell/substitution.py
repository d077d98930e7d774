"""What commands print, where reading can tell it: paths, echoes, numbers, files that are at hand and what simple
filters leave of them; all else is unknown."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rldoctor.errors import InputError
from rldoctor.formats.shell.condition import condition, plain_words
from rldoctor.formats.shell.redirects import here_document, takes_output
from rldoctor.formats.values import Unresolved

if TYPE_CHECKING:
    from tree_sitter import Node

    from rldoctor.formats.shell.expand import Expander
    from rldoctor.formats.shell.reader import Command

MAX_NUMBERS = 1000
MAX_TEXT = 200_000


def substituted(expander: Expander, node: Node) -> str | Unresolved:
    """What ``$(...)`` leaves, or why it is not known."""
    text = expander.text(node)
    unknown = Unresolved(text, "a command's output")
    if node.type != "command_substitution":
        return unknown
    statements = [child for child in node.children if child.is_named and child.type != "comment"]
    if len(statements) != 1:
        return unknown
    output = printed(expander, statements[0])
    return unknown if output is None else output.rstrip("\n")


def printed(expander: Expander, node: Node, given: str | None = None) -> str | None:
    """What a statement prints with ``given`` as its input, or None where reading does not tell."""
    if node.type == "redirected_statement" and node.children:
        given = handed(expander, node) or given
        output = printed(expander, node.children[0], given)  # 2>/dev/null tells nothing
        return output if output is None or not any(map(takes_output, node.children[1:])) else ""
    if node.type == "pipeline":
        return piped(expander, [child for child in node.children if child.is_named], given)
    if node.type == "list" and len(node.children) == 3:
        return _entered(expander, node) or _ran(expander, node)[1]
    words = plain_words(expander, node)
    if not words:
        return None
    if words == ["pwd"] and (folder := expander.variables.get("PWD")) is not None and folder.line:
        return folder.value if isinstance(folder.value, str) else None
    if (printed_by := expander.call(words)) is not None:
        return printed_by
    if (command := _COMMANDS.get(words[0])) is not None:
        return command(words[1:])
    if words[0] not in _FILTERS:
        return expander.machine.prints(words)
    names, options = _FILTERS[words[0]](words[1:])
    if options is None or (len(names) > 1 and words[0].endswith("grep")):  # of several files grep names each line's
        return None
    texts = [given] if not names else [_text_of(expander, name) for name in names]
    return None if None in texts else options("".join(text for text in texts if text is not None))


def said(command: Command) -> str | None:
    """What a command of a function prints, None where reading does not tell."""
    if command.redirected:
        return "" if command.words[0].value in (*_COMMANDS, "cat") else None
    words = [word.value for word in command.words if isinstance(word.value, str)]
    if len(words) < len(command.words) or command.background:
        return None
    if words == ["cat"]:
        return command.stdin.text if command.stdin is not None else None
    text = _COMMANDS[words[0]](words[1:]) if words[0] in _COMMANDS else None
    return f"{text}\n" if text is not None and words[0] != "printf" else text


def _entered(expander: Expander, node: Node) -> str | None:
    """The folder that ``cd folder && pwd`` prints."""
    folder, last = plain_words(expander, node.children[0]), plain_words(expander, node.children[2])
    if expander.text(node.children[1]) != "&&" or not folder or not last or folder[0] != "cd" or last[0] != "pwd":
        return None
    named = [word for word in folder[1:] if word != "--"]
    return posixpath.normpath(named[0]) if len(named) == 1 and named[0] != "-" else None


def _ran(expander: Expander, node: Node) -> tuple[bool | None, str | None]:
    """Whether a statement succeeds, and what it prints: ``python3 -c 'import x' && echo yes || echo no``."""
    if node.type == "list" and len(node.children) == 3:
        succeeded, text = _ran(expander, node.children[0])
        if succeeded is None or text is None or succeeded != (expander.text(node.children[1]) == "&&"):
            return succeeded, None if succeeded is None else text
        last, more = _ran(expander, node.children[2])
        return last, None if more is None else text + more
    if (verdict := condition(expander, node)) is not None:
        return verdict, ""
    words = plain_words(expander, node)
    if not words or words[0] not in ("echo", "printf"):
        return None, None
    text = _COMMANDS[words[0]](words[1:])
    return True, None if text is None else f"{text}\n"


def piped(expander: Expander, nodes: Sequence[Node], given: str | None = None) -> str | None:
    """What the last of some commands prints, each with the output of the one before it as its input."""
    for index, node in enumerate(nodes):
        if index and given is None:
            return None
        given = printed(expander, node, given)
    return given


def handed(expander: Expander, node: Node) -> str | None:
    """The input that the redirections of a statement give: a here-document, a word, or a file that is at hand."""
    for child in node.children[1:]:
        if child.type == "heredoc_redirect":
            found = here_document(expander, child, expander.file)
            return None if found is None else found.text
        if child.type in ("file_redirect", "herestring_redirect"):
            sign, word = expander.text(child.children[-2]), expander.word(child.children[-1]).value
            if isinstance(word, str) and sign == "<<<":
                return word + "\n"
            if isinstance(word, str) and sign == "<":
                return _text_of(expander, word)
    return None


def _text_of(expander: Expander, name: str) -> str | None:
    try:
        source = expander.open(name) if expander.open is not None else None
    except InputError:
        return None
    return None if source is None else source.text


def _echo(words: Sequence[str]) -> str | None:
    return None if any(re.fullmatch(r"-[neE]+", word) for word in words[:1]) else " ".join(words)


_CONVERSION = re.compile(r"%[sd]|\\[nt\\]|[^%\\]")
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\\\": "\\"}


def _printf(words: Sequence[str]) -> str | None:
    """Texts and whole numbers in a format, which is used again as long as there are any."""
    form, given = (words[0], words[1:]) if words and not words[0].startswith("-") else ("%", ())
    parts = _CONVERSION.findall(form)
    wanted = sum(part[0] == "%" for part in parts)
    if "".join(parts) != form or ("%d" in parts and not all(re.fullmatch(r"-?[1-9]\d*|0", one) for one in given)):
        return None
    rounds = max(1, -(-len(given) // wanted)) if wanted else 1
    if rounds * len(form) > MAX_TEXT:
        return None
    left = iter(given)
    done = [
        next(left, "0" if part == "%d" else "") if part[0] == "%" else _ESCAPES.get(part, part)
        for _ in range(rounds)
        for part in parts
    ]
    return "".join(done)


def _pwd(words: Sequence[str]) -> str | None:
    return "." if not words or list(words) == ["-P"] else None


def _operands(words: Sequence[str]) -> Sequence[str]:
    """The words without the ``--`` that ends a command's options."""
    return words[1:] if words[:1] == ["--"] else words


def _dirname(words: Sequence[str]) -> str | None:
    words = _operands(words)
    if len(words) != 1 or words[0].startswith("-"):
        return None
    path = words[0].rstrip("/") or words[0][:1]
    head = posixpath.dirname(path)
    return (head.rstrip("/") or "/") if head else "/" if path == "/" else "."


def _basename(words: Sequence[str]) -> str | None:
    words = _operands(words)
    if not 1 <= len(words) <= 2 or words[0].startswith("-"):
        return None
    name = posixpath.basename(words[0].rstrip("/")) or words[0][:1]
    suffix = words[1] if len(words) == 2 else ""
    return name.removesuffix(suffix) if name != suffix else name


def _realpath(words: Sequence[str]) -> str | None:
    named = [word for word in words if word not in ("-f", "-m", "-e", "-s", "--")]
    return posixpath.normpath(named[0]) if len(named) == 1 and not named[0].startswith("-") else None


def _seq(words: Sequence[str]) -> str | None:
    between, words = ("\n", words) if not any(word.startswith("-s") for word in words) else _separator("-s", words)
    if not 1 <= len(words) <= 3 or not all(word.lstrip("-").isdecimal() and len(word) < 7 for word in words):
        return None
    numbers = [int(word) for word in words]
    first, step, last = (1, 1, numbers[0]) if len(numbers) == 1 else (numbers[0], 1, numbers[-1])
    step = numbers[1] if len(numbers) == 3 else step
    if step == 0 or abs(last - first) // abs(step) > MAX_NUMBERS:
        return None
    return between.join(str(number) for number in range(first, last + (1 if step > 0 else -1), step))


def _expr(words: Sequence[str]) -> str | None:
    """Sums, differences, products and quotients of whole numbers: ``expr 512 + 2048 \\* 2``."""
    if len(words) % 2 == 0 or not all(re.fullmatch(r"-?\d{1,15}", word) for word in words[::2]):
        return None
    terms = [int(words[0])]
    for sign, text in zip(words[1::2], words[2::2], strict=True):
        number = int(text)
        if sign in ("/", "%") and number == 0:
            return None
        quotient = abs(terms[-1]) // abs(number or 1) * (1 if (terms[-1] < 0) == (number < 0) else -1)
        match sign:
            case "+" | "-":
                terms.append(number if sign == "+" else -number)
            case "*":
                terms[-1] *= number
            case "/":
                terms[-1] = quotient
            case "%":
                terms[-1] -= quotient * number
            case _:
                return None
    return str(sum(terms))


Filter = Callable[[str], str]


def _cat(words: Sequence[str]) -> tuple[Sequence[str], Filter | None]:
    return words, None if any(word.startswith("-") for word in words) else str


def _xargs(words: Sequence[str]) -> tuple[Sequence[str], Filter | None]:
    """Without a command of its own it prints the words of its input in one row."""
    if list(words) in (["-d", "\\n"], ["-d\\n"], ["-0"]):
        return (), lambda text: " ".join(text.splitlines())
    if words:
        return (), None

    def row(text: str) -> str:
        try:
            return " ".join(shlex.split(text))
        except ValueError:
            return " ".join(text.split())

    return (), row


def _grep(words: Sequence[str]) -> tuple[Sequence[str], Filter | None]:
    """What leaves lines out (``-v``), what counts them (``-c``), and what comes without options."""
    options = {letter for word in words if word.startswith("-") for letter in word[1:]}
    pattern, *names = [word for word in words if not word.startswith("-")] or [""]
    if options - set("vEechi"):
        return (), None
    if "E" not in options:
        pattern = re.sub(r"\\([|+?(){}])", r"\1", re.sub(r"(?<!\\)([|+?(){}])", r"\\\1", pattern))
    found = _pattern(pattern, re.IGNORECASE if "i" in options else 0)
    if found is None:
        return (), None
    out, counted = ("v" in options, "c" in options)

    def kept(text: str) -> str:
        rows = [row for row in text.splitlines(keepends=True) if (found.search(row.rstrip("\n")) is None) == out]
        return f"{len(rows)}\n" if counted else "".join(rows)

    return names, kept


def _pattern(text: str, flags: int = 0) -> re.Pattern[str] | None:
    """An extended expression, with the classes of blanks that Python writes otherwise."""
    text = text.replace("[[:space:]]", r"\s").replace("[:space:]", r"\s").replace("[[:blank:]]", r"\s")
    try:
        return re.compile(text, flags)
    except re.error:
        return None


_AWK_FIELD = re.compile(r"\s*(?:/(?P<row>(?:[^/\\]|\\.)+)/)?\s*\{\s*print\s*\$(?P<field>\d|NF)\s*;?\s*\}\s*")


def _awk(words: Sequence[str]) -> tuple[Sequence[str], Filter | None]:
    """One field of each line, or of those with a pattern: ``awk '{print $2}'``, ``awk -F: '/^name/ {print $NF}'``."""
    sign, (program, *names) = _separator("-F", words)
    asked = _AWK_FIELD.fullmatch(program)
    chosen = _pattern(asked["row"] or "") if asked is not None else None
    if asked is None or chosen is None or len(sign) > 1 or any(name.startswith("-") or "=" in name for name in names):
        return (), None

    def field(row: str) -> str:
        fields = row.split(sign) if sign.strip() else row.split()
        at = len(fields) if asked["field"] == "NF" else int(asked["field"])
        return row if at == 0 else fields[at - 1] if at <= len(fields) else ""

    return names, lambda text: "".join(f"{field(row)}\n" for row in text.splitlines() if chosen.search(row))


def _cut(words: Sequence[str]) -> tuple[Sequence[str], Filter | None]:
    """One field of each line: ``cut -d: -f2``."""
    sign, rest = _separator("-d", words)
    number, (empty, *names) = _separator("-f", rest)
    if empty:
        names = [empty, *names]
    if not number.isdecimal() or number == "0" or any(name.startswith("-") for name in names):
        return (), None

    def field(row: str) -> str:
        fields = row.split(sign or "\t")
        return row if len(fields) == 1 else fields[int(number) - 1] if int(number) <= len(fields) else ""

    return names, lambda text: "".join(f"{field(row)}\n" for row in text.splitlines())


def _separator(option: str, words: Sequence[str]) -> tuple[str, list[str]]:
    """The value of a short option, joined to it or behind it, and the other words, of which there is always one."""
    for index, word in enumerate(words):
        if word == option and index + 1 < len(words):
            return words[index + 1], [*words[:index], *words[index + 2 :]] or [""]
        if word.startswith(option) and word != option:
            return word[len(option) :], [*words[:index], *words[index + 1 :]] or [""]
    return "", list(words) or [""]


_SED_DELETE = re.compile(r"/((?:[^/\\]|\\.)*)/d")
_SED_REMOVE = re.compile(r"s([/|#])((?:(?!\1)[^\\]|\\.)*)\1\1g?")


def _sed(words: Sequence[str]) -> tuple[Sequence[str], Filter | None]:
    """Deletions of lines and of parts of them: ``/^#/d``, ``s/#.*//``."""
    plain = [word for word in words if word not in ("-e", "-E", "-r")]
    if not plain or any(word.startswith("-") for word in plain):
        return (), None
    steps: list[tuple[re.Pattern[str], bool]] = []
    for step in plain[0].split(";"):
        deleted, removed = _SED_DELETE.fullmatch(step.strip()), _SED_REMOVE.fullmatch(step.strip())
        try:
            if deleted is not None:
                steps.append((re.compile(deleted[1]), True))
            elif removed is not None:
                steps.append((re.compile(removed[2]), False))
            else:
                return (), None
        except re.error:
            return (), None

    def edited(text: str) -> str:
        rows = text.splitlines()
        for pattern, whole in steps:
            rows = [row for row in rows if not pattern.search(row)] if whole else [pattern.sub("", r) for r in rows]
        return "".join(f"{row}\n" for row in rows)

    return plain[1:], edited


def _tr(words: Sequence[str]) -> tuple[Sequence[str], Filter | None]:
    """Only what deletes."""
    if len(words) != 2 or words[0] != "-d":
        return (), None
    gone = words[1].replace("\\r", "\r").replace("\\n", "\n").replace("\\t", "\t")
    return (), lambda text: "".join(letter for letter in text if letter not in gone)


def _wc(words: Sequence[str]) -> tuple[Sequence[str], Filter | None]:
    """Only the number of lines."""
    return (), (lambda text: f"{text.count(chr(10))}\n") if list(words) == ["-l"] else None


def _end(words: Sequence[str]) -> tuple[int | None, Sequence[str]]:
    """How many lines ``head`` or ``tail`` leaves (``-n 1``, ``-1``), and the files that are named."""
    count, rest = (words[1], words[2:]) if words[:1] == ["-n"] and len(words) > 1 else (words[0], words[1:])
    found = re.fullmatch(r"(?:-n?)?(\d{1,6})", count)
    wrong = len(rest) > 1 or any(word.startswith("-") for word in rest)
    return None if found is None or wrong else int(found[1]), rest


def _head(words: Sequence[str]) -> tuple[Sequence[str], Filter | None]:
    """The first lines."""
    count, names = _end(words or ["-10"])
    return names, None if count is None else lambda text: "".join(text.splitlines(keepends=True)[:count])


def _tail(words: Sequence[str]) -> tuple[Sequence[str], Filter | None]:
    """The last lines."""
    count, names = _end(words or ["-10"])
    return names, None if not count else lambda text: "".join(text.splitlines(keepends=True)[-count:])


_FILTERS: dict[str, Callable[[Sequence[str]], tuple[Sequence[str], Filter | None]]] = {
    "cat": _cat,
    "xargs": _xargs,
    "grep": _grep,
    "egrep": lambda words: _grep(["-E", *words]),
    "sed": _sed,
    "tr": _tr,
    "wc": _wc,
    "head": _head,
    "tail": _tail,
    "awk": _awk,
    "cut": _cut,
    "tee": lambda words: ((), str),
}
_COMMANDS: dict[str, Callable[[Sequence[str]], str | None]] = {
    "echo": _echo,
    "printf": _printf,
    "pwd": _pwd,
    "dirname": _dirname,
    "basename": _basename,
    "realpath": _realpath,
    "readlink": lambda words: _realpath(words) if "-f" in words else None,
    "seq": _seq,
    "expr": _expr,
}
