"""What a framework's own validation of its configuration makes of a launch, told from its source alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rldoctor.case import Case, Distribution, Packages
from rldoctor.frameworks import frameworks
from rldoctor.launch.plans import plans
from rldoctor.link.locate import SearchPath
from rldoctor.link.problems import Refusal
from rldoctor.link.refused import refusal_of_call
from rldoctor.link.sources import Sources
from rldoctor.link.validations import refused_by, refused_in_checkout

Site = Callable[[dict[str, str]], Path]
FILES = {
    "verl/utils/config.py": """
        from verl.utils.shape import positive
        def validate_config(config, use_critic):
            gpus = config.trainer.gpus * config.trainer["nodes"]
            rows = config.data.rows * config.rollout.get("n", 1)
            assert rows % gpus == 0, f"rows ({rows}) must be divisible by {gpus}"
            def exclusive(old, new, name):
                if old is not None and new is not None:
                    raise ValueError(f"[{name}] both are set")
            exclusive(config.rollout.micro, config.rollout.micro_per_gpu, "rollout")
            if use_critic:
                assert config.critic.rows > 0
            changed(config.data)
            assert config.data.rows < 512, "too many rows"
            positive(config.rollout)
            config.rollout.n = 2
            if config.rollout.n > 4:
                raise ValueError("too many samples")
        """,
    "verl/utils/shape.py": """
        def positive(section):
            if section.length <= 0:
                raise ValueError(f"a length of {section.length}")
        """,
    "verl/trainer.py": """
        class Trainer:
            def _validate(self):
                config = self.config
                if config.trainer.gpus < 1:
                    raise ValueError("no devices")
        """,
    "openrlhf/config.py": """
        def hierarchize(args):
            root = {}
            for name, value in vars(args).items():
                root[name] = value
            return SimpleNamespace(**root)
        """,
    "openrlhf/cli.py": """
        import argparse
        from openrlhf.config import hierarchize
        def train(args): ...
        if __name__ == "__main__":
            parser = argparse.ArgumentParser()
            parser.add_argument("--estimator", default="gae")
            args = parser.parse_args()
            args = hierarchize(args)
            if args.packing and "flash" not in args.attention:
                args.attention = "flash"
            if args.estimator in ["rloo", "group_norm"]:
                assert args.samples > 1, f"{args.estimator} requires samples > 1"
            assert args.attention == "flash", "only flash"
            train(args)
        """,
}
HEALTHY: dict[str, Any] = {
    "trainer.gpus": 8,
    "trainer.nodes": 1,
    "data.rows": 64,
    "rollout.n": 5,
    "rollout.micro": None,
    "rollout.micro_per_gpu": 4,
    "rollout.length": 1024,
    "critic.rows": 0,
}


@pytest.fixture
def sources(site: Site) -> Sources:
    return Sources(SearchPath([site(FILES)]))


@pytest.fixture
def refuse(sources: Sources) -> Callable[[dict[str, Any]], Refusal | None]:
    def refused(changes: dict[str, Any]) -> Refusal | None:
        return refusal_of_call(sources, "verl.utils.config", "validate_config", "config", {**HEALTHY, **changes})

    return refused


def test_a_healthy_configuration(refuse: Callable[[dict[str, Any]], Refusal | None]) -> None:
    """The critic's assertion is behind a parameter that nobody knows, the last one behind a value that was set."""
    assert refuse({}) is None


def test_an_assertion_over_settings_that_were_multiplied(refuse: Callable[[dict[str, Any]], Refusal | None]) -> None:
    found = refuse({"data.rows": 100, "rollout.n": 3})
    assert found is not None
    assert found.message == "rows (300) must be divisible by 8"
    assert (found.file, found.line, found.function) == ("verl/utils/config.py", 6, "validate_config")
    assert set(found.reads) == {"data.rows", "rollout.n", "trainer.gpus", "trainer.nodes"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rollout.micro": 2}, "[rollout] both are set"),  # in a function that the function defines
        ({"rollout.length": 0}, "a length of 0"),  # in another module's, which gets a section
    ],
)
def test_functions_that_are_called_on_the_way(
    refuse: Callable[[dict[str, Any]], Refusal | None], changes: dict[str, Any], message: str
) -> None:
    found = refuse(changes)
    assert found is not None
    assert found.message == message


def test_a_section_that_another_function_may_have_changed(
    refuse: Callable[[dict[str, Any]], Refusal | None],
) -> None:
    assert refuse({"data.rows": 1024}) is None


MADE = {
    "verl/config.py": """
        def to_object(config, type_=None):
            if not config:
                return None
            if not isinstance(config, DictConfig | dict):
                return config
            if type_ is None:
                from hydra.utils import instantiate
                return instantiate(config, _convert_="partial")
            return type_(config)
        def validate_config(config):
            actor = to_object(config.actor)
            actor.validate(config.trainer.gpus, config.model)
            if config.model.get("rank", 0) > 0:
                assert config.model.rank <= 512, "the rank is too large"
        """,
    "verl/workers.py": """
        class ActorConfig:
            strategy: str
            rows: int = 1
            sequence_parallel: int = 1
            def validate(self, gpus, model=None):
                if self.rows < gpus:
                    raise ValueError(f"{self.rows} rows for {gpus} devices")
        class ShardedActorConfig(ActorConfig):
            def validate(self, gpus, model=None):
                super().validate(gpus, model)
                if self.strategy in {"fsdp", "fsdp2"} and self.sequence_parallel > 1:
                    if model and not model.get("remove_padding", False):
                        raise ValueError("sequence parallelism needs remove_padding")
        """,
}
SHARDED: dict[str, Any] = {
    "actor._target_": "verl.workers.ShardedActorConfig",
    "actor.strategy": "fsdp",
    "actor.rows": 8,
    "actor.sequence_parallel": 1,
    "model.remove_padding": False,
    "model.rank": 0,
    "trainer.gpus": 8,
}


@pytest.mark.parametrize(
    ("changes", "message", "reads"),
    [
        ({"actor.rows": 4}, "4 rows for 8 devices", {"actor.rows", "trainer.gpus"}),
        (
            {"actor.sequence_parallel": 2},
            "sequence parallelism needs remove_padding",
            {"actor.strategy", "actor.sequence_parallel", "model.remove_padding"},
        ),
        ({"model.rank": 1024}, "the rank is too large", {"model.rank"}),  # the method left its section as it was
        ({}, None, set()),
        ({"actor.sequence_parallel": 2, "model.remove_padding": True}, None, set()),
        ({"actor.rows": 4, "actor._target_": "elsewhere.Config"}, None, set()),
    ],
)
def test_a_method_of_what_hydra_makes_of_a_section(
    site: Site, changes: dict[str, Any], message: str | None, reads: set[str]
) -> None:
    sources = Sources(SearchPath([site(MADE)]))
    found = refusal_of_call(sources, "verl.config", "validate_config", "config", {**SHARDED, **changes})
    assert (found.message if found is not None else None) == message
    assert set(found.reads if found is not None else ()) >= reads


ARGUMENTS = {
    "trl/trainer/grpo_config.py": """
        class GRPOConfig:
            liger: bool = False
            quantile: float = 1.0
            rows: int = 8
            def __post_init__(self):
                if self.rows < 1:
                    raise ValueError("no rows")
        """,
    "trl/trainer/grpo_trainer.py": """
        from trl.trainer.grpo_config import GRPOConfig
        class GRPOTrainer(Trainer):
            def __init__(self, model, args=None, peft_config=None):
                if args is None:
                    args = GRPOConfig(f"{model}-GRPO")
                if peft_config is not None and args.rows > 64:
                    raise ValueError("too many rows for an adapter")
                self.liger = args.liger
                self.quantile = args.quantile
                if self.liger and self.quantile < 1.0:
                    raise NotImplementedError("no entropy mask with liger")
                super().__init__(model=model, args=args)
                if args.rows > 32:
                    raise ValueError("too many rows")
        """,
}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("liger=True, quantile=0.5", "no entropy mask with liger"),
        ("quantile=0.5", None),
        ("liger=True", None),
        ("rows=128", None),  # behind what another package's class may have changed, or what nobody knows
        ("rows=0", "no rows"),  # what the object itself refuses
        ("liger=True, **more", None),
    ],
)
def test_a_trainer_that_gets_the_arguments(site: Site, tmp_path: Path, given: str, message: str | None) -> None:
    launch = tmp_path / "train.py"
    lines = ("from trl import GRPOConfig, GRPOTrainer", f"args = GRPOConfig({given})")
    launch.write_text("\n".join([*lines, "GRPOTrainer(model='m', args=args).train()", ""]))
    plan = plans(launch, Case())[0]
    record = next(record for record in frameworks() if record.title == plan.framework)
    found = refused_by(record, Case(plan=plan), Sources(SearchPath([site(ARGUMENTS)])))
    assert (found["message"] if found is not None else None) == message
    if message is not None and "liger" in message:
        assert found is not None
        assert sorted(found["reads"]) == ["liger", "quantile"]


def test_a_value_that_is_not_known(refuse: Callable[[dict[str, Any]], Refusal | None]) -> None:
    assert refuse({"data.rows": {"computed": True}, "rollout.n": 3}) is None


def test_a_method_whose_object_holds_the_configuration(sources: Sources) -> None:
    found = refusal_of_call(sources, "verl.trainer", "Trainer._validate", "self.config", {"trainer.gpus": 0})
    assert found is not None
    assert (found.message, found.reads) == ("no devices", ("trainer.gpus",))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"estimator": "rloo"}, "rloo requires samples > 1"),
        ({"attention": "eager"}, "only flash"),
        ({"attention": "eager", "packing": True}, None),  # which switches flash on
        ({"estimator": "rloo", "samples": 8}, None),
    ],
)
def test_what_a_program_asks_of_its_arguments(sources: Sources, changes: dict[str, Any], message: str | None) -> None:
    given = {"estimator": "gae", "samples": 1, "packing": False, "attention": "flash", **changes}
    found = refusal_of_call(sources, "openrlhf.cli", "", "args", given)
    assert (found.message if found is not None else None) == message


RAY = "rlhf_type: grpo\nuse_vllm: true\ntrain:\n  gpus: 4\nrollout:\n  gpus: 4\n"
MEGATRON = "rlhf_type: grpo\nuse_vllm: true\nmicro_batch_size: 1\nglobal_batch_size: 16\n"


@pytest.mark.parametrize(
    ("file", "text", "refused"),
    [
        ("train.sh", "swift rlhf --rlhf_type grpo --model m --use_vllm true\n", True),
        ("train.py", "from swift import RLHFArguments\nRLHFArguments(rlhf_type='grpo', use_vllm=True)\n", True),
        ("train.yaml", "rlhf_type: grpo\nuse_vllm: true\n", True),
        # Megatron's command has an argument class of its own, on Ray one that asks for no mode.
        ("train.sh", "megatron rlhf --rlhf_type grpo --model m --use_vllm true\n", False),
        ("train.yaml", RAY, False),
        ("train.yaml", MEGATRON, False),
    ],
)
def test_another_command_has_another_class(site: Site, tmp_path: Path, file: str, text: str, refused: bool) -> None:
    arguments = """
        from dataclasses import dataclass
        from typing import Optional
        @dataclass
        class RLHFArguments:
            use_vllm: bool = False
            vllm_mode: Optional[str] = None
            def __post_init__(self):
                if self.use_vllm and self.vllm_mode is None:
                    raise ValueError("vllm_mode is required when use_vllm is true")
        """
    root = site({"swift/arguments/rlhf_args.py": arguments})
    there = Distribution(name="ms-swift", version="4.5.2", location=str(root))
    case = Case(packages=Packages(python="3.12.1", distributions=(there,)))
    (tmp_path / file).write_text(text)
    record = next(record for record in frameworks() if record.name == "ms-swift")
    for plan in plans(tmp_path / file, case):
        found = refused_by(record, replace(case, plan=plan), Sources(SearchPath([root])))
        assert (found is not None) is refused


OPENRLHF = """\
import argparse
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pretrain", type=str, default=None)
    parser.add_argument("--vllm_num_engines", type=int, default=None)
    parser.add_argument("--advantage_estimator", type=str, default="gae")
    parser.add_argument("--n_samples_per_prompt", type=int, default=1)
    args = parser.parse_args()
    if args.advantage_estimator == "rloo":
        assert args.n_samples_per_prompt > 2, "rloo needs three samples here"
"""
LAUNCH = "python3 -m openrlhf.cli.train_ppo_ray --pretrain ./m --vllm_num_engines 2 --advantage_estimator rloo"


@pytest.mark.parametrize(("samples", "refused"), [(2, True), (4, False)])
def test_a_launch_in_a_checkout_is_judged_by_its_source(tmp_path: Path, samples: int, refused: bool) -> None:
    program = tmp_path / "openrlhf" / "cli" / "train_ppo_ray.py"
    program.parent.mkdir(parents=True)
    program.write_text(OPENRLHF)
    launch = tmp_path / "examples" / "run.sh"
    launch.parent.mkdir()
    launch.write_text(f"{LAUNCH} --n_samples_per_prompt {samples}\n")
    case = Case(packages=Packages(python="3.11", distributions=(Distribution(name="openrlhf", version="0.9.0"),)))
    (plan,) = plans(launch, case)
    found = refused_in_checkout(replace(case, plan=plan))
    assert (found is not None) is refused
    if found is not None:
        assert (found["name"], found["refusal"]["message"]) == ("openrlhf", "rloo needs three samples here")
    program.unlink()  # elsewhere there is no source to judge it by
    assert refused_in_checkout(replace(case, plan=plan)) is None


def message_of(
    tree: Path, launch: Path, package: str, version: str, environment: dict[str, str] | None = None
) -> str | None:
    """What the framework whose sources lie in ``tree`` refuses of a launch, with the package's release."""
    there = Distribution(name=package, version=version)
    case = Case(packages=Packages(python="3.12", distributions=(there,)), environment=environment)
    (plan,) = plans(launch, case)
    record = next(one for one in frameworks() if package in [owned.name for owned in one.packages])
    found = refused_by(record, replace(case, plan=plan), Sources(SearchPath([tree])))
    return found["message"] if found is not None else None


VALIDATED = """\
def validate_config(config):
    if config.actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu is None:
        raise ValueError("no micro batch")
    if config.data.train_batch_size < 1:
        raise ValueError("no rows")
"""
PPO = "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.name=vllm\n"
GENERATION = "python3 -m verl.trainer.main_generation_server actor_rollout_ref.rollout.name=vllm\n"
BASE = "defaults:\n  - ppo_trainer\n  - _self_\nactor_rollout_ref:\n  rollout:\n    name: vllm\ndata:\n"
MINE = BASE.replace("data:", "  actor:\n    ppo_micro_batch_size_per_gpu: {micro}\ndata:\n  train_batch_size: {rows}")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("run.sh", PPO, "no micro batch"),
        # It samples, and has no actor that trains; another main looks by itself.
        ("run.sh", GENERATION, None),
        ("run.sh", PPO.replace("trainer.main_ppo", "experimental.fully_async_policy.fully_async_main"), None),
        # A configuration by itself is completed by the command line that starts it: only what it gives is refused.
        ("mine.yaml", BASE + "  train_batch_size: 512\n", None),
        # So it does with what the file itself leaves empty.
        ("mine.yaml", MINE.format(micro="null", rows=512), None),
        ("mine.yaml", MINE.format(micro=4, rows=0), "no rows"),
    ],
)
def test_what_is_asked_of_a_whole_launch_of_the_main_that_asks_it(
    tmp_path: Path, name: str, text: str, message: str | None
) -> None:
    program = tmp_path / "verl" / "utils" / "config.py"
    program.parent.mkdir(parents=True)
    program.write_text(VALIDATED)
    launch = tmp_path / "examples" / name
    launch.parent.mkdir()
    launch.write_text(text)
    assert message_of(tmp_path, launch, "verl", "0.6.1") == message


FILLED = """\
def validate_generator_cfg(cfg):
    assert cfg.generator.max_input_length == cfg.trainer.max_prompt_length, "other lengths"
"""


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ("trainer.max_prompt_length=512", False),  # generator.max_input_length is None until skyrl fills it in
        ("trainer.max_prompt_length=512 generator.max_input_length=512", False),
        ("trainer.max_prompt_length=512 generator.max_input_length=1024", True),
    ],
)
def test_what_the_framework_fills_in_before_it_looks(tmp_path: Path, given: str, refused: bool) -> None:
    program = tmp_path / "skyrl" / "train" / "utils" / "utils.py"
    program.parent.mkdir(parents=True)
    program.write_text(FILLED)
    launch = tmp_path / "run.sh"
    launch.write_text(f"python -m skyrl.train.entrypoints.main_base {given}\n")
    assert (message_of(tmp_path, launch, "skyrl", "0.3.0") is not None) is refused


ASKS = """\
import os
def validate_cfg(cfg):
    if cfg.trainer.logger == "wandb":
        assert os.environ.get("WANDB_API_KEY"), "no key"
    if cfg.trainer.logger == "mlflow":
        assert os.environ.get("NCCL_DEBUG"), "no debug"
"""


@pytest.mark.parametrize(("logger", "message"), [("wandb", None), ("mlflow", "no debug")])
def test_a_key_may_be_given_where_the_job_runs(tmp_path: Path, logger: str, message: str | None) -> None:
    program = tmp_path / "skyrl_train" / "utils" / "utils.py"
    program.parent.mkdir(parents=True)
    program.write_text(ASKS)
    launch = tmp_path / "run.sh"
    launch.write_text(f"python -m skyrl_train.entrypoints.main_base trainer.logger={logger}\n")
    assert message_of(tmp_path, launch, "skyrl-train", "0.2.0", {}) == message


BATCHES = """\
def slime_validate_args(args):
    if args.num_steps_per_rollout is not None:
        size = args.rollout_batch_size * args.n_samples_per_prompt // args.num_steps_per_rollout
        if args.global_batch_size is not None:
            assert args.global_batch_size == size, "another size"
    assert args.rollout_batch_size > 1, "one prompt"
"""


@pytest.mark.parametrize(("rows", "message"), [(8, None), (1, "one prompt")])
def test_an_option_of_unknown_type_may_be_a_number(tmp_path: Path, rows: int, message: str | None) -> None:
    """``global_batch_size`` is Megatron's, which slime's own options do not have."""
    program = tmp_path / "slime" / "utils" / "arguments.py"
    program.parent.mkdir(parents=True)
    program.write_text(BATCHES)
    words = f"--rollout-batch-size {rows} --n-samples-per-prompt 8 --num-steps-per-rollout 1 --global-batch-size 64"
    launch = tmp_path / "run.sh"
    launch.write_text(f"python3 train.py {words} --sglang-mem-fraction-static 0.7 --hf-checkpoint m\n")
    assert message_of(tmp_path, launch, "slime", "0.3.1") == message


RUNS = """\
import ray
from verl.trainer.ppo.utils import need_critic
def run_ppo(config):
    ray.init()
def main(config):
    run_ppo(config)
class TaskRunner:
    def pools(self, config):
        if config.algorithm.adv_estimator == "gae":
            assert config.critic.ppo_micro_batch_size_per_gpu is not None, "no micro batch of the critic"
    def run(self, config):
        self.config = config
        self.pools(config)
        assert self.config.trainer.nnodes > 0, "no nodes"
"""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("algorithm.adv_estimator=gae", "no micro batch of the critic"),
        ("algorithm.adv_estimator=gae critic.ppo_micro_batch_size_per_gpu=4", None),
        ("algorithm.adv_estimator=grpo", None),
        ("algorithm.adv_estimator=grpo trainer.nnodes=0", "no nodes"),
    ],
)
def test_the_program_that_is_started_is_asked(tmp_path: Path, given: str, message: str | None) -> None:
    program = tmp_path / "verl" / "trainer" / "main_ppo.py"
    program.parent.mkdir(parents=True)
    program.write_text(RUNS)
    config = "critic: {ppo_micro_batch_size_per_gpu: null}\ntrainer: {nnodes: 1}\nalgorithm: {adv_estimator: gae}\n"
    (program.parent / "config").mkdir()
    (program.parent / "config" / "ppo_trainer.yaml").write_text(config)
    (tmp_path / "run.sh").write_text(f"python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.name=vllm {given}\n")
    case = Case(packages=Packages(python="3.11", distributions=(Distribution(name="verl", version="0.6.1"),)))
    (plan,) = plans(tmp_path / "run.sh", case)
    found = refused_in_checkout(replace(case, plan=plan))
    assert (found["refusal"]["message"] if found is not None else None) == message


CRITIC = """\
from dataclasses import dataclass
@dataclass
class FSDPCriticConfig:
    ppo_micro_batch_size: int | None = None
    ppo_micro_batch_size_per_gpu: int | None = None
    use_dynamic_bsz: bool = False
    def __post_init__(self):
        if not self.use_dynamic_bsz and self.ppo_micro_batch_size is None and self.ppo_micro_batch_size_per_gpu is None:
            raise ValueError("no micro batch")
"""
EMPTY = "critic.ppo_micro_batch_size=null critic.ppo_micro_batch_size_per_gpu=null"


@pytest.mark.parametrize(
    ("name", "text", "refused"),
    [
        ("run.sh", f"{PPO[:-1]} {EMPTY} critic.use_dynamic_bsz=False\n", True),
        ("run.sh", f"{PPO[:-1]} critic.ppo_micro_batch_size_per_gpu=4 critic.use_dynamic_bsz=False\n", False),
        # No critic need be made: what is left empty is nothing that the launch gives its class.
        ("run.sh", f"{PPO[:-1]} {EMPTY}\n", False),
        # The command line that starts a configuration gives what that leaves empty.
        (
            "mine.yaml",
            f"{BASE}  train_batch_size: 512\ncritic:\n  use_dynamic_bsz: false\n  ppo_micro_batch_size: null\n",
            False,
        ),
    ],
)
def test_the_class_of_a_section_refuses_what_the_launch_gives_it(
    tmp_path: Path, name: str, text: str, refused: bool
) -> None:
    program = tmp_path / "verl" / "workers" / "config.py"
    program.parent.mkdir(parents=True)
    program.write_text(CRITIC)
    (tmp_path / name).write_text(text)
    assert (message_of(tmp_path, tmp_path / name, "verl", "0.6.1") is not None) is refused
