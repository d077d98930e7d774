"""justfiles: recipes with their parameters, dependencies and variables (https://just.systems/man)."""

from __future__ import annotations

import pytest

from rldoctor.formats.just.reader import read_just
from rldoctor.formats.source import Source

TRAIN = """\
model := "Qwen/Qwen3-4B"
export VLLM_USE_V1 := '1'

default: (train "grpo" "2")

# trains
train algorithm gpus="8" *more: prepare
    @python -m trainer --algorithm {{algorithm}} \\
      --model {{ model }} --gpus {{gpus}} {{more}}
    echo {{ env_var_or_default("NODE", "a") }}

[private]
prepare:
    mkdir -p out

script n:
    #!/usr/bin/env bash
    set -e
    N={{n}}
    run $N
"""


def commands(*words: str) -> list[str]:
    return [source.text for source in read_just(Source(TRAIN, "justfile")).commands(words)]


def test_a_recipe_runs_what_it_needs_first() -> None:
    assert commands("train", "ppo", "4", "--lr", "1") == [
        "mkdir -p out",
        "python -m trainer --algorithm ppo \\\n  --model Qwen/Qwen3-4B --gpus 4 --lr 1",
        "echo ${NODE:-a}",
    ]


def test_the_first_recipe_is_the_default_and_gives_arguments_to_others() -> None:
    assert commands()[1].splitlines()[0] == "python -m trainer --algorithm grpo \\"
    assert "--gpus 2" in commands()[1]


def test_a_default_of_a_parameter_and_a_variable_of_the_command_line() -> None:
    assert "--model x --gpus 8" in commands("model=x", "train", "ppo")[1]


def test_a_recipe_with_an_interpreter_is_one_script() -> None:
    (text,) = commands("script", "3")
    assert text == "#!/usr/bin/env bash\nset -e\nN=3\nrun $N"


def test_exports_and_places() -> None:
    just = read_just(Source(TRAIN, "justfile"))
    assert just.environment() == {"VLLM_USE_V1": "1"}
    assert [source.first_line for source in just.commands(["train", "a"])] == [14, 8, 10]


@pytest.mark.parametrize("value", ["`nproc`", 'arch() + "x"', "num_cpus()"])
def test_what_just_computes_is_an_output_nobody_knows(value: str) -> None:
    just = read_just(Source(f"n := {value}\nrun:\n    run {{{{n}}}}\n", "justfile"))
    assert [source.text for source in just.commands(["run"])] == ["run $(just)"]
