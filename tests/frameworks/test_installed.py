"""Options of a framework as it lies in an environment: read, never imported."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from rldoctor.case import Unknown
from rldoctor.frameworks.installed import InstalledOptions

Write = Callable[[dict[str, str]], Path]

TRL = {
    "trl/__init__.py": "raise SystemExit('imported')",
    "trl/trainer/__init__.py": "raise SystemExit('imported')",
    "trl/trainer/base_config.py": """
    from transformers import TrainingArguments
    @dataclass
    class _BaseConfig(TrainingArguments):
        logging_steps: float = 10
    """,
    "trl/trainer/grpo_config.py": """
    from .base_config import _BaseConfig
    @dataclass
    class GRPOConfig(_BaseConfig):
        vllm_mode: str = "somehow"
        brand_new: int = 3
    """,
    "trl/trainer/model_config.py": "@dataclass\nclass ModelConfig:\n    dtype: str = 'auto'\n",
    "trl/scripts/utils.py": "@dataclass\nclass ScriptArguments:\n    dataset_name: str = None\n",
    "trl/scripts/grpo.py": """
    from trl import ScriptArguments
    class GRPOScriptArguments(ScriptArguments):
        reward_funcs: list[str] = None
    """,
}
TRANSFORMERS = {
    "transformers/__init__.py": "raise SystemExit('imported')",
    "transformers/training_args.py": """
    @dataclass
    class TrainingArguments:
        logging_steps: float = 500
        seed: int = 7
    """,
}


def test_what_is_installed_wins_over_the_table(write: Write) -> None:
    options = InstalledOptions(write({**TRL, **TRANSFORMERS})).at("trl", "grpo")
    assert options is not None
    assert options.default("vllm_mode") == "somehow"
    assert options.known("brand_new") is True
    assert options.default("seed") == 7
    assert options.default("logging_steps") == 10
    assert options.known("reward_funcs") is True
    assert options.known("vllm_device") is False
    assert "as installed" in options.source


def test_what_is_inherited_from_an_absent_framework_comes_from_its_table(write: Write) -> None:
    options = InstalledOptions(write(TRL)).at("trl", "GRPOConfig", {"transformers": "4.55.4"})
    assert options is not None
    assert options.default("per_device_train_batch_size") == 8
    assert options.known("brand_new") is True


def test_a_framework_that_is_not_there_is_none(write: Write) -> None:
    assert InstalledOptions(write(TRANSFORMERS)).at("trl") is None
    assert InstalledOptions(Path("/nonexistent")).at("trl") is None


def test_a_release_that_moved_its_options_leaves_a_gap(write: Write) -> None:
    moved = dict(TRL) | {"trl/trainer/grpo_config.py": "from .elsewhere import GRPOConfig\n"}
    options = InstalledOptions(write({**moved, **TRANSFORMERS})).at("trl", "GRPOConfig")
    assert options is not None
    assert isinstance(options.known("vllm_mode"), Unknown)
    assert options.known("seed") is True


def test_easyr1_and_verl_share_a_package_name(write: Write) -> None:
    root = write(
        {
            "verl/trainer/config.py": """
            from dataclasses import dataclass, field
            from ..workers.config import WorkerConfig
            @dataclass
            class PPOConfig:
                worker: WorkerConfig = field(default_factory=WorkerConfig)
            """,
            "verl/workers/config.py": "from .rollout import RolloutConfig\n@dataclass\nclass WorkerConfig:\n"
            "    rollout: RolloutConfig = field(default_factory=RolloutConfig)\n",
            "verl/workers/rollout/__init__.py": "from .config import RolloutConfig\n",
            "verl/workers/rollout/config.py": "@dataclass\nclass RolloutConfig:\n    n: int = 5\n",
        }
    )
    installed = InstalledOptions(root)
    assert not installed.has("verl")
    easyr1 = installed.at("easyr1")
    assert easyr1 is not None
    assert easyr1.default("worker.rollout.n") == 5


def test_a_clone_with_a_src_folder_behind_an_editable_install(write: Write) -> None:
    root = write(
        {
            "clone/src/axolotl/utils/config/__init__.py": "",
            "clone/src/axolotl/utils/schemas/config.py": "class AxolotlInputConfig(BaseModel):\n    lora_r: int = 8\n",
            "clone/src/axolotl/integrations/liger/args.py": "class LigerArgs(BaseModel):\n    rope: bool = None\n",
            "site/axolotl.pth": "../clone\n",
        }
    )
    options = InstalledOptions(root / "site").at("axolotl")
    assert options is not None
    assert options.default("lora_r") == 8
    assert options.known("rope") is True
    assert not options.rejects


def test_unreadable_files_are_no_options_and_no_error(write: Write) -> None:
    root = write({"openrlhf/cli/train_ppo_ray.py": "def broken(:\n"})
    (root / "openrlhf/cli/train_ppo.py").write_bytes(b"\xff\xfe" * 3_000_000)
    installed = InstalledOptions(root)
    for group in ("train_ppo_ray", "train_ppo"):
        options = installed.at("openrlhf", group)
        assert options is not None
        assert isinstance(options.known("--zero_stage"), Unknown)


def test_a_large_source_file_stays_within_the_budget(write: Write) -> None:
    fields = "\n".join(f"    option_{i}: int = {i}" for i in range(300))
    body = "\n".join(f"    def method_{i}(self):\n" + "        x = [1, 2, 3]\n" * 20 for i in range(150))
    root = write({"vllm/engine/arg_utils.py": f"@dataclass\nclass EngineArgs:\n{fields}\n{body}\n"})
    spent = []
    for _ in range(3):
        start = time.process_time()
        options = InstalledOptions(root).at("vllm", "EngineArgs")
        spent.append(time.process_time() - start)
        assert options is not None
        assert len(options) == 300
    assert min(spent) < 0.15


def test_modules_lie_where_the_frameworks_layout_has_its_source(tmp_path: Path) -> None:
    assert tmp_path / "src" in InstalledOptions(tmp_path).modules("prime-rl")
    assert InstalledOptions(tmp_path).modules("verl") == [tmp_path]


def test_a_file_for_a_later_python_leaves_a_gap_that_names_it(write: Write) -> None:
    """What else there is is known; the unread file may declare more, also for those that inherit from it."""
    later = dict(TRL) | {"trl/trainer/base_config.py": "match = = 1\n"}
    here = InstalledOptions(write({**later, **TRANSFORMERS}))
    options = here.at("trl", "GRPOConfig")
    assert options is not None
    assert options.known("brand_new") is True
    unknown = options.known("log_completions")
    assert isinstance(unknown, Unknown)
    assert "trl/trainer/base_config.py" in unknown.reason
    assert here.unreadable("trl") == unknown.reason


def test_what_is_read_whole_names_no_file(write: Write) -> None:
    here = InstalledOptions(write({**TRL, **TRANSFORMERS}))
    assert here.at("trl", "GRPOConfig") is not None
    assert here.unreadable("trl") == here.unreadable("verl") == ""
