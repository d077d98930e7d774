"""Where prime-rl declares its options."""

from __future__ import annotations

from rldoctor.tables.options.parts import Group, Layout, class_part

PRIME_RL = Layout(
    packages=("prime_rl",),
    markers=("prime_rl/configs/rl.py", "prime_rl/rl.py"),
    groups={
        "main": Group(
            (class_part("prime_rl/configs/rl.py:RLConfig", "prime_rl/rl.py:RLConfig", nested=True),),
            validates=True,  # pydantic
        )
    },
    roots=("", "src/", "packages/prime-rl-configs/src/"),
)

LAYOUTS = {"prime-rl": PRIME_RL}
