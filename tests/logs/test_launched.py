"""The launch that a log shows is judged as a launch file would be, and its risks never cover what happened."""

from __future__ import annotations

import json
from pathlib import Path
from pprint import pformat
from typing import Any

import pytest
from typer.testing import CliRunner

from rldoctor.case import Case
from rldoctor.cli import app
from rldoctor.logs.launched import launched
from rldoctor.logs.reading import read
from rldoctor.logs.runs import slices
from rldoctor.logs.sources import TextSource
from rldoctor.logs.table import Table
from rldoctor.logs.triage import triage_text
from rldoctor.model import Finding, Grade, Outcome, Severity
from rldoctor.plan.model import RolloutPlan

VERL = {
    "actor_rollout_ref": {
        "actor": {"strategy": "fsdp", "ppo_mini_batch_size": 256, "ppo_micro_batch_size_per_gpu": 8},
        "model": {"path": "/models/Qwen2-7B-Instruct", "external_lib": None},
        "rollout": {
            "name": "vllm",
            "tensor_model_parallel_size": 3,
            "data_parallel_size": 1,
            "pipeline_model_parallel_size": 1,
            "n": 8,
            "gpu_memory_utilization": 0.6,
        },
    },
    "algorithm": {"adv_estimator": "grpo"},
    "data": {"train_batch_size": 1024, "max_prompt_length": 512, "max_response_length": 1024},
    "trainer": {"n_gpus_per_node": 8, "nnodes": 1},
}
ENGINE = (
    "(EngineCore_DP0 pid=91) INFO 11-02 10:00:11 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: "
    "model='/models/Qwen2-7B-Instruct', speculative_config=None, dtype=torch.bfloat16, max_seq_len={length}, "
    "load_format=auto, tensor_parallel_size=2, quantization=None, observability_config=Observability(a='x, y'), "
    "seed={seed}, served_model_name=/models/Qwen2-7B-Instruct, chunked_prefill_enabled=True, use_async=False\n"
)
STEPS = "".join(
    f"(TaskRunner pid=17) step:{n} - actor/entropy:0.33 - actor/grad_norm:0.2 - critic/score/mean:0.{n}\n"
    for n in range(1, 9)
)
RAISED = """\
Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/ray/util/thing.py", line 12, in bar
    x = frobnicate(y)
ValueError: the frobnicator has 3 knobs
"""


def behind_ray(text: str) -> str:
    return "".join(f"\x1b[36m(TaskRunner pid=17)\x1b[0m {line}\n" for line in text.split("\n"))


def plan_of(text: str, framework: str | None = None) -> RolloutPlan:
    record = read(TextSource("run.log", text.encode()), Table([]))
    plan = launched([slices(record)[-1]], Case(), framework)
    assert plan is not None
    return plan


def values(plan: RolloutPlan, *names: str) -> list[Any]:
    return [plan.value(name) for name in names]


def risk(text: str, code: str = "RLD209") -> Finding:
    return next(finding for finding in triage_text(text).findings if finding.code == code)


def test_a_configuration_that_verl_prints_through_ray() -> None:
    plan = plan_of("TaskRunner hostname: gpu-1\n" + behind_ray(pformat(VERL)))
    assert (plan.framework, plan.line) == ("verl", 2)
    assert values(plan, "engine.tensor_parallel_size", "batch.generations", "lengths.prompt") == [3, 8, 512]
    setting = plan.settings["engine.tensor_parallel_size"]
    line = ("TaskRunner hostname: gpu-1\n" + pformat(VERL)).split("\n")[(setting.line or 0) - 1]
    assert (setting.file, setting.key) == ("run.log", "actor_rollout_ref.rollout.tensor_model_parallel_size")
    assert "'tensor_model_parallel_size': 3" in line


def test_a_configuration_with_other_processes_between_its_lines() -> None:
    lines = behind_ray(pformat(VERL)).splitlines(keepends=True)
    text = "".join(line + "(WorkerDict pid=99) Flash Attention 2.0 only supports {torch.float16\n" for line in lines)
    assert values(plan_of(text), "engine.tensor_parallel_size", "batch.generations") == [3, 8]


@pytest.mark.parametrize(
    "line",
    [
        "+ python3 -m verl.trainer.main_ppo {}",
        "+++ python -u -m verl.trainer.main_ppo {}",
        "2025-11-02T10:00:01Z + ray job submit --address=http://10.0.0.1:8265 -- python3 -m verl.trainer.main_ppo {}",
    ],
)
def test_a_command_that_the_shell_traced(line: str) -> None:
    plan = plan_of(line.format("actor_rollout_ref.rollout.n=5 'data.train_files=[a.parquet]'") + "\n")
    assert (plan.framework, plan.value("batch.generations")) == ("verl", 5)


def test_a_variable_that_the_shell_exported() -> None:
    plan = plan_of(
        "+ export 'PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True'\n"
        "+ export VLLM_USE_V1=1\n"
        "+ python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.n=5\n"
    )
    assert plan.settings["env.VLLM_USE_V1"].line == 2
    assert plan.value("env.VLLM_USE_V1") == "1"


def test_the_overrides_that_hydra_prints_when_a_job_fails() -> None:
    plan = plan_of(
        "Error executing job with overrides: ['data.train_files=/home/x/a b.parquet', 'trainer.logger=[console]', "
        "'actor_rollout_ref.rollout.gpu_memory_utilization=0.4']\n" + RAISED
    )
    assert (plan.framework, plan.value("engine.gpu_memory_utilization")) == ("verl", 0.4)


def test_a_command_that_ms_swift_shows() -> None:
    plan = plan_of(
        "run sh: `/usr/bin/python -m torch.distributed.run --nproc_per_node 2 /opt/ms-swift/swift/cli/rlhf.py "
        "--rlhf_type grpo --model /models/Qwen2 --use_vllm true --vllm_mode colocate --num_generations 8`\n"
    )
    assert plan.framework == "ms-swift"
    assert values(plan, "process.nproc", "batch.generations", "placement.mode") == [2, 8, "colocate"]


def test_arguments_that_ms_swift_prints() -> None:
    plan = plan_of(
        "[INFO:swift] args: RLHFArguments(\n_n_gpu=-1,\nmodel=/models/Qwen2,\nrlhf_type=grpo,\nnum_generations=4,\n"
        "use_vllm=True,\nvllm_mode=colocate,\nvllm_gpu_memory_utilization=0.5,\n)\n[INFO:swift] Global seed set to 42\n"
    )
    assert (plan.framework, plan.value("batch.generations")) == ("ms-swift", 4)
    assert plan.settings["engine.gpu_memory_utilization"].line == 8


def test_a_configuration_that_easyr1_prints_as_json() -> None:
    shown = {
        "data": {"train_files": "a.parquet", "rollout_batch_size": 512, "max_prompt_length": 2048},
        "worker": {"actor": {"global_batch_size": 128}, "rollout": {"n": 5, "tensor_parallel_size": 2}},
        "trainer": {"n_gpus_per_node": 8, "nnodes": 1},
    }
    plan = plan_of("".join(f"(Runner pid=4) {line}\n" for line in json.dumps(shown, indent=2).split("\n")))
    assert plan.framework == "EasyR1"
    assert values(plan, "batch.generations", "engine.tensor_parallel_size") == [5, 2]


@pytest.mark.parametrize("name", ["config", "cfg"])
def test_a_configuration_that_axolotl_prints_from_the_next_line_on(name: str) -> None:
    shown = {
        "adapter": "lora",
        "axolotl_config_path": "grpo.yml",
        "base_model": "/models/Qwen2",
        "rl": "grpo",
        "trl": {"use_vllm": True, "vllm_mode": "colocate", "num_generations": 6},
        "vllm": {"tensor_parallel_size": 2},
    }
    place = "[2025-06-12 12:01:02,345] [INFO] [axolotl.cli.config.load_cfg:245] [PID:4911] [RANK:0]"
    plan = plan_of(f"{place} {name}:\n{json.dumps(shown, indent=2, sort_keys=True)}\n{place} loading model\n")
    assert (plan.framework, plan.line) == ("axolotl", 2)
    assert values(plan, "batch.generations", "engine.tensor_parallel_size", "lora.enabled") == [6, 2, True]
    assert plan.settings["engine.tensor_parallel_size"].line == 13


SKYRL = """\
2025-10-21 17:30:01.123 | INFO     | skyrl_train.entrypoints.main_base:_setup_trainer:376 - data:
  train_data:
  - /data/gsm8k/train.parquet
  val_data: null
generator:
  inference_engine_tensor_parallel_size: 4
  n_samples_per_prompt: 6
trainer:
  placement:
    colocate_all: true
  train_batch_size: 64
2025-10-21 17:30:05.123 | INFO     | skyrl_train.trainer:train:237 - Started: 'step'
"""


@pytest.mark.parametrize("process", ["", "(skyrl_entrypoint pid=4) "])
def test_a_configuration_that_skyrl_prints_in_yaml(process: str) -> None:
    plan = plan_of("".join(f"{process}{line}\n" for line in SKYRL.splitlines()))
    assert (plan.framework, plan.line) == ("SkyRL", 1)
    assert values(plan, "engine.tensor_parallel_size", "batch.generations", "batch.prompts") == [4, 6, 64]
    assert plan.settings["batch.generations"].line == 7


ROLL = """\
exp_name: qwen2.5-7B-rlvr-config
seed: 42
num_gpus_per_node: 8
rollout_batch_size: 64
num_return_sequences_in_group: 6
pretrain: /models/Qwen2-7B-Instruct
actor_train:
  strategy_args:
    strategy_name: megatron_train
  device_mapping: list(range(0,8))
actor_infer:
  strategy_args:
    strategy_name: vllm
    strategy_config:
      tensor_parallel_size: 3
  device_mapping: list(range(0,8))
rewards:
  math_rule:
    tag_included:
    - gsm8k
[2026-03-02 10:00:05] [rlvr_pipeline.py (120)] [INFO] start
"""


def test_a_configuration_that_roll_prints_in_yaml_from_a_plain_value_on() -> None:
    plan = plan_of(ROLL)
    assert (plan.framework, plan.line) == ("ROLL", 1)
    assert values(plan, "batch.prompts", "batch.generations", "engine.tensor_parallel_size") == [64, 6, 3]
    assert plan.settings["engine.tensor_parallel_size"].line == 15


AGENTS = """\
[2026-03-02 10:00:01] [initialize.py (80)] [INFO] ray started

====== Pipeline Config ======
------ merged & post-init ------
generate_opt_level: 1
exp_name: agentic_pipeline
rollout_batch_size: 128
pretrain: /models/Qwen2-0.5B-Instruct
actor_infer:
  strategy_args:
    strategy_name: vllm
    strategy_config:
      tensor_parallel_size: 2
custom_envs:
  SimpleSokoban:
    env_type: sokoban
====== End Config ======

[2026-03-02 10:00:05] [agentic_pipeline.py (120)] [INFO] start
"""


def test_a_configuration_that_rolls_agents_print_begins_behind_its_title() -> None:
    plan = plan_of(AGENTS)
    assert (plan.framework, plan.line, plan.entry) == ("ROLL", 5, "examples/start_agentic_pipeline.py")
    assert values(plan, "batch.prompts", "engine.tensor_parallel_size") == [128, 2]
    assert plan.settings["engine.tensor_parallel_size"].line == 13


def megatrons(**arguments: object) -> str:
    """Arguments as Megatron-LM prints them (0.9 to 0.16), between lines of the driver."""
    rows = (f"  {name} {'.' * (48 - len(name))} {value}\n" for name, value in arguments.items())
    head, end = f"{'-' * 24} arguments {'-' * 24}\n", f"{'-' * 20} end of arguments {'-' * 21}\n"
    return "using world size: 8\n" + head + "".join(sorted(rows, key=str.lower)) + end + "Creating placement group\n"


SLIME = {
    "actor_num_gpus_per_node": 8,
    "colocate": True,
    "eval_prompt_data": ["aime", "/data/aime.jsonl"],
    "hf_checkpoint": "/models/Qwen3-4B",
    "load": None,
    "n_samples_per_prompt": 6,
    "rollout_batch_size": 32,
    "rollout_num_gpus_per_engine": 2,
    "Zeta_of_a_name_longer_than_the_forty_eight_columns": 1,
}


@pytest.mark.parametrize("process", ["", "(train pid=4) "])
def test_the_arguments_that_slimes_megatron_prints_in_a_table(process: str) -> None:
    plan = plan_of("".join(f"{process}{line}\n" for line in megatrons(**SLIME).splitlines()))
    assert (plan.framework, plan.line) == ("slime", 2)
    assert values(plan, "batch.prompts", "batch.generations", "engine.tensor_parallel_size") == [32, 6, 2]
    assert plan.settings["batch.generations"].line == 8
    assert plan.settings["placement.mode"].value == "colocate"


def test_which_of_slimes_scripts_ran_a_table_does_not_say() -> None:
    plan = plan_of(megatrons(**SLIME | {"colocate": False}))
    assert "rollout.async" not in plan.settings or plan.settings["rollout.async"].value is None


def test_arguments_of_another_program_on_megatron_are_no_launch_of_slime() -> None:
    shown = read(TextSource("run.log", megatrons(micro_batch_size=1, seed=1234).encode()), Table([]))
    assert launched([slices(shown)[-1]], Case(), None) is None


AREAL = (
    "(AReaL) 20251231-02:45:48.724 LocalLauncher INFO: Starting local process with command: CUDA_VISIBLE_DEVICES=4,5 "
    "stdbuf -oL torchrun --nnodes 1 --nproc-per-node 2 --master-addr localhost --master-port 31000 gsm8k_rl.py "
    "--config gsm8k_grpo.yaml gconfig.n_samples=6 train_dataset.batch_size=256 2>&1 | tee -a /runs/trainer.log\n"
)


def test_the_command_with_which_areals_launcher_starts_its_trainer() -> None:
    plan = plan_of(AREAL)
    assert (plan.framework, plan.line) == ("AReaL", 1)
    assert values(plan, "batch.generations", "batch.prompts", "process.total") == [6, 256, 2]


def test_an_experiments_name_alone_is_no_configuration() -> None:
    shown = read(TextSource("run.log", b"exp_name: grpo\nseed: 42\nstarted\n"), Table([]))
    assert launched([slices(shown)[-1]], Case(), None) is None


def test_a_key_alone_is_no_configuration() -> None:
    head, *_, record = SKYRL.splitlines(keepends=True)
    shown = read(TextSource("run.log", (head + record).encode()), Table([]))
    assert launched([slices(shown)[-1]], Case(), None) is None


TORCHRUN = """\
I0302 10:00:01.000000 811 torch/distributed/launcher/api.py:194] Starting elastic_operator with launch configs:
I0302 10:00:01.000000 811 torch/distributed/launcher/api.py:194]   entrypoint               : train.py
I0302 10:00:01.000000 811 torch/distributed/launcher/api.py:194]   min_nodes                : 2
I0302 10:00:01.000000 811 torch/distributed/launcher/api.py:194]   max_nodes                : 2
I0302 10:00:01.000000 811 torch/distributed/launcher/api.py:194]   nproc_per_node           : 8
"""
DEEPSPEED = """\
[2026-03-02 10:00:01,250] [INFO] [launch.py:164:main] nnodes=1, num_local_procs=4, node_rank=0
[2026-03-02 10:00:01,250] [INFO] [launch.py:176:main] dist_world_size=4
"""
CONFIG = "GRPOConfig(\nnum_generations=6,\nper_device_train_batch_size=3,\nuse_vllm=True,\n)\n"
WORLD = ("process.nnodes", "process.nproc", "process.total")


@pytest.mark.parametrize(("launcher", "world", "line"), [(TORCHRUN, [2, 8, 16], 4), (DEEPSPEED, [1, 4, 4], 1)])
def test_processes_and_nodes_that_the_launcher_tells_of(launcher: str, world: list[int], line: int) -> None:
    plan = plan_of(launcher + CONFIG)
    assert values(plan, *WORLD) == world
    assert plan.settings["process.nnodes"].line == line


def test_what_launchers_do_not_agree_on_is_not_known() -> None:
    other = "[2026-03-02 10:00:09,250] [INFO] [launch.py:176:main] dist_world_size=2\n"
    plan = plan_of(DEEPSPEED + other + CONFIG)
    assert "process.total" not in plan.settings or plan.settings["process.total"].value is None


@pytest.mark.parametrize("after", ["no object\n", "\n", '{"model": "x"}\n'])
def test_another_programs_config_is_none_of_axolotls(after: str) -> None:
    record = read(TextSource("run.log", f"[INFO] [web.py] config:\n{after}".encode()), Table([]))
    assert launched([slices(record)[-1]], Case(), None) is None


def test_a_namespace_that_openrlhf_prints() -> None:
    plan = plan_of(
        "Namespace(ref_num_nodes=1, actor_num_nodes=1, actor_num_gpus_per_node=8, vllm_num_engines=4, "
        "vllm_tensor_parallel_size=2, pretrain='/models/Qwen2', prompt_max_len=1024, n_samples_per_prompt=8)\n"
    )
    assert plan.framework == "OpenRLHF"
    assert values(plan, "engine.tensor_parallel_size", "batch.generations") == [2, 8]


def test_what_the_engine_says_of_itself() -> None:
    plan = plan_of(ENGINE.format(length=1536, seed=0), "verl")
    assert plan.framework == "verl"
    names = ("engine.max_model_len", "engine.dtype", "engine.enable_chunked_prefill", "engine.tensor_parallel_size")
    assert values(plan, *names) == [1536, "bfloat16", True, 2]


def test_what_engines_of_one_run_say_differently_is_not_taken() -> None:
    plan = plan_of(ENGINE.format(length=1536, seed=0) + ENGINE.format(length=1536, seed=1))
    assert values(plan, "engine.max_model_len", "engine.seed") == [1536, None]


def test_the_engine_completes_what_the_launch_leaves_open() -> None:
    plan = plan_of(behind_ray(pformat(VERL)) + ENGINE.format(length=1536, seed=0))
    assert values(plan, "engine.tensor_parallel_size", "engine.max_model_len") == [3, 1536]


@pytest.mark.parametrize(
    "text",
    [
        STEPS,
        'reward server answered {"data": {"score": 1}}\n',
        "+ python make_parquet.py --out data\n",
        "the model wrote: Namespace(actor_num_gpus_per_node=3)\n",
    ],
)
def test_what_is_no_launch_gives_no_plan(text: str) -> None:
    record = read(TextSource("run.log", text.encode()), Table([]))
    assert launched([slices(record)[-1]], Case(), None) is None


def test_a_risk_of_a_run_that_goes_on_is_a_note() -> None:
    found = risk(behind_ray(pformat(VERL)) + STEPS)
    assert (found.severity, found.grade) == (Severity.NOTE, Grade.DECLARED)
    assert any(e.source == "log" and e.line and "= 3" in e.text for e in found.evidence)


def test_a_risk_of_a_run_that_nobody_can_explain_is_a_warning_behind_what_happened() -> None:
    findings = triage_text(behind_ray(pformat(VERL)) + STEPS + RAISED).findings
    assert [(f.code, f.severity) for f in findings] == [("RLD900", Severity.ERROR), ("RLD209", Severity.WARNING)]


def test_a_risk_beside_a_known_cause_is_a_note_behind_it() -> None:
    raised = RAISED.replace(
        "ValueError: the frobnicator has 3 knobs",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.25 "
        "GiB of which 1.00 GiB is free.",
    )
    findings = triage_text(behind_ray(pformat(VERL)) + STEPS + raised).findings
    assert [(f.code, f.severity) for f in findings] == [("RLD206", Severity.ERROR), ("RLD209", Severity.NOTE)]


def test_a_run_that_changed_its_mind_is_judged_by_its_last_launch(tmp_path: Path) -> None:
    right = json.loads(json.dumps(VERL))
    right["actor_rollout_ref"]["rollout"]["tensor_model_parallel_size"] = 2
    start = "2025-11-02 10:00:01,123\tINFO worker.py:1927 -- Started a local Ray instance.\n"
    first = start + behind_ray(pformat(VERL)) + RAISED.replace("bar", "<module>")
    findings = triage_text(first + start + behind_ray(pformat(right)) + STEPS).findings
    assert not findings


def test_fixes_name_the_frameworks_option_and_change_no_log(tmp_path: Path) -> None:
    log, report = tmp_path / "run.log", tmp_path / "report.json"
    log.write_text(behind_ray(pformat(VERL)) + STEPS)
    CliRunner().invoke(app, ["triage", str(log), "--format", "json", "--output", str(report)])
    edits = [e for f in json.loads(report.read_text())["findings"] for fix in f["fixes"] for e in fix["edits"]]
    assert "actor_rollout_ref.rollout.tensor_model_parallel_size: 2" in {edit["spelled"] for edit in edits}
    assert not any(edit.get("file") for edit in edits)


@pytest.mark.parametrize("size", [0, -1, "auto", None, 3.5])
def test_a_size_that_divides_nothing(size: Any) -> None:
    odd = json.loads(json.dumps(VERL))
    odd["actor_rollout_ref"]["rollout"]["tensor_model_parallel_size"] = size
    report = triage_text(behind_ray(pformat(odd)) + STEPS)
    assert not [result.reason for result in report.results if result.outcome is Outcome.CRASHED]
