"""Notebooks: cells in their order, Python and shell apart, on the lines of the file; and the launches they hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rldoctor.errors import InputError
from rldoctor.formats.notebook.reader import MAX_CELLS, Notebook, read_notebook
from rldoctor.formats.source import Source
from rldoctor.launch.recognise import read
from rldoctor.model import Evidence
from rldoctor.plan.evidence import cite, in_cells


def notebook(*cells: str, indent: int | None = 1) -> str:
    """The text of a notebook with these code cells, a heading before them, as Jupyter writes it."""
    listed: list[dict[str, Any]] = [{"cell_type": "markdown", "metadata": {}, "source": ["# GRPO\n", "`!rm -rf /`"]}]
    listed += [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": text.splitlines(True)}
        for text in cells
    ]
    return json.dumps({"cells": listed, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=indent)


def parsed(*cells: str) -> Notebook:
    return read_notebook(Source(notebook(*cells), "train.ipynb"))


def test_python_and_shell_keep_the_lines_of_the_file() -> None:
    text = notebook("import os\nx = 'é'\n", "!pip install trl\ny = 2\n", "%%bash\necho $HOME\nrun --a 1")
    found = read_notebook(Source(text, "train.ipynb"))
    rows = text.splitlines()
    for line, wanted in (
        (found.python.text, "y = 2"),
        (found.shell.text, "pip install trl"),
        (found.shell.text, "run --a 1"),
    ):
        number = line.split("\n").index(wanted)
        assert wanted in rows[number]
    assert list(found.cells) == [2, 3, 4]


def test_magics_are_shell_or_nothing() -> None:
    found = parsed(
        "%matplotlib inline\n%env WANDB_MODE=offline\n%env A 'b c'\n",
        "for i in range(3):\n    !run --seed {i} --json '{\"a\": 1}' \\\n        --more\nout = !ls\n",
        "%%capture\nimport trl\n",
        "%%javascript\nalert(1)\n",
        "%%writefile train.py\nprint(1)\n",
    )
    shell = [row for row in found.shell.text.split("\n") if row]
    assert shell == [
        "export WANDB_MODE='offline'",
        "export A='b c'",
        "run --seed ${i} --json '{\"a\": 1}' \\",
        "--more",
    ]
    assert "import trl" in found.python.text
    assert "alert" not in found.python.text + found.shell.text
    assert found.files["train.py"].text == "print(1)"


def test_a_cell_that_is_no_python_is_named_and_the_others_are_read() -> None:
    found = parsed("x = 1\n", "model = ...<your model>\n", "y = 2\n")
    assert [note.text for note in found.notes] == ["cell 3 is no Python that can be read"]
    assert "x = 1" in found.python.text and "y = 2" in found.python.text


def test_a_notebook_on_one_line_is_read_too() -> None:
    found = read_notebook(Source(notebook("a = 1\n", "b = 2\n", indent=None), "train.ipynb"))
    assert found.python.text == "a = 1\nb = 2"


@pytest.mark.parametrize("text", ["{", "[]", '{"cells": 3}', "import os", "[" * 100_000])
def test_what_is_no_notebook_is_one_line(text: str) -> None:
    with pytest.raises(InputError, match=r"train.ipynb: not a notebook"):
        read_notebook(Source(text, "train.ipynb"))


def test_a_notebook_with_too_many_cells_is_told_so() -> None:
    text = json.dumps({"cells": [{"cell_type": "markdown", "source": "x"}] * (MAX_CELLS + 1)})
    with pytest.raises(InputError, match="it has more than 2,000 cells"):
        read_notebook(Source(text, "train.ipynb"))


def test_the_launch_of_a_notebook_is_found_on_its_line(tmp_path: Path) -> None:
    text = notebook(
        "!pip install unsloth vllm\n",
        "from unsloth import FastLanguageModel\nmax_seq_length = 2048\n",
        "model, tokenizer = FastLanguageModel.from_pretrained(\n    'org/Model', max_seq_length=max_seq_length,\n"
        "    fast_inference=True, gpu_memory_utilization=0.6)\n",
        "from trl import GRPOConfig, GRPOTrainer\nargs = GRPOConfig(num_generations=6, max_prompt_length=256)\n",
    )
    (tmp_path / "grpo.ipynb").write_text(text)
    (plan,) = read(tmp_path / "grpo.ipynb")
    assert plan.framework == "unsloth"
    generations = plan.get("batch.generations")
    assert generations is not None and generations.line is not None
    assert generations.value == 6
    assert "num_generations=6" in text.splitlines()[generations.line - 1]
    assert plan.value("lengths.prompt") == 256
    told = in_cells(plan, (*cite(plan, "batch.generations", "engine.max_model_len"), Evidence(text="elsewhere")))
    # The heading is a cell, too.
    assert [one.text.rpartition(" (")[2] for one in told] == ["cell 5)", "cell 4)", "elsewhere"]


def test_a_command_of_a_notebook_is_a_launch(tmp_path: Path) -> None:
    text = notebook("%env CUDA_VISIBLE_DEVICES=0,1\n", "!vllm serve org/model --max-model-len 4096\n")
    (tmp_path / "serve.ipynb").write_text(text)
    (plan,) = read(tmp_path / "serve.ipynb")
    assert (plan.framework, plan.value("engine.max_model_len")) == ("vLLM", 4096)
    assert plan.value("env.CUDA_VISIBLE_DEVICES") == "0,1"
