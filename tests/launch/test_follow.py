"""Launches followed through the files that they run: scripts, sourced files, schedulers, other shells."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from rldoctor.cli import main
from rldoctor.formats import source
from rldoctor.launch.recognise import read
from rldoctor.plan.model import Note, RolloutPlan

VERL = "python3 -m verl.trainer.main_ppo data.max_prompt_length={length} actor_rollout_ref.rollout.n={n}"


def plan(
    folder: Path, files: Mapping[str, str], arguments: Sequence[str] | None = None, **variables: str
) -> RolloutPlan:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (found,) = read(folder / next(iter(files)), environment=variables, arguments=arguments)
    return found


def test_files_that_source_each_other_are_opened_some_forty_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    real = source.open_source

    def counted(path: Path) -> source.Source:
        opened.append(path)
        return real(path)

    monkeypatch.setattr(source, "open_source", counted)
    everyone = "".join(f"source {number}.sh\n" for number in range(60))
    for number in range(60):
        (tmp_path / f"{number}.sh").write_text(everyone)
    plan(tmp_path, {"run.sh": everyone + VERL.format(length="1", n="8")})
    assert len(opened) <= 50


def test_of_a_file_of_many_launches_the_first_are_read(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text((VERL.format(length="1", n="8") + "\n") * 203)
    found = read(tmp_path / "run.sh")
    assert len(found) == 200
    assert [note.text for note in found[0].notes if note.unread] == [
        "more than 200 launches: this one and those below were not read"
    ]


def test_a_note_that_quotes_a_whole_script_is_cut() -> None:
    assert len(Note(text="x" * 100_000).text) == 600


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


def test_a_command_that_a_here_document_holds_is_known_line_by_line(tmp_path: Path) -> None:
    command = VERL.format(length="$LENGTH", n="8").replace(" data", " \\\n    data") + " trainer.nnodes=$NODES \\\n"
    text = f"LENGTH=2048\nread -r -d '' COMMAND <<EOF\n{command}    data.max_response_length=4096\nEOF\n$COMMAND\n"
    found = plan(tmp_path, {"run.sh": text})
    assert (found.value("lengths.prompt"), found.value("lengths.response")) == (2048, 4096)
    response, nodes = found.get("lengths.response"), found.get("placement.nodes")
    assert response is not None and response.line == 5
    assert nodes is not None and nodes.unknown is not None


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
    (found,) = [finding for finding in findings if "data.max_promt_length" in finding["message"]]
    assert [evidence["line"] for evidence in found["evidence"]] == [None]  # it stands in no file
    with pytest.raises(SystemExit) as ended:
        main(["check", target, target, "--", "x"])
    assert ended.value.code == 2
    assert "goes to one launch script" in capsys.readouterr().err


def test_what_was_given_from_outside_is_changed_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.sh").write_text(
        VERL.format(length="512", n="8") + ' trainer.n_gpus_per_node=8 trainer.nnodes=1 "$@"\n'
    )
    option = "actor_rollout_ref.rollout.tensor_model_parallel_size"
    with pytest.raises(SystemExit):
        main(
            [
                "check",
                str(tmp_path / "run.sh"),
                "--level",
                "static",
                "--fix",
                "--assume",
                "8xH100-80GB",
                "--",
                f"{option}=3",
            ]
        )
    said = capsys.readouterr()
    assert f"    {option}=2" in said.out.splitlines()
    assert "nothing is changed: no finding has a fix for a file that --fix may apply" in said.err
    assert option not in (tmp_path / "run.sh").read_text()


MAKEFILE = """\
N ?= 8
LENGTH := 512
train: data
\tpython3 -m verl.trainer.main_ppo data.max_prompt_length=$(LENGTH) \\
\t  actor_rollout_ref.rollout.n=$(N)
data:
\tpython3 examples/data_preprocess/gsm8k.py
"""


@pytest.mark.parametrize(
    ("start", "length", "n"), [("make train", 512, 8), ("make -C . train LENGTH=64", 64, 8), ("N=2 make", 512, 2)]
)
def test_make_runs_what_its_target_says(start: str, length: int, n: int, tmp_path: Path) -> None:
    found = plan(tmp_path, {"run.sh": start + "\n", "Makefile": MAKEFILE})
    assert (found.value("lengths.prompt"), found.value("batch.generations")) == (length, n)
    setting = found.get("batch.generations")
    assert setting is not None and setting.line in (4, 5) and Path(str(setting.file)).name == "Makefile"


def test_a_makefile_or_justfile_itself(tmp_path: Path) -> None:
    assert plan(tmp_path, {"Makefile": MAKEFILE}, ["train", "N=3"]).value("batch.generations") == 3
    text = 'train n="8":\n    ' + VERL.format(length="512", n="{{n}}") + "\n"
    assert plan(tmp_path, {"justfile": text}, ["train", "5"]).value("batch.generations") == 5
    assert plan(tmp_path, {"run.sh": "just train 6\n", "justfile": text}).value("batch.generations") == 6


@pytest.mark.parametrize(
    "start",
    [
        "subprocess.run([{words}], check=True)",
        "cmd = [{words}]\nsubprocess.check_call(cmd)",
        "cmd = ['python3', '-m']\ncmd += [{rest}]\nsubprocess.Popen(cmd, env={{**os.environ, 'A': '1'}})",
        "cmd = [sys.executable, '-m'] + [{rest}]\nsubprocess.run(args=cmd)",
        "os.system('{text}')",
        "subprocess.run(f'{text}', shell=True)",
        "subprocess.run(shlex.split('{text}'))",
        "function = submitit.helpers.CommandFunction([{words}])",
    ],
)
def test_a_python_program_that_starts_the_launch(start: str, tmp_path: Path) -> None:
    text = VERL.format(length="512", n="4")
    words = [repr(word) for word in text.split()]
    body = start.format(words=", ".join(words), rest=", ".join(words[2:]), text=text)
    found = plan(tmp_path, {"launch.py": f"import os, shlex, subprocess, submitit, sys\n{body}\n"})
    assert (found.value("lengths.prompt"), found.value("batch.generations")) == (512, 4)
    assert found.dialect == "verl"
    files = {"run.sh": "export N=8\npython launch.py\n", "launch.py": (tmp_path / "launch.py").read_text()}
    assert plan(tmp_path, files).value("lengths.prompt") == 512, "behind a shell script"


def test_what_a_python_program_adds_under_a_condition_is_not_known(tmp_path: Path) -> None:
    words = ", ".join(repr(word) for word in VERL.format(length="512", n="4").split())
    text = f"import subprocess\ncmd = [{words}]\nif BIG:\n    cmd.append('data.seed=1')\nsubprocess.run(cmd)\n"
    found = plan(tmp_path, {"launch.py": text})
    assert found.value("lengths.prompt") == 512
    assert any(note.unread for note in found.notes)


def test_what_submitit_asks_the_scheduler_for(tmp_path: Path) -> None:
    words = ", ".join(repr(word) for word in VERL.format(length="512", n="4").split())
    text = "import submitit\nexecutor = submitit.AutoExecutor('logs')\n"
    text += "executor.update_parameters(nodes=2, gpus_per_node=4)\n"
    text += f"executor.submit(submitit.helpers.CommandFunction([{words}]))\n"
    found = plan(tmp_path, {"launch.py": text})
    assert (found.value("scheduler.nodes"), found.value("scheduler.gpus_per_node")) == (2, 4)


POD = """\
apiVersion: v1
kind: ConfigMap
metadata: {{name: scripts}}
data:
  train.sh: |
    export N=16
    {command}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: grpo}}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template: &pod
        spec:
          initContainers: [{{name: data, command: [python, gsm8k.py]}}]
          containers:
          - name: pytorch
            image: verl
            env:
            - {{name: LENGTH, value: "2048"}}
            - name: WANDB_API_KEY
              valueFrom: {{secretKeyRef: {{name: wandb, key: key}}}}
            command: {start}
            volumeMounts: [{{name: scripts, mountPath: /mnt/}}]
            resources: {{limits: {{nvidia.com/gpu: 8}}}}
"""


@pytest.mark.parametrize(
    "start", ["[bash, -c, bash train.sh]", '["/bin/sh", "train.sh"]', "[bash, -c, 'exec bash /mnt/train.sh']"]
)
def test_the_containers_of_a_manifest(start: str, tmp_path: Path) -> None:
    text = POD.format(command=VERL.format(length="$LENGTH", n="$N"), start=start)
    found = plan(tmp_path, {"job.yaml": text})
    assert (found.value("lengths.prompt"), found.value("batch.generations")) == (2048, 16)
    each = found.get("scheduler.gpus_per_node")
    assert each is not None and each.value == 8 and each.line == 28
    setting = found.get("batch.generations")
    assert setting is not None and setting.line == 7


def test_the_entry_point_of_a_ray_job(tmp_path: Path) -> None:
    command = VERL.format(length="512", n="4")
    text = f"""\
apiVersion: ray.io/v1
kind: RayJob
spec:
  entrypoint: {command}
  runtimeEnvYAML: |
    env_vars:
      NCCL_DEBUG: INFO
  rayClusterSpec:
    headGroupSpec:
      template: {{spec: {{containers: [{{name: head, resources: {{limits: {{nvidia.com/gpu: 4}}}}}}]}}}}
    workerGroupSpecs:
    - replicas: 3
      template: {{spec: {{containers: [{{name: worker, resources: {{limits: {{nvidia.com/gpu: 4}}}}}}]}}}}
"""
    found = plan(tmp_path, {"job.yaml": text})
    assert (found.value("lengths.prompt"), found.value("env.NCCL_DEBUG")) == (512, "INFO")
    assert (found.value("scheduler.nodes"), found.value("scheduler.gpus_per_node")) == (4, 4)


def test_a_manifest_that_starts_nothing_of_ours(tmp_path: Path) -> None:
    text = POD.format(command="nginx", start="[nginx, -g, daemon off]")
    (tmp_path / "job.yaml").write_text(text)
    assert read(tmp_path / "job.yaml") == []


@pytest.mark.parametrize(
    "start",
    [
        "docker run --gpus all -v $PWD:/w -w /w img bash inner.sh",
        "singularity exec --nv --bind /data:/data image.sif bash inner.sh",
        "apptainer exec --nv -B /data image.sif bash -c 'bash inner.sh'",
        "docker exec -it trainer bash -lc 'bash inner.sh'",
        "podman run --rm -e A=1 --ipc host img ./inner.sh",
        "enroot start --rw container bash inner.sh",
        "srun --container-image=img --container-mounts=/a:/b bash inner.sh",
    ],
)
def test_a_container_runs_a_script_of_the_folder(start: str, tmp_path: Path) -> None:
    files = {"run.sh": start + "\n", "inner.sh": VERL.format(length="512", n="4") + "\n"}
    assert plan(tmp_path, files).value("batch.generations") == 4


def test_the_runtime_environment_of_a_submitted_job(tmp_path: Path) -> None:
    command = VERL.format(length="512", n="4")
    files = {
        "run.sh": f"ray job submit --runtime-env=env.yaml --no-wait -- {command}\n",
        "env.yaml": "working_dir: ./\nenv_vars:\n  NCCL_DEBUG: WARN\n",
    }
    found = plan(tmp_path, files)
    setting = found.get("env.NCCL_DEBUG")
    assert setting is not None and (setting.value, setting.line) == ("WARN", 3)
    assert Path(str(setting.file)).name == "env.yaml"
    assert found.value("ray.runtime_env") == {"working_dir": "./", "env_vars": {"NCCL_DEBUG": "WARN"}}
    (tmp_path / "env.yaml").unlink()
    (gone,) = read(tmp_path / "run.sh")
    assert any("env.yaml: its file was not found here" in note.text for note in gone.notes)


def test_the_callers_variables_fill_in_and_are_none_of_the_plans(tmp_path: Path) -> None:
    text = "MODEL=${HOME}/models/m\nbash inner.sh\n"
    inner = VERL.format(length="$LENGTH", n="8") + ' actor_rollout_ref.model.path="$MODEL"\n'
    (tmp_path / "run.sh").write_text("export MODEL\n" + text)
    (tmp_path / "inner.sh").write_text(inner)
    caller = {"HOME": "/home/me", "LENGTH": "64", "MY_SECRET_TOKEN": "hunter2hunter2"}
    (found,) = read(tmp_path / "run.sh", caller=caller, environment={"NCCL_DEBUG": "INFO"})
    assert (found.value("model.path"), found.value("lengths.prompt")) == ("/home/me/models/m", 64)
    assert {name for name in found.settings if name.startswith("env.")} == {"env.NCCL_DEBUG", "env.MODEL"}
    assert "hunter2" not in repr(found)


def test_a_path_of_another_clone_is_a_path_of_this_one(tmp_path: Path) -> None:
    files = {
        "slime/examples/run.sh": 'source "/opt/slime/scripts/m.sh"\n' + VERL.format(length="$L", n="8") + "\n",
        "slime/scripts/m.sh": "L=99\n",
    }
    assert plan(tmp_path, files).value("lengths.prompt") == 99


@pytest.mark.parametrize(("before", "unread"), [("", False), ("source gone.sh\n", True)])
def test_an_array_that_no_file_sets_is_nothing_unless_a_file_was_not_read(
    before: str, unread: bool, tmp_path: Path
) -> None:
    text = before + VERL.format(length="512", n="8") + ' "${EXTRA[@]}" ${MORE[@]}\n'
    found = plan(tmp_path, {"run.sh": text})
    assert any(note.unread for note in found.notes) is unread


def test_a_text_for_another_shell_keeps_what_nobody_knows(tmp_path: Path) -> None:
    text = 'srun -N1 bash -c "pip install ray==$RAY && ' + VERL.format(length="512", n="8") + ' $MORE"\n'
    found = plan(tmp_path, {"run.sh": text})
    assert found.value("lengths.prompt") == 512
    assert any("$MORE may hold more options" in note.text for note in found.notes)


@pytest.mark.parametrize("printing", ["echo", "printf '%s\\n'"])
def test_options_that_are_printed_start_nothing(tmp_path: Path, printing: str) -> None:
    options = "data.train_batch_size=64 data.max_prompt_length=512 actor_rollout_ref.rollout.n=4"
    text = f"{printing} {options}\n{printing} {options} | xargs python3 -m verl.trainer.main_ppo\n"
    assert plan(tmp_path, {"run.sh": text}).value("lengths.prompt") == 512
