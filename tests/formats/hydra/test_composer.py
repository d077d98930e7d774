"""Composition against Hydra itself: generated trees of configurations and command lines give the same tree."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rldoctor.formats.hydra.composer import Composer, Composition, ConfigFile
from rldoctor.formats.hydra.grammar import parse_override
from rldoctor.formats.source import Source
from rldoctor.formats.yaml.reader import read_yaml
from tests.formats.hydra.apply import applied

TREES = 240
GROUPS = {
    "model": ("small", "large"),
    "model/optim": ("adam", "sgd"),
    "rollout": ("short", "long"),
    "experiment": ("one", "two"),
}


@dataclass
class Folder:
    """Configurations below a folder of the disk."""

    root: Path

    def read(self, path: str) -> ConfigFile | None:
        file = self.root / f"{path}.yaml"
        if not file.is_file():
            return None
        text = file.read_text()
        return ConfigFile(read_yaml(Source(text, str(file))).value, ConfigFile.header(text), str(file))

    def has_group(self, path: str) -> bool:
        return (self.root / path).is_dir()


def by_hydra(root: Path, name: str, overrides: Sequence[str]) -> dict[str, Any] | None:
    """The tree that Hydra makes, None where it refuses."""
    try:
        with warnings.catch_warnings(), initialize_config_dir(config_dir=str(root), version_base="1.3"):
            warnings.simplefilter("ignore")
            config = compose(config_name=name, overrides=list(overrides))
    except (HydraException, OmegaConfBaseException, ValueError, TypeError, AssertionError, AttributeError):
        return None
    found = OmegaConf.to_container(config, resolve=False)
    assert isinstance(found, dict)
    return {str(key): value for key, value in found.items()}


def by_us(root: Path, name: str, overrides: Sequence[str]) -> tuple[Composition, dict[str, Any]]:
    done = Composer(Folder(root), [parse_override(text) for text in overrides]).compose(name)
    return done, applied(done)


def agree(root: Path, name: str, overrides: Sequence[str]) -> bool:
    """Whether both make the same tree, or Hydra refuses and we say that something is amiss."""
    expected = by_hydra(root, name, overrides)
    done, tree = by_us(root, name, overrides)
    if expected is None:
        return bool(done.problems or done.missing)
    return not done.missing and not done.problems and tree == expected


class Trees:
    """Writes a tree of configurations from a seed, and a command line for it."""

    def __init__(self, seed: int, root: Path) -> None:
        self.dice = random.Random(seed)
        self.root = root

    def write(self) -> list[str]:
        for group, names in GROUPS.items():
            for name in names:
                self._file(group, name)
        self._file("", "extra")
        self._file("", "main")
        pool = [
            "model=large", "model/optim=sgd", "rollout=long", "+experiment=one", "+experiment=two", "~rollout",
            "~model",
            "model@m2=large", "seed=3", "+new.key=1", "++seed=4", "rollout.n=9", "++model.lr=1e-3", "~seed",
            "+rollout=long",
            "model=[small,large]", "rollout=null", "+model@other=large", "model.size.deep=1", "+list=[1,2]",
            "nothing=1",
            "rollout={n: 3}", "+extra.x={a: 1}", "experiment=one", "model/optim@model.optim=sgd",
            "rollout@_global_=long",
        ]  # fmt: skip
        return self.dice.sample(pool, self.dice.choice([0, 0, 1, 1, 2]))

    def _file(self, group: str, name: str) -> None:
        rows: list[str] = []
        if group and self.dice.random() < 0.25:
            rows.append(f"# @package {self.dice.choice(['_global_', 'placed', 'placed.deep', '_global_.top'])}")
        defaults = self._defaults(group, name)
        if defaults:
            rows.append(yaml.safe_dump({"defaults": defaults}))
        rows.append(yaml.safe_dump(self._content(group, name)))
        path = self.root / group / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(rows))

    def _content(self, group: str, name: str) -> dict[str, Any]:
        whole: dict[str, Any] = {
            "seed": 1, "n": len(name), "lr": 0.1, "name": name, "size": {"deep": group or "top", name: 1},
            "rollout": {"n": 2},
            "list": [name], "from": "${seed}", "empty": None,
        }  # fmt: skip
        if group in ("rollout", "experiment"):
            whole["model"] = {"lr": name}
        return {key: whole[key] for key in whole if self.dice.random() < 0.6}

    def _defaults(self, group: str, name: str) -> list[Any]:
        if name == "main":
            pool: list[Any] = [
                {"model": "small"}, {"rollout": "short"}, {"model@m2": "small"}, {"optional model@none": "absent"},
                "extra",
                {"model/optim": "adam"}, {"/model@m3": "large"}, {"rollout@roll": "${model}_x"},
                {"model@pick": "${rollout}"},
                {"model@both": ["small", "large"]}, {"experiment": None}, {"experiment": "one"},
                "rollout/long", "rollout/long@direct", {"override rollout": "long"}, {"override model": "large"},
            ]  # fmt: skip
        elif group == "experiment":
            pool = [
                {"override /model": "large"},
                {"override /rollout": "long"},
                {"/model@mine": "small"},
                {"override /model@m2": "large"},
            ]
        elif group == "model":
            pool = [
                {"optim": "adam"},
                {"optim": "sgd"},
                {"optim@opt": "adam"},
                {"/rollout@inner": "short"},
                {"optim@_here_": "adam"},
            ]
            pool += [
                {"override /rollout": "long"},
                {"../rollout@up": "long"},
                {"optim@_global_.o": "sgd"},
                "optim/adam",
            ]
        else:
            return []
        found = self.dice.sample(pool, min(len(pool), self.dice.choice([0, 1, 2, 3])))
        if self.dice.random() < 0.7:
            found.insert(self.dice.randint(0, len(found)), "_self_")
        if self.dice.random() < 0.9:  # Hydra wants overrides at the end
            found.sort(key=lambda one: isinstance(one, dict) and next(iter(one)).startswith("override"))
        return found


@pytest.mark.parametrize("batch", range(8))
def test_generated_trees_compose_as_hydra_composes_them(batch: int, tmp_path: Path) -> None:
    composed = 0
    for seed in range(batch, TREES, 8):
        root = tmp_path / str(seed)
        overrides = Trees(seed, root).write()
        files = {str(p.relative_to(root)): p.read_text() for p in sorted(root.rglob("*.yaml"))}
        shown = "\n".join(f"--- {name}\n{text}" for name, text in files.items())
        if not agree(root, "main", overrides):
            done, tree = by_us(root, "main", overrides)
            problems = (done.problems, [part.path for part in done.missing])
            expected = by_hydra(root, "main", overrides)
            pytest.fail(f"seed {seed} {overrides}\n{shown}\nhydra {expected}\nwe    {tree}\n{problems}")
        composed += by_hydra(root, "main", overrides) is not None
    assert composed > TREES / 8 / 4


EXPERIMENT = {
    "main.yaml": "defaults:\n  - rollout: short\n  - model@actor.model: small\n  - _self_\nseed: 1\n",
    "rollout/short.yaml": "n: 8\nresponse_length: 1024\n",
    "rollout/long.yaml": "n: 4\nresponse_length: 8192\nchunked: true\n",
    "model/small.yaml": "defaults:\n  - optim: adam\n  - _self_\nlr: 1e-6\n",
    "model/large.yaml": "lr: 2e-6\n",
    "model/optim/adam.yaml": "betas: [0.9, 0.99]\n",
    "experiment/long.yaml": (
        "# @package _global_\ndefaults:\n  - override /rollout: long\n  - override /model@actor.model: large\n"
        "rollout:\n  n: 16\nactor:\n  budget: 4096\n"
    ),
}


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["+experiment=long"],
        ["+experiment=long", "rollout.n=2", "++actor.budget=1"],
        ["rollout=long", "~model@actor.model"],
        ["model@actor.model=large"],
        ["rollout=absent"],
        ["experiment=long"],
    ],
    ids=" ".join,
)
def test_an_experiment_overrides_the_groups_of_the_main_configuration(overrides: list[str], tmp_path: Path) -> None:
    for name, text in EXPERIMENT.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert agree(tmp_path, "main", overrides)


def test_a_file_that_includes_itself_ends(tmp_path: Path) -> None:
    (tmp_path / "main.yaml").write_text("defaults: [main, _self_]\na: 1\n")
    done, _ = by_us(tmp_path, "main", [])
    assert done.problems
