"""Configuration folders composed through their defaults lists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rldoctor.frameworks.option_table import encoded
from rldoctor.tables.options.extract import Extractor
from rldoctor.tables.options.hydra import composed
from rldoctor.tables.options.parts import Group, HydraPart, Layout
from rldoctor.tables.sources.trees import DirectoryTree

Write = Callable[[dict[str, str]], Path]

TREE = {
    "conf/main.yaml": """
    defaults:
      - engine: dp
      - actor@job.actor: ${engine}_actor
      - rollout
      - /optim@job.optim: fast
      - optional local: none
      - _self_
    job:
      actor: {lr: 3.0e-6}
    trainer: {nodes: 1}
    """,
    "conf/engine/dp.yaml": "# @package _global_\nengine: dp\n",
    "conf/engine/megatron.yaml": "# @package _global_\nengine: megatron\n",
    "conf/actor/dp_actor.yaml": """
    defaults:
      - ../optim@optim: fast
      - actor
      - _self_
    strategy: fsdp
    """,
    "conf/actor/megatron_actor.yaml": "defaults: [actor, _self_]\nstrategy: megatron\n",
    "conf/actor/actor.yaml": "strategy: ???\nlr: 1.0e-6\nbatch: null\n",
    "conf/rollout.yaml": "rollout:\n  n: 1\n  engine_kwargs:\n    vllm: {}\n",
    "conf/optim/fast.yaml": "# @package elsewhere\nbetas: [0.9, 0.99]\n",  # the entry that asks for it places it
    "conf/trainer.yaml": "hydra:\n  searchpath: [file://conf]\ndefaults:\n  - main\n  - _self_\ntrainer: {nodes: 2}\n",
    "conf/other.yaml": "defaults:\n  - main\n  - override engine: megatron\n  - _self_\n",
    "conf/child.yaml": "defaults: ../conf/rollout.yaml\nrollout:\n  n: {_override_: true, x: 1}\n",
    "conf/loop.yaml": "defaults: [loop, _self_]\na: 1\n",
}


def compose(write: Write, name: str, **choices: str) -> dict[str, object]:
    found = composed(DirectoryTree(write(TREE)), "conf", name, choices)
    assert found is not None
    return found


def test_groups_packages_and_order(write: Write) -> None:
    assert compose(write, "main") == {
        "engine": "dp",
        "job": {
            "actor": {"optim": {"betas": [0.9, 0.99]}, "strategy": "fsdp", "lr": 3e-6, "batch": None},
            "optim": {"betas": [0.9, 0.99]},
        },
        "rollout": {"n": 1, "engine_kwargs": {"vllm": {}}},
        "trainer": {"nodes": 1},
    }


def test_a_choice_reaches_the_groups_that_refer_to_it(write: Write) -> None:
    chosen = compose(write, "main", engine="megatron")
    assert chosen["engine"] == "megatron"
    assert chosen["job"]["actor"]["strategy"] == "megatron"  # type: ignore[index]


def test_a_trainer_on_top_of_another(write: Write) -> None:
    on_top = compose(write, "trainer")
    assert on_top["trainer"] == {"nodes": 2}
    assert "hydra" not in on_top


def test_defaults_that_name_files(write: Write) -> None:
    assert compose(write, "child") == {"rollout": {"n": {"x": 1}, "engine_kwargs": {"vllm": {}}}}


def test_a_file_that_includes_itself_ends(write: Write) -> None:
    assert compose(write, "loop") == {"a": 1}


def test_what_is_no_mapping_or_no_yaml_is_not_there(write: Write) -> None:
    tree = DirectoryTree(write({"conf/list.yaml": "- a\n", "conf/broken.yaml": "a: [1\nb: }\n"}))
    assert composed(tree, "conf", "list") is None
    assert composed(tree, "conf", "broken") is None
    assert composed(tree, "conf", "absent") is None


def test_the_class_behind_a_section_adds_its_fields(write: Write) -> None:
    layout = Layout(("pkg",), (), {"main": Group((HydraPart(("pkg/conf",), "main"),))})
    files = {
        "pkg/conf/main.yaml": """
        rollout:
          _target_: pkg.config.Rollout
          n: 1
          mode: null
          seed: ${trainer.seed}
        trainer: {seed: 1}
        """,
        "pkg/config.py": """
        from dataclasses import dataclass
        from typing import Literal
        @dataclass
        class Rollout:
            n: int = 4
            mode: Literal["sync", "async"] | None = None
            limit_images: int | None = None
        """,
    }
    read = Extractor(layout, DirectoryTree(write(files))).group("main")
    assert read["rollout.n"].default == 1
    assert read["rollout.mode"].choices == ("sync", "async")
    assert read["rollout.limit_images"].added
    assert read["rollout.seed"].default == "${trainer.seed}"
    assert not read["rollout.n"].added


def test_an_empty_mapping_is_a_dictionary(write: Write) -> None:
    layout = Layout(packages=("conf",), markers=(), groups={"main": Group((HydraPart(("conf",), "rollout"),))})
    option = Extractor(layout, DirectoryTree(write(TREE))).group("main")["rollout.engine_kwargs.vllm"]
    assert (option.type, encoded(option)) == ("dict", {"default": {}})
