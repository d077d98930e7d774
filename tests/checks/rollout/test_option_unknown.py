"""RLD219: options that the release does not declare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.rollout.option_unknown import check

from rldoctor.api import Case, Grade, Outcome, Severity
from rldoctor.judge import judge_one
from rldoctor.plan.model import Form, UnknownOption
from tests.checks.launches import LaunchFile
from tests.logs.raising import found, traceback
from tests.plans import case

TYPO = UnknownOption(
    key="actor_rollout_ref.rollout.gpu_memory_utilisation",
    file="run.sh",
    line=31,
    form=Form.OVERRIDE,
    nearest=("actor_rollout_ref.rollout.gpu_memory_utilization",),
    owner="verl 0.6.1",
)


def with_unknown(*options: UnknownOption) -> Case:
    made = case()
    assert made.plan is not None
    return replace(made, plan=replace(made.plan, unknown=options))


def test_an_option_of_a_release_that_nobody_read_is_not_checked(tmp_path: Path) -> None:
    text = "python3 -m verl.trainer.main_ppo data.train_batch_size=8 actor_rollout_ref.rollout.n=4\n"
    (later,) = (judge_one(check, case) for case in LaunchFile(tmp_path, text, {"verl": "99.0"}).cases())
    assert later.outcome is Outcome.NOT_CHECKED
    assert (later.reason or "").startswith("the options of verl 99.0 are not known (read were ")
    assert "actor_rollout_ref.rollout.n" in (later.reason or "")
    (known,) = (judge_one(check, case) for case in LaunchFile(tmp_path, text, {"verl": "0.7.0"}).cases())
    assert known.outcome is Outcome.PASS


def test_names_the_option_the_line_and_the_nearest_real_one() -> None:
    (finding,) = judge_one(check, with_unknown(TYPO)).findings
    assert "gpu_memory_utilisation; did you mean actor_rollout_ref.rollout.gpu_memory_utilization?" in finding.message
    assert (finding.evidence[0].source, finding.evidence[0].line) == ("run.sh", 31)


def test_what_one_choice_would_bring_is_one_finding() -> None:
    places = [
        ("actor_rollout_ref.actor.megatron.param_offload", 7),
        ("actor_rollout_ref.ref.megatron.param_offload", 9),
    ]
    options = [replace(TYPO, key=key, line=line, nearest=(), chosen_by="model_engine=megatron") for key, line in places]
    typo, chosen = judge_one(check, with_unknown(*options, TYPO)).findings
    assert "did you mean" in typo.message
    assert chosen.message == (
        "verl 0.6.1 knows no option actor_rollout_ref.actor.megatron.param_offload here: "
        "model_engine=megatron has it, and 1 more that are given"
    )
    assert [one.line for one in chosen.evidence] == [7, 9]
    assert [fix.title for fix in chosen.fixes] == ["choose model_engine=megatron, or take out what it alone has"]
    (alone,) = judge_one(check, with_unknown(options[1])).findings
    assert alone.message.endswith("here: model_engine=megatron has it")


def test_known_options_of_a_known_release_are_quiet() -> None:
    case = with_unknown()
    assert case.plan is not None
    assert judge_one(check, replace(case, plan=replace(case.plan, version="0.21.0"))).outcome is Outcome.PASS
    result = judge_one(check, replace(case, plan=replace(case.plan, version=None)))
    assert result.outcome is Outcome.NOT_CHECKED and "release of" in str(result.reason)


def test_argparse_refuses() -> None:
    log = "usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --vllm_mod colocate\n"
    (finding,) = found(check, log)
    assert finding.message == "this release does not know --vllm_mod"


def test_argparse_refuses_what_cannot_be_seen() -> None:
    assert found(check, "usage: train.py [-h]\ntrain.py: error: unrecognized arguments: \t\n") == []


# Shared log torchrun_local_rank_arg.
def test_a_launcher_that_passes_the_rank_otherwise() -> None:
    log = "usage: train.py [-h]\ntrain.py: error: the following arguments are required: --local_rank\n"
    (finding,) = found(check, log)
    assert "LOCAL_RANK" in finding.fixes[0].title


def test_hydra_names_the_key() -> None:
    error = (
        "hydra.errors.ConfigCompositionException: Could not override 'actor_rollout_ref.rollout.tensor_parallel_size'."
    )
    (finding,) = found(check, traceback(error, "hydra/_internal/config_loader_impl.py f"))
    assert finding.message == "the config of this release has no actor_rollout_ref.rollout.tensor_parallel_size"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "Could not delete from config. 'trainer.nodes' does not exist.",
            ["the config of this release has no trainer.nodes that ~ could delete"],
        ),
        (
            "Could not delete 'profiler'. No match in the defaults list",
            ["the config of this release has no profiler that ~ could delete"],
        ),
        (
            "Could not delete from config. The value of 'trainer.nnodes' is 1 and not 2.",
            ["trainer.nnodes has another value than the one that ~ is to delete"],
        ),
        ("Could not delete the folder 'outputs'", []),
        ("Could not delete '/ckpt/step_10'. No match", []),
    ],
)
def test_hydra_names_the_key_that_it_is_to_delete(said: str, told: list[str]) -> None:
    error = f"hydra.errors.ConfigCompositionException: {said}"
    findings = found(check, traceback(error, "hydra/_internal/config_loader_impl.py f"))
    assert [finding.message for finding in findings] == told


def test_a_config_class_refuses_a_keyword() -> None:
    error = "TypeError: GRPOConfig.__init__() got an unexpected keyword argument 'vllm_device'"
    (finding,) = found(check, traceback(error, "transformers/hf_argparser.py parse_args_into_dataclasses"))
    assert finding.message == "GRPOConfig of this release does not know vllm_device"
    assert finding.fixes[0].title.startswith("take vllm_device out")
    library = "TypeError: Attention.__init__() got an unexpected keyword argument 'scale'"
    assert found(check, traceback(library, "vllm/x.py f")) == []


def test_what_a_frameworks_own_code_passes_stands_in_no_launch_file() -> None:
    error = "TypeError: EngineArgs.__init__() got an unexpected keyword argument 'disable_log_requests'"
    (finding,) = found(check, traceback(error, "skyrl_train/inference_engines/vllm_engine.py _create_engine"))
    assert "which skyrl_train assigns" in finding.message
    assert [fix.commands for fix in finding.fixes] == [("rldoctor compat",)]


def test_vllms_entry_point_hands_on_what_it_is_called_with() -> None:
    error = "TypeError: EngineArgs.__init__() got an unexpected keyword argument 'disable_mm_preprocessor_cache'"
    frames = ("verl/workers/rollout/vllm_rollout/vllm_rollout_spmd.py __init__", "vllm/entrypoints/llm.py __init__")
    (finding,) = found(check, traceback(error, *frames))
    assert "which verl assigns" in finding.message


def test_yaml_names_the_line() -> None:
    error = 'yaml.scanner.ScannerError: mapping values are not allowed here\n  in "acc.yaml", line 3, column 16'
    (finding,) = found(check, traceback(error, "yaml/scanner.py fetch_value"))
    assert finding.message == "acc.yaml, line 3, column 16 is not valid YAML"


def running(asked: Mapping[str, Any], engine: Mapping[str, Any], boot: str = "miniature") -> Case:
    """A launch with these engine options, whose engine was booted."""
    job = {"ended": "done", "records": {"asked": asked, "engine": engine, "versions": {"vllm": "0.9.1"}}}
    options: dict[str, Any] = {f"engine__{name}": value for name, value in asked.items()}
    made = case(**options)
    return replace(made, observations={"rollout": {boot: job}})


def test_an_option_that_the_running_engine_does_not_apply() -> None:
    # As vLLM 0.9.1 was seen to do with its V1 engine.
    (finding,) = judge_one(check, running({"enable_chunked_prefill": False}, {"enable_chunked_prefill": True})).findings
    assert (finding.severity, finding.grade) == (Severity.WARNING, Grade.OBSERVED)
    assert "was given enable_chunked_prefill=False and runs with True" in finding.message


def test_an_engine_that_runs_as_asked_is_quiet() -> None:
    asked = {"enable_chunked_prefill": False, "max_num_seqs": 64, "dtype": "half", "seed": 7}
    engine = {"enable_chunked_prefill": False, "max_num_seqs": 64, "dtype": "float16", "block_size": 16}
    result = judge_one(check, running(asked, engine))
    assert result.outcome is Outcome.PASS and "2 engine options" in str(result.reason)


def test_an_engine_that_differs_on_purpose_is_quiet() -> None:
    other = running({"enable_chunked_prefill": False}, {"enable_chunked_prefill": True}, boot="chunked_prefill: on")
    assert judge_one(check, other).outcome is Outcome.PASS


def options(folder: Path, version: str, *words: str) -> LaunchFile:
    text = "python3 -m verl.trainer.main_ppo \\\n    " + " \\\n    ".join(words) + "\n"
    return LaunchFile(folder, text, {"verl": version})


def test_who_starts_the_script_may_give_what_has_no_default(tmp_path: Path) -> None:
    given = ("data.train_files=a.parquet", "actor_rollout_ref.model.path=Qwen/Qwen3-4B")
    (finding,) = options(tmp_path, "0.6.1", *given).findings(check)
    assert "rollout.name: verl 0.6.1 (table" in finding.message and "has no default for it" in finding.message
    for more in ('"$@"', "$EXTRA", "actor_rollout_ref.rollout.name=vllm"):
        assert options(tmp_path, "0.6.1", *given, more).findings(check) == []


# https://github.com/verl-project/verl/pull/820, https://github.com/verl-project/verl/pull/7430
def test_hydra_wants_a_plus_for_new_keys_alone(tmp_path: Path) -> None:
    held = options(tmp_path, "0.7.0", "+trainer.val_before_train=False", "++trainer.nnodes=1")
    (finding,) = held.findings(check)
    assert "Hydra refuses the +" in finding.message
    assert finding.fixes[0].edits[0].value == "trainer.val_before_train"
    lacks = options(tmp_path, "0.7.0", "actor_rollout_ref.rollout.limit_images=4")
    (finding,) = lacks.findings(check)
    assert finding.fixes[0].edits[0].value == "+actor_rollout_ref.rollout.limit_images"
    good = options(tmp_path, "0.7.0", "trainer.val_before_train=False", "+actor_rollout_ref.rollout.limit_images=4")
    assert good.findings(check) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("actor_rollout_ref.actor.use_kl_loss=off", "use_kl_loss off: this is a text, and every text counts as true"),
        ("trainer.val_before_train=no", "val_before_train no: this is a text, and every text counts as true"),
        ("actor_rollout_ref.rollout.gpu_memory_utilization=60%", "gpu_memory_utilization 60%: this is a text, where"),
        ("data.max_response_length=2k", "max_response_length 2k: this is a text, where"),
        ("'data.train_files=[/data/a.parquet'", "train_files [/data/a.parquet: Hydra refuses it: ']' is missing"),
        ("data.train_files=~/a.parquet", "train_files ~/a.parquet: Hydra refuses it: '~' must be quoted"),
    ],
)
def test_texts_that_are_no_value_of_the_option(tmp_path: Path, words: str, message: str) -> None:
    (finding,) = options(tmp_path, "0.7.0", words).findings(check)
    assert message in finding.message and finding.evidence[0].line == 2


@pytest.mark.parametrize(
    "words",
    [
        "actor_rollout_ref.actor.use_kl_loss=yes",
        "actor_rollout_ref.actor.use_kl_loss=FALSE",
        "actor_rollout_ref.rollout.gpu_memory_utilization=.6",
        "algorithm.rollout_correction.rollout_is_threshold=0.5_4.0",
        "data.max_response_length=$LENGTH",
        "data.train_files=${DATA:-~/a.parquet}",
        "actor_rollout_ref.model.path='<path_to_model>'",
    ],
)
def test_texts_that_are_taken_as_they_are_meant(tmp_path: Path, words: str) -> None:
    assert options(tmp_path, "0.7.0", words).findings(check) == []


# OmegaConf's structured configurations, pydantic and parsers (TRL's and vLLM's read a file as they read words) make a
# truth value or a number of such a text, or refuse it when the run starts.
@pytest.mark.parametrize(
    ("release", "command", "file", "text"),
    [
        ({"easyr1": "0.3.2"}, "python3 -m verl.trainer.main config=own.yaml", "own.yaml", 'trainer: {val_only: "off"}'),
        (
            {"areal": "0.5.1"},
            "python3 -m areal.launcher.local train.py --config own.yaml",
            "own.yaml",
            'actor: {gradient_checkpointing: "no"}',
        ),
        ({"prime-rl": "0.4.0"}, "uv run rl @ own.toml", "own.toml", '[inference.model]\nenforce_eager = "off"'),
        ({"trl": "0.23.0"}, "accelerate launch grpo.py --config own.yaml", "own.yaml", 'use_vllm: "false"'),
        ({"vllm": "0.10.2"}, "vllm serve org/model --config own.yaml", "own.yaml", "max-num-batched-tokens: 8k"),
    ],
)
def test_texts_that_become_what_the_option_takes(
    tmp_path: Path, release: dict[str, str], command: str, file: str, text: str
) -> None:
    (tmp_path / file).write_text(text + "\n")
    (tmp_path / "grpo.py").write_text("from trl import GRPOConfig, TrlParser\nTrlParser((GRPOConfig,))\n")
    held = LaunchFile(tmp_path, command + "\n", release)
    assert [case.plan.version for case in held.cases() if case.plan is not None] == [*release.values()]
    assert held.findings(check) == []


def test_a_text_stays_one_where_no_class_is_behind_the_files(tmp_path: Path) -> None:
    command = "uv run examples/run_grpo_math.py policy.generation.colocated.enabled=off\n"
    (finding,) = LaunchFile(tmp_path, command, {"nemo-rl": "0.4.0"}).findings(check)
    assert "every text counts as true" in finding.message


OF_A_FORK = "algorithm.no_think=true retriever.url=here actor_rollout_ref.actor.state_masking=true max_turns=4"


def test_options_that_no_release_ever_had_are_a_forks(tmp_path: Path) -> None:
    more = "actor_rollout_ref.rollout.val_temperature=1 +data.max_prompt_length=8 data.trian_batch_size=8"
    launch = options(tmp_path, "0.2.0", f"{OF_A_FORK} {more}")
    fork, alone = sorted(launch.findings(check), key=lambda finding: finding.severity is Severity.ERROR)
    assert (fork.severity, alone.severity) == (Severity.WARNING, Severity.ERROR)
    assert "has none of these 6 options, nor has any other release: algorithm.no_think, " in fork.message
    assert "and 3 more" in fork.message and len(fork.evidence) == 6
    assert "max_prompt_length" in alone.message


def test_two_of_them_are_mistakes(tmp_path: Path) -> None:
    found = options(tmp_path, "0.2.0", " ".join(OF_A_FORK.split()[:2])).findings(check)
    assert [finding.severity for finding in found] == [Severity.ERROR] * 2


def test_a_switch_that_takes_a_path(tmp_path: Path) -> None:
    given = "trainer.resume_mode=resume_path trainer.resume_from_path=/runs/one/global_step_90"
    assert options(tmp_path, "0.3.0.post1", given).findings(check) == []


@pytest.mark.parametrize(("value", "fires"), [("memory", False), ("off", True)])
def test_a_forks_own_switch_may_name_what_it_switches_on(tmp_path: Path, value: str, fires: bool) -> None:
    from rldoctor.frameworks.option_table import OptionTable

    table = OptionTable.load("verl").at("0.3.0.post1", None, {})
    config = tmp_path / "verl" / "trainer" / "config" / "ppo_trainer.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("".join(f"{key}: null\n" for key in table) + "recall: {enable: false, memory: {size: 8}}\n")
    found = options(tmp_path, "0.3.0.post1", f"recall.enable={value}").findings(check)
    assert ["every text counts as true" in finding.message for finding in found] == ([True] if fires else [])


def test_what_means_false_is_written_so(tmp_path: Path) -> None:
    (finding,) = options(tmp_path, "0.7.0", "actor_rollout_ref.rollout.free_cache_engine=off").findings(check)
    assert [(edit.option, edit.value) for fix in finding.fixes for edit in fix.edits] == [("sleep.enabled", False)]


# agg_loss of verl and _compute_loss of TRL's GRPO trainer raise for any other text.
@pytest.mark.parametrize(
    ("version", "words", "meant"),
    [
        ("0.7.0", "actor_rollout_ref.actor.loss_agg_mode=token_mean", "token-mean"),
        ("0.7.0", "actor_rollout_ref.actor.loss_agg_mode=token-mean", None),
        ("0.7.0", "algorithm.kl_ctrl.type=adaptve", "adaptive"),
        ("0.7.0", "algorithm.kl_ctrl.type=fixed", None),
        ("99.0", "algorithm.kl_ctrl.type=adaptve", None),
    ],
)
def test_texts_that_the_framework_raises_for(tmp_path: Path, version: str, words: str, meant: str | None) -> None:
    found = options(tmp_path, version, words).findings(check)
    assert [finding.fixes[0].title for finding in found] == ([f"write {meant}"] if meant else [])


# The last is like simpo, too, which the trainer of another algorithm knows.
@pytest.mark.parametrize(
    ("version", "loss", "meant"),
    [
        ("0.23.1", "drgrpo", "write dr_grpo"),
        ("0.23.1", "dr_grpo", None),
        ("0.23.1", "my_own_objective", None),
        ("0.22.0", "ppo", "write grpo"),
    ],
)
def test_a_loss_that_trl_does_not_have(tmp_path: Path, version: str, loss: str, meant: str | None) -> None:
    text = f"from trl import GRPOConfig\nargs = GRPOConfig(use_vllm=True, loss_type='{loss}')\n"
    found = LaunchFile(tmp_path, text, {"trl": version}, name="train.py").findings(check)
    assert [finding.fixes[0].title for finding in found] == ([meant] if meant else [])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("bf16='False'", "bf16 False: this is a text, and every text counts as true"),
        ("bf16=False", None),
        ("scale_rewards='True'", "scale_rewards True: this is a text and no truth value"),
        ("scale_rewards='batch'", None),
        ("run_name='True'", None),
    ],
)
def test_a_text_of_a_script_for_a_truth_value(tmp_path: Path, given: str, message: str | None) -> None:
    text = f"from trl import GRPOConfig\nargs = GRPOConfig(use_vllm=True, {given})\n"
    found = LaunchFile(tmp_path, text, {"trl": "0.24.0", "transformers": "4.57.1"}, name="train.py").findings(check)
    assert [finding.message.startswith(message or "") for finding in found] == ([True] if message else [])


# Between two releases that were read, and that agree; what a release declares is taken, whoever compares it.
@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("--loss_type bnp", "bnpo"),
        ("--tuner_type loraa", "lora"),
        ("--loss_type bnpo", None),
        ("--rlhf_type simpo", None),
        ("--rlhf_type kto", None),
    ],
)
def test_texts_of_a_release_that_lies_between_others(tmp_path: Path, words: str, meant: str | None) -> None:
    found = LaunchFile(tmp_path, f"swift rlhf {words} --beta 0.1\n", {"ms-swift": "4.5.0"}).findings(check)
    assert [finding.fixes[0].title for finding in found] == ([f"write {meant}"] if meant else [])


def test_a_text_that_the_parser_refuses_is_said_once(tmp_path: Path) -> None:
    text = "python3 -m openrlhf.cli.train_ppo_ray --advantage_estimator gropo\n"
    (finding,) = LaunchFile(tmp_path, text, {"openrlhf": "0.8.11"}).findings(check)
    assert "refuses --advantage_estimator gropo" in finding.message


# TrainingArguments makes members of enumerations of these texts in __post_init__; 4.47 brought `best`.
@pytest.mark.parametrize(
    ("transformers", "words", "meant"),
    [
        ("4.56.2", "save_strategy='epochs'", "write epoch"),
        ("4.46.3", "save_strategy='best'", "choose one of steps, epoch, no"),
        ("4.56.2", "save_strategy='best'", None),
        ("4.56.2", "optim='adamw_8bits'", "write adamw_8bit"),
        ("4.56.2", "optim='paged_adamw_8bit', lr_scheduler_type='cosine'", None),
    ],
)
def test_texts_that_are_members_of_enumerations(
    tmp_path: Path, transformers: str, words: str, meant: str | None
) -> None:
    text = f"from trl import GRPOConfig\nargs = GRPOConfig(use_vllm=True, {words})\n"
    releases = {"trl": "0.23.1", "transformers": transformers}
    found = LaunchFile(tmp_path, text, releases, name="train.py").findings(check)
    assert [finding.fixes[0].title for finding in found] == ([meant] if meant else [])
    assert all(len(finding.message) < 250 for finding in found)


# The conditions are those of vLLM's SamplingParams in each release: 0.9.0 began to take a top_k of 0.
@pytest.mark.parametrize(
    ("vllm", "words", "refused"),
    [
        ("0.8.5", "top_k=0", "top_k must be -1 (disable), or at least 1, got 0"),
        ("0.11.0", "top_k=0", None),
        ("0.11.0", "top_p=0", "top_p must be in (0, 1], got 0"),
        ("0.11.0", "top_p=1.5", "top_p must be in (0, 1], got 1.5"),
        ("0.11.0", "temperature=-1", "temperature must be non-negative, got -1"),
        ("0.11.0", "temperature=2.5", None),
        ("0.27.0", "temperature=2.5", "temperature must be in [0, 2], got 2.5"),
        ("0.11.0", "temperature=0.7", None),
        ("99.0", "top_p=0", None),
    ],
)
def test_sampling_parameters_that_the_engine_refuses(
    tmp_path: Path, vllm: str, words: str, refused: str | None
) -> None:
    text = f"python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.{words}\n"
    found = LaunchFile(tmp_path, text, {"verl": "0.7.0", "vllm": vllm}).findings(check)
    assert [finding.message for finding in found] == (
        [f"vLLM {vllm} refuses every request: {refused}"] if refused else []
    )
    # None does not stand for the default: it is refused as well.
    assert all(edit.value is not None for finding in found for fix in finding.fixes for edit in fix.edits)


def test_a_refused_parameter_gets_the_engine_s_own_number(tmp_path: Path) -> None:
    """A null would reach vLLM as it is."""
    text = "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.top_k=-5 actor_rollout_ref.rollout.top_p=0\n"
    found = LaunchFile(tmp_path, text, {"verl": "0.7.0", "vllm": "0.11.0"}).findings(check)
    edits = {edit.option: edit.value for finding in found for fix in finding.fixes for edit in fix.edits}
    assert edits == {"sampling.top_k": 0, "sampling.top_p": 1.0}


# https://github.com/verl-project/verl/issues/1080
def test_an_option_that_a_release_took_away_is_not_renamed(tmp_path: Path) -> None:
    gone = options(tmp_path, "0.3.0.post1", "actor_rollout_ref.actor.fsdp_config.grad_offload=False")
    (finding,) = gone.findings(check)
    assert "which 0.3.0.post0 took away" in finding.message
    assert [edit for fix in finding.fixes for edit in fix.edits] == []


# https://github.com/modelscope/ms-swift/issues/3986
def test_an_option_of_a_later_release_names_the_release(tmp_path: Path) -> None:
    text = "swift rlhf --rlhf_type grpo --use_vllm true --vllm_mode colocate\n"
    (finding,) = LaunchFile(tmp_path, text, {"ms-swift": "3.3.0"}).findings(check)
    assert "which came with 3.5.0" in finding.message
    (command,) = finding.fixes[0].commands
    assert command.startswith("pip install 'ms-swift>=3.5.0,<=3.")


# https://github.com/modelscope/ms-swift/issues/4958
def test_a_name_that_another_framework_has(tmp_path: Path) -> None:
    text = "swift rlhf --rlhf_type grpo --max_prompt_length 4096\n"
    (finding,) = LaunchFile(tmp_path, text, {"ms-swift": "3.6.1"}).findings(check)
    assert finding.fixes[0].edits[0].value == "max_length"


def test_options_behind_a_comment_do_not_reach_the_command(tmp_path: Path) -> None:
    text = "vllm serve org/model \\\n  --seed 1 \\\n  # for long prompts\n  --max-model-len 4096 \\\n  --port 8000\n"
    (finding,) = LaunchFile(tmp_path, text, {"vllm": "0.10.0"}).findings(check)
    assert "the shell does not apply --max-model-len" in finding.message
    assert finding.evidence[0].line == 4


# https://github.com/vllm-project/vllm/issues/50292, https://github.com/verl-project/verl/issues/940
@pytest.mark.parametrize(
    ("vllm", "backend", "severity"),
    [
        ("0.11.2", "XFORMERS", None),
        ("0.12.0", "XFORMERS", Severity.ERROR),
        ("0.13.0", "FLASHINFER", None),
        ("0.15.1", "FLASHINFER", Severity.WARNING),
    ],
)
def test_the_attention_variable(vllm: str, backend: str, severity: Severity | None) -> None:
    result = judge_one(check, case("vLLM", {"vllm": vllm}, env__VLLM_ATTENTION_BACKEND=backend))
    assert [finding.severity for finding in result.findings] == ([severity] if severity else [])
    if severity:
        assert result.findings[0].fixes[0].edits[0].value is None


def test_the_name_that_was_meant_is_written_as_the_launch_writes_names() -> None:
    typo = replace(TYPO, key="--max-num-batchd-tokens", nearest=("max_num_batched_tokens",), form=Form.OPTION)
    (finding,) = judge_one(check, with_unknown(typo)).findings
    assert finding.message.endswith("did you mean --max-num-batched-tokens?")
    assert finding.fixes[0].title == "rename --max-num-batchd-tokens"
    (finding,) = judge_one(check, with_unknown(replace(typo, key="--max_num_batchd_tokens"))).findings
    assert finding.message.endswith("did you mean --max_num_batched_tokens?")


def test_a_misspelled_name_that_is_dropped_is_named_too() -> None:
    dropped = replace(TYPO, key="num_generation", nearest=("num_generations",), ignored=True, why="TRL drops it")
    (finding,) = judge_one(check, with_unknown(dropped)).findings
    assert finding.message.endswith("does not apply num_generation: TRL drops it; did you mean num_generations?")
    assert [fix.title for fix in finding.fixes] == ["rename num_generation"]
    (finding,) = judge_one(check, with_unknown(replace(dropped, key="num_workers"))).findings
    assert finding.message.endswith("TRL drops it")
    assert [fix.title for fix in finding.fixes] == ["take num_workers out, which has no effect here"]


def test_a_section_that_is_unknown_as_a_whole_is_said_once() -> None:
    section = replace(TYPO, key="deployment", nearest=())
    inside = [replace(section, key=f"deployment.{name}") for name in ("num_train_gpus", "num_infer_gpus")]

    def named(*options: UnknownOption) -> list[str]:
        return [found.evidence[0].text for found in judge_one(check, with_unknown(*options)).findings]

    assert named(section, *inside) == ["deployment"]
    dated = [replace(one, since="0.5.0") for one in inside]
    assert named(section, *dated) == ["deployment.num_train_gpus", "deployment.num_infer_gpus"]
    assert named(section, inside[0], dated[1]) == ["deployment"]


HYDRA = """\
In 'ppo_trainer': Could not find 'rollout/vllmm'

Available options in 'rollout':
\trollout
\tsglang
Config search path:
\tprovider=main, path=file:///opt/verl/trainer/config

Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.
"""


def test_hydra_finds_no_such_configuration() -> None:
    (group,) = found(check, HYDRA)
    assert group.message == "Hydra finds no configuration rollout/vllmm"
    assert group.fixes[0].title == "there are: rollout, sglang"
    error = (
        "hydra.errors.MissingConfigException: Cannot find primary config 'ppo_trainerr'. Check that it's in your "
        "config search path."
    )
    (primary,) = found(check, traceback(error, "hydra/_internal/config_loader_impl.py _missing_config_error"))
    assert primary.message == "Hydra finds no configuration ppo_trainerr"
    assert "--config-path" in primary.fixes[0].title
    assert found(check, traceback("ValueError: In 'a.yaml' there is no model", "train.py load")) == []


@pytest.mark.parametrize(
    ("file", "code", "option"),
    [
        ("swift/plugin/loss.py", "return LOSS_MAPPING[loss_type]['loss_func']", "loss_type"),
        ("verl/trainer/ppo/core_algos.py", "return ADV_ESTIMATOR_REGISTRY[self.adv_estimator]", "adv_estimator"),
    ],
)
def test_a_value_that_a_framework_looks_up_in_vain(file: str, code: str, option: str) -> None:
    # https://github.com/modelscope/ms-swift/issues/5283
    (only,) = found(check, traceback("KeyError: 'grpo'", f"{file} get", code=code))
    assert only.message.startswith(f"{option} has the value 'grpo', which {file.partition('/')[0]} does not know")


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("transformers/models/auto/configuration_auto.py", "return CONFIG_MAPPING[model_type]"),
        ("swift/llm/model/register.py", "return MODEL_MAPPING[model_type]"),
        ("swift/plugin/loss.py", "return LOSS_MAPPING[index]"),
        ("swift/plugin/loss.py", "return batch[loss_type]"),
    ],
)
def test_other_keys_that_are_not_there(file: str, code: str) -> None:
    assert found(check, traceback("KeyError: 'qwen9'", f"{file} get", code=code)) == []
