"""Which launches a file holds, whose they are, and files that hold none or cannot be read."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rldoctor.errors import InputError
from rldoctor.launch.recognise import read
from rldoctor.plan.model import Source

VERL = "python3 -m verl.trainer.main_ppo data.max_prompt_length=512 actor_rollout_ref.rollout.n=8\n"
SERVE = "vllm serve org/model --max-model-len 4096 --port 8000 &\n"


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_the_framework_is_recognised_by_what_is_started(tmp_path: Path) -> None:
    assert [p.framework for p in read(write(tmp_path, "a.sh", VERL))] == ["verl"]
    assert [p.framework for p in read(write(tmp_path, "b.sh", SERVE))] == ["vLLM"]
    python = "from vllm import LLM\nllm = LLM('m', seed=1)\n"
    assert [p.framework for p in read(write(tmp_path, "c.py", python))] == ["vLLM"]
    config = "actor_rollout_ref:\n  rollout:\n    n: 4\n"
    assert [p.framework for p in read(write(tmp_path, "d.yaml", config))] == ["verl"]


def test_a_fork_keeps_its_parents_dialect(tmp_path: Path) -> None:
    text = "python3 -m mylab.rl.main_grpo actor_rollout_ref.rollout.n=8 data.train_batch_size=64\n"
    (plan,) = read(write(tmp_path, "a.sh", text))
    assert (plan.framework, plan.value("batch.generations")) == ("verl", 8)


def test_every_launch_of_a_script_is_a_plan_of_its_own(tmp_path: Path) -> None:
    text = "#!/bin/bash\nmkdir -p out\npython prepare.py --all\n" + SERVE + VERL + VERL.replace("512", "1024")
    plans = read(write(tmp_path, "run.sh", text))
    assert [(p.framework, p.line, p.value("lengths.prompt")) for p in plans] == [
        ("vLLM", 4, None),
        ("verl", 5, 512),
        ("verl", 6, 1024),
    ]


def test_the_rest_of_a_command_is_no_launch_of_its_own(tmp_path: Path) -> None:
    text = (
        "set -x\n"
        + VERL.rstrip()
        + " \\\n  # more\n  +trainer.x.y=1 trainer.nnodes=2 \\\n  # and more\n  trainer.z=3\n"
    )
    (plan,) = read(write(tmp_path, "run.sh", text))
    assert [(option.key, option.line) for option in plan.unknown] == [("+trainer.x.y", 4), ("trainer.z", 6)]
    assert plan.value("placement.nodes") is None


def test_a_command_of_its_own_below_a_launch_is_left_alone(tmp_path: Path) -> None:
    (plan,) = read(write(tmp_path, "run.sh", VERL + "# done\necho --finished a.b=c\n"))
    assert plan.unknown == ()


def test_a_named_framework_wins_and_an_unknown_one_is_an_error(tmp_path: Path) -> None:
    file = write(tmp_path, "mine.yaml", "actor_rollout_ref: {rollout: {n: 2}}\nvllm: {max_model_len: 9}\n")
    assert [p.framework for p in read(file, framework="Generic")] == ["generic"]
    with pytest.raises(InputError, match=r"nobody: no such framework; known are .*verl"):
        read(file, framework="nobody")


def test_an_unknown_framework_still_yields_its_engine_launcher_and_environment(tmp_path: Path) -> None:
    text = (
        "export NCCL_DEBUG=INFO\nCUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 mine.py \\\n"
        "  --vllm_gpu_memory_utilization 0.5 --max-model-len 4096 --learning_rate 1e-6 --seed 3\n"
    )
    (plan,) = read(write(tmp_path, "run.sh", text))
    assert plan.framework == "generic"
    assert plan.value("engine.gpu_memory_utilization") == 0.5
    assert plan.value("engine.max_model_len") == 4096
    assert plan.value("engine.seed") is None
    assert plan.value("process.total") == 2
    assert plan.value("placement.trainer_devices") == [0, 1]
    assert plan.value("env.NCCL_DEBUG") == "INFO"


def test_an_unknown_frameworks_config_is_read_where_it_speaks_of_an_engine(tmp_path: Path) -> None:
    yaml = "model: {path: m, seed: 3}\nseed: 7\nvllm:\n  seed: ${seed}\n  max_model_len: 4096\nactor: {dtype: bf16}\n"
    (plan,) = read(write(tmp_path, "a.yaml", yaml))
    assert {n: s.value for n, s in plan.settings.items()} == {"engine.seed": 7, "engine.max_model_len": 4096}
    toml = "[inference.vllm]\nmax_model_len = 2048\n\n[trainer]\nlr = 1e-6\n"
    (plan,) = read(write(tmp_path, "b.toml", toml))
    setting = plan.get("engine.max_model_len")
    assert setting is not None
    assert (setting.value, setting.line) == (2048, 2)


def test_the_shell_text_of_a_job_description_is_read(tmp_path: Path) -> None:
    (plan,) = read(write(tmp_path, "sky.yaml", "num_nodes: 1\nrun: |\n  set -x\n  " + VERL))
    setting = plan.get("batch.generations")
    assert setting is not None
    assert (setting.value, setting.line) == (8, 4)


def test_the_environment_of_the_starting_shell_has_no_line(tmp_path: Path) -> None:
    (plan,) = read(write(tmp_path, "run.sh", "export A=1\n" + VERL), environment={"http_proxy": "http://p:1"})
    inherited, own = plan.get("env.http_proxy"), plan.get("env.A")
    assert inherited is not None
    assert own is not None
    assert (inherited.value, inherited.source, inherited.file, inherited.line) == (
        "http://p:1",
        Source.ENVIRONMENT,
        None,
        None,
    )
    assert own.line == 1


def test_a_script_that_starts_nothing_of_ours_has_no_plan(tmp_path: Path) -> None:
    assert read(write(tmp_path, "a.sh", "echo hello\npip install x\n")) == []
    assert read(write(tmp_path, "b.yaml", "name: ci\non: [push]\n")) == []


def test_an_option_given_twice_is_noted_and_the_last_one_counts(tmp_path: Path) -> None:
    text = VERL.rstrip() + " \\\n  actor_rollout_ref.rollout.n=4\n"
    (plan,) = read(write(tmp_path, "run.sh", text))
    assert plan.value("batch.generations") == 4
    assert [(n.line, n.text) for n in plan.notes] == [
        (2, "actor_rollout_ref.rollout.n is given twice (line 1 too); the last one counts")
    ]


def test_an_impossible_value_is_noted_with_its_line_and_leaves_the_setting_unknown(tmp_path: Path) -> None:
    (plan,) = read(write(tmp_path, "run.sh", "vllm serve m \\\n  --max-model-len many\n"))
    setting = plan.get("engine.max_model_len")
    assert setting is not None
    assert setting.value is None
    assert setting.unknown == "--max-model-len: 'many' is not a whole number"
    assert [(n.line, n.text) for n in plan.notes] == [(2, "--max-model-len: 'many' is not a whole number")]


@pytest.mark.parametrize("size", ["0", "-1"])
def test_an_engine_has_at_least_one_rank(size: str, tmp_path: Path) -> None:
    (tmp_path / "serve.sh").write_text(f"vllm serve m --tensor-parallel-size {size} --data-parallel-size-local 0\n")
    (plan,) = read(tmp_path / "serve.sh")
    setting = plan.settings["engine.tensor_parallel_size"]
    assert (setting.value, setting.unknown) == (None, f"--tensor-parallel-size: '{size}' is less than 1")
    assert plan.value("engine.data_parallel_size_local") == 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.sh", b"\x7fELF\x00\x01", "a.sh:1: a binary file, not a launch file"),
        ("a.sh", b"x=1\ny=\xff\xfe\n", "a.sh:2: not UTF-8 text (byte 0xff)"),
        ("a.yaml", b"a: 1\n" * 10_000_000, "a.yaml: 48 MiB is too large for a launch file (at most 2 MiB)"),
        ("a.sh", b"python 'x\n", "a.sh:1: the quote ' is never closed"),
        ("a.py", b"x = (\n", "a.py:1: not valid Python"),
        ("a.yaml", b"a: 'x\n", "a.yaml:2: not valid YAML"),
        ("a.toml", b"b = 1\na = \n", "a.toml:2: not valid TOML: Invalid value (column 5)"),
        ("a.toml", b"b = 1\na = [1,\n", "a.toml:2: not valid TOML"),
    ],
    ids=["binary", "encoding", "huge", "quote", "python", "yaml", "toml", "toml-end"],
)
def test_unreadable_files_are_one_clear_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    start = time.monotonic()
    with pytest.raises(InputError) as raised:
        read(tmp_path / name)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert time.monotonic() - start < 5


def test_what_is_no_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "nothing.sh")
    with pytest.raises(InputError, match="a folder, not a launch file"):
        read(tmp_path)


def test_a_broken_file_that_is_only_named_is_a_note(tmp_path: Path) -> None:
    write(tmp_path, "acc.yaml", "a: [")
    write(tmp_path, "train.py", "def f(:\n")
    text = "accelerate launch --config_file acc.yaml train.py --vllm_max_model_len 9\n"
    (plan,) = read(write(tmp_path, "run.sh", text), framework="generic")
    texts = [note.text for note in plan.notes]
    assert any("acc.yaml:1: not valid YAML" in text for text in texts)
    assert any("train.py:1: not valid Python" in text for text in texts)
    assert plan.value("engine.max_model_len") == 9


def test_a_server_joins_the_trainer_that_uses_it(tmp_path: Path) -> None:
    text = (
        "CUDA_VISIBLE_DEVICES=0 trl vllm-serve --model m --max_model_len 4096 --port {port} &\n"
        "CUDA_VISIBLE_DEVICES=1 trl grpo --use_vllm --vllm_mode server --vllm_server_port 8001\n"
    )
    (plan,) = read(write(tmp_path, "one.sh", text.format(port=8001)))
    assert plan.server is not None
    setting = plan.settings["engine.max_model_len"]
    assert (setting.value, setting.line) == (4096, 1)
    assert plan.value("placement.engine_devices") == [0]
    assert plan.value("placement.trainer_devices") == [1]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("trl grpo --help\n", r"a\.sh:1: trl grpo prints its help"),
        ("kubectl apply -f job.yaml\n", r"a\.sh:1: job\.yaml: a manifest, not found here"),
        (f'if [ -n "$TRAIN" ]; then\n  {VERL}fi\n', r"a\.sh:1: TRAIN decides .* TRAIN=VALUE rldoctor check"),
        (f'cd /\n[ "$MODE" = train ] && {VERL}', r"a\.sh:2: MODE decides .* MODE=VALUE rldoctor check"),
    ],
    ids=["help", "manifest", "if", "and"],
)
def test_a_script_that_starts_nothing_says_why(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=why):
        read(write(tmp_path, "a.sh", text))


def test_a_variable_that_starts_nothing_is_not_asked_for(tmp_path: Path) -> None:
    assert read(write(tmp_path, "a.sh", '[ -n "$DEBUG" ] && set -x\nmkdir -p out\n')) == []


def test_the_variable_that_decides_is_taken_from_the_caller(tmp_path: Path) -> None:
    path = write(tmp_path, "a.sh", f'if [ -n "$TRAIN" ]; then\n  {VERL}fi\n')
    assert [plan.framework for plan in read(path, caller={"TRAIN": "1"})] == ["verl"]


@pytest.mark.parametrize("before", ["", "-n rl ", "--context=prod --namespace rl ", "--insecure-skip-tls-verify "])
def test_a_manifest_that_a_script_applies_is_followed(before: str, tmp_path: Path) -> None:
    manifest = f"""apiVersion: batch/v1
kind: Job
spec:
  template:
    spec:
      containers:
      - command: [bash, -c, "{VERL.strip()}"]
"""
    write(tmp_path, "job.yaml", manifest)
    (plan,) = read(write(tmp_path, "a.sh", f"kubectl {before}apply -n rl -f job.yaml\n"))
    assert (plan.framework, plan.file) == ("verl", str(tmp_path / "job.yaml"))
    assert read(write(tmp_path, "a.sh", f"kubectl {before}delete -f job.yaml\n")) == []


def test_a_manifest_that_cannot_be_read_leaves_the_other_launches(tmp_path: Path) -> None:
    write(tmp_path, "job.yaml", "apiVersion: batch/v1\nkind: Job\nspec: {{ .Values.spec }}\n")
    (plan,) = read(write(tmp_path, "a.sh", f"kubectl apply -f job.yaml\n{VERL}"))
    assert any("job.yaml:3" in note.text for note in plan.notes)


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("a.sh", "mkdir -p out\nswift sft --model org/model\n", r"a\.sh:2: swift sft is ms-swift's"),
        (
            "a.sh",
            "python -m openrlhf.cli.serve_rm --bf16\n",
            r"a\.sh:1: openrlhf\.cli\.serve_rm is OpenRLHF's",
        ),
        ("a.sh", "python3 -m verl.trainer.main_eval data.path=x\n", r"a\.sh:1: verl\.trainer\.main_eval is verl's"),
        ("a.py", "from trl import DPOConfig, DPOTrainer\nDPOTrainer('m').train()\n", r"a\.py:1: a\.py is TRL's"),
        ("a.yaml", "base_model: org/model\ndatasets: []\n", r"a\.yaml:1: the configuration is axolotl's"),
    ],
    ids=["command", "module", "fork's parent", "script", "configuration"],
)
def test_a_training_without_rollouts_is_called_by_its_name(name: str, text: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{what}, and none of its launches with a rollout engine"):
        read(write(tmp_path, name, text))
