"""Where EasyR1 declares its options."""

from __future__ import annotations

from rldoctor.tables.options.parts import Group, Layout, class_part

EASYR1 = Layout(
    packages=("verl",),
    markers=("verl/trainer/config.py",),
    groups={"main": Group((class_part("verl/trainer/config.py:PPOConfig", nested=True),))},
)

LAYOUTS = {"easyr1": EASYR1}
