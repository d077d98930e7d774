"""The grammar of bash, with those of its faults mended that ordinary scripts meet, and with the placeholders of
examples."""

from __future__ import annotations

import re
import time
from functools import lru_cache
from typing import TYPE_CHECKING

from rldoctor.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node, Parser, Tree

# A word that has $NAME behind text and goes on behind the name: only there the fault is met.
_GOES_ON = rb"(?=[^\s\w:;&|()<>\"'`$\\]|\\[^\r\n])"
_SUSPECT = re.compile(rb"[^\s(]\$[A-Za-z_]\w*" + _GOES_ON)
_NAME = re.compile(rb"\w+" + _GOES_ON)
MAX_PASSES = 20
# Of processor time: what it cannot read costs the grammar the square of its length, and the rest a second for 20 MB.
SECONDS = 3.0
_CHUNK = 1 << 16
# A line that goes on where the script ends.
_LAST = re.compile(rb"(?<!\\)\\\r?\n\s*\Z")
# A list with quotes in it as what stands for a variable: ``${FILES:-['a.parquet']}``.
_QUOTED_LIST = re.compile(rb"\$\{\w+:?[-=+]\[(?=[\"'\\])")
_DOCUMENT = re.compile(rb"(?<!<)<<(-?)[ \t]*([\"']?)([A-Za-z_]\w*)\2[^\r\n]*")
# ``<node1_port>`` behind an option or inside a value, or where a line ends and bash would want a file to write.
PLACEHOLDER = re.compile(r"<[A-Za-z][\w.-]*>")
_FOR_A_VALUE = re.compile(
    rb"(?:[=:/,@]|(?:^|\s)--?[A-Za-z][\w-]*[ \t]+)(%b)(?=[\s:/,\\]|$)|(%b)(?=[ \t]*\r?(?:\n|$))"
    % ((PLACEHOLDER.pattern.encode(),) * 2)
)


@lru_cache(maxsize=1)
def parser() -> Parser:
    """The parser as it comes."""
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


class UnreadError(InputError):
    """The grammar took too long; the message does not say of which file."""


def _tree(raw: bytes) -> Tree:
    end = time.process_time() + SECONDS
    try:
        return parser().parse(
            lambda at, _: raw[at : at + _CHUNK], progress_callback=lambda *_: time.process_time() > end
        )
    except ValueError:
        parser().reset()
        raise UnreadError("a script that is too far from bash to be read") from None


def parsed(raw: bytes) -> Tree:
    """The tree of a script. All its bytes stand where they stand in ``raw``, from which their text is to be taken.
    Raises :class:`UnreadError` where that takes too long.

    A placeholder that the user is to fill in (``--port <node1_port>``) is a word, or a part of one: to bash it would be
    two redirections, and the next command the file to write.

    The grammar ends a here-document at a line that only begins with its last word, and a list where its first quote
    stands: their first letter is another one there.

    In ``a/$B/$C/d`` it ends the word behind the second ``$`` and reads ``C/d`` as a word of its own, since
    that is longer than the name ``C``. With a colon behind the name it does not, so it is given one there. A line that
    goes on where the script ends, with which it finds fault and bash does not, ends there."""
    shown = bytearray(raw)
    if (last := _LAST.search(raw)) is not None:
        shown[last.start()] = ord(" ")
    for at in (*_not_last_lines(raw), *(found.end() - 1 for found in _QUOTED_LIST.finditer(raw))):
        shown[at] = ord("_")
    tree = _tree(bytes(shown))
    if _fill(shown, tree.root_node):
        tree = _tree(bytes(shown))
    if _SUSPECT.search(raw) is None:
        return tree
    for _ in range(MAX_PASSES):
        ends = [end for end in _cut_names(tree.root_node, raw) if shown[end] != ord(":")]
        if not ends:
            break
        for end in ends:
            shown[end : end + (2 if raw[end] == ord("\\") else 1)] = b"::" if raw[end] == ord("\\") else b":"
        tree = _tree(bytes(shown))
    return tree


def _not_last_lines(raw: bytes) -> Iterator[int]:
    """Where lines of here-documents begin that begin with the word at which the document ends, and go on."""
    for opened in _DOCUMENT.finditer(raw):
        tabs, word = rb"\t*" if opened[1] else b"", opened[3]
        if raw.count(b"\n" + word, opened.end()) < 2 and not tabs:
            continue
        last = re.compile(rb"^%s%s\r?$" % (tabs, word), re.MULTILINE).search(raw, opened.end())
        longer = re.compile(rb"^%s(?=%s[^\r\n])" % (tabs, word), re.MULTILINE)
        for line in longer.finditer(raw, opened.end(), last.start()) if last else ():
            yield line.end()


def _fill(shown: bytearray, root: Node) -> bool:
    """Writes a word of the same length in the place of every placeholder; whether there is one."""
    places = [found.span(found.lastindex or 0) for found in _FOR_A_VALUE.finditer(bytes(shown))]
    places = [(start, end) for start, end in places if _is_sign(root, start)]
    for start, end in places:
        shown[start:end] = b"_" * (end - start)
    return bool(places)


def _is_sign(root: Node, at: int) -> bool:
    """Whether a ``<`` is the sign of a redirection, and not in quotes, a comment or a document."""
    node = root.descendant_for_byte_range(at, at + 1)
    # Where the grammar recovers from what bash would refuse, it may begin a word with the sign.
    return node is not None and (node.type == "<" or (node.type == "word" and node.start_byte == at))


def _cut_names(root: Node, raw: bytes) -> Iterator[int]:
    """Where the names end whose ``$`` the grammar has taken for the end of a word."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        last = node.children[-1] if node.type == "concatenation" else None
        if last is not None and last.type == "$" and (name := _NAME.match(raw, last.end_byte)) is not None:
            yield name.end()
        waiting.extend(node.children)
