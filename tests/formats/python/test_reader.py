"""Python by its syntax tree: calls with their keywords, constants, f-strings, parser defaults; nothing is executed."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.errors import InputError
from rldoctor.formats.python.reader import PythonFile, read_python
from rldoctor.formats.source import Source
from rldoctor.formats.values import Unresolved


def python(text: str) -> PythonFile:
    return read_python(Source(text, "train.py"))


def keyword(text: str, name: str = "x") -> object:
    return python(text).calls("Config")[-1].keywords[name]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Config(x=8)", 8),
        ("Config(x=-1)", -1),
        ("Config(x=1024 * 2 + 1)", 2049),
        ("Config(x=7 // 2, y=1)", 3),
        ("N = 4\nConfig(x=N * 2)", 8),
        ("N, M = 4, 5\nConfig(x=M)", 5),
        ("NAME = 'a'\nConfig(x=f'{NAME}-7b')", "a-7b"),
        ("Config(x=['a', 1])", ["a", 1]),
        ("Config(x={'image': 2})", {"image": 2}),
        ("Config(x=dict(image=2))", {"image": 2}),
        ("k = {'x': 3}\nConfig(**k)", 3),
        ("base = dict(x=1)\nk = dict(**base, y=2)\nConfig(**k)", 1),
        ("import os\nConfig(x=os.path.join('a', 'b'))", "a/b"),
        ("import os\nConfig(x=int(os.environ.get('N', '8')))", 8),
        ("Config(x=True if 1 else False)", True),
        ("Config(x=None or 5)", 5),
        ("Config(x=not True)", False),
        ("Config(x=torch.bfloat16)", "torch.bfloat16"),
        ("Config(x='a' 'b')", "ab"),
    ],
)
def test_values_that_the_source_fixes(text: str, value: object) -> None:
    assert keyword(text) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Config(x=load())", "a call, which is not made"),
        ("N = 1\nN = 2\nConfig(x=N)", "N is assigned more than once"),
        ("def f(n):\n    Config(x=n)", "n is an argument or changes"),
        ("for n in (1, 2):\n    Config(x=n)", "n is an argument or changes"),
        ("Config(x=unknown)", "unknown is not set in this file"),
        ("n = n + 1\nConfig(x=n)", "n changes"),
        ("F = [a]\nF.append(b)\nConfig(x=F)", "F changes"),
        ("F = [1, 2]\ndel F[0]\nConfig(x=F)", "F changes"),
        ("F = [1]\nF[1:] = [2]\nConfig(x=F)", "F changes"),
        ("F = [1]\nG = F\nG.extend([2])\nConfig(x=F)", "F changes"),
        ("F = [1]\ndef add(to):\n    to.insert(0, 2)\nadd(F)\nConfig(x=F)", "F changes"),
        ("Config(x=10 ** 400)", "a number beyond settings"),
        ("Config(x=1 / 0)", "division by zero"),
        ("Config(x='a' * 10 ** 9)", "an expression that is not constant"),
        ("Config(x=[i for i in range(9)])", "an expression that is not constant"),
        ("Config(x=" + "-" * 60 + "1)", "nested too deeply"),
    ],
)
def test_values_that_only_running_would_tell(text: str, why: str) -> None:
    found = keyword(text)
    assert isinstance(found, Unresolved)
    assert found.why == why


def test_calls_are_found_by_the_end_of_their_name_with_lines() -> None:
    text = "import unsloth\nm = unsloth.FastLanguageModel.from_pretrained(\n    'm',\n    max_seq_length=2048,\n)\n"
    (call,) = python(text).calls("FastLanguageModel.from_pretrained")
    assert call.positionals == ["m"]
    assert call.keywords.lines == {"max_seq_length": 4}
    assert python(text).imports_from("unsloth")
    assert not python(text).calls("pretrained")


def test_the_command_line_fills_what_the_scripts_own_parser_would() -> None:
    from rldoctor.formats.shell.arguments import arguments
    from rldoctor.formats.shell.reader import read_shell

    text = (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--max-len', type=int, default=2048)\n"
        "p.add_argument('-n', '--num', default=1)\np.add_argument('--eager', action='store_true')\n"
        "args = p.parse_args()\nConfig(x=args.max_len, n=args.num, e=args.eager)\n"
    )
    words = read_shell(Source("x --num 4", "run.sh")).commands[0].words[1:]
    assert dict(python(text).calls("Config")[0].keywords) == {"x": 2048, "n": 1, "e": False}
    assert dict(python(text).calls("Config", arguments(words, "run.sh"))[0].keywords) == {"x": 2048, "n": 4, "e": False}


def test_fields_of_a_dataclass_are_defaults_of_what_is_parsed_from_them() -> None:
    text = (
        "@dataclass\nclass Args:\n    length: int = field(default=512, metadata={})\n    n: int = 8\n"
        "args, training = HfArgumentParser((Args, T)).parse_args_into_dataclasses()\n"
        "Config(x=args.length + args.n)\n"
    )
    assert keyword(text) == 520


def test_environment_variables_that_a_script_sets() -> None:
    text = (
        "import os\nos.environ['A'] = '1'\nos.environ.setdefault('B', '2')\nos.environ.update({'C': '3'})\n"
        "os.environ['D'] = str(4)\nos.environ[name] = '5'\nos.environ.update(E='6')\n"
    )
    assert {n.key: (n.value, n.line) for n in python(text).variables()} == {
        "A": ("1", 2),
        "B": ("2", 3),
        "C": ("3", 4),
        "D": ("4", 5),
        "E": ("6", 7),
    }


@pytest.mark.parametrize("sets", ["os.environ[key] = value", "os.environ.setdefault(key, os.environ[value])"])
def test_a_variable_that_a_loop_over_names_sets_is_not_known(sets: str) -> None:
    text = f"import os\nfor key, value in (('RANK', '0'), ('LOCAL_RANK', '1')):\n    {sets}\n"
    found = {n.key: n.value for n in python(text).variables()}
    assert set(found) == {"RANK", "LOCAL_RANK"}
    assert all(isinstance(value, Unresolved) for value in found.values())
    assert not [*python("import os\nfor name in ('A1', 'B2'):\n    print(os.environ[name])\n").variables()]


def test_a_variable_that_is_set_under_a_condition_is_not_known() -> None:
    text = "import os\nif version == 'v0':\n    os.environ['A'] = '0'\nelse:\n    os.environ['B'] = '1'\n"
    found = {n.key: n.value for n in python(text).variables()}
    assert isinstance(found["A"], Unresolved) and isinstance(found["B"], Unresolved)
    assert "line 2" in found["A"].why
    (main,) = python("if __name__ == '__main__':\n    os.environ['A'] = '0'\n").variables()
    assert main.value == "0"


def test_the_main_guard_is_seen() -> None:
    assert python("if __name__ == '__main__':\n    main()").main_guard
    assert not python("main()").main_guard


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = (", "train.py:2: not valid Python"),
        ("def f(:\n  pass", "train.py:1: not valid Python"),
        ("x = " + "(" * 5000, "train.py"),
        ("x = " + "-" * 100_000 + "1", "train.py: nested too deeply"),
        ("x = 1" + " + 1" * 200_000, "train.py: nested too deeply"),
    ],
    ids=lambda value: value[:16],
)
def test_what_is_no_python_is_an_error_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        python(text)
    assert str(raised.value).startswith(message)


def test_nothing_of_the_script_is_executed(tmp_path: Path) -> None:
    target = tmp_path / "touched"
    python(f"import pathlib\npathlib.Path({str(target)!r}).touch()\nConfig(x=open({str(target)!r}, 'w'))")
    assert not target.exists()
