"""axolotl."""

from __future__ import annotations

from rldoctor.frameworks.record import Framework, Layer, Memory, Package, Settings, Sync, Validation, Words

FRAMEWORK = Framework(
    home=__name__,
    name="axolotl",
    title="axolotl",
    marks=("axolotl", "base_model", ".yaml", ".yml"),
    packages=(Package(name="axolotl", modules=("axolotl",), since="0.5.0", found=("torch", "xformers")),),
    over=(Layer(package="trl"),),
    programs=("axolotl",),
    variables="AXOLOTL_",
    words=Words(
        paths=r"/axolotl/",
        # cli/config.py, `load_cfg`: JSON from the next line on
        settings=tuple(
            Settings(f"] {name}:", rf"\b{name}:()$", "axolotl train", has='"axolotl_config_path":')
            for name in ("config", "cfg")
        ),
    ),
    memory=Memory(whole_logits=4, keeps_reference=True, recomputes=("fsdp", "fsdp2")),
    sync=Sync(one_by_one=True, own_names=""),
    validations=(
        Validation(module="axolotl.utils.schemas.config", name="AxolotlInputConfig"),
        Validation(module="axolotl.utils.schemas.validation", name="*", settings="data", before=True),
        Validation(module="axolotl.utils.schemas.validation", name="*", settings="self", before=True),
    ),
    imports={
        "always": ("axolotl.cli.train", "axolotl.train", "axolotl.core.trainers.{algorithm}.trainer"),
        "server": ("axolotl.cli.vllm_serve",),
    },
)
