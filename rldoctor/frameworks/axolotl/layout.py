"""Where axolotl declares its options."""

from __future__ import annotations

from rldoctor.tables.options.parts import FolderPart, Group, Layout, Listing, class_part

AXOLOTL = Layout(
    packages=("axolotl",),
    roots=("", "src/"),
    markers=("axolotl/utils/config/__init__.py",),
    groups={
        "train": Group(
            (
                FolderPart("axolotl/integrations", "args.py", "Args"),
                class_part(
                    "axolotl/utils/schemas/config.py:AxolotlInputConfig",
                    "axolotl/utils/config/models/input/v0_4_1/__init__.py:AxolotlInputConfig",
                    nested=True,
                ),
            ),
            rejects=False,
            validates=True,  # pydantic
        ),
    },
    names={"optimizer": Listing(places=("axolotl/utils/schemas/enums.py:CustomSupportedOptimizers",))},
)

LAYOUTS = {"axolotl": AXOLOTL}
