"""What the reader of command lines says, held against argparse and against the parser that trainers build on it."""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldoctor.formats.shell.arguments import arguments
from rldoctor.formats.shell.reader import read_shell
from rldoctor.formats.source import Source
from rldoctor.formats.values import convert

# Options by what they take; the kinds are those of the vocabulary.
KINDS = {
    "num_generations": "int",
    "max_steps": "int",
    "learning_rate": "float",
    "beta": "float",
    "output_dir": "str",
    "run_name": "str",
    "use_vllm": "bool",
    "bf16": "bool",
    "reward_funcs": "list",
    "lora_target_modules": "list",
}
TRUE, FALSE = ("yes", "true", "t", "y", "1", "True"), ("no", "false", "f", "n", "0", "False")
TEXTS = (
    "a",
    "out/run-1",
    "x=y",
    "0.5",
    "1e-6",
    "3",
    "Qwen/Qwen2.5-0.5B",
    "with space",
    "-1",
    "-0.5",
    "",
    "true",
    "--a text",
    "-",
    "$x",
    "None",
    "'q'",
    "[1,2]",
    "é",
)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-3, 5000).map(str),
    "float": st.sampled_from(("0.5", "1e-6", "1", ".5", "-1", "-0.25", "1E3", "0")),
    "str": st.sampled_from(TEXTS),
    "bool": st.sampled_from(("", *TRUE, *FALSE)),
    "list": st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3),
}


def parser() -> argparse.ArgumentParser:
    """The options as a trainer's command line takes them: a boolean alone or with a word, a list of several words."""
    made = argparse.ArgumentParser(exit_on_error=False, add_help=False)
    for name, kind in KINDS.items():
        spellings = (f"--{name}", f"--{name.replace('_', '-')}")
        if kind == "bool":
            made.add_argument(*dict.fromkeys(spellings), nargs="?", const=True, type=_bool, default=False)
        elif kind == "list":
            made.add_argument(*dict.fromkeys(spellings), nargs="+")
        else:
            made.add_argument(*dict.fromkeys(spellings), type={"int": int, "float": float, "str": str}[kind])
    return made


def _bool(text: str) -> bool:
    if text.lower() in (*TRUE, *FALSE):
        return text.lower() in TRUE
    raise argparse.ArgumentTypeError(text)


@st.composite
def option(draw: st.DrawFn) -> list[str]:
    """One option with its value, in any of the ways to write it."""
    name = draw(st.sampled_from(sorted(KINDS)))
    spelled = "--" + (name.replace("_", "-") if draw(st.booleans()) else name)
    value: str | list[str] = draw(VALUES[KINDS[name]])
    if isinstance(value, list):
        return [f"{spelled}={value[0]}"] if len(value) == 1 and draw(st.booleans()) else [spelled, *value]
    if KINDS[name] == "bool" and value == "":
        return [spelled]
    return [f"{spelled}={value}"] if draw(st.booleans()) else [spelled, value]


def as_read(words: list[str]) -> dict[str, Any]:
    """The options that stand in a script's command, each as the kind that it is."""
    command = read_shell(Source(f"train.py {shlex.join(words)}\n", "run.sh")).commands[-1]
    found = arguments(command.words[1:], "run.sh")
    assert not found.positionals
    given = {native.key: native.value for native in found.natives}
    return {name: _of_kind(value, KINDS[name]) for name, value in given.items()}


def _of_kind(value: Any, kind: str) -> Any:
    # What the entries of a list are, only the option's declaration says.
    return convert(value, kind) if kind != "list" else value if isinstance(value, list) else [value]


def as_parsed(words: list[str]) -> dict[str, Any] | None:
    """The same by argparse; None for what it refuses."""
    given = {word.partition("=")[0].lstrip("-").replace("-", "_") for word in words if word.startswith("--")}
    with contextlib.suppress(argparse.ArgumentError, SystemExit):
        return {name: value for name, value in vars(parser().parse_args(words)).items() if name in given}
    return None


def test_a_text_that_begins_like_an_option_and_holds_a_space_is_a_value() -> None:
    words = ["--system_prompt", "--be brief", "--note=--a b", "--run_name", "r1"]
    command = read_shell(Source(f"train.py {shlex.join(words)}\n", "run.sh")).commands[-1]
    read = {native.key: native.value for native in arguments(command.words[1:], "run.sh").natives}
    assert read == {"system_prompt": "--be brief", "note": "--a b", "run_name": "r1"}


@settings(max_examples=300)
@given(st.lists(option(), min_size=1, max_size=6))
def test_options_are_read_as_argparse_reads_them(options: list[list[str]]) -> None:
    words = [word for one in options for word in one]
    parsed = as_parsed(words)
    if parsed is not None:
        assert as_read(words) == parsed


HF = """
import json, sys
from dataclasses import dataclass, field
from typing import Optional
from transformers import HfArgumentParser
@dataclass
class Config:
    num_generations: int = 8
    max_steps: int = -1
    learning_rate: float = 1e-6
    beta: float = 0.0
    output_dir: Optional[str] = None
    run_name: Optional[str] = None
    use_vllm: bool = False
    bf16: bool = False
    reward_funcs: Optional[list[str]] = None
    lora_target_modules: Optional[list[str]] = None
said = []
for words in json.load(sys.stdin):
    try:
        said.append(vars(HfArgumentParser(Config).parse_args_into_dataclasses(words)[0]))
    except (SystemExit, Exception):
        said.append(None)
json.dump(said, sys.stdout)
"""


@pytest.mark.engine
def test_options_are_read_as_the_parser_of_transformers_reads_them(patient: Path) -> None:
    chance = random.Random(0)
    lines = [list(one_line(chance)) for _ in range(300)]
    done = subprocess.run(
        [patient, "-c", HF], input=json.dumps(lines), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    parsed = json.loads(done.stdout)
    assert sum(one is not None for one in parsed) > 200
    for words, values in zip(lines, parsed, strict=True):
        if values is not None:
            read = as_read(words)
            assert read == {name: values[name] for name in read}, words


def one_line(chance: random.Random) -> list[str]:
    """A command line without what argparse takes for an option of its own."""
    words: list[str] = []
    for name in chance.sample(sorted(KINDS), chance.randint(1, 6)):
        kind, spelled = KINDS[name], f"--{name}"
        if kind == "bool":
            words += [spelled, *chance.choice([[], ["True"], ["false"], ["no"], ["1"]])]
        elif kind == "list":
            words += [spelled, *chance.sample([text for text in TEXTS if text], 2)]
        else:
            value = {"int": "12", "float": "5e-7", "str": chance.choice(TEXTS)}[kind]
            words += chance.choice([[spelled, value], [f"{spelled}={value}"]])
    return words
