"""RLD104: another declared requirement is not met."""

from __future__ import annotations

import pytest
from rldoctor_checks.environment.dependency_conflict import check
from rldoctor_checks.processes import failure_unrecognised

from rldoctor.api import Case, Grade, Outcome, Severity
from rldoctor.judge import judge_one
from rldoctor.logs.triage import triage_text
from tests.cases import assumed, commands, installed, judged, severities
from tests.logs.asking import finding, findings, raised
from tests.observations import failed, imports_case, link, packages


def test_trl_above_what_swift_declares() -> None:
    result = judged(check, assumed(ms_swift="3.8.1", trl="0.23.0", vllm="0.10.2", torch="2.8.0"))
    assert severities(result) == ["warning"]
    assert result.findings[0].message == "ms-swift 3.8.1 declares trl>=0.15,<0.21, and trl 0.23.0 is assumed"
    assert "trl==0.20.0" in result.findings[0].fixes[0].title
    assert commands(result)[1] == "python -m pip install 'ms-swift>=3.9.0,<=3.12.6'"


def test_where_nobody_demands_anything_there_is_no_pass() -> None:
    nothing = "no package here demands anything of another one here"
    unnamed = judged(check, assumed(torch="2.7.0"))
    first = (unnamed.reason or "").split("; ")[0]
    assert (unnamed.outcome, first) == (Outcome.NOT_CHECKED, f"{nothing} (--assume PACKAGE==VERSION)")
    alone = judged(check, installed({"numpy": "2.0.0"}))
    assert (alone.outcome, alone.reason) == (Outcome.NOT_CHECKED, "the imports probe did not run")


@pytest.mark.parametrize(
    ("versions", "severity"),
    [
        ({"ms_swift": "3.6.4", "trl": "0.16.1"}, "error"),  # declared, yet a name that it imports came with 0.17
        ({"ms_swift": "3.8.1", "trl": "0.29.0"}, "error"),
        ({"verl": "0.6.1", "numpy": "2.2.6"}, "warning"),
        ({"openrlhf": "0.8.5", "ray": "2.48.0"}, "warning"),
        ({"vllm": "0.10.2", "ray": "2.46.0"}, "warning"),
        ({"transformers": "4.57.1", "huggingface_hub": "1.1.0"}, "error"),  # transformers refuses to be imported
        ({"transformers": "4.57.1", "tokenizers": "0.21.0"}, "error"),
        ({"transformers": "5.16.1", "torch": "2.4.0"}, "error"),  # transformers switches PyTorch off
        ({"vllm": "0.11.1", "torch": "2.9.0", "python": "3.9"}, "warning"),
    ],
)
def test_a_requirement_that_is_not_met(versions: dict[str, str], severity: str) -> None:
    assert severities(judged(check, assumed(**versions))) == [severity]


@pytest.mark.parametrize(
    "versions",
    [
        {"ms_swift": "3.8.1", "trl": "0.20.0", "peft": "0.17.1", "transformers": "4.55.4", "numpy": "1.26.4"},
        {"openrlhf": "0.8.5", "vllm": "0.9.1", "ray": "2.43.0", "deepspeed": "0.17.1", "transformers": "4.52.4"},
        {"nemo_rl": "0.6.0", "vllm": "0.17.1", "ray": "2.54.0", "python": "3.13"},  # some 3.13 is 3.13.13 or later
        {"verl": "0.6.1", "trl": "0.24.0"},  # its trl extra is for another use
        {"vllm": "0.9.1", "torch": "2.6.0", "torchvision": "0.21.0", "xformers": "0.0.29.post2"},  # RLD102 and RLD105
        {"transformers": "4.52.4", "torch": "2.7.0"},  # a recipe's upper bound, which nothing verifies
    ],
)
def test_what_fits_or_is_reported_elsewhere_stays_quiet(versions: dict[str, str]) -> None:
    assert not judged(check, assumed(**versions)).findings


def test_only_packages_that_a_rollout_stands_on_are_judged() -> None:
    versions = {"trl": "0.99.0", "rich": "13.0", "accelerate": "1.0.0"}
    lines = {"trl": ("rich>=14", "accelerate>=1.4.0", "not a requirement")}
    result = judged(check, installed(versions, lines))
    assert [f.message for f in result.findings] == [
        "trl 0.99.0 declares accelerate>=1.4.0, and accelerate 1.0.0 is installed"
    ]


def test_a_pass_says_how_far_it_reached() -> None:
    result = judged(check, installed({"trl": "0.24.0", "accelerate": "1.10.1"}, {"trl": ("accelerate>=1.4.0",)}))
    assert result.outcome is Outcome.PASS
    assert "trl 0.24.0 and accelerate 1.10.1" in str(result.reason)


def test_what_is_demanded_and_not_named_is_not_known_to_fit() -> None:
    result = judged(check, assumed(trl="0.24.0", accelerate="1.10.1"))
    assert result.outcome is Outcome.NOT_CHECKED
    assert str(result.reason).startswith("the assumed environment does not name ")


SITE = "/opt/venv/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            raised(
                "ImportError",
                f"cannot import name 'GRPOConfig' from 'trl' ({SITE}/trl/__init__.py)",
                f"{SITE}/swift/llm/argument/rlhf_args.py <module>",
            ),
            "trl has no trl.GRPOConfig, which ms-swift uses",
        ),
        (
            raised(
                "AttributeError",
                "module 'trl.scripts.vllm_serve' has no attribute 'WeightSyncWorkerExtension'",
                f"{SITE}/vllm/worker/worker_base.py init_worker",
            ),
            "trl has no trl.scripts.vllm_serve.WeightSyncWorkerExtension, which vllm uses",
        ),
        (
            raised(
                "AttributeError",
                "module 'pyarrow' has no attribute 'PyExtensionType'",
                f"{SITE}/datasets/features/features.py <module>",
            ),
            "pyarrow has no pyarrow.PyExtensionType, which datasets uses",
        ),
        (
            raised(
                "ImportError",
                "tokenizers>=0.21,<0.22 is required for a normal functioning of this module, but found "
                "tokenizers==0.20.3.",
                f"{SITE}/transformers/utils/versions.py _compare_versions",
            ),
            "tokenizers>=0.21,<0.22 is required, and tokenizers==0.20.3 is installed",
        ),
    ],
)
def test_what_a_log_shows(text: str, said: str) -> None:
    """https://github.com/modelscope/ms-swift/issues/3268 and 4248; transformers' check of its dependencies."""
    assert finding(check, text).message.startswith(said)


def test_an_installer_that_finds_no_solution() -> None:
    text = (
        "  \u00d7 No solution found when resolving dependencies:\n"
        "  \u2570\u2500\u25b6 Because vllm==0.9.1 depends on torch==2.7.0 and you require torch==2.6.0, "
        "we can conclude that your requirements are unsatisfiable.\n"
    )
    assert "vllm==0.9.1 depends on torch==2.7.0" in finding(check, text).message


def test_what_pip_merely_remarks_is_no_alarm() -> None:
    text = (
        "vllm 0.9.1 requires torch==2.7.0, but you have torch 2.6.0 which is incompatible.\n"
        "Successfully installed torch-2.6.0\n"
    )
    assert findings(check, text) == []


def test_unsloth_patches_another_trl() -> None:
    # https://github.com/unslothai/unsloth/issues/2597, as a notebook prints it
    log = """\
SyntaxError                               Traceback (most recent call last)
File ~/lib/python3.11/site-packages/unsloth/tokenizer_utils.py:1037
   1036 try:
-> 1037     exec(trainer_text, globals())
SyntaxError: invalid syntax (<string>, line 4)

During handling of the above exception, another exception occurred:

RuntimeError                              Traceback (most recent call last)
Cell In[1], line 6
----> 6 from unsloth import FastLanguageModel
RuntimeError: Unsloth: Please file a bug report! Error patching SFTTrainer
"""
    assert "cannot patch SFTTrainer" in finding(check, log).message


def test_the_client_of_a_rollout_server_is_not_trls() -> None:
    frame = "/swift/trainers/rlhf_trainer/grpo_trainer.py"
    error = "AttributeError: 'GRPOTrainer' object has no attribute 'vllm_client'"
    log = f'Traceback (most recent call last):\n  File "/opt{frame}", line 7, in train\n    pass\n{error}\n'
    assert findings(check, log) == []


COMPILED = "/home/user/rl/unsloth_compiled_cache/UnslothGRPOTrainer.py"


@pytest.mark.parametrize(
    ("kind", "message", "place"),
    [
        ("NameError", "name 'vLLMSamplingParams' is not defined", f"{COMPILED} __init__"),
        ("AttributeError", "'UnslothGRPOTrainer' object has no attribute 'vllm_mode'", f"{COMPILED} __init__"),
        (
            "TypeError",
            "_get_per_token_logps() takes 5 positional arguments but 6 were given",
            f"{COMPILED} _generate_and_score_completions",
        ),
        ("TypeError", "list indices must be integers or slices, not str", f"{COMPILED} compute_loss"),
        (
            "RuntimeError",
            "Direct module loading failed for UnslothGRPOTrainer: unexpected indent (UnslothGRPOTrainer.py, line 900)",
            "/opt/venv/lib/python3.11/site-packages/unsloth_zoo/compiler.py create_new_function",
        ),
    ],
)
def test_a_trainer_that_unsloth_wrote_for_another_trl(kind: str, message: str, place: str) -> None:
    found = finding(check, raised(kind, message, place))
    assert found.message.startswith("the trainer that unsloth wrote from the installed TRL")
    assert "rm -rf unsloth_compiled_cache" in found.fixes[0].commands


@pytest.mark.parametrize(
    ("kind", "message", "place"),
    [
        ("NameError", "name 'foo' is not defined", "/home/user/rl/train.py reward"),
        ("TypeError", "list indices must be integers or slices, not str", "/home/user/rl/train.py reward"),
        ("AttributeError", "'NoneType' object has no attribute 'shape'", f"{COMPILED} compute_loss"),
        ("NameError", "name 'foo' is not defined", f"{COMPILED} wrapper /home/user/rl/reward.py score"),
    ],
)
def test_a_failure_that_is_not_the_written_trainers(kind: str, message: str, place: str) -> None:
    words = place.split()
    places = [" ".join(words[i : i + 2]) for i in range(0, len(words), 2)]
    assert findings(check, raised(kind, message, *places)) == []


@pytest.mark.parametrize(
    ("kind", "message", "code"),
    [
        (
            "IndexError",
            "pop from an empty deque",
            "step_id = self.__step_id_module_fetched_for[sub_module.id].popleft()",
        ),
        ("RuntimeError", "tracing error at step 1: module id: 0, training: True", "raise RuntimeError("),
        ("AssertionError", "{'id': 3}", "assert param.ds_status == ZeroParamStatus.AVAILABLE, param.ds_summary()"),
    ],
)
def test_hooks_of_zero_3_that_met_another_forward_pass(kind: str, message: str, code: str) -> None:
    place = "/opt/venv/lib/python3.11/site-packages/deepspeed/runtime/zero/partitioned_param_coordinator.py fetch"
    assert "ZeRO-3" in finding(check, raised(kind, message, place, code=code)).message
    assert findings(check, raised("IndexError", "pop from an empty deque", "/home/user/rl/buffer.py take")) == []


SITE = "/opt/venv/lib/python3.12/site-packages"


@pytest.mark.parametrize(
    ("kind", "message", "place", "wanted"),
    [
        (
            "ImportError",
            "cannot import name 'get_ip' from 'sglang.srt.utils' (/x/site-packages/sglang/srt/utils/__init__.py)",
            "verl/workers/rollout/sglang_rollout/sglang_rollout.py",
            "sglang>=0.4.1.post7,<0.5.3",
        ),
        (
            "ModuleNotFoundError",
            "No module named 'sglang.srt.weight_sync'",
            "verl/workers/sharding_manager/fsdp_sglang.py",
            "sglang>=0.4.9.post5",
        ),
        (
            "AttributeError",
            "type object 'ModelType' has no attribute 'encoder_and_decoder'",
            "mbridge/core/util.py",
            "megatron-core<0.17",
        ),
        (
            "ImportError",
            "cannot import name 'HfFolder' from 'huggingface_hub' (/x/site-packages/huggingface_hub/__init__.py)",
            "datasets/hub.py",
            "huggingface-hub<1.0",
        ),
        (
            "ImportError",
            "cannot import name 'log' from 'torch.distributed.elastic.agent.server.api' (/x/site-packages/torch/a.py)",
            "deepspeed/elasticity/elastic_agent.py",
            "torch<2.4",
        ),
        (
            "AttributeError",
            "module 'torch' has no attribute 'float8_e8m0fnu'",
            "compressed_tensors/quantization/quant_args.py",
            "torch>=2.7.1",
        ),
        (
            "ModuleNotFoundError",
            "No module named 'ray.experimental.channel.accelerator_context'",
            "vllm/executor/ray_utils.py",
            "ray>=2.48.0",
        ),
        (
            "TypeError",
            "Accelerator.unwrap_model() got an unexpected keyword argument 'keep_torch_compile'",
            "transformers/trainer.py",
            "accelerate>=1.3.0",
        ),
        (
            "AttributeError",
            "'GRPOConfig' object has no attribute 'reward_weights'",
            "swift/trainers/rlhf_trainer/grpo_trainer.py",
            "trl>=0.15",
        ),
        # Of a library only what changed is in the table: all of its releases have this one.
        (
            "AttributeError",
            "module 'torch.nn' has no attribute 'Linear'",
            "deepspeed/runtime/engine.py",
            None,
        ),
    ],
)
def test_a_name_tells_which_releases_have_it(kind: str, message: str, place: str, wanted: str | None) -> None:
    found = finding(check, raised(kind, message, f"{SITE}/{place} run"))
    assert " has it in " in found.message or wanted is None
    assert (found.fixes[0].valid_for or "").startswith(wanted or "")
    assert wanted is not None or found.fixes[0].valid_for is None


REFUSED = "got an unexpected keyword argument"


def calling(message: str, *frames: tuple[str, str, str]) -> str:
    """A log of a TypeError that came through these frames: file, function and line of code."""
    places = "".join(f'  File "{file}", line 30, in {function}\n    {code}\n' for file, function, code in frames)
    return f"Traceback (most recent call last):\n{places}TypeError: {message}\n"


HANDED = f"{SITE}/transformers/utils/deprecation.py", "wrapped_func", "return func(*args, **kwargs)"
RUN = "/home/user/rl/run.py", "<module>", "trainer = GRPOTrainer("


@pytest.mark.parametrize(
    ("log", "says", "wanted"),
    [
        # A decorator of another package hands on what the script passes.
        (
            calling(f"GRPOTrainer.__init__() {REFUSED} 'rollout_func'", RUN, HANDED),
            "the script passes",
            "trl>=0.25.0",
        ),
        # So does what the package of the class makes of a dict.
        (
            calling(
                f"LoraConfig.__init__() {REFUSED} 'eva_config'",
                (
                    f"{SITE}/swift/tuners/peft.py",
                    "from_pretrained",
                    "return kind.from_pretrained(model, *args, **kwargs)",
                ),
                (f"{SITE}/peft/config.py", "from_peft_type", "return config_cls(**kwargs)"),
            ),
            "ms-swift passes",
            "peft>=0.14.0",
        ),
        # A class of settings that is called after the one it derives from.
        (
            calling(
                f"AxolotlGRPOConfig.__init__() {REFUSED} 'max_prompt_length'",
                (f"{SITE}/axolotl/core/builders/rl.py", "_build_training_arguments", "training_args_cls("),
            ),
            "axolotl passes",
            "trl<0.28",
        ),
    ],
)
def test_who_passes_what_another_release_takes(log: str, says: str, wanted: str) -> None:
    found = finding(check, log)
    assert says in found.message and found.fixes[0].valid_for == wanted


def test_a_class_of_the_users_own_is_no_class_of_a_package() -> None:
    own = calling(f"MyConfig.__init__() {REFUSED} 'rank'", ("/home/user/rl/run.py", "<module>", "c = MyConfig(rank=1)"))
    assert findings(check, own) == []
    derived = own.replace("MyConfig", "MyGRPOConfig")  # no release of TRL takes it: its own mistake
    assert findings(check, derived) == []


def importing(message: str, *places: str, error: str = "AttributeError") -> Case:
    there = packages(datasets="2.14.4", pyarrow="21.0.0", evaluate="0.4.2")
    failure = failed(link(error, message, *(places or ("datasets/features/features.py",))))
    return imports_case(there, datasets=failure, evaluate=failure)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("module 'pyarrow' has no attribute 'PyExtensionType'", "AttributeError"),
        ("cannot import name 'PyExtensionType' from 'pyarrow' (/site-packages/pyarrow/__init__.py)", "ImportError"),
    ],
)
def test_an_import_that_looks_for_a_name_in_another_package(message: str, error: str) -> None:
    case = importing(message, error=error)
    result = judge_one(check, case)
    (found,) = result.findings
    assert (found.severity, found.grade) == (Severity.ERROR, Grade.OBSERVED)
    assert "pyarrow 21.0.0 has no pyarrow.PyExtensionType, which datasets 2.14.4 uses" in found.message
    assert "it stops the import of datasets, evaluate" in found.message and commands(result)
    assert not judge_one(failure_unrecognised.check, case).findings


@pytest.mark.parametrize(
    "message",
    [
        "partially initialized module 'pyarrow' has no attribute 'PyExtensionType' (circular)",
        "module 'rewards' has no attribute 'score'",  # the user's own
        "module 'datasets' has no attribute 'Features'",  # its own
        "'NoneType' object has no attribute 'PyExtensionType'",
    ],
)
def test_an_import_that_fails_in_another_way_is_not_this(message: str) -> None:
    case = importing(message)
    assert not judge_one(check, case).findings
    assert judge_one(failure_unrecognised.check, case).findings


def test_a_loss_of_unsloth_that_is_called_as_another_release_does() -> None:
    # https://github.com/unslothai/unsloth/issues/2738
    message = "grpo_accumulated_loss() missing 1 required positional argument: 'old_hidden_states'"
    assert "grpo_accumulated_loss" in finding(check, f"TypeError: {message}\n").message
    assert findings(check, "TypeError: my_loss() missing 1 required positional argument: 'old_hidden_states'\n") == []


def test_a_written_trainer_of_which_the_frames_beginning_is_cut_off() -> None:
    # https://github.com/huggingface/course/issues/1005
    text = (
        '/unsloth_compiled_cache/UnslothGRPOTrainer.py", line 1054, in compute_loss\n'
        '    prompt_ids, prompt_mask = inputs["prompt_ids"], inputs["prompt_mask"]\n'
        "TypeError: list indices must be integers or slices, not str\n"
    )
    assert "does not fit" in finding(check, text).message


@pytest.mark.parametrize(
    ("message", "place", "said", "wanted"),
    [
        # Since 1.0 accelerate has no such parameter; older releases are not in its table.
        (
            "Accelerator.__init__() got an unexpected keyword argument 'dispatch_batches'",
            "transformers/trainer.py",
            "accelerate: Accelerator.__init__ takes no dispatch_batches, which transformers passes (no accelerate from",
            "accelerate<1.0.0",
        ),
    ],
)
def test_a_call_that_no_release_read_takes(message: str, place: str, said: str, wanted: str) -> None:
    found = finding(check, raised("TypeError", message, f"{SITE}/{place} run"))
    assert found.message.startswith(said)
    assert any(wanted in command for fix in found.fixes for command in fix.commands)


def test_a_script_that_passes_what_no_release_takes_may_have_misspelt_it() -> None:
    message = "Accelerator.__init__() got an unexpected keyword argument 'dispach_batches'"
    assert findings(check, raised("TypeError", message, "/home/user/rl/train.py main")) == []


@pytest.mark.parametrize(
    ("message", "place", "said", "fix"),
    [
        (
            "`np.float_` was removed in the NumPy 2.0 release. Use `np.float64` instead.",
            f"{SITE}/deepspeed/autotuning/utils.py <module>",
            "deepspeed uses np.float_, which numpy 2.0 took away",
            "take a deepspeed that was written for this numpy",
        ),
        (
            "module 'numpy' has no attribute 'bool'.\n`np.bool` was a deprecated alias for the builtin `bool`. To "
            "avoid this error in existing code, use `bool` by itself.",
            "/home/user/rl/masks.py build",
            "the script uses np.bool, which numpy 1.24 took away",
            "write bool instead",
        ),
        (
            "`np.NaN` was removed in the NumPy 2.0 release. Use `np.nan` instead.",
            "/home/user/rl/masks.py build",
            "the script uses np.NaN, which numpy 2.0 took away",
            "write np.nan instead",
        ),
        (
            "module 'numpy' has no attribute 'product'",
            f"{SITE}/megatron/core/dist_checkpointing/exchange_utils.py _shard_size",
            "megatron-core uses np.product, which numpy 2.0 took away",
            "take a megatron-core that was written for this numpy",
        ),
        (
            "module 'numpy' has no attribute 'bool8'",
            "/home/user/rl/environment.py step",
            "the script uses np.bool8, which numpy 2.0 took away",
            "write np.bool_ instead",
        ),
    ],
)
def test_what_numpy_took_away(message: str, place: str, said: str, fix: str) -> None:
    found = finding(check, raised("AttributeError", message, place))
    assert found.message == said
    assert found.fixes[0].title == fix


def test_what_unsloth_executes_of_a_trainer_is_no_python() -> None:
    # https://github.com/unslothai/unsloth/issues/1829
    text = (
        "Traceback (most recent call last):\n"
        '  File "/opt/venv/lib/python3.10/site-packages/unsloth/tokenizer_utils.py", line 1061, in <module>\n'
        "    exec(trainer_text, globals())\n"
        '  File "<string>", line 4\n'
        "    model = <class 'inspect._empty'>,\n"
        "            ^\n"
        "SyntaxError: invalid syntax\n"
    )
    (only,) = [f for f in triage_text(text).findings if f.code == check.code]
    assert only.message.startswith("unsloth cannot patch a trainer of trl")


TRL = "/opt/venv/lib/python3.11/site-packages/trl/trainer/grpo_trainer.py __init__"
SWIFT = "/opt/venv/lib/python3.11/site-packages/swift/trainers/rlhf_trainer/rollout_mixin.py _rollout"
VERIFIERS = "/opt/venv/lib/python3.11/site-packages/verifiers/trainers/grpo_env_trainer.py _generate"


@pytest.mark.parametrize(
    ("owner", "name", "place", "said"),
    [
        ("GRPOTrainer", "current_gradient_accumulation_steps", "", "the Trainer of transformers sets in >=4.55 alone"),
        ("XGRPOTrainer", "num_iterations", TRL, "it was written over another release"),
        ("GRPOEnvTrainer", "llm", VERIFIERS, "the GRPOTrainer of trl sets in <0.16 or >=0.18,<0.28 alone"),
        ("GRPOTrainer", "_textual_logs", SWIFT, "which trl sets in >=0.17,<0.20 alone"),
    ],
)
def test_what_a_trainer_sets_in_other_releases(owner: str, name: str, place: str, said: str) -> None:
    log = raised("AttributeError", f"'{owner}' object has no attribute '{name}'", *([place] if place else []))
    assert said in finding(check, log).message


@pytest.mark.parametrize(
    ("owner", "name"),
    [("GRPOTrainer", "engine"), ("DPOTrainer", "llm"), ("GRPOTrainer", "accelerator")],
    ids=["no release of TRL sets it", "another trainer", "every release sets it"],
)
def test_what_no_other_release_sets_is_not_for_want_of_one(owner: str, name: str) -> None:
    # https://github.com/modelscope/ms-swift/issues/7030: a path of ms-swift's own that has no engine
    assert findings(check, raised("AttributeError", f"'{owner}' object has no attribute '{name}'", SWIFT)) == []


@pytest.mark.parametrize(("release", "fires"), [("4.57.1", False), ("4.53.2", True)])
def test_the_release_that_sets_it_is_not_blamed(release: str, fires: bool) -> None:
    error = "'GRPOTrainer' object has no attribute 'current_gradient_accumulation_steps'"
    log = f"[info] transformers version: {release}\n" + raised("AttributeError", error)
    assert bool(findings(check, log)) is fires


MODULE = "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py __getattr__"


@pytest.mark.parametrize(
    ("wrapper", "name"),
    [
        ("AutoModelForCausalLMWithValueHead", "warnings_issued"),
        ("AutoModelForCausalLMWithValueHead", "generation_config"),
        ("AutoModelForSeq2SeqLMWithValueHead", "base_model_prefix"),
    ],
)
def test_a_wrapper_that_trainers_no_longer_take(wrapper: str, name: str) -> None:
    log = raised("AttributeError", f"'{wrapper}' object has no attribute '{name}'", TRL, MODULE)
    assert f"reads {name} of {wrapper}" in finding(check, log).message
    other = "/opt/venv/lib/python3.11/site-packages/swift/trainers/ppo.py patch"
    # https://github.com/modelscope/ms-swift/issues/2316
    for frame in (MODULE, other):
        assert (
            findings(check, raised("AttributeError", f"'{wrapper}' object has no attribute 'transformer'", frame)) == []
        )


@pytest.mark.parametrize(("name", "fires"), [("lora_tensors", True), ("lora_config", True), ("lora_rank", False)])
def test_an_adapter_in_memory_that_vllms_own_request_does_not_carry(name: str, fires: bool) -> None:
    zoo = "/opt/venv/lib/python3.11/site-packages/unsloth_zoo/vllm_lora_worker_manager.py _load_adapter"
    log = raised("AttributeError", f"'LoRARequest' object has no attribute '{name}'", zoo)
    assert bool(findings(check, log)) is fires


def test_without_frames_nobody_knows_which_side_is_older() -> None:
    # https://github.com/dhcode-cpp/X-R1/issues/51
    assert findings(check, "AttributeError: 'XGRPOTrainer' object has no attribute 'num_iterations'\n") == []
    derived = raised("AttributeError", "'XGRPOTrainer' object has no attribute 'num_iterations'", TRL)
    assert findings(check, "[info] trl version: 0.15.0\n" + derived) == []


def test_an_embedding_of_which_a_rank_holds_a_part() -> None:
    # https://github.com/huggingface/trl/issues/3097, https://github.com/huggingface/trl/issues/3202
    torch = "/opt/venv/lib/python3.11/site-packages/torch/nn/functional.py embedding"
    model = "/opt/venv/lib/python3.11/site-packages/transformers/models/qwen2/modeling_qwen2.py forward"
    assert "partitioned" in finding(check, raised("RuntimeError", "'weight' must be 2-D", model, torch)).message
    padding, line = "Padding_idx must be within num_embeddings", "assert padding_idx < weight.size(0), 'Padding_idx'"
    assert "partitioned" in finding(check, raised("AssertionError", padding, model, torch, code=line)).message
    made = "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/sparse.py __init__"
    code = "assert padding_idx < self.num_embeddings"
    assert findings(check, raised("AssertionError", padding, model, made, code=code)) == []
    assert findings(check, raised("RuntimeError", "'weight' must be 2-D", torch)) == []


def test_a_name_that_is_given_out_beside_the_engine_alone() -> None:
    # https://github.com/modelscope/ms-swift/issues/637, https://github.com/modelscope/ms-swift/issues/1557
    swift = "/opt/venv/lib/python3.10/site-packages/swift/llm/__init__.py"
    said = f"cannot import name 'get_vllm_engine' from 'swift.llm' ({swift})"
    assert finding(check, raised("ImportError", said)).fixes[0].title.startswith("install vllm where it is absent")
    other = finding(check, raised("ImportError", said.replace("get_vllm_engine", "get_other_thing")))
    assert not any(fix.title.startswith("install vllm") for fix in other.fixes)
