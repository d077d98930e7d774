"""verl: keys and defaults of the configuration that a launch composes, which is not always ppo_trainer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rldoctor.frameworks.installed import InstalledOptions
from rldoctor.launch.recognise import read
from rldoctor.plan.model import RolloutPlan

Launches = Callable[..., list[RolloutPlan]]

MAIN = "verl.trainer.main_ppo"
ROLLOUT = "actor_rollout_ref.rollout"


def unknown(launches: Launches, command: str, version: str) -> list[str]:
    (plan,) = launches({"run.sh": f"python3 -m {command} {ROLLOUT}.name=vllm\n"}, verl=version)
    return [option.key for option in plan.unknown]


@pytest.mark.parametrize(
    ("main", "keys", "version"),
    [
        (
            f"{MAIN} --config-path=config --config-name='ppo_megatron_trainer.yaml'",
            "actor.megatron.param_offload",
            "0.6.1",
        ),
        (f"{MAIN} model_engine=megatron", "actor.megatron.param_offload", "0.9.0"),
        (f"{MAIN} model_engine=veomni", "actor.veomni.param_offload", "0.9.0"),
        (f"{MAIN} actor@actor_rollout_ref.actor=mlite_actor", "actor.my_own", "0.9.0"),
        (f"{MAIN} --config-path=$HERE/config --config-name=gsm8k_multiturn_grpo", "actor.my_own", "0.6.1"),
        ("recipe.entropy.main_entropy", "actor.my_own", "0.6.1"),
    ],
)
def test_keys_of_another_configuration_are_no_mistakes(launches: Launches, main: str, keys: str, version: str) -> None:
    assert unknown(launches, f"{main} actor_rollout_ref.{keys}=True", version) == []


@pytest.mark.parametrize(
    ("main", "key", "version"),
    [
        (MAIN, "actor_rollout_ref.actor.megatron.param_offload", "0.6.1"),
        (f"{MAIN} --config-name=ppo_megatron_trainer", "actor_rollout_ref.actor.fsdp_config.param_offload", "0.6.1"),
        (f"{MAIN} model_engine=megatron", "actor_rollout_ref.actor.megatron.param_ofload", "0.9.0"),
        ("recipe.dapo.main_dapo", "reward_model.overlong_bufer.enable", "0.6.1"),
        ("verl.experimental.fully_async_policy.fully_async_main", "async_training.staleness", "0.7.1"),
        (MAIN, "async_training.staleness_threshold", "0.7.1"),
    ],
)
def test_keys_that_the_configuration_lacks_are_refused(launches: Launches, main: str, key: str, version: str) -> None:
    assert unknown(launches, f"{main} {key}=1", version) == [key]


INSTALLED = {
    "verl/__init__.py": "",
    "verl/trainer/config/ppo_trainer.yaml": "algorithm: {_target_: verl.trainer.config.AlgoConfig, gamma: 1.0}\n",
    "verl/trainer/config/__init__.py": "from .algorithm import AlgoConfig\n",
    "verl/trainer/config/algorithm.py": """
@dataclass
class FilterGroupsConfig:
    enable: bool = False
@dataclass
class AlgoConfig:
    gamma: float = 1.0
    filter_groups: Optional[FilterGroupsConfig] = None
""",
}


@pytest.mark.parametrize(("main", "refused"), [("recipe.dapo.main_dapo", False), (MAIN, True)])
def test_a_recipe_that_is_not_installed_has_keys_of_its_own(tmp_path: Path, main: str, refused: bool) -> None:
    for name, text in INSTALLED.items():
        file = tmp_path / "site-packages" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    launch = tmp_path / "run.sh"
    launch.write_text(f"python3 -m {main} algorithm.filter_groups.enable=True {ROLLOUT}.name=vllm\n")
    (plan,) = read(launch, version_of={"verl": "0.8.0"}, known=InstalledOptions(tmp_path / "site-packages").at)
    assert ("algorithm.filter_groups.enable" in [option.key for option in plan.unknown]) is refused


OWN = """hydra:
  searchpath: ["file://verl/trainer/config"]
defaults: [{above}, _self_]
data: {{my_own: 1}}
"""


@pytest.mark.parametrize(
    ("above", "key", "refused"),
    [
        ("ppo_trainer", "actor_rollout_ref.actor.my_own", True),
        ("ppo_trainer", "+actor_rollout_ref.model.my_own", True),
        ("ppo_trainer", "+data.another", False),
        ("ppo_trainer", "data.my_own", False),
        ("ppo_trainer, more", "actor_rollout_ref.actor.my_own", False),
        ("{actor@actor_rollout_ref.actor: dp_actor}", "actor_rollout_ref.actor.my_own", False),
        ("[ppo_trainer]", "actor_rollout_ref.actor.my_own", False),
        ("of_my_own", "actor_rollout_ref.actor.my_own", False),
    ],
)
def test_a_configuration_of_its_own_has_verls_keys_and_those_that_it_adds(
    launches: Launches, above: str, key: str, refused: bool
) -> None:
    command = f"python3 -m {MAIN} --config-path=$HERE/config --config-name=own {ROLLOUT}.name=vllm {key}=1\n"
    (plan,) = launches({"run.sh": command, "config/own.yaml": OWN.format(above=above)}, verl="0.7.0")
    assert [option.key for option in plan.unknown] == [key] * refused


@pytest.mark.parametrize("path", ["config", "./config", "./config/"])
def test_its_own_folder_is_spelled_in_several_ways(launches: Launches, path: str) -> None:
    main = f"{MAIN} --config-path={path} --config-name=ppo_megatron_trainer"
    assert unknown(launches, f"{main} critic.model.my_own=1", "0.5.0") == ["critic.model.my_own"]
    assert unknown(launches, f"{main} actor_rollout_ref.actor.megatron.param_offload=True", "0.5.0") == []


@pytest.mark.parametrize(
    ("text", "version", "lacking"),
    [
        (f"python3 -m {MAIN} data.train_files=a.parquet", "0.6.1", True),
        (f"python3 -m {MAIN} data.train_files=a.parquet", "0.5.0", False),  # vllm by default
        (f"python3 -m {MAIN} data.train_files=a.parquet $MORE", "0.6.1", False),
        (f'python3 -m {MAIN} data.train_files=a.parquet "$@"', "0.6.1", False),  # who starts the script gives it
        (f"python3 -m {MAIN} --config-name=own data.train_files=a.parquet", "0.6.1", False),
        (f"python3 -m {MAIN} {ROLLOUT}.name=sglang", "0.6.1", False),
    ],
)
def test_an_engine_is_named_where_none_is_the_default(
    launches: Launches, text: str, version: str, lacking: bool
) -> None:
    (plan,) = launches({"run.sh": f"{text} actor_rollout_ref.model.path=org/model\n"}, verl=version)
    assert [value.key for value in plan.refused] == [f"{ROLLOUT}.name"] * lacking
    assert [value.takes for value in plan.refused] == [f"a value for {ROLLOUT}.name"] * lacking


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        ("--config-dir conf +experiment=mine", "experiment/mine.yaml"),
        ("hydra.searchpath=[file:///opt/conf] +experiment=mine", "experiment/mine.yaml"),
        ("hydra.searchpath=[file://$CONF] +experiment=mine", "experiment/mine.yaml"),
        ("+experiment/long=mine", "experiment/long/mine.yaml"),
        # Without a folder of one's own there is no such group: it is a new key.
        ("+experiment=mine", None),
        ("--config-dir conf +experiment=7 +data.tag=mine", None),
        ("--config-dir here +experiment=mine", None),
    ],
)
def test_a_group_whose_file_is_elsewhere_may_set_what_is_left_out(
    launches: Launches, arguments: str, absent: str | None
) -> None:
    files = {
        "run.sh": f"python3 -m {MAIN} {arguments}\n",
        "here/experiment/mine.yaml": "data: {train_batch_size: 64}\n",
    }
    (plan,) = launches(files, verl="0.6.1")
    assert [note.text for note in plan.notes if note.unread] == ([f"{absent} was not found"] if absent else [])
    assert (plan.settings["batch.mini_prompts"].unknown is None) == (absent is None)


def test_unread_words_may_name_the_configuration_that_has_the_key(launches: Launches) -> None:
    key = "actor_rollout_ref.actor.megatron.param_offload"
    assert unknown(launches, f"{MAIN} $MORE {key}=True", "0.6.1") == []
    assert unknown(launches, f"{MAIN} --config-name=ppo_trainer $MORE {key}=True", "0.6.1") == [key]
    assert unknown(launches, f"{MAIN} $MORE {key[:-1]}=True", "0.6.1") == [key[:-1]]


@pytest.mark.parametrize(
    ("engine", "offload", "dtype"),
    [
        ("", "actor_rollout_ref.actor.fsdp_config.param_offload", "actor_rollout_ref.actor.fsdp_config.model_dtype"),
        ("model_engine=dp", "actor_rollout_ref.actor.fsdp_config.param_offload", None),
        ("model_engine=veomni", "actor_rollout_ref.actor.veomni.param_offload", ""),
        ("model_engine=mindspeed", "", ""),
        ("model_engine=$ENGINE", "", ""),
    ],
)
def test_defaults_of_fsdp_hold_where_it_trains(
    launches: Launches, engine: str, offload: str, dtype: str | None
) -> None:
    (plan,) = launches({"run.sh": f"python3 -m {MAIN} {ROLLOUT}.name=vllm {engine}\n"}, verl="0.9.0")
    found = {name: plan.settings.get(name) for name in ("trainer.offload_params", "trainer.param_dtype")}
    keys = [setting.key or "" if setting is not None and setting.unknown is None else "" for setting in found.values()]
    assert keys[0] == offload
    assert dtype is None or keys[1] == dtype


def test_keys_of_the_mains_that_came_from_recipes(launches: Launches) -> None:
    dapo = "recipe.dapo.main_dapo data.gen_batch_size=512 algorithm.filter_groups.enable=True"
    assert unknown(launches, dapo, "0.6.1") == []
    apart = "verl.experimental.fully_async_policy.fully_async_main async_training.staleness_threshold=0.5"
    assert unknown(launches, f"{apart} rollout.nnodes=1", "0.7.1") == []


def test_generation_has_a_configuration_of_its_own(launches: Launches) -> None:
    command = "python3 -m verl.trainer.main_generation data.n_samples=8 model.path=org/model rollout.prompt_length=1024"
    (plan,) = launches(
        {"run.sh": f"{command} rollout.response_length=3072 rollout.max_num_batched_tokens=8192\n"}, verl="0.6.1"
    )
    assert plan.unknown == () and plan.value("engine.max_num_batched_tokens") == 8192
    assert (plan.value("model.path"), plan.value("engine.max_model_len")) == ("org/model", 4096)
    setting = plan.get("lengths.response")
    assert setting is not None and setting.key == "rollout.response_length"
    assert plan.value("batch.prompts") is None and plan.value("engine.enable_chunked_prefill") is None


def test_what_vllms_server_is_not_reported_concerns_no_other_engine(launches: Launches) -> None:
    text = f"python3 -m {MAIN} {ROLLOUT}.mode=async {ROLLOUT}.enable_chunked_prefill=False {ROLLOUT}.name="
    (vllm,) = launches({"run.sh": f"{text}vllm\n"}, verl="0.7.1")
    (other,) = launches({"run.sh": f"{text}sglang\n"}, verl="0.7.1")
    assert [option.ignored for option in vllm.unknown] == [True] and other.unknown == ()


def test_a_main_of_ones_own_takes_its_own_configuration(launches: Launches) -> None:
    main = '@hydra.main(config_path="config", config_name="{}", version_base=None)\ndef main(config):\n    pass\n'
    files = {
        "run.sh": f"python3 -m recipe.mine.main {ROLLOUT}.name=vllm\n",
        "recipe/mine/main.py": "import hydra\n\n\n" + main.format("mine"),
        "recipe/mine/config/mine.yaml": "defaults: [ppo_trainer, _self_]\ndata: {max_response_length: 96}\n",
        "recipe/mine/config/ppo_trainer.yaml": "data: {max_prompt_length: 32}\n",
    }
    (plan,) = launches(files, verl="0.6.1")
    assert (plan.value("lengths.prompt"), plan.value("lengths.response")) == (32, 96)
    # What verl's own main takes is no configuration of the launch, but its defaults.
    files["recipe/mine/main.py"] = "import hydra\n\n\n" + main.format("ppo_trainer")
    (plan,) = launches(files, verl="0.6.1")
    setting = plan.get("lengths.prompt")
    assert setting is not None and (setting.source.value, setting.value) == ("default", 512)


@pytest.mark.parametrize("named", ["--config-path=config --config-name=mine.yaml", "--config-name=mine"])
def test_a_forks_own_configuration_lies_beside_its_main(launches: Launches, named: str) -> None:
    """Hydra looks for a relative folder beside the module that calls hydra.main, wherever the script lies."""
    main = (
        '@hydra.main(config_path="config", config_name="ppo_trainer", version_base=None)\ndef main(config):\n    pass\n'
    )
    files = {
        "scripts/train/run.sh": f"python3 -m {MAIN} {named} {ROLLOUT}.name=vllm\n",
        "verl/trainer/main_ppo.py": "import hydra\n\n\n" + main,
        "verl/trainer/config/mine.yaml": "data: {max_response_length: 96}\n",
    }
    (plan,) = launches(files, verl="0.6.1")
    assert plan.value("lengths.response") == 96 and plan.notes == ()
    # One that verl ships is its defaults, as long as nothing of it is installed from there.
    files["scripts/train/run.sh"] = f"python3 -m {MAIN} {named.replace('mine', 'ppo_trainer')} {ROLLOUT}.name=vllm\n"
    files["verl/trainer/config/ppo_trainer.yaml"] = "data: {max_response_length: 96}\n"
    (plan,) = launches(files, verl="0.6.1")
    setting = plan.get("lengths.response")
    assert setting is not None and setting.source.value == "default"


def test_a_main_of_ones_own_is_read_by_itself(launches: Launches) -> None:
    main = '@hydra.main(config_path="config", config_name="mine", version_base=None)\ndef main(config):\n    pass\n'
    trains = "import hydra\nfrom verl.trainer.ppo.ray_trainer import RayPPOTrainer\n\n\n"
    files = {"main.py": trains + main, "config/mine.yaml": "data: {max_prompt_length: 32}\n"}
    (plan,) = launches(files, verl="0.6.1")
    assert (plan.framework, plan.value("lengths.prompt")) == ("verl", 32)


@pytest.mark.parametrize(
    ("folder", "name", "found"),
    [
        ("examples/confg", "mine", "examples/config"),
        ("examples/configs", "mine", "examples/config"),
        ("examples/config", "mnie", "examples/config/mine.yaml"),
        ("examples/config", "mine", None),
        ("examples/other", "mine", None),  # may be made, or fetched
    ],
)
def test_a_configuration_of_nearly_that_name(launches: Launches, folder: str, name: str, found: str | None) -> None:
    files = {
        "run.sh": f"python3 -m {MAIN} --config-path={folder} --config-name={name} {ROLLOUT}.name=vllm\n",
        "examples/config/mine.yaml": "data: {max_prompt_length: 32}\n",
    }
    (plan,) = launches(files, verl="0.6.1")
    assert [one.takes for one in plan.refused if one.owner == "Hydra"] == [found] * bool(found)


@pytest.mark.parametrize(
    ("key", "right", "wrong"),
    [
        ("actor_rollout_ref.actor.policy_loss.loss_mode", "geo_mean", "gspo_token"),
        ("actor_rollout_ref.actor.kl_loss_type", "k3+", "k4"),
        ("algorithm.kl_penalty", "low_var_kl", "low_var"),
    ],
)
def test_names_that_nothing_registers(launches: Launches, key: str, right: str, wrong: str) -> None:
    for name, refused in ((right, []), (wrong, [wrong])):
        (plan,) = launches({"run.sh": f"python3 -m {MAIN} {ROLLOUT}.name=vllm {key}={name}\n"}, verl="0.9.0")
        assert [one.value for one in plan.refused] == refused
        own = f"python3 -m recipe.mine.main {ROLLOUT}.name=vllm {key}={name}\n"
        (plan,) = launches({"run.sh": own}, verl="0.9.0")
        assert plan.refused == ()
