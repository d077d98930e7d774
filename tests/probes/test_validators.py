"""The packages' own validators, asked in the environment's interpreter: what they refuse, and what comes out."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from rldoctor.api import Case, Grade, Level, NotApplicable
from rldoctor.api.results import CheckResult
from rldoctor.flow import collect, examination
from rldoctor.flow.depth import Depth
from rldoctor.flow.effective import with_effective
from rldoctor.flow.probe import run_probes
from rldoctor.flow.session import Options, open_session
from rldoctor.link import validations
from rldoctor.link.validations import options_of
from rldoctor.link.values import NOT_KNOWN
from rldoctor.plan.model import RolloutPlan, Setting, Source
from rldoctor.probes.validators import validators
from tests.probes.environments import Environment

MODEL = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 896,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "num_hidden_layers": 24,
    "intermediate_size": 4864,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
}
# A trainer's argument class as TRL has it: what it refuses depends on the number of processes.
CONFIG = """
import os
from dataclasses import dataclass


@dataclass
class GRPOConfig:
    output_dir: str = None
    per_device_train_batch_size: int = 8
    num_generations: int = 8
    beta: float = 0.0
    use_cpu: bool = False

    @property
    def world_size(self):
        return int(os.environ.get("PROCESSES", "1"))

    def __post_init__(self):
        whole = self.per_device_train_batch_size * self.world_size
        if whole % self.num_generations:
            raise ValueError(f"{whole} completions do not suit num_generations {self.num_generations}")
        if self.beta > float(os.environ.get("MOST", "1")):  # which reading alone does not tell
            raise ValueError("beta: bf16 needs a GPU")
"""


def asked(python: Path, launch: Path) -> Case:
    """The case of a launch with what the validators said."""
    session = open_session(Options(target=launch, pythons=(str(python),), level="imports"))
    ((case, request),) = collect.cases(session, {"packages", "plan", "model", "gpus", "environment"})
    return run_probes(case, [validators], request, Depth(Level.IMPORTS), lambda _: None)


def findings(case: Case) -> dict[str, CheckResult]:
    session = open_session(Options())
    return {r.code: r for r in examination.report(case, session.checks, session.registry).results if r.findings}


def served(folder: Path, *options: str) -> Path:
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model" / "config.json").write_text(json.dumps(MODEL))
    launch = folder / "serve.sh"
    launch.write_text(f"vllm serve ./model {' '.join(options)}\n")
    return launch


@pytest.fixture
def trainer(tmp_path: Path) -> Environment:
    """An environment with an argument class, and no engine."""
    files = {
        "trl/__init__.py": "__version__ = '0.26.2'\n",
        "trl/trainer/__init__.py": "",
        "trl/trainer/grpo_config.py": CONFIG,
    }
    return Environment(tmp_path / "venv").install("trl", "0.26.2", files)


def script(folder: Path, **settings: object) -> Path:
    launch = folder / "train.py"
    given = "".join(f", {name}={value!r}" for name, value in settings.items())
    launch.write_text(
        "from trl import GRPOConfig, GRPOTrainer\n"
        f"config = GRPOConfig(output_dir='out', use_vllm=True{given})\n"
        "GRPOTrainer(model='Qwen/Qwen2-0.5B', args=config).train()\n"
    )
    return launch


@pytest.mark.engine
def test_vllm_itself_refuses_and_a_code_knows_its_message(patient: Path, tmp_path: Path) -> None:
    case = asked(
        patient, served(tmp_path, "--max-num-batched-tokens 512", "--no-enable-chunked-prefill", "--max-model-len 4096")
    )
    records = case.observations["validators"]["engine"]["records"]
    assert records["stage"] == "refused" and records["place"]["names"], records
    found = findings(case)
    (told,) = [f for f in found["RLD202"].findings if f.grade is Grade.REPRODUCED]
    assert any("max_num_batched_tokens (512) is smaller than max_model_len (4096)" in e.text for e in told.evidence)
    assert "RLD212" not in found  # told once


# A server's own options, words for its parser, and a file that only its start would miss.
TAKEN = (
    "--enable-auto-tool-choice --tool-call-parser hermes --chat-template ./absent.jinja",
    "--no-enable-log-deltas --kv-cache-metrics --cpu-offload-params a b",
)


def differences(case: Case) -> dict[str, tuple[object, object]]:
    """What is derived of the engine from tables and rules, and comes out otherwise."""
    effective = case.observations["validators"]["engine"]["records"]["effective"]
    mine = {option: case.plan.value(f"engine.{option}") if case.plan else None for option in effective}
    return {o: (mine[o], effective[o]) for o in effective if mine[o] is not None and mine[o] != effective[o]}


@pytest.mark.engine
def test_vllm_itself_accepts_and_says_what_it_comes_to(
    patient: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_CACHE_ROOT", str(tmp_path / "cache"))  # it has not seen the model's class before
    case = asked(patient, served(tmp_path, "--max-num-seqs 64", "--tensor-parallel-size 2", *TAKEN))
    job = case.observations["validators"]["engine"]
    assert job["ended"] == "done", job
    effective = job["records"]["effective"]
    assert (effective["max_model_len"], effective["max_num_seqs"], effective["tensor_parallel_size"]) == (32768, 64, 2)
    assert differences(case) == {}
    plan = with_effective(case).plan
    assert plan is not None
    length = plan.settings["engine.max_model_len"]
    assert (length.value, length.source) == (32768, Source.DERIVED)
    assert plan.settings["engine.max_num_seqs"].source is Source.GIVEN
    assert "RLD212" not in findings(case)


@pytest.mark.engine
@pytest.mark.parametrize(
    ("options", "said"),
    [
        # Its own options, which no plan has; what only several configurations together refuse; a word for its parser.
        ("--enable-auto-tool-choice", "requires --tool-call-parser"),
        ("--per-request-spec-decode-metrics summary", "requires speculative decoding"),
        ("--mm-processor-device autos", "invalid choice: 'autos'"),
    ],
)
def test_a_server_is_asked_as_it_is_called(patient: Path, tmp_path: Path, options: str, said: str) -> None:
    case = asked(patient, served(tmp_path, options))
    job = case.observations["validators"]["engine"]
    assert job["records"]["stage"] == "refused", job
    messages = [f.message for found in findings(case).values() for f in found.findings if f.grade is Grade.REPRODUCED]
    assert any(said in message for message in messages), messages


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--kv-cache-metrics --no-enable-log-deltas -tp 2", ["--kv-cache-metrics", "--no-enable-log-deltas", "-tp 2"]),
        ("--distributed-executor-backend ray --port 1", ["--distributed-executor-backend mp", "--port 1"]),
        ("--chat-template a.jinja --tokenizer ./t --cpu-offload-params a b", ["--cpu-offload-params a b"]),
        ("--reasoning-parser mine --reasoning-parser-plugin mine.py", None),  # its code would run
        ("--max-num-seqs $MANY", None),
    ],
)
def test_the_words_that_a_servers_parser_is_asked(tmp_path: Path, options: str, words: list[str] | None) -> None:
    environment = Environment(tmp_path / "venv").install("vllm", "0.32.0", {"vllm.py": ""})
    target = served(tmp_path, options)
    session = open_session(Options(target=target, pythons=(str(environment.python),), level="imports"))
    ((case, request),) = collect.cases(session, {"packages", "plan", "model", "gpus", "environment"})
    try:
        found = validators.jobs(case, request)["engine"].arguments["words"]
    except NotApplicable:
        found = None
    expected = None if words is None else [word.replace("-tp", "--tensor-parallel-size") for word in words]
    assert (None if found is None else " ".join(found)) == (None if expected is None else " ".join(expected))


@pytest.mark.engine
def test_what_a_trainer_asks_of_the_engine_comes_out_as_it_is_derived(patient: Path, tmp_path: Path) -> None:
    both = Environment(tmp_path / "venv", beside=patient).install("trl", "0.26.2", {"trl/__init__.py": ""})
    launch = script(tmp_path, vllm_mode="colocate", per_device_train_batch_size=8, max_completion_length=512)
    job = asked(both.python, launch)
    assert job.observations["validators"]["engine"]["ended"] == "done"
    assert "max_num_batched_tokens" in job.observations["validators"]["engine"]["records"]["taken"]
    assert differences(job) == {}


def test_a_model_whose_config_the_launch_changes_is_not_asked_for(tmp_path: Path) -> None:
    both = Environment(tmp_path / "venv").install("vllm", "0.10.2", {"vllm.py": ""})
    longer = (
        "from vllm import LLM\nLLM('./model', max_model_len=65536, hf_overrides={'rope_scaling': {'factor': 4.0}})\n"
    )
    served(tmp_path)
    launch = tmp_path / "sample.py"
    launch.write_text(longer)
    session = open_session(Options(target=launch, pythons=(str(both.python),), level="imports"))
    ((case, request),) = collect.cases(session, {"packages", "plan", "model", "gpus", "environment"})
    told = validators.jobs(case, request)["engine"].arguments
    assert told["options"]["hf_overrides"] == {"rope_scaling": {"factor": 4.0}}  # the engine's own option for it


def test_an_argument_class_refuses_for_the_launchs_processes(trainer: Environment, tmp_path: Path) -> None:
    case = asked(trainer.python, script(tmp_path, per_device_train_batch_size=3, num_generations=16))
    job = case.observations["validators"]["arguments"]
    assert job["records"]["stage"] == "refused"
    (told,) = findings(case)["RLD212"].findings
    assert told.grade is Grade.REPRODUCED
    assert told.message == "trl 0.26.2 refuses this in __post_init__: 3 completions do not suit num_generations 16"
    assert {e.source for e in told.evidence} >= {str(tmp_path / "train.py")}


def test_what_some_number_of_processes_admits_is_no_refusal(trainer: Environment, tmp_path: Path) -> None:
    case = asked(trainer.python, script(tmp_path, per_device_train_batch_size=4, num_generations=8))
    records = case.observations["validators"]["arguments"]["records"]
    assert case.observations["validators"]["arguments"]["ended"] == "done"
    assert [one["error"] is None for one in records["tried"]] == [False, True, True]
    assert "RLD212" not in findings(case)


def test_what_is_said_of_this_machine_is_no_refusal(trainer: Environment, tmp_path: Path) -> None:
    case = asked(trainer.python, script(tmp_path, beta=2.0))
    assert case.observations["validators"]["arguments"]["records"]["stage"] == "validate"
    assert "RLD212" not in findings(case)


def test_without_a_trainer_or_an_engine_nobody_is_asked(tmp_path: Path) -> None:
    empty = Environment(tmp_path / "venv")
    case = asked(empty.python, script(tmp_path))
    assert "validators" not in case.observations
    assert "no validator" in str(case.absent["observations.validators"])


COMPOSED = {
    "verl/__init__.py": "raise RuntimeError('nothing of it runs')\n",
    "verl/trainer/__init__.py": "",
    "verl/trainer/main_ppo.py": """
import hydra

@hydra.main(config_path="config", config_name="ppo_trainer", version_base=None)
def main(config): ...
""",
    "verl/trainer/config/ppo_trainer.yaml": """
defaults: [{rollout@actor_rollout_ref.rollout: rollout}, _self_]
trainer: {n_gpus_per_node: 8, nnodes: 1, project_name: a, experiment_name: "${trainer.project_name}_${oc.env:HOME}"}
data: {train_batch_size: 1024, max_prompt_length: 512}
actor_rollout_ref: {model: {path: m}, hybrid_engine: true}
""",
    "verl/trainer/config/rollout/rollout.yaml": """
name: vllm
prompt_length: ${data.max_prompt_length}
gpu_memory_utilization: 0.77
engine_kwargs: {vllm: {}}
""",
    "verl/trainer/config/ppo_megatron_trainer.yaml": """
defaults: [ppo_trainer, _self_]
actor_rollout_ref: {megatron: {tensor_model_parallel_size: 1}}
""",
    "verl/experimental/__init__.py": "",
    "verl/experimental/main.py": """
import hydra

@hydra.main(config_path="config", config_name="async_trainer", version_base=None)
def main(config): ...
""",
    "verl/experimental/config/async_trainer.yaml": """
hydra: {searchpath: [file://verl/trainer/config]}
defaults: [ppo_trainer, _self_]
""",
}


@pytest.fixture(scope="module")
def composing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with a trainer's own files and the real Hydra."""
    venv = tmp_path_factory.mktemp("composing") / "venv"
    return Environment(venv, beside=Path(sys.executable)).install("verl", "0.6.1+ours", COMPOSED).python


def composed(python: Path, folder: Path, *overrides: str) -> Case:
    launch = folder / "train.sh"
    launch.write_text(shlex.join(["python3", "-m", "verl.trainer.main_ppo", *overrides]) + "\n")
    return asked(python, launch)


def test_hydra_composes_the_frameworks_own_files(composing: Path, tmp_path: Path) -> None:
    path = r"it's C:\here"
    quoted = path.replace("'", r"\'")
    case = composed(composing, tmp_path, "data.max_prompt_length=64", f"actor_rollout_ref.model.path='{quoted}'")
    job = case.observations["validators"]["composition"]
    assert job["ended"] == "done", job
    effective = job["records"]["effective"]
    assert effective["actor_rollout_ref.rollout.prompt_length"] == 64
    assert effective["actor_rollout_ref.model.path"] == path
    assert "trainer.experiment_name" not in effective  # it asks this machine
    assert case.plan is not None
    options = options_of(case.plan, case)
    assert options is not None
    derived = validations.composed(case.plan, options)
    mine = {name: value for name, value in derived.items() if name in effective and value is not NOT_KNOWN}
    assert len(mine) >= 8
    assert mine == {name: effective[name] for name in mine}


def test_what_hydra_composed_beats_what_was_derived(tmp_path: Path) -> None:
    plan = RolloutPlan(
        framework="verl",
        file="train.sh",
        entry="verl.trainer.main_ppo",
        settings={
            "engine.gpu_memory_utilization": Setting(value=0.5, source=Source.DEFAULT, key="rollout.utilization"),
            "engine.max_num_seqs": Setting(value=64, source=Source.GIVEN, key="rollout.seqs"),
            "rollout.async_engine": Setting(value=False, source=Source.DEFAULT, key="rollout.mode"),
        },
    )
    effective = {"rollout.utilization": 0.77, "rollout.seqs": 32, "rollout.mode": "async"}
    job = {"ended": "done", "records": {"effective": effective}}
    made = with_effective(Case(plan=plan, observations={"validators": {"composition": job}})).plan
    assert made is not None
    assert made.value("engine.gpu_memory_utilization") == 0.77
    assert made.settings["engine.gpu_memory_utilization"].source is Source.DERIVED
    assert (made.value("engine.max_num_seqs"), made.value("rollout.async_engine")) == (64, False)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("+trainer.nnodes=2", "An item is already at 'trainer.nnodes'"),
        ("trainer.nodes=2", "Could not override 'trainer.nodes'"),
        ("~trainer.nodes", "Could not delete"),
        ("++actor_rollout_ref.rollout.engine_kwargs.vllm.seed=1", None),
    ],
)
def test_hydra_refuses_an_override(composing: Path, tmp_path: Path, override: str, said: str | None) -> None:
    case = composed(composing, tmp_path, "trainer.n_gpus_per_node=4", override)
    job = case.observations["validators"]["composition"]
    assert (job["records"]["stage"] == "refused") is (said is not None), job
    assert said is None or said in job["error"]["message"], job
    messages = [f.message for one in findings(case).values() for f in one.findings if f.grade is Grade.REPRODUCED]
    assert len(messages) == (said is not None), messages  # what the file shows and what Hydra says are told as one
    assert ("RLD219" in findings(case), "RLD212" in findings(case)) == (said is not None, False)


MEGATRON = "actor_rollout_ref.megatron.tensor_model_parallel_size=2"


@pytest.mark.parametrize(
    ("words", "stage"),
    [
        (("--config-name=ppo_megatron_trainer", MEGATRON), "validate"),
        (("--config-path=./config", "--config-name", "ppo_megatron_trainer.yaml", MEGATRON), "validate"),
        (("-cn", "ppo_megatron_trainer", MEGATRON + "1", "trainer.nodes=2"), "refused"),
        (("--config-dir=conf", "+experiment=mine", "experiment.lr=1"), None),
        (("hydra.searchpath=[file://conf]", "rollout@actor_rollout_ref.rollout=mine"), None),
        (("--multirun", "rollout@actor_rollout_ref.rollout=rollout,other"), None),
        (("hydra.mode=MULTIRUN", "rollout@actor_rollout_ref.rollout=rollout,other"), None),
    ],
)
def test_hydra_is_asked_of_the_files_that_the_launch_names(
    composing: Path, tmp_path: Path, words: tuple[str, ...], stage: str | None
) -> None:
    job = composed(composing, tmp_path, *words).observations.get("validators", {}).get("composition")
    assert (job["records"]["stage"] if job is not None else None) == stage, job


@pytest.mark.parametrize("given", ["model_engine=$1", "+data.mine=$MINE", "rollout@actor_rollout_ref.rollout=$ROLLOUT"])
def test_what_is_open_may_choose_other_files(composing: Path, tmp_path: Path, given: str) -> None:
    launch = tmp_path / "train.sh"
    launch.write_text(f"python3 -m verl.trainer.main_ppo {given} {MEGATRON}\n")
    assert "composition" not in asked(composing, launch).observations.get("validators", {})
    launch.write_text("python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=$MODEL trainer.nodes=2\n")
    assert asked(composing, launch).observations["validators"]["composition"]["records"]["stage"] == "refused"


def test_a_search_path_from_the_folder_of_the_launch_is_no_refusal(composing: Path, tmp_path: Path) -> None:
    launch = tmp_path / "train.sh"
    launch.write_text("python3 -m verl.experimental.main trainer.nnodes=2\n")
    case = asked(composing, launch)
    assert "does not compose here without" in case.observations["validators"]["composition"]["error"]["message"]
    assert not [f for one in findings(case).values() for f in one.findings if f.grade is Grade.REPRODUCED]


# OpenRLHF's program: a parser, what it asserts of the arguments, then the training.
PROGRAM = """
import argparse
from types import SimpleNamespace

def train(args):
    raise RuntimeError("it trains")

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rollout.n_samples_per_prompt", type=int, default=8)
    parser.add_argument("--rollout.batch_size", type=int, default=None)
    parser.add_argument("--train.async_enable", action="store_true")
    args = parser.parse_args()
    given = vars(args)
    args.rollout = SimpleNamespace(n=given["rollout.n_samples_per_prompt"], batch_size=given["rollout.batch_size"])
    if args.rollout.batch_size is None:
        args.rollout.batch_size = args.rollout.n * 4
    if args.rollout.n > 64:
        assert getattr(args, "train.async_enable"), "more than 64 samples need --train.async_enable"
    print("arguments are fine")
    train(args)
"""


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("--rollout.n_samples_per_prompt 16 --train.async_enable", None, ""),
        (
            "--rollout.n_samples_per_prompt 65",
            "RLD212",
            "openrlhf 0.11.2 refuses this in train_ppo_ray.py: more than 64 samples need",
        ),
        ("--rollout.n_samples_per_prompt 65 --train.async_enable", None, ""),
        ("--rollout.m 65", "RLD219", "--rollout.m"),
        ("--rollout.n_samples_per_prompt many", "RLD219", "--rollout.n_samples_per_prompt"),
    ],
)
def test_a_program_is_run_up_to_its_training(tmp_path: Path, words: str, code: str | None, said: str) -> None:
    files = {
        "openrlhf/__init__.py": "__version__ = '0.11.2'\n",
        "openrlhf/cli/__init__.py": "",
        "openrlhf/cli/train_ppo_ray.py": PROGRAM,
    }
    environment = Environment(tmp_path / "venv").install("openrlhf", "0.11.2", files)
    launch = tmp_path / "train.sh"
    launch.write_text(f"python3 -m openrlhf.cli.train_ppo_ray {words}\n")
    case = asked(environment.python, launch)
    job = case.observations["validators"]["program"]
    assert job["records"]["stage"] == ("validate" if code is None else "refused"), job
    if code is None:
        assert job["records"]["effective"]["rollout.batch_size"] > 60
    told = [(c, f.message) for c, r in findings(case).items() for f in r.findings if f.grade is Grade.REPRODUCED]
    assert [(c, said in message) for c, message in told] == ([] if code is None else [(code, True)]), told


# ms-swift's class: it looks at the model's folder, connects to the server, and runs code of the launch's own.
SWIFT = """
import json, os
from dataclasses import dataclass, field
from typing import List, Literal, Optional


class Base:
    @property
    def world_size(self):
        raise RuntimeError("torch.distributed is asked")


@dataclass
class RLHFArguments(Base):
    model: Optional[str] = None
    rlhf_type: Literal["grpo", "dpo"] = "dpo"
    use_vllm: bool = False
    reward_funcs: List[str] = field(default_factory=list)
    external_plugins: List[str] = field(default_factory=list)
    num_generations: int = 8
    per_device_train_batch_size: int = 1
    max_length: Optional[int] = None
    use_cpu: bool = False

    def _init_external_vllm(self):
        raise RuntimeError("it connects")

    def __post_init__(self):
        if self.external_plugins:
            raise ValueError("code of the launch's own is run")
        self._init_external_vllm()
        if not os.path.basename(self.model).startswith("Qwen"):
            raise ValueError(f"no model type is known for {self.model}")
        with open(os.path.join(self.model, "config.json")) as file:
            longest = json.load(file)["max_position_embeddings"]
        if self.max_length is not None and self.max_length > longest:
            raise ValueError(f"{self.max_length} is longer than the model's {longest}")
        whole = self.per_device_train_batch_size * self.world_size
        if whole % self.num_generations:
            raise ValueError(f"{whole} is not divisible by num_generations {self.num_generations}")
"""
GRPO = "NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --use_vllm true --external_plugins mine.py --reward_funcs a b "


@pytest.mark.engine
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--model Qwen/Qwen2.5-7B --num_generations 4", None),
        ("--model Qwen/Qwen2.5-7B --num_generations 3", "4 is not divisible by num_generations 3"),
        ("--model Qwen/Qwen2.5-7B --num_generations 4 --max_length 512", None),  # as long a model may be meant
        ("--model acme/mine --num_generations 3", None),  # a class that does not know the stand-in
    ],
)
def test_an_argument_class_reads_a_command_and_a_model_that_stands_in(
    patient: Path, tmp_path: Path, words: str, said: str | None
) -> None:
    files = {
        "swift/__init__.py": "__version__ = '4.6.0'\n",
        "swift/arguments/__init__.py": "",
        "swift/arguments/rlhf_args.py": SWIFT,
    }
    environment = Environment(tmp_path / "venv", beside=patient).install("ms-swift", "4.6.0", files)
    launch = tmp_path / "train.sh"
    launch.write_text(GRPO + words + "\n")
    case = asked(environment.python, launch)
    job = case.observations["validators"]["arguments"]
    refused = job["records"]["stage"] == "refused"
    assert refused is (said is not None), job
    assert said is None or said in job["error"]["message"]
    assert "external_plugins" in job["records"]["left_out"]


SCHEMA = """
from typing import Literal, Optional
from pydantic import BaseModel, model_validator


class Trl(BaseModel):
    use_vllm: bool = False
    num_generations: Optional[int] = None
    vllm_mode: Literal["server", "colocate"] = "colocate"


class AxolotlInputConfig(BaseModel):
    base_model: str
    rl: Optional[str] = None
    micro_batch_size: int = 1
    gradient_accumulation_steps: int = 1
    trl: Optional[Trl] = None

    @model_validator(mode="before")
    @classmethod
    def whole(cls, data):
        if data.get("rl") == "grpo" and data["micro_batch_size"] % 2:
            raise ValueError("micro_batch_size is odd")
        return data
"""


@pytest.mark.engine
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("", None),
        ("micro_batch_size: 3", "micro_batch_size is odd"),
        ("trl: {vllm_mode: both, use_vllm: true}", "Input should be 'server' or 'colocate'"),
        ("base_model: null", "Input should be a valid string"),
        ("base_model:", "Input should be a valid string"),
    ],
)
def test_a_schema_takes_a_whole_configuration(patient: Path, tmp_path: Path, changed: str, said: str | None) -> None:
    files = {
        "axolotl/__init__.py": "__version__ = '0.21.0'\n",
        "axolotl/utils/__init__.py": "",
        "axolotl/utils/schemas/__init__.py": "",
        "axolotl/utils/schemas/config.py": SCHEMA,
    }
    environment = Environment(tmp_path / "venv", beside=patient).install("axolotl", "0.21.0", files)
    settings = {"base_model": "base_model: a", "rl": "rl: grpo", "micro_batch_size": "micro_batch_size: 2"}
    settings["trl"] = "trl: {use_vllm: true, num_generations: 4}"
    settings |= {changed.partition(":")[0]: changed} if changed else {}
    launch = tmp_path / "config.yaml"
    launch.write_text("\n".join(settings.values()) + "\n")
    case = asked(environment.python, launch)
    job = case.observations["validators"]["arguments"]
    assert (job["records"]["stage"] == "refused") is (said is not None), job
    assert said is None or said in job["error"]["message"]
    if said is None:
        assert job["records"]["effective"]["trl.vllm_mode"] == "colocate"


def test_a_class_or_program_that_computes_a_default_beats_what_was_derived() -> None:
    plan = RolloutPlan(
        framework="ms-swift",
        file="train.sh",
        entry="swift rlhf",
        settings={
            "batch.accumulation": Setting(value=16, source=Source.DEFAULT, key="gradient_accumulation_steps"),
            "engine.seed": Setting(value=0, source=Source.DEFAULT, key="seed"),  # the engine's, not the trainer's
        },
    )
    records = {"effective": {"gradient_accumulation_steps": 1, "seed": 42}, "package": {"name": "swift"}}
    made = with_effective(
        Case(plan=plan, observations={"validators": {"arguments": {"ended": "done", "records": records}}})
    ).plan
    assert made is not None
    assert (made.value("batch.accumulation"), made.value("engine.seed")) == (1, 0)


RAYS_OWN = """
class RuntimeEnv(dict):
    def __init__(self, *, env_vars=None, pip=None, conda=None, **more):
        if pip and conda:
            raise ValueError("The 'pip' field and 'conda' field of runtime_env cannot be specified at the same time.")
        for value in (env_vars or {}).values():
            if not isinstance(value, str):
                raise TypeError(f"runtime_env['env_vars'] must be of type Dict[str, str], but the value {value} is not")
        super().__init__(env_vars=env_vars, **more)
"""
SUBMITS = "ray job submit {given} -- python3 -m verl.trainer.main_ppo trainer.nnodes=1 actor_rollout_ref.model.path=m\n"


REFUSED = pytest.mark.parametrize(
    ("given", "file", "said"),
    [
        ('--runtime-env-json=\'{"env_vars": {"VLLM_USE_V1": 1}}\'', "", "but the value 1 is"),
        ("--runtime-env=env.yaml", "env_vars:\n  VLLM_USE_V1: 1\n", "but the value 1 is"),
        ("--runtime-env=env.yaml", 'working_dir: ./\nenv_vars:\n  VLLM_USE_V1: "1"\n', None),
        ('--runtime-env-json=\'{"pip": ["a"], "conda": "b"}\'', "", "cannot be specified at the same time"),
    ],
)


def submitted(python: Path, folder: Path, given: str, file: str) -> list[str]:
    """What is refused of a job that is submitted so."""
    (folder / "run.sh").write_text(SUBMITS.format(given=given))
    (folder / "env.yaml").write_text(file)
    case = asked(python, folder / "run.sh")
    assert case.observations["validators"]["runtime_env"]["ended"] in ("done", "raised"), case.observations
    found = findings(case).get("RLD212")
    return [one.message for one in (found.findings if found is not None else ()) if one.grade is Grade.REPRODUCED]


@REFUSED
def test_the_runtime_environment_of_a_job(given: str, file: str, said: str | None, tmp_path: Path) -> None:
    files = {"ray/__init__.py": "__version__ = '2.49.0'\n", "ray/runtime_env.py": RAYS_OWN}
    environment = Environment(tmp_path / "venv").install("ray", "2.49.0", files)
    messages = submitted(environment.python, tmp_path, given, file)
    assert [said is not None and said in one and "ray 2.49.0 refuses this" in one for one in messages] == [True] * (
        said is not None
    )


@pytest.mark.ray
@REFUSED
def test_rays_own_class(given: str, file: str, said: str | None, python_with_ray: Path, tmp_path: Path) -> None:
    messages = submitted(python_with_ray, tmp_path, given, file)
    assert [said is not None and said in one for one in messages] == [True] * (said is not None)
