"""What xargs starts, held against xargs itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rldoctor.formats.shell.reader import Command, read_shell
from rldoctor.formats.source import Source
from rldoctor.formats.values import Unresolved

PROGRAM = '#!/bin/sh\nprintf "%s\\0" run "$@" >> "$RECORD"\nprintf "\\1" >> "$RECORD"\n'
PRINTING = ("printf", "echo", "seq", "tr", "cat", "find")
SCRIPTS = {
    "a mark": "printf '%s\\n' 0 1 2 | xargs -I{} run --port 800{} --all={},{}\n",
    "a mark joined to lines": "seq 3 | xargs -I GPU run 'device GPU' last\n",
    "one by one": "echo a b 'c d' | xargs -n 1 run --x\n",
    "two by two": "seq 5 | xargs -n2 run\n",
    "all at once": "printf '%s\\n' --a 1 '\"b c\"' | xargs run first\n",
    "a separator": "echo a,b,c | tr -d '\\n' | xargs -d , -n1 run\n",
    "line by line": "printf '%s\\n' 'a 1' 'b 2' 'c 3' | xargs -L1 run --x\n",
    "two lines each": "printf '%s\\n' 'a 1' 'b 2' 'c 3' | xargs --max-lines=2 run\n",
    "the usual mark": "seq 2 | xargs --replace run --port {}\n",
    "the usual mark, in short": "seq 2 | xargs -i run --port {}\n",
    "many words in one run": "seq 60 | xargs run first\n",
    "as many as are followed": "seq 32 | xargs -n2 run\n",
    "no input is one run": "printf '%s' '' | xargs run alone\n",
}


def commands_of(text: str) -> list[Command]:
    read = read_shell(Source(text, "script.sh")).commands
    return [command for command in read if command.words[0].value not in PRINTING]


@pytest.mark.skipif(shutil.which("xargs") is None, reason="needs xargs")
@pytest.mark.parametrize("name", SCRIPTS)
def test_as_xargs_starts_them(name: str, tmp_path: Path) -> None:
    program, record = tmp_path / "run", tmp_path / "record"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "RECORD": str(record)}
    subprocess.run(["bash", "-c", SCRIPTS[name]], env=environment, check=True, timeout=30)
    ran = [one.split("\0")[:-1] for one in record.read_text().split("\1")[:-1]]
    assert [[word.value for word in command.words] for command in commands_of(SCRIPTS[name])] == ran


def test_side_by_side() -> None:
    one, two = commands_of("seq 2 | xargs -P0 -I{} run {}\n")
    assert one.background and two.background
    one, two = commands_of("seq 2 | xargs -I{} run {}\n")
    assert not one.background


def test_what_is_read_from_elsewhere_is_unknown() -> None:
    (command,) = commands_of("cat hosts.txt | xargs -I{} run --host {} --port 1\n")
    assert [isinstance(word.value, Unresolved) for word in command.words] == [False, False, True, False, False]
    (command,) = commands_of("find . | xargs run --x\n")
    assert command.words[-1].many
    (command,) = commands_of("seq 100 | xargs -n1 run --x\n")
    assert command.words[-1].many


def test_more_runs_than_are_followed_are_one_with_any_words() -> None:
    (command,) = commands_of("seq 60 | xargs -n2 run --x\n")
    assert isinstance(command.words[-1].value, Unresolved)
