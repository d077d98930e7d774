"""Where ROLL declares its options. What no field has is dropped without a word (dacite, not strict); types are
checked."""

from __future__ import annotations

from rldoctor.tables.options.parts import Group, Layout, class_part

ROLL = Layout(
    packages=("roll",),
    markers=("roll/configs/base_config.py",),
    compared=("roll",),
    groups={
        "rlvr": Group(
            (class_part("roll/pipeline/rlvr/rlvr_config.py:RLVRConfig", nested=True),), rejects=False, validates=True
        ),
        "agentic": Group(
            (class_part("roll/pipeline/agentic/agentic_config.py:AgenticConfig", nested=True),),
            rejects=False,
            validates=True,
        ),
    },
)

LAYOUTS = {"roll": ROLL}
