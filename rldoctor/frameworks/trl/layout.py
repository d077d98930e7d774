"""Where TRL declares its options."""

from __future__ import annotations

from rldoctor.tables.options.parts import TRAINING_ARGUMENTS, Group, Layout, Listing, fields_of

TRL = Layout(
    packages=("trl",),
    markers=("trl/trainer/grpo_config.py",),
    groups={
        "GRPOConfig": fields_of("trl/trainer/grpo_config.py:GRPOConfig", includes=TRAINING_ARGUMENTS),
        "RLOOConfig": fields_of("trl/trainer/rloo_config.py:RLOOConfig", includes=TRAINING_ARGUMENTS),
        "OnlineDPOConfig": fields_of(
            "trl/experimental/online_dpo/online_dpo_config.py:OnlineDPOConfig",
            "trl/trainer/online_dpo_config.py:OnlineDPOConfig",
            includes=TRAINING_ARGUMENTS,
        ),
        "AsyncGRPOConfig": fields_of(
            "trl/experimental/async_grpo/async_grpo_config.py:AsyncGRPOConfig", includes=TRAINING_ARGUMENTS
        ),
        "ScriptArguments": fields_of("trl/scripts/utils.py:ScriptArguments"),
        "GRPOScriptArguments": fields_of("trl/scripts/grpo.py:GRPOScriptArguments"),
        "RLOOScriptArguments": fields_of("trl/scripts/rloo.py:RLOOScriptArguments"),
        "ModelConfig": fields_of("trl/trainer/model_config.py:ModelConfig"),
        "DatasetMixtureConfig": fields_of("trl/scripts/utils.py:DatasetMixtureConfig"),
        "grpo": Group(
            includes=("?DatasetMixtureConfig", "ModelConfig", "GRPOConfig", "GRPOScriptArguments"), abbreviations=True
        ),
        "rloo": Group(
            includes=("?DatasetMixtureConfig", "ModelConfig", "RLOOConfig", "RLOOScriptArguments"), abbreviations=True
        ),
        "vllm-serve": fields_of("trl/scripts/vllm_serve.py:ScriptArguments", command=True),
    },
    names={
        "reward_funcs": Listing(places=("trl/scripts/grpo.py:reward_funcs_registry",), closed=True),
        "GRPOConfig:loss_type": Listing(compared=("trl/trainer/grpo_trainer.py:self.loss_type",)),
        **{
            f"{trainer.upper()}Config:vllm_mode": Listing(
                compared=(
                    f"trl/trainer/{trainer}_trainer.py:self.vllm_mode",
                    "trl/generation/vllm_generation.py:self.mode",
                )
            )
            for trainer in ("grpo", "rloo")
        },
        "OnlineDPOConfig:vllm_mode": Listing(
            compared=tuple(
                f"trl/{folder}/online_dpo_trainer.py:self.vllm_mode"
                for folder in ("trainer", "experimental/online_dpo")
            )
        ),
    },
)

LAYOUTS = {"trl": TRL}
