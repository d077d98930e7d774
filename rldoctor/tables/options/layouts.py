"""Which files and classes declare each framework's options, over all its releases."""

from __future__ import annotations

from rldoctor.tables.options.parts import (
    ClassPart,
    ExamplesPart,
    FolderPart,
    Group,
    HydraPart,
    Layout,
    MentionPart,
    OverlayPart,
    ParserPart,
    SignaturePart,
)


def _class(*places: str, nested: bool = False, requires: str | None = None, inherited: bool = True) -> ClassPart:
    """A part from ``path:Class`` texts, the first of which that exists counts."""
    split = tuple((path, name) for path, _, name in (place.partition(":") for place in places))
    return ClassPart(split, nested, requires, inherited)


def _fields(*places: str, includes: tuple[str, ...] = (), command: bool = False) -> Group:
    """A group that is one class; as a ``command`` its options are parsed with abbreviations."""
    return Group((_class(*places),), includes, abbreviations=command)


def _signature(*places: str, includes: tuple[str, ...] = (), open_ended: bool = False) -> Group:
    """A group that is the parameters of a function, from ``path:function`` texts."""
    split = tuple((path, name) for path, _, name in (place.partition(":") for place in places))
    return Group((SignaturePart(split),), includes, open=open_ended)


_TRAINING_ARGUMENTS = ("transformers:TrainingArguments",)

TRANSFORMERS = Layout(
    packages=("transformers",),
    markers=("transformers/training_args.py",),
    groups={
        "TrainingArguments": _fields("transformers/training_args.py:TrainingArguments"),
        "Seq2SeqTrainingArguments": Group(
            (_class("transformers/training_args_seq2seq.py:Seq2SeqTrainingArguments", inherited=False),),
            ("TrainingArguments",),
        ),
    },
)

TRL = Layout(
    packages=("trl",),
    markers=("trl/trainer/grpo_config.py",),
    groups={
        "GRPOConfig": _fields("trl/trainer/grpo_config.py:GRPOConfig", includes=_TRAINING_ARGUMENTS),
        "RLOOConfig": _fields("trl/trainer/rloo_config.py:RLOOConfig", includes=_TRAINING_ARGUMENTS),
        "OnlineDPOConfig": _fields(
            "trl/experimental/online_dpo/online_dpo_config.py:OnlineDPOConfig",
            "trl/trainer/online_dpo_config.py:OnlineDPOConfig",
            includes=_TRAINING_ARGUMENTS,
        ),
        "AsyncGRPOConfig": _fields(
            "trl/experimental/async_grpo/async_grpo_config.py:AsyncGRPOConfig", includes=_TRAINING_ARGUMENTS
        ),
        "ScriptArguments": _fields("trl/scripts/utils.py:ScriptArguments"),
        "GRPOScriptArguments": _fields("trl/scripts/grpo.py:GRPOScriptArguments"),
        "RLOOScriptArguments": _fields("trl/scripts/rloo.py:RLOOScriptArguments"),
        "ModelConfig": _fields("trl/trainer/model_config.py:ModelConfig"),
        "DatasetMixtureConfig": _fields("trl/scripts/utils.py:DatasetMixtureConfig"),
        "grpo": Group(
            includes=("?DatasetMixtureConfig", "ModelConfig", "GRPOConfig", "GRPOScriptArguments"), abbreviations=True
        ),
        "rloo": Group(
            includes=("?DatasetMixtureConfig", "ModelConfig", "RLOOConfig", "RLOOScriptArguments"), abbreviations=True
        ),
        "vllm-serve": _fields("trl/scripts/vllm_serve.py:ScriptArguments", command=True),
    },
)

_SWIFT_3, _SWIFT_4 = "swift/llm/argument", "swift/arguments"

MS_SWIFT = Layout(
    packages=("swift",),
    markers=("swift/cli/rlhf.py",),
    groups={
        "rlhf": _fields(
            f"{_SWIFT_3}/rlhf_args.py:RLHFArguments",
            f"{_SWIFT_4}/rlhf_args.py:RLHFArguments",
            includes=("transformers:Seq2SeqTrainingArguments",),
            command=True,
        ),
        "rollout": Group(
            (
                _class(
                    f"{_SWIFT_3}/deploy_args.py:RolloutArguments",
                    f"{_SWIFT_4}/deploy_args.py:RolloutArguments",
                    f"{_SWIFT_3}/deploy_args.py:DeployArguments",  # until 3.5
                    requires="swift/cli/rollout.py",
                ),
            ),
            abbreviations=True,
        ),
        "deploy": _fields(
            f"{_SWIFT_3}/deploy_args.py:DeployArguments", f"{_SWIFT_4}/deploy_args.py:DeployArguments", command=True
        ),
        "megatron-rlhf": _fields(
            "swift/megatron/argument/rlhf_args.py:MegatronRLHFArguments",
            "swift/megatron/arguments/rlhf_args.py:MegatronRLHFArguments",
            command=True,
        ),
    },
)

OPEN_R1 = Layout(
    packages=("open_r1",),
    roots=("", "src/"),
    markers=("open_r1/configs.py",),
    groups={
        "grpo": Group(
            (_class("open_r1/configs.py:GRPOConfig"), _class("open_r1/configs.py:GRPOScriptArguments")),
            ("trl:ModelConfig", "trl:ScriptArguments", "trl:GRPOConfig"),
            abbreviations=True,
        ),
        "GRPOConfig": _fields("open_r1/configs.py:GRPOConfig", includes=("trl:GRPOConfig",)),
    },
)

_VERL_CONFIG = ("verl/trainer/config",)


def _verl_overlay(name: str, kind: str, *folders: str) -> tuple[str, Group]:
    """A trainer that puts one file of its own on top of the PPO trainer's configuration."""
    file = f"{name}{kind}_trainer"
    return file, Group((OverlayPart(tuple(f"{folder}/{file}.yaml" for folder in folders)),), (f"ppo{kind}_trainer",))


VERL = Layout(
    packages=("verl",),
    markers=("verl/trainer/config/ppo_trainer.yaml",),
    groups={
        "ppo_trainer": Group((HydraPart(_VERL_CONFIG, "ppo_trainer"),)),
        "ppo_megatron_trainer": Group((HydraPart(_VERL_CONFIG, "ppo_megatron_trainer"),)),
        # model_engine=megatron composes what ppo_megatron_trainer does.
        **{
            f"model_engine={engine}": Group(
                (
                    HydraPart(
                        _VERL_CONFIG,
                        "ppo_trainer",
                        (("model_engine", engine),),
                        needs=f"verl/trainer/config/model_engine/{engine}.yaml",
                    ),
                ),
                ("ppo_trainer",),
            )
            for engine in ("veomni", "torchtitan")
        },
        **dict(_verl_overlay("dapo", kind, "recipe/dapo/config", "dapo/config") for kind in ("", "_megatron")),
        **dict(
            _verl_overlay(f"{name}_ppo", kind, f"verl/experimental/{folder}/config", f"recipe/{folder}/config")
            for name, folder in (("one_step_off", "one_step_off_policy"), ("fully_async", "fully_async_policy"))
            for kind in ("", "_megatron")
        ),
    },
)

EASYR1 = Layout(
    packages=("verl",),
    markers=("verl/trainer/config.py",),
    groups={"main": Group((_class("verl/trainer/config.py:PPOConfig", nested=True),))},
)

OPENRLHF = Layout(
    packages=("openrlhf",),
    markers=("openrlhf/cli/train_ppo_ray.py",),
    groups={
        command: Group((ParserPart(((f"openrlhf/cli/{command}.py", None),)),), abbreviations=True)
        for command in ("train_ppo_ray", "train_ppo")
    },
)

NEMO_RL = Layout(
    packages=("nemo_rl", "nemo_reinforcer"),  # the second until 0.2.0
    markers=("nemo_rl/algorithms/grpo.py",),
    groups={
        "grpo": Group(
            (
                ExamplesPart("examples/configs", ("grpo", "gspo", "dapo", "cispo", "ppo")),
                _class(*(f"{p}/algorithms/grpo.py:MasterConfig" for p in ("nemo_rl", "nemo_reinforcer")), nested=True),
            ),
            ("?grpo_math_1B_megatron", "?vlm_grpo_3B", "grpo_math_1B"),
            rejects=False,
        ),
        # The examples that others inherit from, which hold the defaults that the classes do not.
        **{
            name: Group((HydraPart(("examples/configs",), name),), rejects=False)
            for name in ("grpo_math_1B", "grpo_math_1B_megatron", "vlm_grpo_3B")
        },
    },
)

# The first generation, whose entry point composes YAML.
SKYRL_TRAIN = Layout(
    packages=("skyrl_train", "skyrl_gym"),
    roots=("", "skyrl-train/", "skyrl-gym/"),
    markers=("skyrl_train/config/ppo_base_config.yaml",),
    groups={"main_base": Group((HydraPart(("skyrl_train/config",), "ppo_base_config"),))},
)

# The second one builds classes; its first release still translated the YAML of the first generation.
SKYRL = Layout(
    packages=("skyrl", "skyrl_gym"),
    roots=("", "skyrl-gym/"),
    markers=("skyrl/train/config/config.py",),
    groups={
        "main_base": Group(
            (
                HydraPart(("skyrl/train/config",), "ppo_base_config"),
                MentionPart(
                    "skyrl/train/config/config.py",
                    ("trainer.use_sample_packing", "generator.inference_engine.async_engine"),
                ),
                _class("skyrl/train/config/config.py:SkyRLTrainConfig", nested=True),
            )
        ),
    },
)

AXOLOTL = Layout(
    packages=("axolotl",),
    roots=("", "src/"),
    markers=("axolotl/utils/config/__init__.py",),
    groups={
        "train": Group(
            (
                FolderPart("axolotl/integrations", "args.py", "Args"),
                _class(
                    "axolotl/utils/schemas/config.py:AxolotlInputConfig",
                    "axolotl/utils/config/models/input/v0_4_1/__init__.py:AxolotlInputConfig",
                    nested=True,
                ),
            ),
            rejects=False,
        ),
    },
)

_UNSLOTH = "unsloth/models/loader.py"

UNSLOTH = Layout(
    packages=("unsloth",),
    markers=(_UNSLOTH,),
    groups={
        "from_pretrained": _signature(f"{_UNSLOTH}:FastLanguageModel.from_pretrained", open_ended=True),
        "FastModel.from_pretrained": _signature(
            f"{_UNSLOTH}:FastModel.from_pretrained", f"{_UNSLOTH}:FastVisionModel.from_pretrained", open_ended=True
        ),
        "get_peft_model": _signature("unsloth/models/llama.py:FastLlamaModel.get_peft_model", open_ended=True),
    },
)

_SERVE = tuple(f"vllm/entrypoints/{folder}/cli_args.py" for folder in ("openai", "common", "launchers"))

VLLM = Layout(
    packages=("vllm",),
    markers=("vllm/engine/arg_utils.py",),
    groups={
        "EngineArgs": _fields("vllm/engine/arg_utils.py:EngineArgs"),
        "AsyncEngineArgs": Group(
            (_class("vllm/engine/arg_utils.py:AsyncEngineArgs", inherited=False),), ("EngineArgs",)
        ),
        "LLM": _signature("vllm/entrypoints/llm.py:LLM.__init__", includes=("EngineArgs",)),
        "SamplingParams": _fields("vllm/sampling_params.py:SamplingParams"),
        "serve": Group((ParserPart(tuple((path, "make_arg_parser") for path in _SERVE)),), abbreviations=True),
    },
)

LAYOUTS: dict[str, Layout] = {
    "trl": TRL,
    "ms-swift": MS_SWIFT,
    "verl": VERL,
    "easyr1": EASYR1,
    "openrlhf": OPENRLHF,
    "nemo-rl": NEMO_RL,
    "skyrl": SKYRL,
    "skyrl-train": SKYRL_TRAIN,
    "axolotl": AXOLOTL,
    "open-r1": OPEN_R1,
    "unsloth": UNSLOTH,
    "vllm": VLLM,
    "transformers": TRANSFORMERS,
}
