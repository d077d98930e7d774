"""What really runs under the launchers, and the processes, nodes and variables that they give it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.formats.shell.reader import read_shell
from rldoctor.formats.source import Files, Source
from rldoctor.launch.launchers.program import Program
from rldoctor.launch.launchers.unwrap import unwrap
from rldoctor.launch.recognise import read


def program(text: str, base: Path = Path("/nowhere")) -> Program:
    found = unwrap(read_shell(Source(text, "run.sh")).commands[-1].words, "run.sh", Files(base))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "entry", "words"),
    [
        ("python train.py --a 1", "train.py", ["--a", "1"]),
        ("python3 -u -m verl.trainer.main_ppo a=1", "verl.trainer.main_ppo", ["a=1"]),
        ("/opt/venv/bin/python3.11 -X dev x.py", "x.py", []),
        ("vllm serve m --port 1", "vllm serve", ["m", "--port", "1"]),
        ("swift rlhf --x", "swift rlhf", ["--x"]),
        ("trl vllm-serve --model m", "trl vllm-serve", ["--model", "m"]),
        ("nohup env -u A B=1 python x.py", "x.py", []),
        ("torchrun --nproc_per_node=8 --standalone x.py --y", "x.py", ["--y"]),
        ("torchrun --nproc-per-node 8 -m pkg.mod --y", "pkg.mod", ["--y"]),
        ("torchrun $ARGS ${HERE}/x.py --y", "${HERE}/x.py", ["--y"]),
        ("python -m torch.distributed.run --nnodes 2 x.py", "x.py", []),
        ("accelerate launch --num_processes 8 src/x.py --config c.yaml", "src/x.py", ["--config", "c.yaml"]),
        ("accelerate launch --multi_gpu -m pkg.mod", "pkg.mod", []),
        ("deepspeed --num_gpus 4 --module openrlhf.cli.train_ppo --z 3", "openrlhf.cli.train_ppo", ["--z", "3"]),
        ("ray job submit --address http://h:1 --no-wait -- python3 -m a.b --c", "a.b", ["--c"]),
        ("srun --nodes=2 -n 2 python x.py", "x.py", []),
        ("srun --nodes 2 -l --cpus-per-task 8 python x.py", "x.py", []),
        ("uv run --extra vllm --isolated -m skyrl_train.main a=1", "skyrl_train.main", ["a=1"]),
        ("uv run --extra vllm python -m a.b", "a.b", []),
        ("conda run -n env python x.py", "x.py", []),
        ("timeout 60 python x.py", "x.py", []),
        ("docker run --gpus all -e A=1 --rm image:tag vllm serve m", "vllm serve", ["m"]),
        ('"${LAUNCH[@]}" -m verl.trainer.main_ppo a=1', "verl.trainer.main_ppo", ["a=1"]),
        ("torchrun $DISTRIBUTED_ARGS x.py --y", "x.py", ["--y"]),
    ],
)
def test_the_program_behind_its_launchers(text: str, entry: str, words: list[str]) -> None:
    found = program(text)
    assert found.entry == entry
    assert [word.text for word in found.words] == words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torchrun --nproc_per_node=8 --nnodes 2 --master_port 29501 x.py",
         {"process.nproc": 8, "process.nnodes": 2, "process.master_port": 29501, "process.launcher": "torchrun"}),
        ("torchrun --nproc_per_node gpu x.py", {"process.nproc": None, "process.launcher": "torchrun"}),
        ("accelerate launch --num_processes 6 --mixed_precision bf16 x.py",
         {"process.total": 6, "trainer.dtype": "bfloat16", "process.launcher": "accelerate"}),
        ("deepspeed --include localhost:0,1 x.py",
         {"process.devices": "localhost:0,1", "process.launcher": "deepspeed", "trainer.strategy": "deepspeed"}),
        ("srun --nodes=4 python x.py",
         {"scheduler.step_nodes": 4, "scheduler.step": "whole", "process.launcher": "srun"}),
        ("ray start --head --num-gpus 8", {"ray.started": True, "ray.num_gpus": 8, "ray.head_port": 6379}),
        ("ray start --head --port=6380", {"ray.started": True, "ray.head_port": 6380}),
        ("ray start --head --port=$PORT", {"ray.started": True}),
        ("ray start --address 10.0.0.4:6380",
         {"ray.started": True, "ray.address": "10.0.0.4:6380", "ray.joined_port": 6380}),
        ('ray start --address="$HEAD:6380"', {"ray.started": True, "ray.address": None, "ray.joined_port": 6380}),
        ("ray start --address auto", {"ray.started": True, "ray.address": "auto"}),
    ],
)  # fmt: skip
def test_what_a_launcher_settles(text: str, expected: dict[str, object]) -> None:
    settled = {name: setting.value for name, setting in program(text).process.items() if name != "ray.ports"}
    assert settled == expected


def test_the_ports_of_a_node_of_ray() -> None:
    head = program("ray start --head --num-cpus 8 --metrics-export-port 20001 --max-worker-port=$LAST")
    ports = {"gcs": 6379, "dashboard": 8265, "dashboard_agent_http": 52365, "metrics_export": 20001}
    (node,) = head.process["ray.ports"].value
    assert node == {"cores": 8, "ports": {part: [port, port] for part, port in ports.items()}}


def test_rays_runtime_environment_sets_variables() -> None:
    found = program("""ray job submit --runtime-env-json='{"env_vars": {"A": "1"}}' -- python -m a.b""")
    assert (found.variables["A"].value, found.variables["A"].path) == ("1", ("env_vars", "A"))


def test_accelerates_config_file_counts_and_the_command_line_wins(tmp_path: Path) -> None:
    (tmp_path / "z3.yaml").write_text(
        "deepspeed_config:\n  zero_stage: 3\n  offload_optimizer_device: cpu\n  offload_param_device: none\n"
        "distributed_type: DEEPSPEED\nmixed_precision: 'no'\nnum_machines: 2\nnum_processes: 16\ngpu_ids: all\n"
    )
    found = program("accelerate launch --config_file z3.yaml --mixed_precision=bf16 x.py", tmp_path).process
    assert {name: setting.value for name, setting in found.items()} == {
        "trainer.zero_stage": 3,
        "trainer.offload_optimizer": True,
        "trainer.offload_params": False,
        "trainer.strategy": "deepspeed",
        "trainer.dtype": "bfloat16",
        "process.nnodes": 2,
        "process.total": 16,
        "process.launcher": "accelerate",
    }
    stage = found["trainer.zero_stage"]
    assert (Path(stage.file or "").name, stage.line, stage.key) == ("z3.yaml", 2, "deepspeed_config.zero_stage")


def test_a_config_file_that_the_script_writes_itself_is_read(tmp_path: Path) -> None:
    run = tmp_path / "run.sh"
    run.write_text("N=4\ncat > acc.yaml <<EOF\nnum_processes: $N\nEOF\naccelerate launch --config_file acc.yaml x.py\n")
    (plan,) = read(run)
    setting = plan.get("process.total")
    assert setting is not None
    assert (setting.value, setting.file, setting.line) == (4, str(run), 3)


def test_a_command_inside_quotes_is_read_with_the_variables_around_it(tmp_path: Path) -> None:
    run = tmp_path / "run.sh"
    run.write_text("export CUDA_VISIBLE_DEVICES=2,3\nnohup bash -c 'vllm serve m --port 81' &\n")
    (plan,) = read(run)
    assert plan.value("placement.engine_devices") == [2, 3]
    assert plan.value("placement.listen_port") == 81
    assert plan.value("process.background") is True
