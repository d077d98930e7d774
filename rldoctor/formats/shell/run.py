"""Walks a shell script's statements in order, keeping its variables, and collects the commands that would run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from rldoctor.formats.shell.condition import case_choices, condition, if_choices
from rldoctor.formats.shell.expand import Expander
from rldoctor.formats.shell.reader import Command, Script, Variable, Word, parser
from rldoctor.formats.shell.redirects import here_document, written_files
from rldoctor.formats.shell.scope import MAX_WORDS, Scope, known
from rldoctor.formats.source import Source
from rldoctor.formats.values import Unresolved
from rldoctor.plan.model import Note

if TYPE_CHECKING:
    from tree_sitter import Node

# A script that yields more than this, or calls deeper, is not a launch script (or means to exhaust its reader).
MAX_COMMANDS = 2000
MAX_STEPS = 50_000
MAX_CALLS = 12

_LEAVING = frozenset({"exit", "return", "break", "continue", "exec"})


class Runner(Scope):
    """One pass over a script. Branches whose condition is not known are all read; a variable on which they disagree is
    unknown afterwards."""

    def __init__(self, script: Script, raw: bytes, environment: Mapping[str, str], offset: int, inside: str) -> None:
        super().__init__(Expander(raw, script.source.first_line, offset, inside), environment)
        self.script = script
        self.functions: dict[str, Node] = {}
        self.calls: list[str] = []
        self.steps = 0

    def run(self, root: Node) -> None:
        self._sequence(root.children)

    def _sequence(self, nodes: list[Node]) -> None:
        for index, node in enumerate(nodes):
            if self.left:
                return
            after = nodes[index + 1] if index + 1 < len(nodes) else None
            self._statement(node, background=after is not None and after.type == "&")

    def _statement(self, node: Node, background: bool = False, stdin: Source | None = None) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS or len(self.script.commands) >= MAX_COMMANDS:
            if not self.left:
                self._note(node, "the script is too long to be read to its end")
            self.left = True
            return
        kind = node.type
        if kind == "command":
            self._command(node, background, stdin)
        elif kind in ("program", "compound_statement", "do_group", "else_clause", "ERROR"):
            self._sequence(node.children)
        elif kind == "list":
            self._list(node, background)
        elif kind == "pipeline":
            for child in node.children:
                self.apart(lambda child=child: self._statement(child, background))  # type: ignore[misc]
        elif kind == "redirected_statement":
            self._redirected(node, background)
        elif kind == "subshell":
            self.apart(lambda: self._sequence(node.children))
        elif kind == "negated_command":
            self._sequence(node.children[1:])
        elif kind in ("variable_assignment", "variable_assignments"):
            for child in [node] if kind == "variable_assignment" else node.children:
                self.assign(child)
        elif kind == "declaration_command":
            self.declare(node)
        elif kind == "unset_command":
            for child in node.children[1:]:
                self.expander.variables.pop(self.expander.text(child), None)
                self.exports.discard(self.expander.text(child))
        elif kind == "function_definition":
            body = node.child_by_field_name("body")
            name = node.child_by_field_name("name")
            if body is not None and name is not None:
                self.functions[self.expander.text(name)] = body
        elif kind in ("if_statement", "case_statement"):
            self._branches(node)
        elif kind in ("for_statement", "c_style_for_statement", "while_statement"):
            self._loop(node)

    def _list(self, node: Node, background: bool) -> None:
        left, sign, right = node.children[0], node.children[1], node.children[2]
        known = condition(self.expander, left)
        self._statement(left)
        if self.left:
            return
        run = self.expander.text(sign) == "&&"
        if known is not None:
            if known == run:
                self._statement(right, background)
        elif run and left.type not in ("test_command", "negated_command"):
            self._statement(right, background)  # a command before && is taken to succeed
        else:
            self.maybe([lambda: self._statement(right, background), lambda: None])

    def _branches(self, node: Node) -> None:
        choices = if_choices(node) if node.type == "if_statement" else case_choices(node)
        open_choices: list[Callable[[], None]] = []
        for test, body in choices:
            known = True if test is None else self._holds(node, test)
            if known is False:
                continue
            open_choices.append(lambda body=body: self._sequence(body))  # type: ignore[misc]
            if known:
                break
        else:
            open_choices.append(lambda: None)
        if len(open_choices) == 1:
            open_choices[0]()
        else:
            self.maybe(open_choices)

    def _holds(self, node: Node, test: list[Node]) -> bool | None:
        if node.type == "if_statement":
            verdict = condition(self.expander, test[0]) if len(test) == 1 else None
            if verdict is None:
                self.apart(lambda: self._sequence(test))
            return verdict
        subject = node.child_by_field_name("value")
        value = self.expander.word(subject).value if subject is not None else Unresolved("", "")
        patterns = [self.expander.text(pattern).strip("\"'") for pattern in test]
        if "*" in patterns:
            return True
        if isinstance(value, Unresolved) or any(c in p for p in patterns for c in "*?[$"):
            return None
        return value in patterns

    def _loop(self, node: Node) -> None:
        before = dict(self.expander.variables)
        if node.type == "for_statement":
            name = node.child_by_field_name("variable")
            bodies = [child for child in node.children if child.type in ("do_group", "compound_statement")]
            values = [
                word
                for child in node.children[3:]
                if child.is_named and child not in bodies
                for word in self.expander.words(child)
            ]
            if name is not None:
                text, line = self.expander.text(name), self.expander.line(node)
                raw = " ".join(word.raw for word in values[:8])
                word = (
                    values[0]
                    if len(values) == 1
                    else Word(Unresolved(raw, f"{text} takes several values in turn"), raw, line)
                )
                self.set(text, Variable((word,), line))
        elif node.type == "c_style_for_statement":
            for child in node.children:
                if child.type in ("variable_assignment", "assignment_expression"):
                    name_node = child.children[0]
                    why = Unresolved(self.expander.text(child), "it changes in a loop")
                    self.set(self.expander.text(name_node), known(why, self.expander.line(node)))
        for child in node.children:
            if child.type in ("do_group", "compound_statement"):
                self._sequence(child.children)
        self.left = False
        self.merge([before, dict(self.expander.variables)])

    def _redirected(self, node: Node, background: bool) -> None:
        body, stdin = node.children[0], None
        for child in node.children[1:]:
            if child.type == "heredoc_redirect":
                stdin = here_document(self.expander, child, self.script.source.file)
                for inner in child.children:
                    if inner.type in ("pipeline", "command", "list"):
                        self._statement(inner)
        if stdin is not None:
            for target in written_files(self.expander, node):
                self.script.files[target] = stdin
        self._statement(body, background, stdin)

    def _command(self, node: Node, background: bool, stdin: Source | None) -> None:
        prefixes: dict[str, Variable] = {}
        words: list[Word] = []
        children = node.children[self._own_statements(node) :]
        for child in children:
            if child.type == "variable_assignment":
                saved = dict(self.expander.variables)
                self.assign(child)
                name = self.expander.text(child.children[0])
                if name in self.expander.variables:
                    prefixes[name] = replace(self.expander.variables[name], exported=True)
                self.expander.variables = saved
            elif child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect", "comment"):
                continue
            elif child.is_named and len(words) < MAX_WORDS:
                words.extend(self.expander.words(child))
        if not words:
            return
        first = words[0].value
        if self._builtin(node, words):
            return
        if isinstance(first, str) and first in self.functions:
            self._call(first, words[1:], prefixes)
            return
        environment = {name: v for name, v in self.expander.variables.items() if v.exported or name in self.exports}
        environment.update(prefixes)
        begin = children[0]
        start, end = self.expander.span(begin.start_byte, node.end_byte)
        line = self.expander.line(begin)
        end_line = line + int(node.end_point[0] - begin.start_point[0])
        self.script.commands.append(Command(tuple(words), environment, line, end_line, start, end, background, stdin))

    def _own_statements(self, node: Node) -> int:
        """Carries out assignments that the grammar takes for a command's own although a line ends between them
        (``A=1 B=2``, then the command), and returns how many of the command's parts they are."""
        done = 0
        for index, child in enumerate(node.children[:-1]):
            if child.type != "variable_assignment":
                break
            between = self.expander.raw[child.end_byte : node.children[index + 1].start_byte]
            if re.search(rb"(?<!\\)\r?\n", between):
                done = index + 1
        for child in node.children[:done]:
            self.assign(child)
        return done

    def _builtin(self, node: Node, words: list[Word]) -> bool:
        name = words[0].value
        if name in _LEAVING and name != "exec":
            self.left = True
        elif name == "set":
            flags = [word.text for word in words[1:]]
            self.all_exported = (self.all_exported or "-a" in flags or "allexport" in flags) and "+a" not in flags
        elif name == "shift":
            if self.expander.positional:
                self.expander.positional = self.expander.positional[1:]
        elif name in ("read", "mapfile", "readarray"):
            for word in words[1:]:
                if isinstance(word.value, str) and word.value.isidentifier():
                    self.set(word.value, known(Unresolved(word.value, f"{name} fills it"), self.expander.line(node)))
        elif name in ("source", "."):
            target = words[1].text if len(words) > 1 else ""
            self._note(node, f"source {target}: not followed")
        elif name == "eval":
            text = " ".join(word.text for word in words[1:])
            self._text(text, self.expander.line(node))
        elif name == "exec" and len(words) > 1:
            words.pop(0)
            return False
        else:
            return False
        return True

    def _call(self, name: str, words: list[Word], prefixes: dict[str, Variable]) -> None:
        if name in self.calls or len(self.calls) >= MAX_CALLS:
            return
        positional, saved = self.expander.positional, {n: self.expander.variables.get(n) for n in prefixes}
        self.expander.positional = tuple(words)
        self.expander.variables.update(prefixes)
        self.calls.append(name)
        self._statement(self.functions[name])
        self.calls.pop()
        self.left = False
        self.expander.positional = positional
        for variable, value in saved.items():
            self.expander.variables.pop(variable, None)
            if value is not None:
                self.expander.variables[variable] = value

    def _text(self, text: str, line: int) -> None:
        """Reads a command that stands in a text (``eval``), with the variables of this point."""
        if len(self.calls) >= MAX_CALLS:
            return
        raw = text.encode()
        outer, self.expander = self.expander, Expander(raw, line, -1)
        self.expander.variables, self.expander.positional = outer.variables, outer.positional
        self.calls.append("eval")
        self._sequence(parser().parse(raw).root_node.children)
        self.calls.pop()
        outer.variables, self.expander = self.expander.variables, outer

    def _note(self, node: Node, text: str) -> None:
        self.script.notes.append(Note(text=text, file=self.script.source.file, line=self.expander.line(node)))
