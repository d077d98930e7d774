"""Fields of dataclasses, pydantic models and typed dictionaries, read without importing them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rldoctor.tables.options.fields import Classes, find_class
from rldoctor.tables.options.model import MISSING, Computed, Options

Make = Callable[[dict[str, str]], Classes]


def options(made: Classes, name: str, **how: Any) -> Options:
    owner = find_class(made.sources, "pkg/config.py", name)
    assert owner is not None
    return made.options(owner, **how)


def test_defaults_types_and_choices(classes: Make) -> None:
    read = options(
        classes(
            {
                "pkg/config.py": """
                from dataclasses import dataclass, field
                from typing import Literal, Optional

                LIMIT = 4 * 1024

                @dataclass
                class Config:
                    model: str
                    vllm_mode: Literal["server", "colocate"] = "server"
                    share: float = field(default=0.9, metadata={"help": "of the memory"})
                    tokens: Optional[int] = LIMIT
                    names: list[str] = field(default_factory=lambda: ["a", "b"])
                    kwargs: dict[str, object] = field(default_factory=dict)
                    workers: int = os.cpu_count()
                    report: str = field(default="x", metadata={"help": "where to", "choices": ["x", "y"]})
                    client = None  # no annotation, no field
                """
            }
        ),
        "Config",
    )
    assert read["model"].required
    assert read["model"].default is MISSING
    assert (read["vllm_mode"].default, read["vllm_mode"].choices) == ("server", ("server", "colocate"))
    assert (read["share"].default, read["share"].type) == (0.9, "float")
    assert (read["tokens"].default, read["tokens"].type) == (4096, "int?")
    assert read["names"].default == ["a", "b"]
    assert read["kwargs"].open
    assert read["workers"].default == Computed("os.cpu_count()")
    assert read["report"].choices == ("x", "y")
    assert "client" not in read


def test_the_method_resolution_order_decides(classes: Make) -> None:
    # As in ms-swift: a mixin before the training arguments overrides them, the class itself overrides both.
    made = classes(
        {
            "pkg/base.py": """
            from dataclasses import dataclass
            from elsewhere import TrainingArguments

            @dataclass
            class Hub(TrainingArguments):
                steps: int = 500
                rate: float = 5e-5

            @dataclass
            class Mixin:
                steps: int = 5
            """,
            "pkg/config.py": """
            from dataclasses import dataclass
            from .base import Hub, Mixin
            import pkg.base as base

            @dataclass
            class Config(Mixin, base.Hub):
                rate: float | None = None
            """,
        }
    )
    read = options(made, "Config")
    assert (read["steps"].default, read["rate"].default) == (5, None)
    assert list(options(made, "Config", inherited=False)) == ["rate"]


def test_classes_within_classes_become_dotted_names(classes: Make) -> None:
    read = options(
        classes(
            {
                "pkg/__init__.py": "",
                "pkg/rollout/__init__.py": "from .config import *",
                "pkg/rollout/config.py": """
                from dataclasses import dataclass, field
                @dataclass
                class Sampling:
                    temperature: float = 1.0
                    n: int = 1
                @dataclass
                class Rollout:
                    tensor_parallel_size: int = 2
                    sampling: Sampling = field(default_factory=lambda: Sampling(n=8))
                    evaluation: Sampling | None = None
                """,
                "pkg/config.py": """
                import copy
                from dataclasses import dataclass, field
                from typing import Optional
                from .rollout import Rollout
                @dataclass
                class Config:
                    rollout: Rollout = field(default_factory=lambda: copy.deepcopy(Rollout(tensor_parallel_size=4)))
                    parent: Optional["Config"] = None
                """,
            }
        ),
        "Config",
        nested=True,
    )
    assert read["rollout.tensor_parallel_size"].default == 4
    assert read["rollout.sampling.n"].default == 8
    assert read["rollout.sampling.temperature"].default == 1.0
    assert read["rollout.evaluation"].default is None
    assert "rollout.evaluation.n" in read
    assert "rollout" not in read  # a section, not an option
    assert [name for name in read if "parent" in name] == ["parent"]  # a class that holds itself ends


def test_pydantic_models(classes: Make) -> None:
    read = options(
        classes(
            {
                "pkg/config.py": """
                from enum import Enum
                from typing import Annotated
                from pydantic import BaseModel, Field

                class RLType(str, Enum):
                    dpo = "dpo"
                    grpo = "grpo"

                class TRL(BaseModel):
                    use_vllm: bool = Field(False, description="x")

                class Config(BaseModel):
                    base_model: str
                    rl: RLType | None = None
                    kind: RLType = RLType.grpo
                    trl: TRL | None = Field(default_factory=lambda: TRL())
                    type_of_model: str | None = Field(default=None, alias="model_type")
                    group_size: int = Field(1, validation_alias=AliasChoices("group_size", "rollouts_per_example"))
                    ratio: Annotated[float, Field(gt=0, lt=1)] = 0.05
                """
            }
        ),
        "Config",
        nested=True,
    )
    assert read["base_model"].required
    assert read["rl"].choices == ("dpo", "grpo")
    assert read["kind"].default == "grpo"
    assert read["trl.use_vllm"].default is False
    assert read["model_type"].alias == "type_of_model"
    assert (read["group_size"].alias, read["rollouts_per_example"].alias) == (None, "group_size")
    assert (read["ratio"].default, read["ratio"].type) == (0.05, "float")


def test_texts_that_a_class_makes_members_of(classes: Make) -> None:
    read = options(
        classes(
            {
                "pkg/kinds.py": """
                from enum import Enum
                class Kind(Enum):
                    NO = "no"
                    STEPS = "steps"
                """,
                "pkg/config.py": """
                from dataclasses import dataclass
                from pkg.kinds import Kind

                @dataclass
                class Config:
                    save: Kind | str = "steps"
                    log: Kind | str = "steps"

                    def __post_init__(self):
                        self.save = Kind(self.save)
                        self.first = Kind("no")

                    def other(self):
                        self.log = Kind(self.log)
                """,
            }
        ),
        "Config",
    )
    assert (read["save"].choices, read["save"].enforced, read["save"].type) == (("no", "steps"), True, "str")
    assert (read["log"].choices, read["log"].enforced) == (None, False)


def test_typed_dictionaries(classes: Make) -> None:
    read = options(
        classes(
            {
                "pkg/config.py": """
                from typing import Any, Literal, NotRequired, TypedDict

                class Off(TypedDict):
                    enabled: Literal[False]

                class On(TypedDict):
                    enabled: Literal[True]
                    dim: int
                    free: NotRequired[dict[str, Any]]

                class Config(TypedDict, total=False):
                    lora: On | Off
                """
            }
        ),
        "Config",
        nested=True,
    )
    assert read["lora.dim"].required
    assert read["lora.dim"].default is MISSING
    assert not read["lora.free"].required
    assert "lora.enabled" in read


def test_a_section_for_which_one_of_several_classes_stands(classes: Make) -> None:
    # As prime-rl's optimizers, told apart by `type`; the one that is built is the default.
    read = options(
        classes(
            {
                "pkg/config.py": """
                from dataclasses import dataclass, field
                from typing import Literal

                @dataclass
                class Adam:
                    type: Literal["adam"] = "adam"
                    beta: float = 0.9

                @dataclass
                class Muon:
                    type: Literal["muon"] = "muon"
                    beta: float = 0.5
                    steps: int = 5

                @dataclass
                class Config:
                    optimizer: Adam | Muon = field(default_factory=Adam)
                """
            }
        ),
        "Config",
        nested=True,
    )
    assert read["optimizer.type"].choices == ("adam", "muon")
    assert (read["optimizer.type"].default, read["optimizer.beta"].default) == ("adam", 0.9)
    assert read["optimizer.steps"].default == 5


def test_choices_that_nobody_enforces_are_names(classes: Make) -> None:
    made = classes(
        {
            "pkg/config.py": """
            from dataclasses import dataclass, field
            @dataclass
            class Actor:
                attention: str | None = field(default="a", metadata={"choices": ["a", "b", None]})
            @dataclass
            class Config:
                actor: Actor = field(default_factory=Actor)
            """
        }
    )
    assert options(made, "Actor")["attention"].choices == ("a", "b", None)  # by the parser of transformers
    read = options(made, "Config", nested=True)["actor.attention"]  # by what makes an object of a file's sections
    assert (read.choices, read.names, read.closed) == (None, ("a", "b"), False)


def test_defaults_borrowed_from_other_classes(classes: Make) -> None:
    # As vLLM's EngineArgs takes them from its config classes.
    read = options(
        classes(
            {
                "pkg/parts.py": """
                from typing import Literal
                Runner = Literal["auto", "generate"]
                class Cache:
                    share: float = 0.92
                    runner: Runner = "auto"
                    sizes: list[int] = Field(default_factory=lambda: [1, 2])
                """,
                "pkg/config.py": """
                from pkg.parts import Cache, Runner
                @dataclass
                class Config:
                    gpu_memory_utilization: float = Cache.share
                    runner: Runner = Cache.runner
                    sizes: list[int] = get_field(Cache, "sizes")
                """,
            }
        ),
        "Config",
    )
    assert read["gpu_memory_utilization"].default == 0.92
    assert (read["runner"].default, read["runner"].choices) == ("auto", ("auto", "generate"))
    assert read["sizes"].default == [1, 2]


def test_what_is_marked_as_deprecated(classes: Make) -> None:
    read = options(
        classes(
            {
                "pkg/config.py": """
                from dataclasses import dataclass, field
                @dataclass
                class Config:
                    old: str = field(default=None, metadata={"help": "This parameter is deprecated and ignored."})
                    gone: bool = False  # deprecated
                    new: str = field(default=None, metadata={"help": "Use instead of the deprecated `old`."})
                """
            }
        ),
        "Config",
    )
    assert [name for name, option in read.items() if option.deprecated] == ["old", "gone"]
