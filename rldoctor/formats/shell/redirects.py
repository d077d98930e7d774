"""What the redirections of a shell statement give and take: here documents, and the files that its output goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rldoctor.formats.source import Source
from rldoctor.formats.values import Unresolved

if TYPE_CHECKING:
    from tree_sitter import Node

    from rldoctor.formats.shell.expand import Expander
    from rldoctor.formats.shell.reader import Piece

_WORDS = frozenset({"word", "string", "raw_string", "concatenation", "number", "simple_expansion", "expansion"})
_TAKING = frozenset({">", ">>", ">|", ">&", "&>", "&>>"})


def here_document(expander: Expander, node: Node, file: str) -> Source | None:
    """The text that a ``heredoc_redirect`` of ``file`` gives, its variables filled in unless the end word is quoted."""
    pieces = expander.document(node)
    if pieces is None:
        return None
    # What is unknown stays as it is written.
    text = "".join(
        piece.text.raw if isinstance(piece.text, Unresolved) else " " if piece.boundary else piece.text
        for piece in pieces
    )
    return Source(text, file, pieces[0].line if pieces else expander.line(node))


def own_input(expander: Expander, command: Node) -> list[Piece] | None:
    """What a here-document or a here-string of its own gives a command to read; None where it has none."""
    above = command.parent
    beside = above.children[1:] if above is not None and above.type == "redirected_statement" else []
    found = None
    for child in (*command.children, *beside):
        if child.type == "herestring_redirect":
            word = expander.word(child.children[-1])
            found = [*(word.pieces or (expander.piece(word.value, word.line),)), expander.piece("\n", word.line)]
        elif child.type == "heredoc_redirect":
            found = expander.document(child)
    return found


def words_behind(redirect: Node) -> list[Node]:
    """The words of the command that stand behind a redirection: the grammar gives them to it."""
    if redirect.type == "heredoc_redirect":
        return [child for child in redirect.children if child.type in _WORDS]
    if redirect.type != "file_redirect":
        return []
    named = [child for child in redirect.children if child.is_named and child.type != "file_descriptor"]
    return named[1:]


def takes_output(redirect: Node) -> bool:
    """Whether a redirection sends what a command prints elsewhere, so that nobody reads it who reads the command."""
    if redirect.type != "file_redirect":
        return any(map(takes_output, redirect.children)) if redirect.type == "heredoc_redirect" else False
    numbers = [child.text for child in redirect.children if child.type == "file_descriptor"]
    signs = {child.type for child in redirect.children if not child.is_named}
    return numbers in ([], [b"1"]) and not signs.isdisjoint(_TAKING)


def written_files(expander: Expander, node: Node) -> list[str]:
    """The files that a ``redirected_statement`` writes, ``tee`` included, as far as their names are known."""
    redirects = [child for child in node.children[1:] if child.type == "file_redirect"]
    redirects += [c for child in node.children[1:] for c in child.children if c.type == "file_redirect"]
    names = [expander.word(child.children[-1 - len(words_behind(child))]).value for child in redirects]
    command = node.children[0]
    if command.type == "command" and expander.text(command).startswith("tee "):
        names += [expander.word(child).value for child in command.children[1:]]
    return [name for name in names if isinstance(name, str)]
