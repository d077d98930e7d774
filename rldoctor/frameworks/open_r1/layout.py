"""Where open-r1 declares its options, most of which are TRL's."""

from __future__ import annotations

from rldoctor.tables.options.parts import Group, Layout, Listing, class_part, fields_of

OPEN_R1 = Layout(
    packages=("open_r1",),
    roots=("", "src/"),
    markers=("open_r1/configs.py",),
    groups={
        "grpo": Group(
            (class_part("open_r1/configs.py:GRPOConfig"), class_part("open_r1/configs.py:GRPOScriptArguments")),
            ("trl:ModelConfig", "trl:ScriptArguments", "trl:GRPOConfig"),
            abbreviations=True,
        ),
        "GRPOConfig": fields_of("open_r1/configs.py:GRPOConfig", includes=("trl:GRPOConfig",)),
    },
    names={
        "reward_funcs": Listing(
            places=("open_r1/rewards.py:get_reward_funcs.REWARD_FUNCS_REGISTRY",),
            closed=True,
        ),
    },
)

LAYOUTS = {"open-r1": OPEN_R1}
