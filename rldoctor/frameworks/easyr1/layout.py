"""Where EasyR1 declares its options."""

from __future__ import annotations

from rldoctor.tables.options.parts import Group, Layout, OverlayPart, class_part

EASYR1 = Layout(
    packages=("verl",),
    markers=("verl/trainer/config.py",),
    groups={
        "main": Group((class_part("verl/trainer/config.py:PPOConfig", nested=True),), validates=True),  # OmegaConf
        # What its example launches build upon, and what lies in a clone only.
        "examples/config.yaml": Group((OverlayPart(("examples/config.yaml",)),), includes=("main",)),
    },
)

LAYOUTS = {"easyr1": EASYR1}
