"""Where NeMo-RL declares its options."""

from __future__ import annotations

from rldoctor.tables.options.parts import ExamplesPart, Group, HydraPart, Layout, class_part

_MODULES = ("nemo_rl", "nemo_reinforcer")  # the second until 0.2.0

NEMO_RL = Layout(
    packages=_MODULES,
    markers=("nemo_rl/algorithms/grpo.py",),
    compared=("nemo_rl",),
    groups={
        "grpo": Group(
            (
                ExamplesPart("examples/configs", ("grpo", "gspo", "dapo", "cispo", "ppo")),
                class_part(
                    *(f"{p}/algorithms/grpo.py:MasterConfig" for p in ("nemo_rl", "nemo_reinforcer")), nested=True
                ),
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

LAYOUTS = {"nemo-rl": NEMO_RL}
