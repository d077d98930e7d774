"""ms-swift: its commands and variables, colocated engines, servers, inference workers, Ray; release by release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rldoctor.edits.edit import apply, save
from rldoctor.errors import InputError
from rldoctor.frameworks import by_name
from rldoctor.model import Edit
from rldoctor.plan.model import Form, RolloutPlan, Source
from tests.frameworks.making import is_made, made

Launches = Callable[..., list[RolloutPlan]]

START = "CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 \\\nswift rlhf "
OPTIONS = """\
    --rlhf_type grpo --model org/model --dataset data.jsonl --use_vllm true \\
    --max_length 2048 --max_completion_length 4096 \\
    --per_device_train_batch_size 4 --gradient_accumulation_steps 2 --num_generations 8 \\
    --torch_dtype bfloat16 {more}
"""
RUN = START + "\\\n" + OPTIONS


def swift(launches: Launches, more: str = "", version: str = "3.8.1", run: str = RUN) -> RolloutPlan:
    (plan,) = launches({"run.sh": run.format(more=more)}, ms_swift=version, vllm="0.10.2", transformers="4.55.4")
    return plan


def test_options_and_variables_keep_their_places(launches: Launches) -> None:
    plan = swift(launches, "--vllm_max_model_len 6144")
    context, processes = plan.get("engine.max_model_len"), plan.get("process.nproc")
    assert context is not None and processes is not None
    assert (context.value, context.key, context.line) == (6144, "--vllm_max_model_len", 6)
    assert (processes.value, processes.key, processes.form) == (4, "NPROC_PER_NODE", Form.VARIABLE)
    assert (plan.framework, plan.version, plan.unread, plan.unknown) == ("ms-swift", "3.8.1", (), ())
    assert (plan.value("process.launcher"), plan.value("process.total")) == ("torchrun", 4)


@pytest.mark.parametrize(
    ("command", "option", "words"),
    [
        ("swift rlhf", "--tensor_model_parallel_size 2", "megatron rlhf"),
        ("swift rlhf", "--num_train_epochs 2", None),
        ("megatron rlhf", "--per_device_train_batch_size 2", "swift rlhf"),
        ("megatron rlhf", "--tensor_model_parallel_size 2", None),
        ("swift rollout", "--tensor_model_parallel_size 2", ""),  # a server trains nothing
    ],
)
def test_options_of_another_command(launches: Launches, command: str, option: str, words: str | None) -> None:
    text = f"{command} --model org/model --rlhf_type grpo {option}\n"
    (plan,) = launches({"run.sh": text}, ms_swift="3.9.0")
    found = [(one.key, one.chosen_by) for one in plan.unknown if one.key in option]
    assert found == ([] if words is None else [(option.split()[0], words)])


@pytest.mark.parametrize(
    ("command", "role"),
    [
        ("swift rlhf --rlhf_type grpo", "trainer"),
        ("swift rollout --model org/model", "server"),
        ("megatron rlhf --rlhf_type grpo", "trainer"),
        ("python swift/cli/rlhf.py --rlhf_type grpo", "trainer"),
        ("torchrun --nproc_per_node 8 swift/cli/_megatron/rlhf.py --rlhf_type grpo", "trainer"),
        ("accelerate launch --num_processes 8 swift/cli/rlhf.py --rlhf_type grpo", "trainer"),
        ("torchrun --nproc_per_node 8 fork/train.py --rlhf_type grpo", "trainer"),
    ],
)
def test_its_entry_points(launches: Launches, command: str, role: str) -> None:
    (plan,) = launches({"run.sh": f"{command}\n"}, ms_swift="4.5.2")
    assert (plan.framework, plan.role) == ("ms-swift", role)


def test_python_that_makes_its_arguments_and_python_that_only_imports_it(launches: Launches) -> None:
    script = "from swift.llm import RLHFArguments\nargs = RLHFArguments(rlhf_type='grpo', num_generations=8)\n"
    (plan,) = launches({"train.py": script}, ms_swift="3.8.1")
    generations = plan.get("batch.generations")
    assert generations is not None and (plan.framework, generations.form) == ("ms-swift", Form.KEYWORD)
    with pytest.raises(InputError, match="is ms-swift's, and none of its launches with a rollout engine"):
        launches({"plugin.py": "from swift.plugin import ORM\n"}, ms_swift="3.8.1")


def test_without_variables_one_process_of_python(launches: Launches) -> None:
    run = RUN.replace("NPROC_PER_NODE=4 ", "").replace("0,1,2,3", "4,5,6,7")
    plan = swift(launches, "--vllm_mode colocate", run=run)
    assert (plan.value("process.launcher"), plan.value("process.nproc")) == ("none", 1)
    assert plan.value("placement.trainer_devices") == [4, 5, 6, 7]
    # It refuses to start like that: nothing is said of its batches.
    assert plan.value("batch.generation") is None and plan.value("placement.engines") is None
    dialect = by_name("ms-swift")
    assert dialect is not None
    spelling = dialect.spell(Edit(option="process.nproc", value=4), plan)
    assert spelling.text == "export NPROC_PER_NODE=4"
    save(apply([spelling]))
    (mended,) = launches({"run.sh": Path(plan.file).read_text()}, ms_swift="3.8.1")
    assert (mended.value("process.launcher"), mended.value("batch.generation")) == ("torchrun", 32)


def test_nodes_alone_start_torchrun_with_one_process_each(launches: Launches) -> None:
    plan = swift(launches, run=RUN.replace("NPROC_PER_NODE=4", "NNODES=2 NODE_RANK=0 MASTER_PORT=29511"))
    assert (plan.value("process.launcher"), plan.value("process.nproc")) == ("torchrun", 1)
    assert (plan.value("process.total"), plan.value("process.master_port")) == (2, 29511)


def test_a_colocated_engine(launches: Launches) -> None:
    plan = swift(launches, "--vllm_mode colocate --vllm_tensor_parallel_size 2 --sleep_level 1")
    assert (plan.value("placement.mode"), plan.value("placement.engines")) == ("colocate", 2)
    share = plan.get("engine.gpu_memory_utilization")
    assert share is not None and (share.value, share.source) == (0.9, Source.DEFAULT)
    assert plan.value("engine.enable_sleep_mode") is True and plan.value("sleep.level") == 1
    assert plan.value("engine.distributed_executor_backend") == "external_launcher"
    # 4 per device x 2 ranks x 2 steps, whatever vllm_max_num_seqs says before 3.11
    assert plan.value("engine.max_num_seqs") == 16
    assert swift(launches, "--vllm_max_num_seqs 99", "3.10.3").value("engine.max_num_seqs") == 8
    later = swift(launches, "--vllm_mode colocate --vllm_max_num_seqs 99", "3.12.6")
    assert later.value("engine.max_num_seqs") == 99 and later.value("engine.logprobs_mode") == "processed_logprobs"


@pytest.mark.parametrize(
    ("version", "options", "replicas", "requests"),
    [
        # grpo_trainer.py 3.3.1 lines 300 and 432
        ("3.3.0", "--num_infer_workers 4", "same", "rank"),
        ("3.3.0", "--num_infer_workers 1", "random", None),
        # 3.5.0 line 436: process_index // vllm_tensor_parallel_size; a request's seed only with tensor parallel ranks
        ("3.5.0", "--vllm_mode colocate", "replica", "none"),
        ("3.5.0", "--vllm_mode colocate --vllm_tensor_parallel_size 2", "replica", "engine"),
        # https://github.com/modelscope/ms-swift/pull/4712
        ("3.6.4", "--vllm_mode colocate --vllm_tensor_parallel_size 2", "replica", "counter"),
        ("4.5.2", "--vllm_mode colocate --vllm_tensor_parallel_size 2", "replica", "counter"),
    ],
)
def test_seeds(launches: Launches, version: str, options: str, replicas: str, requests: str | None) -> None:
    plan = swift(launches, options, version)
    assert (plan.value("seed.per_replica"), plan.value("seed.per_request")) == (replicas, requests)


def test_without_a_version_nothing_is_derived_that_depends_on_it(launches: Launches) -> None:
    (plan,) = launches({"run.sh": RUN.format(more="--vllm_mode colocate")})
    assert plan.value("placement.mode") == "colocate" and plan.value("batch.train") == 32
    for name in ("seed.per_replica", "engine.max_num_seqs", "batch.generation", "trainer.eval_strategy"):
        assert plan.get(name) is None, name


@pytest.mark.parametrize(
    ("version", "options", "mode"),
    [
        ("3.8.1", "--vllm_mode colocate --vllm_server_host 10.0.0.1", "server"),
        ("3.8.1", "--vllm_mode server", "colocate"),
        ("3.8.1", "--vllm_server_base_url http://10.0.0.1:8000", "server"),
        # The base URL counts from 3.7.1 on.
        ("3.7.0", "--vllm_server_base_url http://10.0.0.1:8000", "colocate"),
        ("3.12.6", "--vllm_mode colocate --vllm_server_host 10.0.0.1", "colocate"),
        ("3.12.6", "--vllm_mode server --vllm_server_host 10.0.0.1", "server"),
    ],
)
def test_the_servers_address_decides_the_mode_through_3_11_0(
    launches: Launches, version: str, options: str, mode: str
) -> None:
    assert swift(launches, options, version).value("placement.mode") == mode


def test_a_mode_that_is_switched_is_mended_where_it_stands(launches: Launches) -> None:
    plan = swift(launches, "--vllm_mode colocate --vllm_server_host 10.0.0.1 --vllm_gpu_memory_utilization 0.4")
    mode = plan.get("placement.mode")
    assert mode is not None and (mode.source, mode.line) == (Source.DERIVED, 6)
    # What the trainer says of an engine reaches none.
    assert plan.get("engine.gpu_memory_utilization") is None
    dialect = by_name("ms-swift")
    assert dialect is not None
    spelling = dialect.spell(Edit(option="placement.mode", value="server"), plan)
    assert spelling.text == "--vllm_mode server"
    save(apply([spelling]))
    text = Path(plan.file).read_text()
    assert text.count("--vllm_mode") == 1 and "--vllm_mode server" in text


def test_inference_workers_beside_the_trainer(launches: Launches) -> None:
    run = RUN.replace("NPROC_PER_NODE=4", "NPROC_PER_NODE=3")
    options = "--num_infer_workers 1 --async_generate true --eval_strategy steps --val_dataset val.jsonl"
    plan = swift(launches, options, "3.3.0", run)
    assert (plan.value("placement.mode"), plan.value("rollout.async")) == ("async", True)
    assert plan.value("placement.trainer_devices") == [0, 1, 2] and plan.value("placement.engine_devices") == [3]
    assert plan.value("rollout.evaluates") is True and plan.value("sleep.level") == 0
    assert swift(launches, "--num_infer_workers 1", "3.3.0", run).value("placement.mode") == "separate"


def test_batches_before_and_after_3_5(launches: Launches) -> None:
    old = swift(launches, "--num_infer_workers 4", "3.3.1")
    # Each micro step generates its own completions.
    assert (old.value("batch.generation"), old.value("batch.train")) == (16, 32)
    new = swift(launches, version="3.8.1")
    assert (new.value("batch.generation"), new.value("batch.steps_per_generation")) == (32, 2)
    assert new.value("batch.prompts") == 4
    given = swift(launches, "--generation_batch_size 64")
    assert given.value("batch.steps_per_generation") == 4


def test_gradient_accumulation_that_nobody_gives(launches: Launches) -> None:
    run = RUN.replace("--gradient_accumulation_steps 2 ", "").replace("batch_size 4", "batch_size 1")
    assert swift(launches, version="3.6.4", run=run).value("batch.accumulation") == 4
    assert swift(launches, version="3.8.1", run=run).value("batch.accumulation") == 1
    asleep = swift(launches, "--sleep_level 1 --num_infer_workers 4", "3.3.0")
    assert asleep.value("batch.accumulation") == 1


@pytest.mark.parametrize(
    ("version", "options", "strategy", "evaluates"),
    [
        ("3.8.1", "", "no", False),
        ("3.8.1", "--eval_strategy steps", "no", False),
        ("3.8.1", "--split_dataset_ratio 0.01", "steps", True),
        ("3.8.1", "--val_dataset val.jsonl --eval_strategy no", "no", False),
        # A hundredth of the data through 3.5
        ("3.5.3", "", "steps", True),
    ],
)
def test_evaluation(launches: Launches, version: str, options: str, strategy: str, evaluates: bool) -> None:
    plan = swift(launches, options, version)
    assert (plan.value("trainer.eval_strategy"), plan.value("rollout.evaluates")) == (strategy, evaluates)


SERVED = """\
CUDA_VISIBLE_DEVICES=0,1 swift rollout --model org/model {server} --port 8000 &
"""


def test_a_server_of_the_same_file_gives_the_engine(launches: Launches) -> None:
    options = "--vllm_mode server --vllm_server_host 127.0.0.1 --vllm_server_port 8000"
    text = SERVED.format(server="--vllm_tensor_parallel_size 2 --vllm_max_model_len 6144") + RUN.format(more=options)
    (plan,) = launches({"run.sh": text}, ms_swift="3.8.1", vllm="0.10.2")
    assert plan.server is not None and plan.value("engine.tensor_parallel_size") == 2
    assert plan.value("engine.max_model_len") == 6144 and plan.value("placement.engine_devices") == [0, 1]
    assert plan.value("placement.trainer_devices") == [0, 1, 2, 3]
    dialect = by_name("ms-swift")
    assert dialect is not None
    spelling = dialect.spell(Edit(option="engine.max_model_len", value=8192), plan)
    assert (spelling.text, spelling.line) == ("--vllm_max_model_len 8192", 1)


@pytest.mark.parametrize(
    ("version", "options", "spelled"),
    [
        (
            "3.5.3",
            "--max_model_len 4096 --tensor_parallel_size 2 --data_parallel_size 1",
            "--gpu_memory_utilization 0.5",
        ),
        ("3.8.1", "--vllm_max_model_len 4096 --vllm_tensor_parallel_size 2", "--vllm_gpu_memory_utilization 0.5"),
    ],
)
def test_options_of_servers_before_and_after_3_7(launches: Launches, version: str, options: str, spelled: str) -> None:
    (plan,) = launches({"run.sh": SERVED.format(server=options)}, ms_swift=version, vllm="0.8.5")
    assert (plan.role, plan.value("engine.max_model_len"), plan.unknown) == ("server", 4096, ())
    assert (plan.value("placement.engines"), plan.value("placement.engine_gpus")) == (1, 2)
    dialect = by_name("ms-swift")
    assert dialect is not None
    assert dialect.spell(Edit(option="engine.gpu_memory_utilization", value=0.5), plan).text == spelled


@pytest.mark.parametrize(
    ("version", "vllm", "replicas"),
    [
        ("3.10.3", "0.11.0", "same"),
        ("3.10.3", "0.9.2", "same"),
        # None is given, and vLLM 0.8 makes none up.
        ("3.10.3", "0.8.5", "random"),
        ("3.12.3", "0.11.0", "random"),
    ],
)
def test_seeds_of_a_servers_replicas(launches: Launches, version: str, vllm: str, replicas: str) -> None:
    text = SERVED.format(server="--vllm_data_parallel_size 2")
    (plan,) = launches({"run.sh": text}, ms_swift=version, vllm=vllm)
    assert (plan.value("placement.engines"), plan.value("seed.per_replica")) == (2, replicas)


def test_nothing_is_sampled_by_an_engine(launches: Launches) -> None:
    for more in ("--use_vllm false", "--rlhf_type dpo"):
        plan = swift(launches, more)
        assert plan.value("placement.mode") == "none" and plan.value("rollout.enabled") is False
        assert not [name for name in plan.settings if name.startswith("engine.")]
    assert swift(launches, "--rlhf_type dpo").get("batch.generations") is None


def test_megatron_counts_completions(launches: Launches) -> None:
    text = START.replace("swift rlhf", "megatron rlhf") + (
        "--rlhf_type grpo --model org/model --vllm_mode colocate --tensor_model_parallel_size 2 "
        "--global_batch_size 32 --micro_batch_size 4 --steps_per_generation 4 --num_generations 8 --finetune "
        "--no_save_optim --vllm_max_model_len 4096\n"
    )
    (plan,) = launches({"run.sh": text}, ms_swift="4.5.2", vllm="0.11.0")
    assert (plan.value("trainer.strategy"), plan.value("parallel.data")) == ("megatron", 2)
    assert (plan.value("batch.train"), plan.value("batch.generation"), plan.value("batch.accumulation")) == (32, 128, 4)
    assert plan.value("engine.max_num_seqs") == 32 and plan.unread == () and plan.unknown == ()


RAY = """\
rlhf_type: grpo
model: org/model
global_batch_size: 16
num_generations: 8
use_vllm: true
colocate_groups: {groups}
train:
  gpus: 4
  tuner_type: lora
  lora_rank: 8
rollout:
  gpus: 4
  vllm_tensor_parallel_size: 2
  vllm_max_model_len: 8192
"""


@pytest.mark.parametrize(("groups", "mode", "needed"), [("[[train, rollout]]", "colocate", 4), ("[]", "separate", 8)])
def test_devices_by_role_on_ray(launches: Launches, groups: str, mode: str, needed: int) -> None:
    script = (
        'SCRIPT_DIR="$(cd "$(dirname "$0")" && pwd)"\nmegatron rlhf --use_ray true --config "$SCRIPT_DIR/ray.yaml"\n'
    )
    files = {"run.sh": script, "ray.yaml": RAY.format(groups=groups)}
    (plan,) = launches(files, ms_swift="4.5.2", vllm="0.11.0")
    assert (plan.value("placement.mode"), plan.value("ray.gpus_needed")) == (mode, needed)
    assert (plan.value("placement.engines"), plan.value("lora.rank"), plan.unknown) == (2, 8, ())
    context = plan.get("engine.max_model_len")
    assert context is not None and (context.key, context.line) == ("rollout.vllm_max_model_len", 14)
    dialect = by_name("ms-swift")
    assert dialect is not None
    save(apply([dialect.spell(Edit(option="engine.max_model_len", value=4096), plan)]))
    assert "  vllm_max_model_len: 4096" in (Path(plan.file).parent / "ray.yaml").read_text()


def test_a_yaml_file_in_place_of_the_first_argument(launches: Launches) -> None:
    config = (
        "rlhf_type: grpo\nuse_vllm: true\nvllm_mode: colocate\nvllm_max_model_len: 4096\nENV:\n  NPROC_PER_NODE: 8\n"
    )
    files = {"run.sh": "swift rlhf run.yaml --vllm_max_model_len 2048\n", "run.yaml": config}
    (plan,) = launches(files, ms_swift="4.5.2")
    assert plan.value("engine.max_model_len") == 2048 and plan.value("process.total") == 8
    assert plan.unknown == () and plan.unread == ()
    (target,) = launches({"run.yaml": config}, ms_swift="4.5.2")
    assert (target.framework, target.value("process.launcher")) == ("ms-swift", "torchrun")


@pytest.mark.parametrize(("version", "context"), [("3.12.6", 4096), ("4.5.2", 2048)])
def test_config_comes_last_through_4_0(launches: Launches, version: str, context: int) -> None:
    files = {
        "run.sh": "swift rlhf --config run.yaml --vllm_max_model_len 2048\n",
        "run.yaml": "rlhf_type: grpo\nuse_vllm: true\nvllm_mode: colocate\nvllm_max_model_len: 4096\n",
    }
    (plan,) = launches(files, ms_swift=version)
    assert plan.value("engine.max_model_len") == context


def test_engine_arguments_in_json(launches: Launches) -> None:
    more = """--vllm_mode colocate --vllm_engine_kwargs '{"enable_chunked_prefill": false, "max_num_seq": 8}'"""
    (plan,) = launches({"run.sh": RUN.replace("{more}", more)}, ms_swift="3.12.6", vllm="0.10.2")
    assert plan.value("engine.enable_chunked_prefill") is False
    (unknown,) = plan.unknown
    assert unknown.nearest[0] == "vllm_engine_kwargs.max_num_seqs"
    (before,) = launches({"run.sh": RUN.replace("{more}", more)}, ms_swift="3.8.1", vllm="0.10.2")
    assert "--vllm_engine_kwargs" in {option.key for option in before.unknown}


@pytest.mark.parametrize(
    ("version", "option", "nearest"),
    [
        ("3.8.1", "--num_infer_worker 1", None),
        ("3.8.1", "--vllm_gpu_memory_utilisation 0.5", "vllm_gpu_memory_utilization"),
        ("4.5.2", "--train_type full", "tuner_type"),
        ("3.6.4", "--tensor_parallel_size 2", "vllm_tensor_parallel_size"),
    ],
)
def test_unknown_options_name_what_the_release_has(
    launches: Launches, version: str, option: str, nearest: str | None
) -> None:
    (unknown,) = swift(launches, option, version).unknown
    assert unknown.key == option.split()[0]
    assert nearest is None or unknown.nearest[0] == nearest


def test_expandable_segments_are_switched_off_around_the_engine_from_3_9_on(launches: Launches) -> None:
    name = "env.PYTORCH_CUDA_ALLOC_CONF"
    run = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True " + RUN
    assert swift(launches, "--sleep_level 1", "3.8.1", run).value(name) == "expandable_segments:True"
    assert swift(launches, "--sleep_level 1", "3.9.3", run).value(name) == "expandable_segments:False"


@pytest.mark.parametrize(
    ("version", "option", "value", "spelled"),
    [
        ("3.6.4", "sleep.level", 1, "--sleep_level 1"),
        ("3.6.4", "sleep.enabled", False, "--sleep_level 0"),
        ("3.6.4", "engine.gpu_memory_utilization", 0.4, "--vllm_gpu_memory_utilization 0.4"),
        ("3.8.1", "rollout.async", False, "--async_generate false"),
        ("3.8.1", "trainer.eval_strategy", "no", "--eval_strategy no"),
        (
            "3.12.6",
            "engine.enable_chunked_prefill",
            False,
            """--vllm_engine_kwargs '{"enable_chunked_prefill": false}'""",
        ),
        ("3.12.6", "trainer.full", True, "--train_type full"),
        ("4.5.2", "trainer.full", True, "--tuner_type full"),
        ("4.5.2", "lengths.response", 2048, "--max_completion_length 2048"),
    ],
)
def test_fixes(launches: Launches, version: str, option: str, value: object, spelled: str) -> None:
    plan = swift(launches, "--vllm_mode colocate", version)
    assert made(plan, option, value) == spelled
    (mended,) = launches({"run.sh": Path(plan.file).read_text()}, ms_swift=version, vllm="0.10.2")
    assert is_made(mended, option, value) and mended.unknown == ()


def test_an_engine_argument_without_a_door_in_the_release_is_reported(launches: Launches) -> None:
    plan = swift(launches, "--vllm_mode colocate", "3.8.1")
    dialect = by_name("ms-swift")
    assert dialect is not None
    spelling = dialect.spell(Edit(option="engine.enable_chunked_prefill", value=False), plan)
    assert spelling.write is None and spelling.reason is not None
