"""prime-rl: TOML behind @, parts that share what stands at the top, names that changed with the releases."""

from __future__ import annotations

import pytest

from rldoctor.edits.edit import apply
from rldoctor.frameworks.prime_rl.dialect import DIALECT
from rldoctor.model import Edit
from tests.frameworks.conftest import Launches

# examples/basic/wordle/rl.toml of 0.8.0, shortened.
CONFIG = """\
max_steps = 200
seq_len = 8192
[deployment]
num_train_gpus = 2
num_infer_gpus = 6
[model]
name = "PrimeIntellect/Qwen3-1.7B-Wordle-SFT"
[orchestrator]
batch_size = 512
group_size = 16
[orchestrator.train.sampling]
max_completion_tokens = 1024
[inference.parallel]
tp = 2
"""
OLD = """\
inference_gpu_ids = [0, 1, 2, 3]
trainer_gpu_ids = [4, 5]
[model]
name = "org/m"
[orchestrator]
batch_size = 256
rollouts_per_example = 8
[orchestrator.sampling]
max_tokens = 2048
"""


def test_its_console_program(launches: Launches) -> None:
    run = "uv run rl @ rl.toml --inference.model.max-model-len 4096 --orchestrator.group-size=8 --ckpt\n"
    (plan,) = launches({"run.sh": run, "rl.toml": CONFIG}, prime_rl="0.8.0", vllm="0.15.0")
    assert (plan.framework, plan.value("rollout.backend"), plan.value("placement.mode")) == (
        "prime-rl",
        "vllm",
        "async",
    )
    assert plan.value("model.path") == plan.value("engine.model") == "PrimeIntellect/Qwen3-1.7B-Wordle-SFT"
    assert (plan.value("engine.max_model_len"), plan.value("lengths.total")) == (4096, 8192)
    assert (plan.value("batch.generation"), plan.value("batch.generations"), plan.value("batch.prompts")) == (
        512,
        8,
        64,
    )
    assert (plan.value("placement.engines"), plan.value("placement.trainer_gpus")) == (3, 2)
    assert plan.value("engine.logprobs_mode") == "processed_logprobs"
    assert plan.unread == () and plan.unknown == ()


def test_the_file_by_itself_and_a_misspelled_key(launches: Launches) -> None:
    (plan,) = launches({"rl.toml": CONFIG.replace("group_size", "grup_size")}, prime_rl="0.8.0")
    assert [(option.key, option.nearest[0]) for option in plan.unknown] == [
        ("orchestrator.grup_size", "orchestrator.group_size")
    ]


def test_names_of_an_older_release(launches: Launches) -> None:
    (plan,) = launches({"rl.toml": OLD}, prime_rl="0.4.0")
    assert (plan.value("batch.generations"), plan.value("lengths.response")) == (8, 2048)
    assert (plan.value("placement.engine_gpus"), plan.value("placement.trainer_gpus")) == (4, 2)
    assert plan.unknown == ()
    (later,) = launches({"rl.toml": OLD}, prime_rl="0.8.0")
    assert {option.key for option in later.unknown} >= {"orchestrator.rollouts_per_example", "inference_gpu_ids"}


@pytest.mark.parametrize(
    ("release", "batch", "rows", "running"),
    [
        ("0.5.0", "batch_size = 256", 256, 256),
        ("0.5.0", "batch_size = 256\noversampling_factor = 1.5", 256, 384),
        ("0.8.0", "", 128, 128),
        ("0.8.0", "batch_size = 64\noversampling_factor = 0.1\ngroup_size = 16", 64, 16),
        ("0.8.0", "batch_size = 64\nmax_inflight_episodes = 96", 64, 96),
        ("0.8.0", "token_batch_size = 65536\nmax_inflight_episodes = 96", None, 96),
        ("0.4.0", "batch_size = 256", 256, None),
    ],
)
def test_what_the_batch_fills_in(
    launches: Launches, release: str, batch: str, rows: int | None, running: int | None
) -> None:
    text = CONFIG.replace("batch_size = 512\ngroup_size = 16", batch)
    (plan,) = launches({"rl.toml": text}, prime_rl=release)
    assert (plan.value("batch.generation"), plan.value("rollout.concurrency")) == (rows, running)


def test_a_file_for_each_part(launches: Launches) -> None:
    files = {
        "run.sh": "uv run rl --trainer @ train.toml --orchestrator @ orch.toml --inference @ infer.toml\n",
        "train.toml": '[model]\nname = "org/m"\n',
        "orch.toml": "batch_size = 64\nrollouts_per_example = 4\n",
        "infer.toml": "gpu_memory_utilization = 0.8\n",
    }
    (plan,) = launches(files, prime_rl="0.3.0")
    assert (plan.value("model.path"), plan.value("batch.prompts")) == ("org/m", 16)
    setting = plan.get("engine.gpu_memory_utilization")
    assert setting is not None and setting.value == 0.8 and str(setting.file).endswith("infer.toml")


@pytest.mark.parametrize("name", ["gone.toml", "$CONFIG"])
def test_a_file_that_is_not_here_is_missed(launches: Launches, name: str) -> None:
    (plan,) = launches({"run.sh": f"uv run rl @ {name}\n"}, prime_rl="0.8.0")
    assert any(note.unread for note in plan.notes)
    assert plan.value("engine.gpu_memory_utilization") is None


@pytest.mark.parametrize("text", ["rl build\n", "./rl train\n"])
def test_another_program_of_that_name(launches: Launches, text: str) -> None:
    assert launches({"run.sh": text}) == []


def test_a_number_of_devices_is_no_list_of_them(launches: Launches) -> None:
    """``trainer_gpu_ids`` came before ``deployment.num_train_gpus``, and takes other values."""
    newer = CONFIG + "[deployment]\nnum_train_gpus = 6\n"
    (plan,) = launches({"rl.toml": newer if "[deployment]" not in CONFIG else CONFIG}, prime_rl="0.4.0")
    counts = [one for one in plan.unknown if one.key.startswith("deployment.")]
    assert counts and {one.renamed for one in counts} == {None}


@pytest.mark.parametrize(
    ("config", "release", "spread"),
    [
        (CONFIG, "0.8.0", "prompt"),
        # A group's client is a server; which of its data parallel ranks answers, vLLM decides.
        (OLD + "[inference.parallel]\ndp = 2\n", "0.4.0", "load"),
        (f"{OLD.replace('[0, 1, 2, 3]', '[0]')}[inference]\n", "0.4.0", "prompt"),
    ],
)
def test_servers_of_one_seed_keep_whole_groups(launches: Launches, config: str, release: str, spread: str) -> None:
    (plan,) = launches({"rl.toml": config}, prime_rl=release)
    assert (plan.value("seed.per_replica"), plan.value("seed.per_request")) == ("same", "none")
    assert plan.value("rollout.spread") == spread


@pytest.mark.parametrize(("written", "ranks"), [("tp = 2\n", 3), ("tp = 2\ndp = 6\n", 3), ("dp = 2\n", 6)])
def test_data_parallel_ranks_fill_the_devices_of_the_server(launches: Launches, written: str, ranks: int) -> None:
    (plan,) = launches({"rl.toml": CONFIG.replace("tp = 2\n", written)})
    assert plan.value("engine.data_parallel_size") == ranks


def test_nodes_of_trainer_and_servers_are_those_of_the_run(launches: Launches) -> None:
    several = CONFIG.replace("num_train_gpus = 2\nnum_infer_gpus = 6", "num_train_nodes = 4\nnum_infer_nodes = 3")
    (plan,) = launches({"rl.toml": several.replace("num_infer_nodes", "num_infer_replicas = 2\nnum_infer_nodes")})
    counted = [plan.value(f"placement.{name}") for name in ("nodes", "gpus_per_node", "trainer_gpus", "engine_gpus")]
    assert counted == [10, 8, 32, 48]
    (single,) = launches({"rl.toml": CONFIG})
    assert single.value("placement.nodes") is None


def test_a_fix_is_written_as_toml_has_it(launches: Launches) -> None:
    (plan,) = launches({"rl.toml": CONFIG}, prime_rl="0.8.0")
    spelled = DIALECT.spell(Edit(option="placement.engine_gpus", value=4), plan)
    assert spelled.text == "deployment.num_infer_gpus = 4"
    (changed,) = apply([spelled]).after.values()
    assert changed == CONFIG.replace("num_infer_gpus = 6", "num_infer_gpus = 4")


def test_a_list_of_devices_is_no_number_of_them_in_a_fix(launches: Launches) -> None:
    (plan,) = launches({"rl.toml": OLD}, prime_rl="0.4.0")
    spelled = DIALECT.spell(Edit(option="placement.trainer_gpus", value=1), plan)
    assert (spelled.text, spelled.write, spelled.line) == ("trainer_gpu_ids: a list of 1", None, 2)


@pytest.mark.parametrize(
    ("release", "config"),
    [
        ("0.8.0", CONFIG.replace("num_train_gpus = 2\nnum_infer_gpus = 6\n", "").replace("tp = 2", "dp = 2")),
        ("0.4.0", OLD.partition("[model]")[2].join(("[model]", "[inference.parallel]\ndp = 2\n"))),
    ],
)
def test_the_server_has_one_device_where_none_is_named(launches: Launches, release: str, config: str) -> None:
    (plan,) = launches({"rl.toml": config}, prime_rl=release)
    assert (plan.value("placement.engine_gpus"), plan.value("engine.data_parallel_size")) == (1, 1)


@pytest.mark.parametrize(
    ("trainer", "engines", "counted"),
    [("6,7", "0,1,2,3,4,5", (2, 6)), ("0", "1", (1, 1)), ("[4,5]", "[0]", (2, 1)), ("$A", "0,1", (None, 2))],
)
def test_devices_are_listed_on_the_command_line(
    launches: Launches, trainer: str, engines: str, counted: tuple[int | None, int]
) -> None:
    # docs/deployment.md of 0.3.0
    command = (
        f"uv run rl --trainer @ t.toml --inference @ i.toml --trainer-gpu-ids {trainer} --inference-gpu-ids {engines}"
    )
    (plan,) = launches({"run.sh": f"{command}\n", "t.toml": "", "i.toml": ""}, prime_rl="0.3.0")
    assert (plan.value("placement.trainer_gpus"), plan.value("placement.engine_gpus")) == counted


def test_nodes_that_are_left_out_are_no_single_node(launches: Launches) -> None:
    text = "[model]\nname = 'Qwen/Qwen3-4B'\n[deployment]\ntype = 'multi_node'\nnum_infer_nodes = 1\n"
    (plan,) = launches(
        {"rl.toml": text + "[orchestrator]\nbatch_size = 64\n[inference.vllm]\n"}, **{"prime-rl": "0.8.0"}
    )
    assert plan.value("placement.engine_gpus") is None


def test_servers_that_it_does_not_start_have_no_defaults(launches: Launches) -> None:
    text = "seq_len = 4096\n[model]\nname = 'org/model'\n[orchestrator]\nbatch_size = 64\n"
    (plan,) = launches({"rl.toml": text}, prime_rl="0.4.0", vllm="0.14.0")
    assert not [name for name in plan.settings if name in ("engine.seed", "engine.max_num_seqs", "engine.enable_lora")]
    (plan,) = launches({"rl.toml": f"{text}[inference]\n"}, prime_rl="0.4.0", vllm="0.14.0")
    assert (plan.value("engine.seed"), plan.value("engine.enable_lora")) == (0, False)


def test_what_its_validators_set(launches: Launches) -> None:
    text = "[orchestrator]\nbatch_size = 64\n[inference]\n[trainer.model.lora]\nrank = 8\n"
    (plan,) = launches({"rl.toml": text}, prime_rl="0.4.0", vllm="0.14.0")
    assert (plan.value("engine.enable_lora"), plan.value("engine.max_lora_rank")) == (True, 8)
    assert plan.value("sampling.temperature") == 1.0
    falling = "[orchestrator.sampling.temp_scheduler]\nstart_temperature = 1.2\nend_temperature = 0.8\n"
    (plan,) = launches({"rl.toml": text + falling}, prime_rl="0.4.0", vllm="0.14.0")
    assert plan.value("sampling.temperature") is None
