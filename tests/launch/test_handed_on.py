"""Launches that a shell hands on: as input of another shell, to another machine, to a terminal, a container, a pod."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.errors import InputError
from rldoctor.launch.recognise import read

RUN = "python3 -m verl.trainer.main_ppo data.train_batch_size=77"
OF_B = "python3 -m verl.trainer.main_ppo data.train_batch_size=$B"

HANDED = {
    "bash reads a here-document": f"bash <<'EOF'\n{RUN}\nEOF\n",
    "bash -s with arguments": "bash -s -- 77 <<'EOF'\npython3 -m verl.trainer.main_ppo data.train_batch_size=$1\nEOF\n",
    "ssh reads a here-document": f"ssh -p 22 node1 <<EOF\n{RUN}\nEOF\n",
    "ssh with a command": f"ssh -o StrictHostKeyChecking=no user@node1 'cd /x && {RUN}'\n",
    "pdsh": f'pdsh -w node[1-2] "{RUN}"\n',
    "a pod": f'kubectl exec -it pod -n ns -c head -- bash -lc "{RUN}"\n',
    "a pod without a shell": f"kubectl exec pod -- {RUN}\n",
    "a variable that is piped": f'JOB="{RUN}"\necho "$JOB" | bash\n',
    "a document that is piped": f"cat <<EOF | kubectl exec -i pod -- bash\n{RUN}\nEOF\n",
    "a document in a variable, piped through a filter": (
        f"JOB=$(cat <<EOF\nset -ex\n{RUN}\nEOF\n)\n"
        "echo \"$JOB\" | tr -d '\\r' | kubectl exec -i $POD -c head -- /bin/bash\n"
    ),
    "a script that is piped": "cat other.sh | ssh host\n",
    "a script as input": "bash < other.sh\n",
    "printf": f"printf '%s\\n' '{RUN}' | sh\n",
    "docker compose exec": f'docker compose -f x.yml exec -T trainer bash -c "{RUN}"\n',
    "docker-compose run": f"docker-compose run --rm trainer {RUN}\n",
    "docker with a file of variables": f"docker run --gpus all --env-file variables img bash -c '{OF_B}'\n",
    "enroot": f"enroot start --rw img {RUN}\n",
    "a session of tmux": f'tmux new-session -d -s run "{RUN}"\n',
    "keys sent to tmux": f'tmux send-keys -t run "{RUN}" Enter\n',
    "screen": f'screen -dmS run bash -c "{RUN}"\n',
    "another user": f'su - user -c "{RUN}"\n',
    "script": f'script -q -c "{RUN}" log\n',
    "gcloud": f'gcloud compute ssh x --command="{RUN}"\n',
    "a lock": f"flock -w 5 /tmp/lock {RUN}\n",
    "a lock with a text": f'flock /tmp/lock -c "{RUN}"\n',
    "a profiler": f"py-spy record -o out.svg -- {RUN}\n",
    "a virtual display": f"xvfb-run -a {RUN}\n",
    "dotenv": "dotenv -f variables run -- bash of_b.sh\n",
}
EXPORTED = {
    "cat and xargs": "export $(cat variables | xargs)\n",
    "without comments": "export $(grep -v '^#' variables | xargs)\n",
    "without comments and empty lines": "export $(grep -Ev '^(#|$)' variables | xargs -d '\\n')\n",
    "comments cut": "export $(sed 's/#.*//g' variables | xargs)\n",
    "xargs alone": "export $(xargs < variables)\n",
    "all that is set": "set -a; source variables; set +a\n",
    "allexport": "set -o allexport\n. ./variables\nset +o allexport\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "other.sh").write_text(RUN + "\n")
    (tmp_path / "of_b.sh").write_text(OF_B + "\n")
    (tmp_path / "variables").write_text("# what a run needs\nA=1\n\nB=77\n")
    return tmp_path


def batch(folder: Path, text: str) -> object:
    (folder / "run.sh").write_text(text)
    (found,) = read(folder / "run.sh", version_of={"verl": "0.6.1"})
    return found.value("batch.prompts")


@pytest.mark.parametrize("text", HANDED.values(), ids=HANDED)
def test_the_launch_is_followed_to_where_it_is_read(folder: Path, text: str) -> None:
    assert batch(folder, text) == 77


@pytest.mark.parametrize("text", EXPORTED.values(), ids=EXPORTED)
def test_a_file_of_variables_is_exported(folder: Path, text: str) -> None:
    assert batch(folder, f"{text}{OF_B}\n") == 77
    assert batch(folder, f"{text}bash of_b.sh\n") == 77


def test_variables_of_a_file_for_one_command_alone(folder: Path) -> None:
    text = "env $(grep -v '^#' variables | xargs) bash of_b.sh\n"
    assert batch(folder, text) == 77
    (folder / "run.sh").write_text(text + OF_B + "\n")
    inner, outer = read(folder / "run.sh", version_of={"verl": "0.6.1"})
    assert (inner.value("batch.prompts"), outer.value("batch.prompts")) == (77, None)


@pytest.mark.parametrize(
    "text",
    [
        f"curl -s https://example.com/run.sh | bash\n{RUN}\n",
        f"echo hello | tee log\n{RUN}\n",
        f"kubectl get pods -- x\n{RUN}\n",
        f"tmux send-keys -t run 'rm -rf x'\n{RUN}\n",
        f"ssh host\n{RUN}\n",
        f"date | wc -l\n{RUN}\n",
    ],
)
def test_what_nobody_can_read_starts_nothing(folder: Path, text: str) -> None:
    assert batch(folder, text) == 77


def test_a_filter_that_is_not_known_leaves_its_output_unknown(folder: Path) -> None:
    (folder / "run.sh").write_text(f"export $(awk '!/#/' variables | xargs)\n{OF_B}\n")
    (found,) = read(folder / "run.sh", version_of={"verl": "0.6.1"})
    assert found.value("batch.prompts") is None


def test_the_place_of_a_piped_text_is_where_it_is_written(folder: Path) -> None:
    (folder / "run.sh").write_text(f"JOB=$(cat <<'EOF'\nset -e\n{RUN}\nEOF\n)\necho \"$JOB\" | bash\n")
    (found,) = read(folder / "run.sh", version_of={"verl": "0.6.1"})
    prompts = found.get("batch.prompts")
    assert prompts is not None
    assert prompts.line == 3


def test_a_file_in_a_container_is_the_one_of_this_clone(tmp_path: Path) -> None:
    (tmp_path / "clone" / "scripts").mkdir(parents=True)
    (tmp_path / "clone" / "scripts" / "train.sh").write_text(RUN + "\n")
    (tmp_path / "clone" / "scripts" / "run.sh").write_text('bash "${ROOT:-/workspace/project}/scripts/train.sh"\n')
    (found,) = read(tmp_path / "clone" / "scripts" / "run.sh", version_of={"verl": "0.6.1"})
    assert found.value("batch.prompts") == 77
    # The name of the file alone is not enough.
    (tmp_path / "clone" / "scripts" / "run.sh").write_text("bash /opt/other/train.sh\n")
    with pytest.raises(InputError, match=r"/opt/other/train\.sh: another script, not found here"):
        read(tmp_path / "clone" / "scripts" / "run.sh", version_of={"verl": "0.6.1"})


def test_a_variable_that_is_handed_on_without_its_value_is_not_the_inner_scripts_default(tmp_path: Path) -> None:
    (tmp_path / "inner.sh").write_text(
        "TP=${TP:-2}\nBATCH=${BATCH:-64}\npython3 -m verl.trainer.main_ppo data.train_batch_size=$BATCH "
        "actor_rollout_ref.rollout.tensor_model_parallel_size=$TP\n"
    )
    outer = tmp_path / "run.sh"
    outer.write_text("export TP=$(python3 ranks.py)\nBATCH=$(python3 batch.py)\nbash inner.sh\n")
    plan = read(outer)[0]
    assert (ranks := plan.get("engine.tensor_parallel_size")) is not None
    assert ranks.value is None
    assert (prompts := plan.get("batch.prompts")) is not None
    assert prompts.value == 64  # not exported: the inner script never sees it


FOLDERS = {
    "source behind cd": f"cd sub\nsource vars.sh\n{OF_B}\n",
    "source behind cd to the script's folder": f'cd "$(dirname "$0")/sub"\n. ./vars.sh\n{OF_B}\n',
    "bash behind cd": "cd sub\nbash go.sh\n",
    "bash behind cd and &&": "cd -- sub && bash go.sh\n",
    "a subshell comes back": f"(cd sub && true)\nsource outer.sh\n{OF_B}\n",
    "pushd and popd": f"pushd sub\nsource vars.sh\npopd\nsource more.sh\n{OF_B}\n",
    "cd into a folder that the clone's root has": f"cd elsewhere\nsource outer.sh\n{OF_B}\n",
    "pwd is remembered": f"cd sub\nHERE=$(pwd)\ncd ..\nsource $HERE/vars.sh\n{OF_B}\n",
    "PWD is remembered": f"cd sub\nHERE=$PWD\ncd ..\nsource $HERE/vars.sh\n{OF_B}\n",
}


@pytest.mark.parametrize("text", FOLDERS.values(), ids=FOLDERS)
def test_files_are_named_from_the_folder_that_a_script_is_in(tmp_path: Path, text: str) -> None:
    (tmp_path / "sub").mkdir()
    for name, content in {
        "sub/vars.sh": "B=77\n", "vars.sh": "B=9\n", "outer.sh": "B=77\n", "more.sh": "C=1\n", "sub/go.sh": f"{RUN}\n",
        "go.sh": "python3 -m verl.trainer.main_ppo data.train_batch_size=9\n", "sub/more.sh": "B=9\n", "run.sh": text,
    }.items():  # fmt: skip
        (tmp_path / name).write_text(content)
    assert batch(tmp_path, text) == 77


@pytest.mark.parametrize(
    ("started", "prompts"),
    [
        ("bash inner.sh $(python3 x.py) 5", None),
        ('bash inner.sh "$(python3 x.py)" 5', None),
        ('bash inner.sh 77 "$(python3 x.py)"', 77),
        ("bash inner.sh 77 $(python3 x.py)", 77),
        ("bash inner.sh", 9),
    ],
)
def test_an_argument_that_is_not_known_is_not_the_inner_scripts_default(
    tmp_path: Path, started: str, prompts: int | None
) -> None:
    (tmp_path / "inner.sh").write_text("python3 -m verl.trainer.main_ppo data.train_batch_size=${1:-9}\n")
    (tmp_path / "run.sh").write_text(f"{started}\n")
    assert read(tmp_path / "run.sh", version_of={"verl": "0.6.1"})[0].value("batch.prompts") == prompts
