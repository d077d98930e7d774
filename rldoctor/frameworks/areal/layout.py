"""Where AReaL declares its options."""

from __future__ import annotations

from rldoctor.tables.options.parts import Group, Layout, class_part

AREAL = Layout(
    packages=("areal",),
    markers=("areal/api/cli_args.py",),
    compared=("areal",),
    groups={"main": Group((class_part("areal/api/cli_args.py:PPOConfig", nested=True),), validates=True)},  # OmegaConf
)

LAYOUTS = {"areal": AREAL}
