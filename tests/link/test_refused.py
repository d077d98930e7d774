"""What an argument class raises for settings, told from its source alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rldoctor.link.locate import SearchPath
from rldoctor.link.refused import Refusal, refusal, typed
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
                    self.batch = self.num_generations * 2
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
        ({"rows": 9}, "rows (9) must be divisible by 8."),
        ({"delta": 1.5, "loss_type": "dapo"}, "no delta here"),
        ({"fp16": True, "bf16": "true"}, "At most one of fp16 and bf16 can be True"),
    ],
)
def test_what_is_certainly_raised(refuse: Callable[..., Refusal | None], given: dict[str, Any], message: str) -> None:
    found = refuse(**given)
    assert found is not None and (found.type, found.message) == ("ValueError", message)
    assert set(found.reads) & set(given)


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
        {"batch": 1},
        {"delta": 1.5},
        {"steps": 200},
        {"plan": None},
        {"num_generations": "many"},
    ],
    ids=[
        "defaults",
        "good",
        "a list that is changed",
        "a field set anew",
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
