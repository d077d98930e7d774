"""Where OpenRLHF declares its options."""

from __future__ import annotations

from rldoctor.tables.options.parts import Group, Layout, ParserPart

OPENRLHF = Layout(
    packages=("openrlhf",),
    markers=("openrlhf/cli/train_ppo_ray.py",),
    groups={
        command: Group((ParserPart(((f"openrlhf/cli/{command}.py", None),)),), abbreviations=True)
        for command in ("train_ppo_ray", "train_ppo")
    },
)

LAYOUTS = {"openrlhf": OPENRLHF}
