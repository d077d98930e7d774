"""Where slime declares its options: those that it adds to Megatron's parser, which lets pass what it does not know."""

from __future__ import annotations

from rldoctor.tables.options.parts import Group, Layout, ParserPart

SLIME = Layout(
    packages=("slime",),
    markers=("slime/utils/arguments.py",),
    compared=("slime",),
    groups={
        "train": Group(
            (ParserPart((("slime/utils/arguments.py", "get_slime_extra_args_provider"),)),),
            open=True,
            rejects=False,
            validates=True,
        )
    },
)

LAYOUTS = {"slime": SLIME}
