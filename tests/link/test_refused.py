"""What an argument class raises for settings, told from its source alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rldoctor.link.fields import typed
from rldoctor.link.locate import SearchPath
from rldoctor.link.problems import Refusal
from rldoctor.link.refused import refusal
from rldoctor.link.sources import Sources
from rldoctor.link.values import NOT_KNOWN, Known

Site = Callable[[dict[str, str]], Path]
FILES = {
    "base/args.py": """
        import os
        from dataclasses import dataclass, field
        @dataclass
        class Arguments:
            steps: int = 10
            fp16: bool = False
            bf16: bool = False
            plan: dict = field(default_factory=dict)
            LISTED = ["plan"]
            def __post_init__(self):
                for name in self.LISTED:
                    setattr(self, name, load(getattr(self, name)))
                if os.environ.get("STEPS"):
                    self.steps = int(os.environ["STEPS"])
                if self.fp16 and self.bf16:
                    raise ValueError("At most one of fp16 and bf16 can be True")
                self.configured()
            def configured(self):
                if os.path.exists("skip"):
                    return
                assert self.plan is not None
        """,
    "trl/trainer/grpo_config.py": """
        from dataclasses import dataclass, field
        from typing import Optional
        from base.args import Arguments
        @dataclass
        class GRPOConfig(Arguments):
            num_generations: Optional[int] = field(default=8, metadata={"help": "n"})
            loss_type: str = "grpo"
            delta: Optional[float] = None
            batch: Optional[int] = None
            rows: Optional[int] = None
            kind: Literal["simpo", "cpo"] = field(default_factory=kind)
            def __post_init__(self):
                super().__post_init__()
                if self.batch is None:
                    self.batch = self.num_generations * 4
                if self.rows is not None and self.rows % self.num_generations:
                    raise ValueError(f"rows ({self.rows}) must be divisible by {self.num_generations}.")
                if self.batch < 4:
                    raise ValueError("a batch of four or more")
                if self.num_generations < 2:
                    raise ValueError(
                        "GRPO requires at least 2 generations. "
                        f"You provided {self.num_generations} and {unknown()}."
                    )
                if self.delta is not None and self.loss_type in NO_DELTA:
                    raise ValueError("no delta here")
                if self.steps > 100:
                    raise ValueError("too many steps")
                if self.rows in ADDED:
                    raise ValueError("nobody knows what was added")
                self.simplified()
                if self.kind == "cpo":
                    raise ValueError("nothing of this kind")
            def simplified(self):
                if self.kind != "simpo":
                    return
                self.kind = "cpo"
        NO_DELTA = ["dapo", "luspo"]
        ADDED = [16]
        ADDED.append(24)
        """,
}


@pytest.fixture
def refuse(site: Site) -> Callable[..., Refusal | None]:
    sources = Sources(SearchPath([site(FILES)]))

    def refused(complete: bool = True, **given: Any) -> Refusal | None:
        return refusal(sources, "trl.trainer.grpo_config", "grpoconfig", given, complete)

    return refused


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_generations": 1}, "GRPO requires at least 2 generations. You provided 1 and …."),
        ({"num_generations": "1"}, "GRPO requires at least 2 generations. You provided 1 and …."),
        ({"num_generations": 0}, "a batch of four or more"),
        ({"batch": 1}, "a batch of four or more"),
        ({"rows": 9}, "rows (9) must be divisible by 8."),
        ({"delta": 1.5, "loss_type": "dapo"}, "no delta here"),
        ({"fp16": True, "bf16": "true"}, "At most one of fp16 and bf16 can be True"),
    ],
)
def test_what_is_certainly_raised(refuse: Callable[..., Refusal | None], given: dict[str, Any], message: str) -> None:
    found = refuse(**given)
    assert found is not None and (found.type, found.message) == ("ValueError", message)
    assert set(found.reads) & set(given)


WORKED_OUT = {
    "swift/kinds.py": """
        from enum import Enum, StrEnum
        class Named(str, Enum):
            @classmethod
            def _missing_(cls, value):
                raise ValueError(f"{value} is not valid")
        class When(Named):
            NO = "no"
            STEPS = "steps"
        class Loose(str, Enum):
            ONE = "one"
            @classmethod
            def _missing_(cls, value):
                return cls.ONE
        class Numbered(Enum):
            ONE = 1
        """,
    "swift/rules.py": """
        def rounds(count, by=4):
            if count > 100:
                return by
            return count // by
        def looked_up(count):
            return read(count)
        """,
    "swift/args.py": """
        from dataclasses import dataclass
        from typing import Union
        from swift.kinds import Loose, Numbered, When
        from swift.rules import looked_up, rounds
        @dataclass
        class Base:
            CHECKED = ["low", "high"]
            floor: Optional[int] = None
            ceiling: Optional[int] = None
            def __post_init__(self):
                for old, new in (("floor", "low"), ("ceiling", "high")):
                    if getattr(self, old) is not None:
                        setattr(self, new, getattr(self, old))
                for name in self.CHECKED:
                    if getattr(self, name) < 0:
                        raise ValueError(f"{name} is below zero")
        @dataclass
        class Arguments(Base):
            CHECKED = Base.CHECKED + ["most"]
            low: int = 1
            high: int = 9
            most: int = 10
            save: Union[When, str] = "steps"
            evaluate: Union[When, str] = "steps"
            loose: Union[Loose, str] = "one"
            number: Union[Numbered, str] = "1"
            shards: str = ""
            count: int = 16
            def __post_init__(self):
                super().__post_init__()
                self.save = When(self.save)
                self.evaluate = When(self.evaluate)
                self.loose = Loose(self.loose)
                self.number = Numbered(self.number)
                if self.save == When.STEPS and self.evaluate != self.save:
                    raise ValueError(f"evaluate as it is saved, not {self.evaluate}")
                self.shards = [part.upper() for part in self.shards.split()]
                if "FULL" in self.shards and "HYBRID" in self.shards:
                    raise ValueError("full or hybrid")
                if rounds(self.count) < 2:
                    raise ValueError("too few rounds")
                if looked_up(self.count) == 0:
                    raise ValueError("nobody knows")
                if self.width % 2:
                    raise ValueError(f"an odd width of {self.width}")
                self.hold(self.most, least=5)
            @property
            def width(self):
                return max(self.low, self.high) - min(self.low, self.high)
            def hold(self, value, least=1, limit=100):
                if value < least or value > limit:
                    raise ValueError(f"{value} is not within {least} and {limit}")
        """,
}


@pytest.mark.parametrize(
    ("given", "message", "reads"),
    [
        ({"save": "seldom"}, "'seldom' is not a valid When: it is one of no, steps", {"save"}),
        ({"evaluate": "no"}, "evaluate as it is saved, not no", {"save", "evaluate"}),
        ({"low": -1}, "low is below zero", {"low"}),
        ({"most": -1}, "most is below zero", {"most"}),
        ({"floor": -1}, "low is below zero", {"low"}),
        ({"shards": "full hybrid"}, "full or hybrid", {"shards"}),
        ({"count": 4}, "too few rounds", {"count"}),
        ({"count": 0}, "too few rounds", {"count"}),
        ({"high": 10}, "an odd width of 9", {"low", "high"}),
        ({"most": 3}, "3 is not within 5 and 100", {"most"}),
        ({"most": 300}, "300 is not within 5 and 100", {"most"}),
    ],
)
def test_enumerations_loops_properties_and_what_functions_return(
    site: Site, given: dict[str, Any], message: str, reads: set[str]
) -> None:
    found = refusal(Sources(SearchPath([site(WORKED_OUT)])), "swift.args", "Arguments", given)
    assert found is not None and found.message == message
    assert reads <= set(found.reads)


@pytest.mark.parametrize(
    "given",
    [{}, {"loose": "two"}, {"number": "7"}, {"shards": "full"}, {"count": 200}, {"high": 11}, {"most": 100}],
    ids=["defaults", "takes others too", "of numbers", "one of both", "another return", "even", "at the limit"],
)
def test_what_is_worked_out_to_be_well(site: Site, given: dict[str, Any]) -> None:
    assert refusal(Sources(SearchPath([site(WORKED_OUT)])), "swift.args", "Arguments", given) is None


FILLED = """
    from dataclasses import dataclass
    @dataclass
    class Arguments:
        pairs: str = ""
        every: int = 0
        def __post_init__(self):
            names = []
            for name in list(self.pairs):
                {filled}
            if self.every > 0 and not names:
                raise ValueError("nothing is configured")
    """


@pytest.mark.parametrize("filled", ["names.append(name)", "names += [name]", "names[0:] = [name]"])
def test_a_collection_that_is_changed_in_place_is_not_known(site: Site, filled: str) -> None:
    sources = Sources(SearchPath([site({"own/args.py": FILLED.format(filled=filled)})]))
    assert refusal(sources, "own.args", "Arguments", {"pairs": "ab", "every": 5}) is None


def test_a_collection_that_nothing_changes_stays_as_it_was_made(site: Site) -> None:
    sources = Sources(SearchPath([site({"own/args.py": FILLED.format(filled="print(name)")})]))
    found = refusal(sources, "own.args", "Arguments", {"pairs": "ab", "every": 5})
    assert found is not None and found.message == "nothing is configured"


def test_a_text_that_its_type_names() -> None:
    assert typed("cpo", "Literal['simpo', 'cpo']") == Known("cpo")
    assert typed("dpo", "Literal['simpo', 'cpo']") is NOT_KNOWN


def test_where_and_when(refuse: Callable[..., Refusal | None]) -> None:
    found = refuse(num_generations=1)
    assert found is not None
    assert (found.file, found.line) == ("trl/trainer/grpo_config.py", 22)
    assert (found.function, found.condition) == ("GRPOConfig.__post_init__", "self.num_generations < 2")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"num_generations": 4, "rows": 8},
        {"num_generations": 4, "rows": 16},
        {"delta": 1.5},
        {"steps": 200},
        {"plan": None},
        {"num_generations": "many"},
    ],
    ids=[
        "defaults",
        "good",
        "a list that is changed",
        "half a condition",
        "the environment",
        "behind a return",
        "no number",
    ],
)
def test_what_is_well_or_not_certain(refuse: Callable[..., Refusal | None], given: dict[str, Any]) -> None:
    assert refuse(**given) is None


def test_no_default_counts_where_the_launch_may_give_more(refuse: Callable[..., Refusal | None]) -> None:
    assert refuse(complete=False, rows=9) is None
    assert refuse(complete=False, rows=9, num_generations=8) is not None


def test_no_such_class(site: Site) -> None:
    sources = Sources(SearchPath([site(FILES)]))
    assert refusal(sources, "trl.trainer.grpo_config", "RLOOConfig", {"num_generations": 1}) is None
    assert refusal(sources, "trl.absent", "GRPOConfig", {"num_generations": 1}) is None


def test_the_type_of_a_list_is_not_known(site: Site) -> None:
    """A configuration's own lists may be of another library's type; what a class asks of them is not worked out."""
    text = """
        class Config:
            names: list = None
            def __post_init__(self):
                assert isinstance(self.names, list), "no list"
        """
    sources = Sources(SearchPath([site({"trl/config.py": text})]))
    assert refusal(sources, "trl.config", "Config", {"names": ["a"]}) is None


VALIDATED = """
from pydantic import BaseModel, field_validator, model_validator
class Base(BaseModel):
    width: str = "8"
    @field_validator("width", mode="before")
    @classmethod
    def known(cls, value):
        if value == "broad":
            raise ValueError("no width")
        return value
class Same(Base):
    pass
class Lenient(Base):
    @field_validator("width", mode="before")
    @classmethod
    def known(cls, value):
        return value
class Bare(Base):
    def known(cls, value):  # no validator any more
        return value
class Renaming(Base):
    @model_validator(mode="before")
    @classmethod
    def old(cls, data):
        data["width"] = data["breadth"]
        return data
class Other(Base):
    @model_validator(mode="before")
    @classmethod
    def old(cls, data):
        data["height"] = data["width"]
        return data
"""


@pytest.mark.parametrize(
    ("name", "refused"), [("Same", True), ("Lenient", False), ("Bare", False), ("Renaming", False), ("Other", True)]
)
def test_what_pydantics_validators_say_of_a_value(site: Site, name: str, refused: bool) -> None:
    sources = Sources(SearchPath([site({"trl/config.py": VALIDATED})]))
    found = refusal(sources, "trl.config", name, {"width": "broad"})
    assert (found.message if found is not None else None) == ("no width" if refused else None)


@pytest.mark.parametrize(("mode", "message"), [("before", "no width"), ("wrap", None)])
def test_a_validator_that_wraps_the_others_is_not_followed(site: Site, mode: str, message: str | None) -> None:
    text = VALIDATED.replace('mode="before"', f'mode="{mode}"')
    sources = Sources(SearchPath([site({"trl/config.py": text})]))
    found = refusal(sources, "trl.config", "Base", {"width": "broad"})
    assert (found.message if found is not None else None) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"connector": "Nixl"}', "a connector needs its role"),
        ('{"connector": "Nixl", "role": "both"}', None),
        ('{"role": "both"}', None),
        ('{"connector": ', None),  # no JSON, which is another's to say
    ],
)
def test_a_class_that_is_given_as_json(site: Site, text: str, message: str | None) -> None:
    files = {
        "vllm/arguments.py": """
            from vllm.transfer import TransferConfig
            class EngineArgs:
                transfer: TransferConfig | None = None
            """,
        "vllm/transfer.py": """
            class TransferConfig:
                connector: str | None = None
                role: str | None = None
                def __post_init__(self):
                    if self.connector is not None and self.role is None:
                        raise ValueError("a connector needs its role")
            """,
    }
    found = refusal(Sources(SearchPath([site(files)])), "vllm.arguments", "EngineArgs", {"transfer": text})
    assert (found.message if found is not None else None) == message
    assert found is None or found.reads == ("transfer",)


WHOLE = """
    from dataclasses import dataclass, field
    from typing import List, Optional
    class Factory:
        @classmethod
        def kind(cls, args):
            return args.kind
        @classmethod
        def made(cls, args):
            found = cls.kind(args)
            args.prepare({})
            return found
    @dataclass
    class Arguments:
        kind: str = "grpo"
        callbacks: List[str] = field(default_factory=list)
        engine: dict = field(default_factory=dict)
        size: int = 1
        name: Optional[str] = None
        bounds: List[float] = field(default_factory=lambda: [0.0, 1.0])
        def __post_init__(self):
            if "elastic" in set(self.callbacks or []):
                unknown(self)
            self.made = Factory.made(self)
            self.engine.size = self.size
            self.exclusive(self.size, self.name)
            if self.bounds[0] >= self.bounds[1]:
                raise ValueError("no bounds")
            if self.kind == "gkd":
                self.name.split(",")
            if self.kind != "grpo":
                return
            if self.size > 1:
                raise ValueError("one only")
        def prepare(self, more):
            if self.kind == "ppo":
                self.kind = "other"
        @staticmethod
        def exclusive(one, other):
            if one > 8 and other is not None:
                raise ValueError("not both")
"""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": 2}, "one only"),
        ({"size": 1}, None),
        ({"size": 9, "name": "a"}, "not both"),
        ({"kind": "gkd"}, "'NoneType' object has no attribute 'split'"),
        ({"kind": "gkd", "name": "a,b"}, None),
        ({"bounds": [1.0, 0.0]}, "no bounds"),
        ({"bounds": [0.0, 1.0]}, None),
        ({"bounds": ["1", "0"]}, None),  # texts that a parser makes numbers of
    ],
)
def test_what_passes_the_object_around_and_leaves_it_as_it_is(
    site: Site, given: dict[str, Any], message: str | None
) -> None:
    sources = Sources(SearchPath([site({"own/args.py": WHOLE})]))
    found = refusal(sources, "own.args", "Arguments", given)
    assert (found.message if found is not None else None) == message


def test_a_list_of_the_object_that_is_changed_in_place_is_not_known(site: Site) -> None:
    text = """
        from dataclasses import dataclass, field
        @dataclass
        class Arguments:
            names: list = field(default_factory=list)
            def __post_init__(self):
                {}
                if not self.names:
                    raise ValueError("no names")
    """
    sources = {what: {"own/args.py": text.format(what)} for what in ("self.names.append('a')", "alike = self.names")}
    found = [refusal(Sources(SearchPath([site(files)])), "own.args", "Arguments", {}) for files in sources.values()]
    assert [one is not None for one in found] == [False, True]
