"""Where unsloth declares the parameters of its loaders."""

from __future__ import annotations

from rldoctor.tables.options.parts import Layout, parameters_of

_LOADER = "unsloth/models/loader.py"

UNSLOTH = Layout(
    packages=("unsloth",),
    markers=(_LOADER,),
    groups={
        "from_pretrained": parameters_of(f"{_LOADER}:FastLanguageModel.from_pretrained", open_ended=True),
        "FastModel.from_pretrained": parameters_of(
            f"{_LOADER}:FastModel.from_pretrained", f"{_LOADER}:FastVisionModel.from_pretrained", open_ended=True
        ),
        "get_peft_model": parameters_of("unsloth/models/llama.py:FastLlamaModel.get_peft_model", open_ended=True),
    },
)

LAYOUTS = {"unsloth": UNSLOTH}
