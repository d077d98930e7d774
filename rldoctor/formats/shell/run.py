"""Walks a shell script's statements in order, keeping its variables, and collects the commands that would run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rldoctor.formats.shell.arithmetic import assigned
from rldoctor.formats.shell.builtins import Builtins
from rldoctor.formats.shell.condition import alternatives, case_choices, condition, fits, if_choices, joined
from rldoctor.formats.shell.expand import Expander
from rldoctor.formats.shell.reader import Command, Script, Variable, Word
from rldoctor.formats.shell.redirects import here_document, takes_output, words_behind, written_files
from rldoctor.formats.shell.scope import MAX_WORDS, given, known
from rldoctor.formats.shell.substitution import handed, piped, said
from rldoctor.formats.shell.xargs import runs
from rldoctor.formats.source import Source, line_of
from rldoctor.formats.values import Unresolved
from rldoctor.plan.model import Note

if TYPE_CHECKING:
    from tree_sitter import Node

# A script that yields more than this, or calls deeper, is not a launch script (or means to exhaust its reader).
MAX_COMMANDS = 2000
MAX_STEPS = 50_000
WORDS_OF_A_STEP = 4
MAX_CALLS = 12
# A loop is followed round by round as long as it starts nothing, and within another loop not at all.
MAX_ROUNDS = 64
MAX_ABREAST = 8
# Arrays that a loop fills.
_COLLECTED = re.compile(r"\b([A-Za-z_]\w*)\+?=\(")
# What a loop over a script's arguments asks for: their number, one of them, all of them, or the options among them.
_ARGUMENTS = re.compile(r"\$\{?[#@*1]|\bgetopts\b|^for\s+\w+\s*;")
# Commands that change nothing a launch depends on.
_QUIET = frozenset({"echo", "printf", "cd", "mkdir", "sleep", "test", "[", "pushd", "popd", "wait", "trap", "ulimit"})
# Commands with a grammar of their own, which they lose behind assignments that end a line.
_DECLARING = frozenset({"unset", "export", "declare", "local", "readonly", "typeset"})


class Runner(Builtins):
    """One pass over a script. Branches whose condition is not known are all read; a variable on which they disagree is
    unknown afterwards."""

    def __init__(
        self,
        script: Script,
        raw: bytes,
        environment: Mapping[str, str | Unresolved],
        offset: int,
        inside: str,
        arguments: Sequence[str | Word] | None,
    ) -> None:
        expander = Expander(raw, script.source.first_line, offset, inside, script=script.source.file)
        if arguments is not None:
            expander.positional = tuple(word for one in arguments for word in given(one))
        expander.open, expander.machine = script.open, script.machine
        super().__init__(expander, environment)
        self.script = script
        self.functions: dict[str, tuple[Node, Expander]] = {}
        self.calls: list[str] = []
        expander.call = self._said
        self.folders: list[str] = []
        # What the beginnings of a chain of && and || come to, until each is asked for.
        self.verdicts: dict[int, tuple[bool | None, set[str]]] = {}
        self.steps = 0
        self.loops = 0

    def run(self, root: Node) -> None:
        self.sequence(root.children)

    def sequence(self, nodes: list[Node]) -> None:
        for index, node in enumerate(nodes):
            if self.left:
                return
            after = nodes[index + 1] if index + 1 < len(nodes) else None
            self._statement(node, background=after is not None and after.type == "&")

    def _statement(self, node: Node, background: bool = False, stdin: Source | None = None) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS or len(self.script.commands) >= MAX_COMMANDS:
            if not self.left:
                self.note(node, "the script is too long to be read to its end", unread=True)
            self.left = "exit"
            return
        match node.type:
            case "command":
                self._command(node, background, stdin)
            case "compound_statement" if self.expander.text(node.children[0]) == "((":
                self.compute(node)
            case "program" | "compound_statement" | "do_group" | "else_clause" | "ERROR":
                self.sequence(node.children)
            case "list":
                self._list(node, background)
            case "pipeline":
                self._pipeline([child for child in node.children if child.is_named], background, stdin)
            case "redirected_statement":
                self._redirected(node, background, stdin)
            case "subshell":
                self.apart(lambda: self.sequence(node.children))
            case "negated_command":
                self.sequence(node.children[1:])
            case "variable_assignment":
                self.assign(node)
            case "variable_assignments":
                for child in node.children:
                    self.assign(child)
            case "declaration_command":
                self.declare(node)
            case "unset_command":
                self._unset(node)
            case "function_definition":
                self._define(node)
            case "if_statement" | "case_statement":
                self._branches(node)
            case "for_statement" | "c_style_for_statement" | "while_statement":
                self._loop(node)

    def _define(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        name = node.child_by_field_name("name")
        if body is not None and name is not None:
            self.functions[self.expander.text(name)] = (body, self.expander)

    def _unset(self, node: Node) -> None:
        for child in node.children[1:]:
            name = self.expander.word(child).text
            if name.isidentifier():
                if self.expander.variables.pop(name, None) is not None or name in self.exports:
                    self.written.append(name)
                self.exports.discard(name)
            elif not name.startswith("-"):
                self.lose(name.partition("[")[0], self.expander.line(node))

    def _list(self, node: Node, background: bool) -> None:
        left, sign, right = node.children[0], node.children[1], node.children[2]
        verdict, asked = self._verdict(left)
        self._statement(left)
        if self.left:
            return
        run = self.expander.text(sign) == "&&"
        if verdict is not None:
            if verdict == run:
                self._on_demand(node, asked, lambda: self._statement(right, background))
            else:
                self._leave_out(node, asked)
        elif run and not self._asks(left):
            self._statement(right, background)  # a command before && is taken to succeed
        else:
            self.maybe([lambda: self._statement(right, background), lambda: None])

    def _asks(self, node: Node) -> bool:
        """Whether a statement is there for its answer alone."""
        asking = ("test_command", "negated_command", "compound_statement")
        return node.type in asking or self.expander.text(node).startswith("test ")

    def _verdict(self, node: Node) -> tuple[bool | None, set[str]]:
        """Whether a condition holds, and the variables it asks for that nothing sets. All of a chain is asked before
        the first of it runs: once, and not again for each that follows."""
        if node.id in self.verdicts:
            return self.verdicts.pop(node.id)
        self.verdicts.clear()
        chain = []
        while node.type == "list" and len(node.children) == 3:
            chain.append(node)
            node = node.children[0]
        verdict, asked = self._answer(node)
        for whole in reversed(chain):
            left, sign, right = whole.children
            self.verdicts[left.id] = verdict, asked
            following, further = self._answer(right)
            verdict, asked = joined(verdict, following, self.expander.text(sign)), asked | further
        return verdict, asked

    def _answer(self, node: Node) -> tuple[bool | None, set[str]]:
        outer, self.expander.asked = self.expander.asked, set()
        verdict = condition(self.expander, node)
        asked, self.expander.asked = self.expander.asked, outer
        return verdict, asked

    def _on_demand(self, node: Node, asked: set[str], action: Callable[[], None]) -> None:
        """Runs what a condition lets run. Where that ends the script because the caller did not set a variable, the
        variable is demanded: it is taken for set, to something that is not known."""
        before, commands = self.state(), len(self.script.commands)
        action()
        if self.left != "exit" or not asked:
            return
        self.left = ""
        self.restore(before)
        del self.script.commands[commands:]
        for name in sorted(asked):
            why = f"{name} must be set when the script is started"
            self.set(name, known(Unresolved(f"${name}", why), self.expander.line(node)))
            if name not in self.script.demands:
                self.script.demands.append(name)
                self.note(node, why)

    def _leave_out(self, node: Node, asked: set[str]) -> None:
        """Remembers what does not run as long as nobody sets the variables that its condition asks for."""
        file = self.expander.file or self.script.source.file
        line = self.expander.line(node)
        self.script.left_out += [Note(text=name, file=file, line=line) for name in sorted(asked)]

    def _branches(self, node: Node) -> None:
        choices = if_choices(node) if node.type == "if_statement" else case_choices(node)
        open_choices: list[Callable[[], None]] = []
        asked: set[str] = set()
        for test, body in choices:
            verdict, names = (True, set()) if test is None else self._holds(node, test)
            asked |= names
            if verdict is False:
                self._leave_out(node, names)
                continue
            open_choices.append(partial(self.sequence, body))
            if verdict:
                break
        else:
            open_choices.append(lambda: None)
        if len(open_choices) == 1:
            self._on_demand(node, asked, open_choices[0])
        else:
            self.maybe(open_choices)

    def _holds(self, node: Node, test: list[Node]) -> tuple[bool | None, set[str]]:
        if node.type == "if_statement":
            verdict, asked = self._verdict(test[0]) if len(test) == 1 else (None, set())
            if verdict is None:
                self.apart(lambda: self.sequence(test))
            return verdict, asked
        subject = node.child_by_field_name("value")
        value = self.expander.word(subject).value if subject is not None else Unresolved("", "")
        patterns = alternatives(test)
        if any([self.expander.text(part) for part in one] == ["*"] for one in patterns):
            return True, set()
        verdicts = [None if isinstance(value, Unresolved) else fits(self.expander, value, one) for one in patterns]
        return (True if True in verdicts else None if None in verdicts else False), set()

    def _loop(self, node: Node) -> None:
        bodies = [child for child in node.children if child.type in ("do_group", "compound_statement")]
        body = bodies[-1:] if node.type != "for_statement" else bodies
        if self.loops == 0 and self._rounds(node, body):
            return
        self.loops += 1
        before, commands, mark = self.state(), len(self.script.commands), len(self.written)
        pending = set(self.pending)
        files, notes = dict(self.script.files), len(self.script.notes)
        self.alternatives += 1
        self._round_of_any(node, body)
        # What a round writes is not known at the beginning of the next one.
        names = self.written[mark:]
        self.restore(before)
        self.blur(names)
        del self.script.commands[commands:], self.script.notes[notes:]
        self.script.files, self.left = files, ""
        self._round_of_any(node, body)
        self.alternatives -= 1
        left = self.pending - pending - {"break", "continue"}
        escaped = bool((self.pending - pending) & {"break", "continue"}) or self.left in ("break", "continue")
        self.left, self.pending = "", pending | left
        self.merge([before, self.state()])
        if escaped:
            self.blur(names)
        self.loops -= 1
        if self._goes_through_arguments(node, body) and not self._started(commands):
            self._without_arguments(before.variables, set(names) - set(_COLLECTED.findall(self.expander.text(node))))

    def _started(self, mark: int) -> list[Command]:
        """The commands from ``mark`` on that start something."""
        return [one for one in self.script.commands[mark:] if one.words[0].text not in _QUIET]

    def _goes_through_arguments(self, node: Node, body: list[Node]) -> bool:
        """Whether a loop reads the arguments of a script of which it is not known what it is started with."""
        positional = self.expander.positional
        if positional is not None and not (len(positional) == 1 and positional[0].many):
            return False
        head = self.expander.raw[node.start_byte : body[0].start_byte if body else node.end_byte].decode()
        return _ARGUMENTS.search(head) is not None

    def _without_arguments(self, before: Mapping[str, Variable], names: set[str]) -> None:
        """Takes back what a loop over the arguments may have set: as with ``${1:-default}``, the file alone counts.
        What it collects in arrays stays unknown, as ``"$@"`` is."""
        for name in names - {"@"}:
            old = before.get(name)
            if old is None:
                self.expander.variables.pop(name, None)
            else:
                self.expander.variables[name] = old
                if old.value == "":
                    self.expander.left_empty.add(name)

    def _round_of_any(self, node: Node, body: list[Node]) -> None:
        """One round of a loop of which it is not known how often it runs, nor with which values."""
        line = self.expander.line(node)
        if node.type == "for_statement":
            name = node.child_by_field_name("variable")
            values = self._values(node, body)
            if name is not None:
                text = self.expander.text(name)
                raw = " ".join(word.raw for word in values[:8])
                why = Unresolved(raw, f"{text} takes several values in turn")
                self.set(
                    text, Variable((values[0],), line) if len(values) == 1 and not values[0].many else known(why, line)
                )
        elif node.type == "c_style_for_statement":
            for child in node.children:
                for changed in assigned(self.expander, child):
                    self.set(changed, known(Unresolved(self.expander.text(child), "it changes in a loop"), line))
        else:
            self.sequence([child for child in node.children[1:] if child.is_named and child not in body])
        for child in body:
            self.sequence(child.children)

    def _values(self, node: Node, body: list[Node]) -> list[Word]:
        """The words that a ``for`` goes through; without ``in``, the arguments."""
        if not any(child.type == "in" for child in node.children):
            positional = self.expander.positional
            return list(positional) if positional is not None else list(known(Unresolved("$@", "arguments"), 0).words)
        parts = [child for child in node.children[3:] if child.is_named and child not in body]
        words = [word for child in parts for word in self.expander.words(child)]
        self.steps += len(words) // WORDS_OF_A_STEP  # loops within loops are read many times
        return words

    def _rounds(self, node: Node, body: list[Node]) -> bool:
        """Follows a loop round by round; False, and nothing done, where its rounds are not known or start commands
        one after the other. What they start side by side, in the background, may get in each other's way."""
        before, commands, notes = self.state(), len(self.script.commands), len(self.script.notes)
        pending, files, mark = set(self.pending), dict(self.script.files), len(self.written)
        self.loops += 1
        done = self._followed(node, body)
        self.loops -= 1
        started = self._started(commands)
        again = done != 1 and not (done and done <= MAX_ABREAST and all(c.background for c in started))
        if done is None or (started and again) or self.pending - pending:
            self.restore(before)
            del self.script.commands[commands:], self.script.notes[notes:], self.written[mark:]
            self.pending, self.script.files, self.left = pending, files, ""
            return False
        return True

    def _followed(self, node: Node, body: list[Node]) -> int | None:
        """How many rounds a loop made; None where that is not known."""
        if node.type == "c_style_for_statement" or not body:
            return None
        done = 0
        if node.type == "for_statement":
            name = node.child_by_field_name("variable")
            values = self._values(node, body)
            if name is None or len(values) > MAX_ROUNDS or any(not isinstance(w.value, str) for w in values):
                return None
            for word in values:
                self.set(self.expander.text(name), Variable((word,), self.expander.line(node)))
                done += 1
                if self._round(body):
                    break
            return done
        tests = [child for child in node.children[1:] if child.is_named and child not in body]
        until = self.expander.text(node.children[0]) == "until"
        while len(tests) == 1:
            verdict, _ = self._verdict(tests[0])
            if verdict is None or done > MAX_ROUNDS:
                return None
            self._statement(tests[0])
            if verdict == until:
                return done
            done += 1
            if self._round(body):
                return done
        return None

    def _round(self, body: list[Node]) -> bool:
        """One round; whether it ends the loop."""
        for child in body:
            self.sequence(child.children)
        over = self.left not in ("", "continue")
        self.left = "" if self.left in ("break", "continue") else self.left
        return over

    def _pipeline(self, nodes: list[Node], background: bool, stdin: Source | None) -> None:
        """Commands side by side; each reads what the ones before it print, as far as that can be told."""
        given = stdin.text if stdin is not None else None
        mark = len(self.script.commands)
        for index, child in enumerate(nodes):
            self._redirect(mark)
            source = stdin
            if index and child.type in ("command", "redirected_statement"):
                given = piped(self.expander, nodes[index - 1 : index], given)
                source = None if given is None else self._from_text(given)
            self.apart(partial(self._statement, child, background, source))

    def _from_text(self, text: str) -> Source:
        """A text that a command reads, at the line of the script on which it stands, where it does."""
        source = self.script.source
        return Source(text, self.expander.file or source.file, line_of(text, source))

    def _redirected(self, node: Node, background: bool, given: Source | None = None) -> None:
        body, stdin, mark = node.children[0], given, len(self.script.commands)
        behind = [word for child in node.children[1:] for word in words_behind(child)]
        asked, text = False, None
        for child in node.children[1:]:
            if child.type == "heredoc_redirect":
                stdin = here_document(self.expander, child, self.expander.file or self.script.source.file)
                for inner in child.children:
                    if inner.type == "pipeline":
                        self._pipeline([body, *(part for part in inner.children if part.is_named)], background, stdin)
                        return
                    if inner.type in ("command", "list"):
                        self._statement(inner)
            elif child.type in ("file_redirect", "herestring_redirect") and body.type == "command":
                if not asked:  # all redirections answer together, once
                    asked, text = True, handed(self.expander, node)
                stdin = stdin if text is None else self._from_text(text)
        if stdin is not None:
            for target in written_files(self.expander, node):
                self.script.files[target] = stdin
        if behind and body.type == "command":
            self._command(body, background, stdin, behind)
        else:
            self._statement(body, background, stdin)
        if any(map(takes_output, node.children[1:])):
            self._redirect(mark)

    def _redirect(self, mark: int) -> None:
        """What the commands from ``mark`` on print goes elsewhere."""
        started = self.script.commands[mark:]
        self.script.commands[mark:] = [replace(command, redirected=True) for command in started]

    def _command(self, node: Node, background: bool, stdin: Source | None, behind: Sequence[Node] = ()) -> None:
        """Carries out a command; ``behind`` are the words of it that stand behind a redirection."""
        prefixes: dict[str, Variable] = {}
        words: list[Word] = []
        end_before = -1
        own = self._own_statements(node)
        if own and own < len(node.children) and self.expander.text(node.children[own]) in _DECLARING:
            begin = node.children[own]
            text = self.expander.raw[begin.start_byte : node.end_byte].decode()
            self.read_text(text, self.expander.line(begin))
            return
        children = [*node.children[own:], *behind]
        for child in children:
            if child.type == "variable_assignment":
                saved, written = self.state(), len(self.written)
                self.assign(child)
                name = self.expander.text(child.children[0])
                if name in self.expander.variables:
                    prefixes[name] = replace(self.expander.variables[name], exported=True)
                self.restore(saved)
                del self.written[written:]
            elif child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect", "comment"):
                continue
            elif child.is_named and len(words) < MAX_WORDS:
                end_before = self.add(words, child, end_before)
        if not words:
            return
        words = [words[0], *(word for word in words[1:] if not self.expander.is_nothing(word))]
        leaving = words[0].value == "exec" and len(words) > 1
        if leaving:
            words.pop(0)
        elif self.builtin(node, words):
            return
        first = words[0].value
        if isinstance(first, str) and first in self.functions and not leaving:
            self._call(first, words[1:], prefixes)
            return
        environment = {name: v for name, v in self.expander.variables.items() if v.exported or name in self.exports}
        environment.update(prefixes)
        begin = children[0]
        last = behind[-1] if behind else node
        start, end = self.expander.span(begin.start_byte, last.end_byte)
        line = self.expander.line(begin)
        end_line = line + int(last.end_point[0] - begin.start_point[0])
        given = stdin.text if stdin is not None else None
        started = runs(self.expander, words, given) if first == "xargs" else None
        for one in started.commands if started is not None else [words]:
            command = Command(
                tuple(one),
                environment,
                line,
                end_line,
                start,
                end,
                background or (started is not None and started.abreast),
                stdin if started is None else None,
                not self.certain,
                self.expander.file,
                self.folder() or "",
                any(map(takes_output, children)),
            )
            self.script.commands.append(command)
        if leaving:
            self.left = "exit"

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

    def _said(self, words: Sequence[str]) -> str | None:
        """What a function prints that a substitution calls; None where it is none, or does more than print."""
        if words[0] not in self.functions:
            return None
        mark, notes = len(self.script.commands), len(self.script.notes)
        arguments = [word for text in words[1:] for word in given(text)]
        self.apart(lambda: self._call(words[0], arguments, {}))
        texts = [None if command.conditional else said(command) for command in self.script.commands[mark:]]
        del self.script.commands[mark:], self.script.notes[notes:]
        return "".join(text for text in texts if text is not None) if texts and None not in texts else None

    def _call(self, name: str, words: list[Word], prefixes: dict[str, Variable]) -> None:
        if name in self.calls or len(self.calls) >= MAX_CALLS:
            return
        positional, saved = self.expander.positional, {n: self.expander.variables.get(n) for n in prefixes}
        body, defined = self.functions[name]
        outer, pending, mark = self.expander, set(self.pending), len(self.written)
        self.expander = outer if defined is outer else outer.beside(defined.raw, defined.first_line, file=defined.file)
        self.expander.offset = defined.offset if defined is not outer else outer.offset
        self.expander.positional = tuple(words)
        self.expander.variables.update(prefixes)
        self.locals.append({})
        self.calls.append(name)
        self._statement(body)
        self.calls.pop()
        self.leave_function()
        self.left = self.left if self.left == "exit" else ""
        if "return" in self.pending - pending:
            self.blur([name for name in self.written[mark:] if name != "@"])
        self.pending = pending | (self.pending - {"return"})
        outer.variables, self.expander = self.expander.variables, outer
        self.expander.positional = positional
        for variable, value in saved.items():
            self.expander.variables.pop(variable, None)
            if value is not None:
                self.expander.variables[variable] = value
