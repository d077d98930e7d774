"""Any other launch: what vLLM's own names, the launcher and the environment tell about it, whatever the framework."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from rldoctor.formats.native import Native
from rldoctor.frameworks.dialect import Dialect
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.rule import Rule
from rldoctor.frameworks.vllm.dialect import ENGINE, VLLM
from rldoctor.model import Edit
from rldoctor.plan.model import Form, RolloutPlan

if TYPE_CHECKING:
    from rldoctor.frameworks.spelled import Spelling

# Engine options whose name alone does not say that an engine is meant: "seed" and "dtype" are everybody's.
_COMMON = frozenset(
    {"model", "seed", "dtype", "device", "tokenizer", "revision", "task", "trust_remote_code", "runner", "block_size"}
)
# A section whose name holds one of these is about the engine that samples.
_SECTIONS = ("vllm", "inference", "rollout", "generation", "generator", "sampler", "engine")


class Generic(Dialect):
    name, owner = "generic", ""
    strict = frozenset()
    calls: ClassVar[Mapping[str, str]] = VLLM.calls
    table: ClassVar[Mapping[str, str | Rule]] = VLLM.table

    def claims(self, launch: Launch) -> int:
        """1 where something of an engine, a launcher or a distributed run stands in it, for want of anybody better."""
        launcher = launch.process.get("process.launcher")
        started = launcher is not None and launcher.value != "none"
        return int(started or any(self._concerns(native) for native in self.natives(launch)))

    def _concerns(self, native: Native) -> bool:
        if self.rule(native.key) is not None:
            return True
        return native.form is not Form.OPTION and any(self._concerns(part) for part in native.parts())

    def natives(self, launch: Launch) -> Iterator[Native]:
        """Options, overrides and YAML values as they stand, those that refer to each other (``${...}``) filled in."""
        from rldoctor.formats.hydra.interpolation import interpolated

        variables = {name: native.value for name, native in launch.variables.items()}
        yield from interpolated(self.collected(launch), lambda key: None, variables, self.resolvers)

    def collected(self, launch: Launch) -> Iterator[Native]:
        """What :meth:`natives` gives, before interpolation."""
        if launch.tree is not None:
            yield from launch.tree.natives()
        arguments = launch.arguments(overrides=True)
        for option in ("config", "config_file"):
            name = arguments.value(option)
            tree = launch.yaml(name) if isinstance(name, str) and name.endswith((".yaml", ".yml")) else None
            if tree is not None:
                yield from tree.natives()
        if launch.python is not None:
            yield from launch.python.natives(self.calls, arguments)
        yield from arguments.natives

    def rule(self, key: str) -> tuple[str, Rule] | None:
        """An engine option under vLLM's own name: with ``vllm_`` before it, inside a section that is about the engine,
        or unmistakable by itself."""
        if key.startswith("sampling."):
            return super().rule(key)
        section, _, leaf = key.rpartition(".")
        leaf = leaf.replace("-", "_")
        bare = leaf.removeprefix("vllm_")
        if bare not in ENGINE:
            return None
        about_engine = bare != leaf or any(word in section.lower() for word in _SECTIONS)
        if about_engine or (bare not in _COMMON and not section):
            return ENGINE[bare], Rule(ENGINE[bare])
        return None

    def spell(self, edit: Edit, plan: RolloutPlan) -> Spelling:
        """Only what stands in the file, variables, and what the launcher takes: how an unknown program would take an
        option is not known."""
        from rldoctor.frameworks.spelled import Spelling
        from rldoctor.frameworks.spelling import of_launcher

        if edit.option.startswith("env.") or plan.places or edit.option in {given.option for given in plan.given}:
            return super().spell(edit, plan)
        if (found := of_launcher(edit, plan)) is not None:
            return found
        text = f"{edit.option.partition('.')[2]} = {edit.value}"
        return Spelling(text=text, reason=f"how {plan.entry or plan.file} takes {edit.option} is not known")

    def take(self, draft: Draft, native: Native) -> None:
        """What no rule understands may be anything: it is not counted as unread."""
        if self.rule(native.key) is not None:
            super().take(draft, native)
            return
        parts = list(native.parts()) if native.form in (Form.YAML, Form.OVERRIDE) else []
        for part in parts:
            self.take(draft, part)
        if not parts:
            draft.record(native, None)
            draft.beside += 1


DIALECT = Generic()
