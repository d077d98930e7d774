"""NeMo-RL: OmegaConf overrides over the YAML that ``--config`` names, which inherits through ``defaults``."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from rldoctor.formats.hydra.interpolation import interpolated
from rldoctor.formats.native import Native
from rldoctor.formats.values import Unresolved
from rldoctor.frameworks.defaults import filled
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.nemo_rl.config import base, complete, inherited, named, own_file, shaped, stand_ins
from rldoctor.frameworks.nemo_rl.engine import PASSED, engine, lengths, seeds
from rldoctor.frameworks.nemo_rl.place import batch, placement, trainer
from rldoctor.frameworks.nemo_rl.table import (
    ALTERNATIVES,
    BESIDE,
    DTENSOR,
    DYNAMIC,
    GENERATION,
    MEGATRON,
    PACKED,
    TABLE,
)
from rldoctor.frameworks.rule import Rule
from rldoctor.frameworks.shared_rules import Deciding, not_twice
from rldoctor.frameworks.spelled import Spelling
from rldoctor.model import Edit
from rldoctor.plan.model import Form, RolloutPlan, UnknownOption
from rldoctor.tables.options import MISSING

_INHERITED = "inherited through defaults"
# Sections whose keys NeMo-RL itself reads; below data, env, logger and the like users put their own.
_CLOSED = (f"{GENERATION}.vllm_cfg.", f"{GENERATION}.colocated.", "cluster.", f"{DTENSOR}.", "grpo.", "loss_fn.")


def _mark_inherited(draft: Draft) -> None:
    """Settings of a parent file are kept apart: a fix belongs into the file that the launch names."""
    own = own_file(draft.launch)
    for option, setting in list(draft.settings.items()):
        if setting.form is Form.YAML and setting.file != own:
            draft.put(option, replace(setting, how=_INHERITED))


def _switch(draft: Draft, section: str) -> bool | None:
    """Whether a section is enabled; None where neither the files nor the release's examples tell."""
    given = draft.native(f"{section}.enabled")
    if given is None:
        given = next(
            (v for g in stand_ins(draft.launch) if (v := draft.launch.default(g, f"{section}.enabled")) is not None),
            None,
        )
    return given if isinstance(given, bool) else None


def _out_of_force(draft: Draft) -> list[str]:
    """The sections of ALTERNATIVES that the run does not use. Megatron wins over DTensor in 0.3, later releases refuse
    both; dynamic batching and packing exclude each other (nemo_rl/models/policy/lm_policy.py)."""
    megatron, dtensor = _switch(draft, MEGATRON), _switch(draft, DTENSOR)
    found = []
    if megatron is not True:
        found.append(MEGATRON)
    if megatron is True or dtensor is not True:
        found.append(DTENSOR)
    packed = _switch(draft, PACKED)
    return [*found, *(s for s, on in ((DYNAMIC, packed is not True), (PACKED, packed is True)) if not on)]


class NemoRL(Deciding):
    name, owner = "NeMo-RL", "nemo-rl"
    entries = (
        "*examples/run_*grpo*.py",
        "*examples/run_ppo.py",
        "*examples/run_*distillation*.py",
        "*examples/nemo_gym/run_*.py",
    )
    keys = (f"{GENERATION}.vllm_cfg", DTENSOR, MEGATRON, f"{GENERATION}.colocated", "grpo.num_prompts_per_step")
    imports = ("nemo_rl", "nemo_reinforcer")
    style = Form.OVERRIDE
    untyped = True
    append = "++"
    # models/policy/workers, models/generation
    words: ClassVar[Mapping[str, str]] = {
        "policy.precision": "float32 bfloat16 float16",
        "policy.generation.backend": "vllm sglang megatron hf",
    }
    closed = frozenset({"policy.precision"})
    strict = frozenset({Form.YAML, Form.OVERRIDE})
    # nemo_rl/utils/config.py, register_omegaconf_resolvers
    resolvers: ClassVar = {"add": operator.add, "mul": operator.mul, "div": operator.truediv, "max": max}
    table: ClassVar[Mapping[str, str | Rule]] = TABLE
    beside = BESIDE
    owners: ClassVar[Mapping[str, str]] = {f"{GENERATION}.vllm_kwargs.": "vllm:EngineArgs"}
    # algorithms/loss_functions.py, ClippedPGLossFn: cfg["ratio_clip_min"]
    needs = ("loss_fn.*",)
    derivations = (_mark_inherited, trainer, placement, lengths, seeds, engine, batch)

    def claims(self, launch: Launch) -> int:
        """Also a script of one's own with a configuration of NeMo-RL's shape, and a recipe that inherits nearly all."""
        found = super().claims(launch)
        if found:
            return found
        path = own_file(launch) if launch.tree is not None or launch.entry.endswith(".py") else None
        return 75 if path is not None and shaped(Path(path), launch.files) else 0

    def natives(self, launch: Launch) -> Iterator[Native]:
        """The composed configuration with the overrides, interpolation over all of it, and the files that are missing
        taken for those of the release."""
        listed = list(self.collected(launch))
        groups = [*stand_ins(launch), self.owner]

        def fallback(key: str) -> Any:
            return next((found for group in groups if (found := launch.default(group, key)) is not None), None)

        variables = {name: native.value for name, native in launch.variables.items()}
        yield from interpolated(listed, fallback, variables, self.resolvers)

    def collected(self, launch: Launch) -> Iterator[Native]:
        """The configuration's files, then the command line."""
        arguments = launch.arguments(overrides=True)
        tree = launch.tree
        if tree is None and isinstance(name := arguments.value("config"), Unresolved):
            launch.lose_config(f"the name of its configuration is not known ({name.why})")
        if tree is None and (name := named(launch)) is not None:
            tree = base(launch, name)
        if tree is not None:
            yield from inherited(launch, tree)
        yield from (native for native in arguments.natives if native.key != "config")

    def check_known(self, draft: Draft, native: Native) -> None:
        """An override may only change what the configuration has (parse_hydra_overrides in nemo_rl/utils/config.py sets
        the struct flag); keys of the YAML itself are never refused."""
        if native.form is not Form.OVERRIDE or not complete(draft.launch):
            if not native.key.startswith((*_CLOSED, *self.owners)):
                return
            before = len(draft.unknown)
            super().check_known(draft, native)
            passed_on = native.key.startswith(tuple(self.owners))
            found = draft.unknown[-1] if len(draft.unknown) > before and not passed_on else None
            if found is not None and not found.until and not self._misspelt(found):
                draft.unknown.pop()
            return
        if native.operator:
            self._check_added(draft, native)
            return
        if _stands(draft, native.key):
            return
        options = draft.launch.options(self.owner)
        passed_on = native.key.startswith(tuple(self.owners))
        real = passed_on or (options is not None and options.known(native.key) is True)
        draft.unknown.append(
            native.as_unknown(
                owner="the configuration of NeMo-RL (which takes new keys with ++ only)",
                nearest=(f"++{native.key}",)
                if real
                else tuple(options.nearest(native.key) if options is not None else ()),
            )
        )

    def _check_added(self, draft: Draft, native: Native) -> None:
        """A key that is added with pluses is taken whatever it is called, and a misspelt one changes nothing."""
        options = draft.launch.options(self.owner)
        if options is None or options.known(native.key) is not False or not native.key.startswith(_CLOSED):
            return
        unknown = native.as_unknown(owner=options.source, nearest=tuple(options.nearest(native.key)), ignored=True)
        if self._misspelt(replace(unknown, key=native.key)):
            draft.unknown.append(unknown)

    def _misspelt(self, unknown: UnknownOption) -> bool:
        """Whether a key is one that concerns a plan but for a few letters. Another one may be read by code of the
        user's own, and nothing refuses it in a file."""
        near = next(iter(unknown.nearest), "")
        alike = near.rpartition(".")[0] == unknown.key.rpartition(".")[0] and near.count("_") == unknown.key.count("_")
        return alike and self.rule(near) is not None

    def is_whole(self, launch: Launch) -> bool:
        """One of GRPO whose files were all at hand: other losses have other keys."""
        return "grpo" in launch.entry and complete(launch) and super().is_whole(launch)

    def defaults(self, draft: Draft) -> None:
        """What sections in force say, and for files that are missing what the release's own ones hold."""
        asleep = _out_of_force(draft)
        inactive = {f"{section}.{key}" for section in asleep for key in ALTERNATIVES[section]}
        for section, keys in ALTERNATIVES.items():
            for option in keys.values() if section in asleep else ():
                setting = draft.settings.get(option)
                if setting is not None and str(setting.key or "").startswith(f"{section}."):
                    del draft.settings[option]
        for section, keys in ALTERNATIVES.items():
            for key, option in keys.items() if section not in asleep else ():
                native = draft.natives.get(f"{section}.{key}")
                if native is not None and option not in draft.settings:
                    draft.take(native, option, native.value)
        for group in (*stand_ins(draft.launch), self.owner):
            options = draft.launch.options(group)
            for key, rule in self.rules().items() if options is not None else ():
                if options is None or key not in options or key in inactive or options.default(key) is MISSING:
                    continue
                value = rule.canonical(filled(self, draft, group, key))
                if value is not None:
                    draft.default(rule.option, value, key, f"default of {options.source}")

    def spell(self, edit: Edit, plan: RolloutPlan) -> Spelling:
        """A setting that stands in a parent file is written where the launch's own options stand; one that stands
        nowhere is a new key for Hydra."""
        setting = plan.get(edit.option)
        if setting is not None and setting.how == _INHERITED and plan.place is not None:
            there = replace(setting, form=plan.place.form, file=plan.place.file, line=plan.place.line)
            plan = replace(plan, settings={**plan.settings, edit.option: there})
        passed = [name for _, _, names in PASSED for name in names.split()]
        spelling = not_twice(super().spell(edit, plan), f"{GENERATION}.vllm_kwargs", passed, "NeMo-RL")
        write = spelling.write
        if write is None or write.form is not Form.OVERRIDE or write.append:
            return spelling
        keys = {given.key for given in plan.given} | {setting.key if setting is not None else None}
        if write.key in keys:
            return spelling
        return replace(spelling, text=self.append + spelling.text, write=replace(write, append=self.append))


def _stands(draft: Draft, key: str) -> bool:
    """Whether the composed configuration has a key, by itself or inside of a dictionary. Below an empty section or a
    null Hydra takes new keys with ``+`` or ``++`` only."""
    if key in draft.natives:
        return True
    above, _, leaf = key.rpartition(".")
    while above:
        native = draft.natives.get(above)
        if native is not None:
            return native.value is not None and (not isinstance(native.value, dict) or leaf in native.value)
        above, _, leaf = above.rpartition(".")
    return False


DIALECT = NemoRL()
