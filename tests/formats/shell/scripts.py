"""Generated shell scripts, and what bash itself makes of them: the oracle of the shell reader."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from rldoctor.formats.shell.reader import Command, Word

BASH = shutil.which("bash")
# Programs that only print what they are asked for; nothing else is on the PATH.
PURE = ("dirname", "basename", "seq", "grep", "awk", "cut", "head", "tail", "cat", "wc")
# Every other command goes here, with its words.
RECORDER = 'command_not_found_handle() { printf "%s\\0" "$@" $\'\\1\' >> "$RECORD"; }\n'
END = "\1"
SECONDS = 5
BUILT_IN = frozenset({"true", "false", "echo", "test", "[", "printf"})

NAMES = ("A", "B", "C", "MODEL", "OUT_DIR")
ARRAYS = ("ARGS", "MORE")
TEXTS = (
    "1", "8", "0", "a b", " lead", "trail ", "x=1 y=2", "--lr 1e-6", "org/Model-7B", "/data/run.v2/file.tar.gz", "a  b",
    "tab\tend", "it's", 'say "hi"', "a.b.c", "", "[1,2]", "{k: 1}", "back\\slash", "100%", "a:b:c", "UPPER lower",
    "$5 left",
    "--a=1 --b='q r'", "line one\nline two", "~/x", "#no comment", "a,b,c",
)  # fmt: skip
NUMBERS = ("0", "1", "2", "7", "16", "1024", "-3")


class Writer:
    """Writes one script from a seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    def script(self) -> str:
        rows = [f"{name}={self.word_for_value()}" for name in (*NAMES, "N") if self.dice.random() < 0.6]
        rows += [f"{array}=({self.words()})" for array in ARRAYS if self.dice.random() < 0.7]
        rows += [self.statement(0) for _ in range(self.dice.randint(1, 7))]
        return "\n".join([*rows, self.command()]) + "\n"

    def pick(self, *choices: str) -> str:
        return self.dice.choice(choices)

    def name(self) -> str:
        return self.dice.choice(NAMES)

    def quoted(self, text: str) -> str:
        style = self.dice.randrange(4)
        if style == 0 and "'" not in text:
            return f"'{text}'"
        if style == 1 and "\t" not in text:
            return (
                "".join(c if c.isalnum() or c in "/._-=:,%" else f"\\{c}" if c != "\n" else "$'\\n'" for c in text)
                or "''"
            )
        if style == 2:
            return "$'" + "".join({"\n": "\\n", "\t": "\\t", "'": "\\'", "\\": "\\\\"}.get(c, c) for c in text) + "'"
        return '"' + "".join(f"\\{c}" if c in '"$`\\' else c for c in text) + '"'

    def literal(self) -> str:
        return self.quoted(self.dice.choice(TEXTS))

    def number(self) -> str:
        return self.dice.choice(NUMBERS)

    def expansion(self) -> str:
        """A parameter expansion without quotes around it."""
        name = self.name()
        return self.pick(
            f"${name}", f"${{{name}}}", f"${{{name}:-8}}", f"${{{name}-none}}", f"${{{name}:+set}}", f"${{{name}+set}}",
            f"${{{name}:-${self.name()}}}", f"${{{name}:-a b}}", f'${{{name}:-"q r"}}', f"${{{name}:=dflt}}",
            f"${{{name}%.*}}", f"${{{name}%%.*}}", f"${{{name}##*/}}", f"${{{name}#*/}}", f"${{{name}%/*}}",
            f"${{#{name}}}",
            f"${{{name}/a/Z}}", f"${{{name}//b/Y}}", f"${{{name}/ /_}}", f"${{{name}:1}}", f"${{{name}:0:3}}",
            f"${{{name}: -2}}",
            f"${{{name},,}}", f"${{{name}^^}}", f"${{{name}^}}", f"${{!{name}}}", f"${{{name}%b}}",
            f"${{{name}//[ab]/-}}",
            f"${{{name}:2:-1}}", f"${{{name}/%c/Q}}", f"${{{name}/#a/Q}}", f"${{{name}%$B}}", "$#", "$1",
            "${2:-two}", "$*", "$@",
            f"${{{self.dice.choice(ARRAYS)}[0]}}", f"${{#{self.dice.choice(ARRAYS)}[@]}}",
            f"${{{self.dice.choice(ARRAYS)}[*]}}",
            f"${{{self.dice.choice(ARRAYS)}[@]:1}}", f"${{{self.dice.choice(ARRAYS)}[-1]}}", f"$(({self.sum()}))",
            f"${self.dice.choice(ARRAYS)}", f"${{{self.dice.choice(ARRAYS)}[@]/a/b}}",
            f'${{{name}:+--v "${self.name()}"}}', f'${{{name}:-a  "b c" d}}', f"${{{name}:+x 'y z' ${name}}}",
            f"${{{name}:-~/d}}", f"${{{name}:-`echo q`}}", f"${{{name}+-n ${{B:-e f}} end}}",
        )  # fmt: skip

    def sum(self) -> str:
        left = self.pick(self.number(), self.number(), "N", "$N", "${N:-3}", "(1+2)")
        sign = self.pick("+", "-", "*", "/", "%", "**", "<<", "<", ">=", "==", "&&", "||", "&")
        right = self.pick(self.number(), "N", "2", "4", "M?1:0")
        return f"{left} {sign} {right}"

    def text(self) -> str:
        """Double quotes with anything between them."""
        parts = [
            self.pick(self.expansion(), " ", "x", "  ", "a=", self.expansion(), "/", "\\$", "{", " \\\n")
            for _ in range(self.dice.randint(1, 5))
        ]
        return '"' + "".join(parts) + '"'

    def path(self) -> str:
        """Names and text by turns, without quotes."""
        first = self.pick("", "data/", '"$B"/', "'q'-")
        turns = [f"${self.name()}{self.pick('/', '-', '.', ':', ',', '/x_', '@v', '%')}" for _ in range(3)]
        return first + "".join(turns) + self.pick("", "end", "$A", ".yaml", "\\ x")

    def word(self) -> str:
        choice = self.dice.randrange(12)
        if choice == 9:
            return self.path()
        if choice < 2:
            return self.literal()
        if choice < 4:
            return self.text()
        if choice == 4:
            return self.pick("--opt=", "key=", "pre") + self.expansion()
        if choice == 5:
            return self.expansion()
        if choice == 6:
            return f'"${{{self.dice.choice(ARRAYS)}[@]}}"'
        if choice == 7:
            return self.pick(
                '"$@"',
                '"$*"',
                "'a'\"b\"c",
                'x"$A"y',
                "--flag",
                "a{b,c}",
                'p"$@"q',
                'k="${ARGS[@]}"',
                "{1..3}",
                "{a..g..3}",
                "key=~/x",
                "~",
                "a.b=~/y",
                "one\\\ntwo",
                ">/dev/null --after",
                '"${ARGS[*]}"',
                '"${MORE[@]+"${MORE[@]}"}"',
                '"${NONE[@]:-none}"',
                "2>&1 last",
            )
        return self.pick("--lr", "1e-6", "a.b=c", "+x.y=[1,2]", "-n", "end")

    def words(self) -> str:
        gap = self.pick(" ", "  ", " \\\n    ")
        return gap.join(self.word() for _ in range(self.dice.randint(1, 5)))

    def command(self) -> str:
        return self.pick("run ", "run ", "train ", "N=9 run ") + self.words()

    def test(self) -> str:
        pattern = self.pick('*"a"*', '"a"*', "*'1'", 'a"*"', '*"$N"*')
        return self.pick(
            f'[ "${self.name()}" = 1 ]', f'[ -z "${self.name()}" ]', f"[[ -n ${self.name()} ]]", '[ "$N" -gt 2 ]',
            "[[ $# -lt 2 ]]",
            f"[[ ${self.name()} == a* ]]", f'[[ "${self.name()}" != "8" && -n $N ]]', "true", "false",
            "(( N > 2 ))", f"! [ -z ${self.name()}x ]",
            f"[ ${{{self.name()}:+x}} ]", f'test "${self.name()}" = 1', f"[[ ${self.name()} =~ ^[0-9]+$ ]]",
            '[ -n "$N" -a "$N" = 3 ]',
            f"[[ ${self.name()} == {pattern} ]]",
        )  # fmt: skip

    def statement(self, depth: int) -> str:
        kind = self.dice.randrange(22 if depth < 2 else 12)
        while kind == 17 and depth:  # a function that is called is taken to be defined
            kind = self.dice.randrange(22)
        name, array = self.name(), self.dice.choice(ARRAYS)

        def inner() -> str:
            return self.statement(depth + 1)

        if kind < 3:
            return f"{name}={self.word_for_value()}"
        if kind == 3:
            return f"{name}+={self.word_for_value()}"
        if kind == 4:
            return f"{array}=({self.words()})"
        if kind == 5:
            return f"{array}+=({self.words()})"
        if kind == 6:
            return (
                self.pick("export ", "declare ", "readonly R=1; local_unused=1; ", "export -n ")
                + f"{name}={self.word_for_value()}"
            )
        if kind == 7:
            return f"N={self.pick(self.number(), f'$(({self.sum()}))')}"
        if kind == 8:
            return f"set -- {self.words()}"
        if kind == 9:
            return self.pick(
                "shift",
                f"unset {name}",
                f": ${{{name}:=given}}",
                "shift 2",
                "(( N += 2 ))",
                "let N=N+1",
                f"unset {array}",
                f"unset '{array}[0]'",
                "set -eou pipefail",
                "set -o pipefail -u; set +u",
                "IFS=,",
                "IFS=:; IFS=$' \\t\\n'",
                "declare -i N=7; N=N+2",
                f"export A=x{name} B=$A",
                f"declare -n REF={name}; REF=given",
            )
        if kind < 12:
            return self.command()
        if kind < 15:
            more = self.pick("", f"\nelif {self.test()}; then\n  {inner()}") + self.pick("", f"\nelse\n  {inner()}")
            return f"if {self.test()}; then\n  {inner()}{more}\nfi"
        if kind == 15:
            return f"for {name} in {self.words()}; do\n  {inner()}\n  {self.command()}\ndone"
        if kind == 16:
            return f"case ${name} in\n  1|8) {inner()};;\n  a*) {inner()};;\n  *) {inner()};;\nesac"
        if kind == 17:
            local = self.pick("", f"local {name}={self.word_for_value()}\n  ", f"local {name}\n  ")
            return f"f{depth}() {{\n  {local}{inner()}\n  {self.command()}\n}}\nf{depth} {self.words()}"
        if kind == 18:
            return f"{self.test()} {self.pick('&&', '||')} {inner()}"
        if kind == 19:
            return f"( {inner()}\n{self.command()})"
        if kind == 20:
            return f"{name}=$(echo {self.word()})" if self.dice.random() < 0.3 else f"{{ {inner()}\n}}"
        return (
            f"eval {self.quoted(self.command())}"
            if self.dice.random() < 0.5
            else f"while {self.test()}; do\n  {inner()}\n  break\ndone"
        )

    def word_for_value(self) -> str:
        return self.pick(
            self.literal(), self.text(), self.expansion(), self.literal() + self.expansion(), self.number(), self.text()
        )


def in_bash(
    text: str, folder: Path, environment: Mapping[str, str], arguments: Sequence[str] = ()
) -> list[list[str]] | None:
    """The words of every command that bash runs; None where it finds fault with the script."""
    assert BASH is not None
    record = folder / "record"
    for path, content in ((folder / "recorder.sh", RECORDER), (folder / "script.sh", text), (record, "")):
        path.write_text(content)
    (folder / "bin").mkdir(exist_ok=True)
    for name in PURE:
        if (found := shutil.which(name)) is not None and not (folder / "bin" / name).exists():
            (folder / "bin" / name).symlink_to(found)
    given = {"PATH": str(folder / "bin"), "BASH_ENV": str(folder / "recorder.sh"), "RECORD": str(record)}
    done = subprocess.run(
        [BASH, "--noprofile", "--norc", "script.sh", *arguments],
        cwd=folder,
        env={**given, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=SECONDS,
    )
    if done.stderr:
        return None
    commands: list[list[str]] = [[]]
    for part in record.read_bytes().decode().split("\0")[:-1]:
        if part == END:
            commands.append([])
        else:
            commands[-1].append(part)
    return commands[:-1]


def difference(read: Sequence[Command], ran: Sequence[Sequence[str]]) -> str:
    """What bash ran and the reader does not have, or has otherwise; empty where all of it is there. An unknown word
    stands for anything, one that is ``many`` for any number of words; a command that only may run, or runs in a loop,
    for any number of commands."""
    read = [command for command in read if command.words[0].value not in BUILT_IN]
    certain = [command for command in read if not command.conditional]
    possible = [command for command in read if command.conditional]

    @cache
    def fits(done: int, at: int) -> bool:
        if at == len(ran):
            return done == len(certain)
        if done < len(certain) and _same(certain[done].words, ran[at]) and fits(done + 1, at + 1):
            return True
        return any(_same(command.words, ran[at]) for command in possible) and fits(done, at + 1)

    if fits(0, 0):
        return ""
    rows = [f"{'?' if c.conditional else ' '} {[_shown(word) for word in c.words]}" for c in read]
    return "\n".join(["bash ran:", *map(str, ran), "the reader has:", *rows])


def _shown(word: Word) -> str:
    return word.value if isinstance(word.value, str) else f"<{word.prefix}?{'*' if word.many else ''} {word.value.why}>"


def _same(words: Sequence[Word], ran: Sequence[str]) -> bool:
    @cache
    def fits(word: int, at: int) -> bool:
        if word == len(words):
            return at == len(ran)
        if words[word].open:
            return any(fits(word + 1, later) for later in range(at, len(ran) + 1))
        if at == len(ran):
            return False
        value = words[word].value
        known = ran[at] == value if isinstance(value, str) else ran[at].startswith(words[word].prefix)
        return known and fits(word + 1, at + 1)

    return fits(0, 0)
