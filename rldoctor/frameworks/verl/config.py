"""Which configuration a launch of verl composes, and under which group the option table has it."""

from __future__ import annotations

from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any

from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.patterns import Patterns

BASE, MEGATRON = "ppo_trainer", "ppo_megatron_trainer"
# The configuration of each main's @hydra.main. Recipes with others have keys that no table lists.
_MAINS = (
    (Patterns(("verl.trainer.main_ppo*", "*verl/trainer/main_ppo*.py", "verl.trainer.main_generation_server")), BASE),
    (Patterns(("*dapo.main_dapo",)), "dapo_trainer"),
    (Patterns(("*one_step_off_policy.main_ppo",)), "one_step_off_ppo_trainer"),
    (Patterns(("*fully_async_policy.fully_async_main",)), "fully_async_ppo_trainer"),
)
SHIPPED = {name for _, name in _MAINS} | {
    MEGATRON,
    "dapo_megatron_trainer",
    "one_step_off_ppo_megatron_trainer",
    "fully_async_ppo_megatron_trainer",
}
# model_engine= of ppo_trainer.yaml (from 0.7.1 on) chooses the parts of which actor, critic and reference are made.
_ENGINES = {"dp": BASE, "megatron": MEGATRON, "veomni": "model_engine=veomni", "torchtitan": "model_engine=torchtitan"}


def choices(launch: Launch) -> dict[str, str]:
    """The groups of the configurations that the launch's main could compose, by the words that choose them."""
    own = _own(launch)
    options = launch.options(f"verl:{own}")
    if options is None or own is None:
        return {}
    if own == BASE and options.known("model_engine") is True:
        return {f"model_engine={engine}": f"verl:{group}" for engine, group in _ENGINES.items()}
    names = (own, f"{own.removesuffix('_trainer')}_megatron_trainer")
    return {f"--config-name={name}": f"verl:{name}" for name in names}


def generates(launch: Launch) -> bool:
    """Whether it only generates, with the configuration generation.yaml (through 0.7.0)."""
    return launch.entry.endswith(".main_generation")


def configuration(launch: Launch) -> tuple[str, bool]:
    """The group that comes closest, and whether the launch takes exactly that configuration, so that other keys are
    refused."""
    arguments = launch.arguments(overrides=True)
    own = _own(launch)
    named = _named(launch) or own
    name = named.removesuffix(".yaml") if isinstance(named, str) else ""
    if name not in SHIPPED:
        above = _built_on(launch, name)
        if above is not None and launch.missed is None and not arguments.chooses_groups:
            return above, own is not None
        return (MEGATRON if "megatron" in str(named) else BASE), False
    paths = (arguments.value(key) for key in ("config_path", "cp", "config_dir", "cd"))
    shipped = all(path is None or (isinstance(path, str) and normpath(path) == "config") for path in paths)
    engine = arguments.value("model_engine")
    if engine is not None and name == BASE:
        name = _ENGINES.get(str(engine), "")
    return name or BASE, own is not None and shipped and not arguments.chooses_groups and bool(name)


def chooses_engine(launch: Launch) -> bool:
    """Whether ``model_engine`` is one of those that verl ships: nothing names another folder of configurations."""
    arguments = launch.arguments(overrides=True)
    elsewhere = (arguments.value(key) for key in ("config_path", "cp", "config_dir", "cd", "hydra.searchpath"))
    return _named(launch) is None and all(one is None for one in elsewhere)


def _built_on(launch: Launch, name: str) -> str | None:
    """The one of verl's configurations that a file of the launch's own adds to, where it adds to nothing else."""
    tree = next((one for one in launch.trees if PurePosixPath(one.source.file).stem == name), None)
    listed = tree.value.get("defaults") if tree is not None else None
    above = [one for one in listed if one != "_self_"] if isinstance(listed, list) else []
    # A part of a group is a mapping: actor@actor_rollout_ref.actor: dp_actor.
    return above[0] if len(above) == 1 and isinstance(above[0], str) and above[0] in SHIPPED else None


def hidden(launch: Launch, key: str) -> bool:
    """Whether words that could not be read may name another of verl's configurations, one that has ``key``."""
    if launch.missed is None or _named(launch) is not None:
        return False
    options = (launch.options(f"verl:{name}") for name in sorted({*SHIPPED, *_ENGINES.values()}))
    return any(one is not None and one.known(key) is True for one in options)


def _own(launch: Launch) -> str | None:
    """The configuration that the main asks for."""
    return next((name for patterns, name in _MAINS if patterns.match(launch.entry)), None)


def _named(launch: Launch) -> Any:
    arguments = launch.arguments(overrides=True)
    return next((n for key in ("config_name", "cn") if (n := arguments.value(key)) is not None), None)
