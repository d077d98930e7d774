"""Launches followed through the files that they run: scripts, sourced files, schedulers, other shells."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from rldoctor.cli import main
from rldoctor.launch.recognise import read
from rldoctor.plan.model import RolloutPlan

VERL = "python3 -m verl.trainer.main_ppo data.max_prompt_length={length} actor_rollout_ref.rollout.n={n}"


def plan(
    folder: Path, files: Mapping[str, str], arguments: Sequence[str] | None = None, **variables: str
) -> RolloutPlan:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (found,) = read(folder / next(iter(files)), environment=variables, arguments=arguments)
    return found


def test_a_sourced_file_gives_its_variables_and_their_place(tmp_path: Path) -> None:
    files = {
        "run.sh": 'source "$(dirname "$0")/common.sh"\n' + VERL.format(length="$LENGTH", n="8") + " $MORE\n",
        "common.sh": 'LENGTH=2048\nMORE="\n  data.max_response_length=4096 data.seed=1"\n',
    }
    found = plan(tmp_path, files)
    assert (found.value("lengths.prompt"), found.value("lengths.response")) == (2048, 4096)
    response = found.get("lengths.response")
    assert response is not None and response.file is not None
    assert (Path(response.file).name, response.line) == ("common.sh", 3)


@pytest.mark.parametrize(
    "start",
    [
        "bash inner.sh 4096",
        "exec ./inner.sh 4096",
        "srun --nodes=2 bash inner.sh 4096",
        "sbatch --nodes=2 inner.sh 4096",
        "ray job submit --address http://head:8265 -- bash inner.sh 4096",
        "docker run --rm --gpus all -e A=1 image:tag bash inner.sh 4096",
        "nohup bash -x inner.sh 4096 > log 2>&1 &",
        "sh -c 'bash inner.sh 4096'",
        "bash inner.sh $(echo 4096)",
        'go() { bash inner.sh "$@"; }\ngo 4096',
    ],
)
def test_a_script_that_another_starts_is_read_with_its_arguments(start: str, tmp_path: Path) -> None:
    files = {"run.sh": f"export N=16\n{start}\n", "inner.sh": VERL.format(length="$1", n="${N:-8}") + "\n"}
    found = plan(tmp_path, files)
    assert (found.value("lengths.prompt"), found.value("batch.generations")) == (4096, 16)
    assert Path(found.file).name == "inner.sh"


def test_the_arguments_of_the_target_reach_its_commands(tmp_path: Path) -> None:
    files = {"run.sh": VERL.format(length="512", n="8") + ' "$@"\n'}
    assert plan(tmp_path, files, ["actor_rollout_ref.rollout.n=4"]).value("batch.generations") == 4


def test_a_scheduler_sets_what_its_directives_ask_for(tmp_path: Path) -> None:
    text = "#!/bin/bash\n#SBATCH --gres=gpu:4\n#SBATCH --nodes=2\n"
    text += VERL.format(length="512", n="${SLURM_GPUS_ON_NODE:-2}") + " trainer.nnodes=$SLURM_NNODES\n"
    found = plan(tmp_path, {"run.sh": text})
    assert (found.value("batch.generations"), found.value("placement.nodes")) == (4, 2)


@pytest.mark.parametrize(
    "guard",
    [
        '[ -z "$MODEL_PATH" ] && exit 1',
        'if [ -z "$MODEL_PATH" ]; then\n  echo "set MODEL_PATH"\n  exit 1\nfi',
        "[[ -n $MODEL_PATH ]] || { echo missing; exit 2; }",
    ],
)
def test_a_variable_that_the_script_demands_is_named_and_the_rest_is_read(guard: str, tmp_path: Path) -> None:
    text = guard + "\n" + VERL.format(length="512", n="8") + " actor_rollout_ref.model.path=$MODEL_PATH\n"
    found = plan(tmp_path, {"run.sh": text})
    assert found.value("lengths.prompt") == 512
    assert found.value("model.path") is None
    assert any("MODEL_PATH must be set when the script is started" in note.text for note in found.notes)
    assert plan(tmp_path, {"run.sh": text}, MODEL_PATH="org/m").value("model.path") == "org/m"


def test_a_variable_that_is_emptied_and_then_demanded_is_named(tmp_path: Path) -> None:
    guard = 'MODEL=${MODEL:-}\nif [ -z "${MODEL}" ]; then\n  exit 1\nfi\n'
    text = guard + VERL.format(length="512", n="8") + " actor_rollout_ref.model.path=$MODEL\n"
    found = plan(tmp_path, {"run.sh": text})
    assert (found.value("lengths.prompt"), found.value("model.path")) == (512, None)
    assert any("MODEL must be set" in note.text for note in found.notes)
    assert plan(tmp_path, {"run.sh": text}, MODEL="org/m").value("model.path") == "org/m"


def test_what_the_script_empties_itself_is_empty(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text('M=""\n[ -z "$M" ] && exit 1\n' + VERL.format(length="512", n="8") + "\n")
    assert read(tmp_path / "run.sh") == []


@pytest.mark.parametrize(
    "folder",
    [
        'HERE="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" &>/dev/null && pwd)"',
        'HERE=$(dirname "$(readlink -f -- "$0")")',
        'HERE="$( cd "$( dirname "$0" )" && pwd )"',
    ],
)
def test_the_folder_of_the_script_itself(folder: str, tmp_path: Path) -> None:
    files = {
        "scripts/run.sh": folder + '\nsource "${HERE}/models/m.sh"\n' + VERL.format(length="$L", n="8") + "\n",
        "scripts/models/m.sh": "L=777\n",
    }
    assert plan(tmp_path, files).value("lengths.prompt") == 777


def test_a_dotenv_file_exports_what_it_sets(tmp_path: Path) -> None:
    files = {
        "run.sh": "set -a; source .env; set +a\nbash inner.sh\n",
        ".env": 'N=4\nVLLM_USE_V1="0"\n',
        "inner.sh": VERL.format(length="512", n="$N") + "\n",
    }
    found = plan(tmp_path, files)
    assert (found.value("batch.generations"), found.value("env.VLLM_USE_V1")) == (4, "0")


def test_a_script_that_is_not_here_is_named(tmp_path: Path) -> None:
    files = {"run.sh": "bash absent.sh\nsource gone.sh\n" + VERL.format(length="512", n="8") + "\n"}
    notes = [note.text for note in plan(tmp_path, files).notes]
    assert "absent.sh: another script, not found here" in notes
    assert "source gone.sh: not followed" in notes


def test_scripts_that_start_each_other_end(tmp_path: Path) -> None:
    files = {
        "run.sh": "bash other.sh\n" + VERL.format(length="512", n="8") + "\n",
        "other.sh": "bash run.sh\nbash other.sh\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert 1 <= len(read(tmp_path / "run.sh")) <= 10


def test_what_stands_behind_two_dashes_is_given_to_the_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.sh").write_text(VERL.format(length="512", n="8") + ' "$@"\n')
    target = str(tmp_path / "run.sh")
    assumed = ["--level", "static", "--format", "json", "--assume", "verl==0.6.0", "--assume", "vllm==0.11.0"]
    with pytest.raises(SystemExit):
        main(["check", target, *assumed, "--", "data.max_promt_length=64"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert any("data.max_promt_length" in finding["message"] for finding in findings)
    with pytest.raises(SystemExit) as ended:
        main(["check", target, target, "--", "x"])
    assert ended.value.code == 2
    assert "goes to one launch script" in capsys.readouterr().err
