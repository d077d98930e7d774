"""Options that are a function's parameters."""

from __future__ import annotations

from collections.abc import Callable

from rldoctor.tables.options.fields import Classes
from rldoctor.tables.options.model import MISSING
from rldoctor.tables.options.signatures import signature_options

Make = Callable[[dict[str, str]], Classes]


def test_parameters_of_a_method_and_of_a_constructor(classes: Make) -> None:
    made = classes(
        {
            "pkg/loader.py": """
            class FastModel(Base):
                @staticmethod
                @wrapped
                def from_pretrained(
                    model_name = "m",
                    max_seq_length = 2048,  # rows
                    fast_inference = False,
                    *args,
                    **kwargs,
                ):
                    return max_seq_length

            class LLM:
                def __init__(self, model: str, *, tokenizer: str | None = None, seed: int = 0, **kwargs) -> None:
                    super().__init__()
            """
        }
    )
    module = made.sources.at("pkg/loader.py")
    assert module is not None
    loader = signature_options(made, module, "FastModel.from_pretrained")
    assert {name: option.default for name, option in loader.items()} == {
        "model_name": "m",
        "max_seq_length": 2048,
        "fast_inference": False,
    }
    llm = signature_options(made, module, "LLM.__init__")
    assert list(llm) == ["model", "tokenizer", "seed"]
    assert llm["model"].default is MISSING
    assert llm["tokenizer"].type == "str?"
    assert signature_options(made, module, "LLM.generate") == {}
