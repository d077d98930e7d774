"""What the names of a Python file stand for: parsers' options, fields of classes, parameters, dictionaries."""

from __future__ import annotations

import pytest

from rldoctor.formats.python.reader import read_python
from rldoctor.formats.source import Source
from rldoctor.formats.values import Unresolved

PARSER = (
    "def parse():\n    p = argparse.ArgumentParser()\n    p.add_argument('--n', default=4)\n    return p.parse_args()\n"
)


def keyword(text: str) -> object:
    return read_python(Source(text, "train.py")).calls("Config")[-1].keywords.get("x")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (PARSER + "def main(cfg):\n    Config(x=cfg.n)\nmain(parse())", 4),
        (
            PARSER
            + "def main(args):\n    train(args)\ndef train(args):\n    Config(x=args.n)\nargs = parse()\nmain(args)",
            4,
        ),
        ("class C:\n    n = 8\nConfig(x=C.n)", 8),
        ("class C:\n    n: int = 8\nc = C(n=2)\nConfig(x=c.n)", 2),
        ("class C:\n    n: int = 8\nc = tyro.cli(C)\nConfig(x=c.n)", 8),
        ("class A:\n    n: int = 1\na = HfArgumentParser(A).parse_args_into_dataclasses()[0]\nConfig(x=a.n)", 1),
        ("D = {'a': {'b': 3}}\nConfig(x=D['a']['b'])", 3),
        ("D = {'b': 3}\nConfig(x=D.get('b', 4))", 3),
        ("D = {}\nD['x'] = 4\nConfig(**D)", 4),
        ("D = {}\nm = 'a'\nif m == 'a':\n    D['x'] = 4\nelse:\n    D['x'] = 5\nConfig(**D)", 4),
        ("D = {}\nm = 'a'\nif m == 'b':\n    D['x'] = 4\nConfig(**D)", None),
        ("@click.command()\n@click.option('--n', default=5)\ndef main(n):\n    Config(x=n)\nmain()", 5),
        ("def main(n: int = 6):\n    Config(x=n)\ntyper.run(main)", 6),
        ("@app.command()\ndef main(n: int = typer.Option(7, help='')):\n    Config(x=n)", 7),
        ("def train(batch, n=2):\n    Config(x=batch * n)\ntrain(4)", 8),
    ],
)
def test_a_name_stands_for_what_the_file_gives_it(text: str, value: object) -> None:
    assert keyword(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "def train(n=2):\n    Config(x=n)\ntrain(4)\ntrain(5)",
        "def train(n=2):\n    Config(x=n)\npool.map(train, many)",
        "def train(n=2):\n    Config(x=n)\ntrain(**given)",
        "p.add_argument('--n', default=4)\na = p.parse_args()\na.n = 5\nConfig(x=a.n)",
        "p.add_argument('--n', default=4)\np.set_defaults(n=5)\na = p.parse_args()\nConfig(x=a.n)",
        "class A:\n    n: int = 1\nclass B:\n    n: int = 2\na, b = P((A, B)).parse_args()\nConfig(x=b.n)",
        "class C:\n    n: int = 8\nc = C()\nsetattr(c, name, 3)\nConfig(x=c.n)",
        "D = {'x': 3}\nD['x'] = 4\nConfig(x=D['x'])",
        "D = {'x': 3}\nD.update(more)\nConfig(x=D['x'])",
        "D = {'b': 3}\nConfig(x=D.get('c', 4))",
        "D = {}\nif torch.cuda.is_available():\n    D['x'] = 4\nConfig(**D)",
        "D = {}\nfor k in many:\n    D['x'] = k\nConfig(**D)",
        "D = {'x': 1}\ntry:\n    D['x'] = 2\nexcept E:\n    pass\nConfig(**D)",
    ],
)
def test_what_may_be_another_value_is_unknown(text: str) -> None:
    assert isinstance(keyword(text), Unresolved)
