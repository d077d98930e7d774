"""Where SkyRL declares its options, in both generations."""

from __future__ import annotations

from rldoctor.tables.options.parts import Group, HydraPart, Layout, MentionPart, class_part

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
    compared=("skyrl",),
    groups={
        "main_base": Group(
            (
                HydraPart(("skyrl/train/config",), "ppo_base_config"),
                MentionPart(
                    "skyrl/train/config/config.py",
                    ("trainer.use_sample_packing", "generator.inference_engine.async_engine"),
                ),
                class_part("skyrl/train/config/config.py:SkyRLTrainConfig", nested=True),
            )
        ),
    },
)

LAYOUTS = {"skyrl": SKYRL, "skyrl-train": SKYRL_TRAIN}
