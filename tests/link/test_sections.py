"""Objects inside of objects: what pydantic refuses of a configuration whose sections are classes of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rldoctor.link.locate import SearchPath
from rldoctor.link.refused import refusal
from rldoctor.link.sources import Sources

Site = Callable[[dict[str, str]], Path]
FILES = {
    "rl/optim.py": """
        from typing import Annotated, Literal, TypeAlias
        from pydantic import BaseModel, ConfigDict, Field
        class Optimizer(BaseModel):
            model_config = ConfigDict(extra="forbid")
            lr: float = Field(1e-6, ge=0)
        class SGD(Optimizer):
            type: Literal["sgd"] = "sgd"
            momentum: float = 0.9
        class AdamW(Optimizer):
            type: Literal["adamw"] = "adamw"
            betas: list[float] = [0.9, 0.999]
        class Muon(AdamW):
            type: Literal["muon"] = "muon"
        Optimizers: TypeAlias = Annotated[SGD | AdamW | Muon, Field(discriminator="type")]
        """,
    "rl/config.py": """
        from pydantic import AliasChoices, BaseModel, Field, field_validator, model_validator
        from rl.optim import AdamW, Optimizer, Optimizers, SGD as Descent
        from rl.shared import alike
        class Model(BaseModel):
            name: str = "org/model"
            length: int = Field(2048, ge=1, validation_alias=AliasChoices("length", "seq_len"))
            layers: str | list[int] = "all"
            @field_validator("name", mode="before")
            @classmethod
            def named(cls, value):
                return str(value)
        class Checkpoint(BaseModel):
            interval: int | None = None
            folder: str
        class Deployment(BaseModel):
            trains: int = 1
            samples: int = 1
            @property
            def all(self) -> int:
                return self.trains + self.samples
        class Trainer(BaseModel):
            model: Model = Model()
            optim: Optimizers = AdamW()
            ckpt: Checkpoint | None = None
            loss: str = "grpo"
        class Orchestrator(BaseModel):
            length: int = 1024
            tags: list[str] = []
        class Config(BaseModel):
            trainer: Trainer = Trainer()
            orchestrator: Orchestrator = Field(default_factory=Orchestrator)
            deployment: Deployment = Field(default_factory=lambda: Deployment(trains=2))
            rewards: list[str] | None = None
            weights: list[float] | None = None
            @model_validator(mode="before")
            @classmethod
            def weighted(cls, data):
                if isinstance(data, dict) and data.get("rewards") and "weights" in data:
                    if len(data["rewards"]) != len(data["weights"]):
                        raise ValueError("weights must have the length of rewards")
                if data.get("rewards") and data.get("trainer", {}).get("loss", "grpo") != "grpo":
                    raise ValueError("rewards are for grpo")
                return data
            @model_validator(mode="after")
            def lengths(self):
                alike(self.trainer, self.orchestrator)
                return self
            @model_validator(mode="after")
            def devices(self):
                if self.deployment.all > 8:
                    raise ValueError("more than a node has")
                return self
            @model_validator(mode="after")
            def momentum(self):
                if isinstance(self.trainer.optim, Descent) and self.trainer.ckpt is None:
                    raise ValueError("this optimizer needs checkpoints")
                return self
        """,
    "rl/shared.py": """
        def alike(trainer, orchestrator):
            if trainer.model.length < orchestrator.length:
                raise ValueError(f"{trainer.model.length} is less than {orchestrator.length}")
        """,
}


def nested(given: dict[str, Any]) -> dict[str, Any]:
    """Dotted names as the tables that a file has."""
    found: dict[str, Any] = {}
    for key, value in given.items():
        *above, last = key.split(".")
        inner = found
        for part in above:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return found


@pytest.mark.parametrize(
    ("given", "reads"),
    [
        ({"trainer.model.length": 0}, ("trainer.model.length",)),
        ({"trainer.model.seq_len": 0}, ("trainer.model.length",)),
        ({"trainer.optim.lr": -1.0}, ("trainer.optim.lr",)),
        ({"trainer.optim.type": "sdg"}, ("trainer.optim.type",)),
        ({"trainer.optim.type": "adamw", "trainer.optim.momentum": 0.5}, ("trainer.optim.momentum",)),
        ({"trainer.optim.type": "muon", "trainer.optim.betas": 0.9}, ("trainer.optim.betas",)),
        ({"trainer.ckpt": True}, ("trainer.ckpt",)),
        ({"trainer.ckpt.interval": 5}, ("trainer.ckpt.interval",)),  # and no folder
        ({"trainer.loss": 17}, ("trainer.loss",)),
        ({"orchestrator.tags": "one"}, ("orchestrator.tags",)),
        ({"orchestrator.length": 4096}, ("orchestrator.length", "trainer.model.length")),
        ({"trainer.model.length": 512}, ("orchestrator.length", "trainer.model.length")),
        ({"deployment.trains": 8}, ("deployment.samples", "deployment.trains")),
        ({"trainer.optim.type": "sgd"}, ("trainer.ckpt", "trainer.optim.type")),
        ({"rewards": ["a", "b"], "weights": [1.0]}, ("rewards", "weights")),
        ({"rewards": ["a"], "trainer.loss": "dpo"}, ("rewards", "trainer.loss")),
    ],
)
def test_what_the_classes_of_sections_refuse(
    site: Site, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], reads: tuple[str, ...]
) -> None:
    folder = site(FILES)
    sources = Sources(SearchPath([folder]))
    found = refusal(sources, "rl.config", "Config", given, asked=True)
    assert found is not None and tuple(sorted(found.reads)) == reads
    assert refused(folder, monkeypatch, given)


@pytest.mark.parametrize(
    "given",
    [
        {"trainer.model.length": 4096, "orchestrator.length": 4096},
        {"trainer.model.seq_len": 4096, "orchestrator.length": 4096},
        {"trainer.model.name": 17},  # a method makes a text of it first
        {"trainer.model.layers": [1]},
        {"trainer.optim.type": "sgd", "trainer.optim.momentum": 0.5, "trainer.ckpt.folder": "out"},
        {"trainer.optim.type": "muon", "trainer.optim.lr": 1},
        {"trainer.ckpt.folder": "out", "trainer.ckpt.interval": None},
        {"trainer.ckpt": None},
        {"deployment.trains": 7},
        {"deployment.samples": 6},
        {"rewards": ["a", "b"], "weights": [1.0, 0.5]},
        {"rewards": ["a"]},
        {"weights": [1.0]},
    ],
)
def test_what_they_take(site: Site, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]) -> None:
    folder = site(FILES)
    assert refusal(Sources(SearchPath([folder])), "rl.config", "Config", given, asked=True) is None
    assert not refused(folder, monkeypatch, given)


def refused(folder: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]) -> bool:
    """What the real pydantic says."""
    pydantic = pytest.importorskip("pydantic")
    monkeypatch.syspath_prepend(str(folder))
    for name in ("rl.config", "rl.optim", "rl.shared", "rl"):
        monkeypatch.delitem(__import__("sys").modules, name, raising=False)
    config = __import__("importlib").import_module("rl.config").Config
    try:
        config(**nested(given))
    except pydantic.ValidationError:
        return True
    return False


@pytest.mark.parametrize("given", [{"trainer.loss": 17}, {"trainer.model.length": "1k"}])
def test_words_of_a_command_have_no_type_yet(site: Site, given: dict[str, Any]) -> None:
    sources = Sources(SearchPath([site(FILES)]))
    assert refusal(sources, "rl.config", "Config", given, worded=frozenset(given)) is None


def test_a_configuration_by_itself_may_lack_what_its_command_line_gives(site: Site) -> None:
    sources = Sources(SearchPath([site(FILES)]))
    assert refusal(sources, "rl.config", "Config", {"trainer.ckpt.interval": 5}) is None


def test_what_may_be_given_elsewhere_has_no_default(site: Site) -> None:
    sources = Sources(SearchPath([site(FILES)]))
    assert refusal(sources, "rl.config", "Config", {"orchestrator.length": 4096}, complete=False) is None


def test_all_that_is_given_may_be_changed_by_code_that_gets_it_before_an_object_is_made(site: Site) -> None:
    changed = (
        FILES["rl/config.py"]
        .replace("return data", "return filled(data)")
        .replace("import alike", "import alike, filled")
    )
    files = {**FILES, "rl/config.py": changed}
    sources = Sources(SearchPath([site(files)]))
    assert refusal(sources, "rl.config", "Config", {"trainer.model.length": 512}) is None
    assert refusal(sources, "rl.config", "Config", {"trainer.model.length": 0}) is not None


def test_a_package_without_a_file_of_its_own_lies_in_several_folders(tmp_path: Path) -> None:
    for file in ("a/spread/one.py", "b/spread/two.py"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text("x = 1")
    search = SearchPath([tmp_path / "a", tmp_path / "b"])
    assert search.find("spread.one").path and search.find("spread.two").path


def test_omegaconf_makes_texts_of_numbers_and_no_numbers_of_truth_values(site: Site) -> None:
    files = {
        "areal/args.py": """
            from dataclasses import dataclass, field
            from omegaconf import MISSING
            @dataclass
            class Actor:
                path: str = MISSING
                steps: int = 1
                lora: bool = False
                def __post_init__(self):
                    if self.steps <= 0:
                        raise ValueError("steps must be positive")
            @dataclass
            class Config:
                name: str = MISSING
                actor: Actor = field(default_factory=Actor)
                ref: Actor | None = None
            """
    }
    sources = Sources(SearchPath([site(files)]))

    def reads(**given: Any) -> tuple[str, ...]:
        named = {key.replace("__", "."): value for key, value in given.items()}
        found = refusal(sources, "areal.args", "Config", named, asked=True, typed=True)
        return () if found is None else found.reads

    whole = {"name": "run", "actor__path": "org/model"}
    assert reads(**whole) == reads(**{**whole, "name": 17}) == ()
    assert reads(**whole, actor__steps=True) == ("actor.steps",)
    assert reads(**whole, actor__lora="maybe") == ("actor.lora",)
    assert reads(**whole, actor__steps=0) == ("actor.steps",)
    assert reads(**whole, ref=True) == ("ref",)
    assert reads(**whole, ref__steps=2) == ("ref.steps",)  # without its path
    assert reads(**{**whole, "actor__path": "???"}) == ("actor.path",)
