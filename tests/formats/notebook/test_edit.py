"""Edits of notebooks: the Python of a cell on its own lines of the file, everything else as it was."""

from __future__ import annotations

import json

import pytest

from rldoctor.formats.notebook.edit import rewrite_notebook
from rldoctor.formats.write import CannotEdit, Write
from rldoctor.plan.model import Form

CELLS = [
    ["%%capture\n", "!pip install unsloth vllm"],
    ["from trl import GRPOConfig\n", "args = GRPOConfig(\n", "    num_generations=3,  # é\n", "    beta=0.0,\n", ")"],
    ["%env VLLM_USE_V1=0\n", "!accelerate launch train.py --lr 1e-6"],
]


def notebook(cells: list[list[str]] = CELLS, indent: int | None = 1) -> str:
    made = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": lines} for lines in cells]
    return json.dumps({"cells": made, "nbformat": 4}, indent=indent, ensure_ascii=False)


def line_of(text: str, part: str) -> int:
    return next(number for number, row in enumerate(text.splitlines(), 1) if part in row)


def edited(text: str, key: str, value: str, part: str, form: Form = Form.KEYWORD, group: str = "") -> str:
    write = Write(form=form, file="run.ipynb", line=line_of(text, part), key=key, value=value, group=group)
    return rewrite_notebook(text, write)


def test_a_keyword_is_set_where_it_stands() -> None:
    text = notebook()
    new = edited(text, "num_generations", "8", "num_generations")
    assert new == text.replace("num_generations=3", "num_generations=8")
    assert edited(new, "num_generations", "8", "num_generations") == new


def test_a_new_keyword_gets_a_line_of_its_own() -> None:
    new = edited(notebook(), "bf16", "True", "GRPOConfig(", group="GRPOConfig")
    lines = json.loads(new)["cells"][1]["source"]
    assert lines == [*CELLS[1][:4], "    bf16=True,\n", ")"]


def test_the_last_line_of_a_cell_keeps_its_form() -> None:
    new = edited(notebook([["config(a=1)"]]), "a", "2", "config")
    assert json.loads(new)["cells"][0]["source"] == ["config(a=2)"]


def test_a_variable_of_the_environment_opens_the_first_cell_of_python() -> None:
    new = edited(notebook([["import trl\n", "trl.train()"]]), "NCCL_DEBUG", "INFO", "import", Form.VARIABLE)
    assert json.loads(new)["cells"][0]["source"][:3] == [
        "import os\n",
        "\n",
        'os.environ["NCCL_DEBUG"] = "INFO"\n',
    ]


def test_what_does_not_stand_line_by_line_or_is_a_command_is_left_alone() -> None:
    with pytest.raises(CannotEdit, match="line of its own"):
        edited(notebook(indent=None), "num_generations", "8", "num_generations", group="GRPOConfig")
    with pytest.raises(CannotEdit, match="command"):
        edited(notebook(), "--lr", "1e-5", "accelerate", Form.OPTION)
    with pytest.raises(CannotEdit, match="%env"):
        edited(notebook(), "VLLM_USE_V1", "1", "VLLM_USE_V1", Form.VARIABLE)
