"""TRL: scripts with ``GRPOConfig(...)`` and the other configs of trainers that sample, ``trl grpo``, ``trl rloo``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import ClassVar

from rldoctor.formats.native import Native
from rldoctor.formats.python.reader import PythonFile
from rldoctor.formats.values import Unresolved
from rldoctor.frameworks.dialect import Dialect
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.releases import within, writing
from rldoctor.frameworks.rule import Rule
from rldoctor.frameworks.spelled import Spelling
from rldoctor.frameworks.trl.engine import between, engine, placement, start
from rldoctor.frameworks.trl.table import ACCELERATE, ALGORITHMS, BESIDE, LAUNCH, TABLE
from rldoctor.frameworks.trl.trainer import adapters, batch, precision, rewards, sampling, strategy
from rldoctor.model import Edit
from rldoctor.plan.model import Form, Place, RolloutPlan, Setting, Source

_NAMES = "|".join(name.removesuffix("Config") for name in ALGORITHMS)
_TRAINS = re.compile(rf"\b({_NAMES})(Config|Trainer)\b")
# What the name of a script that is not at hand says.
_SCRIPTS = {
    "async_grpo": "AsyncGRPOConfig",
    "rloo": "RLOOConfig",
    "online_dpo": "OnlineDPOConfig",
    "dpo_online": "OnlineDPOConfig",
    "xpo": "XPOConfig",
    "nash_md": "NashMDConfig",
    "gold": "GOLDConfig",
}
# Whose defaults count for a config that inherits them, or has no table.
_DEFAULTS = {
    "XPOConfig": "trl:OnlineDPOConfig",
    "NashMDConfig": "trl:OnlineDPOConfig",
    **dict.fromkeys(
        ("GOLDConfig", "DistillationConfig", "IWOPDConfig", "SDFTConfig", "SDPOConfig", "SSDConfig"),
        "transformers:TrainingArguments",
    ),
}
# The other dataclasses of its scripts.
_DATACLASSES = ("ScriptArguments", "GRPOScriptArguments", "RLOOScriptArguments", "ModelConfig", "DatasetMixtureConfig")
# Options that no script has but one that trains with TRL, for a script that is not at hand.
_TELLING = ("use_vllm", "vllm_mode", "max_completion_length")


def algorithm(draft: Draft) -> None:
    """Which trainer it is: by the command, else by the config that the script makes."""
    config = config_of(draft.launch)
    draft.derive("trainer.algorithm", ALGORITHMS[config], config)


# What accelerate lays over all devices that there are (`get_balanced_memory`, `infer_auto_device_map`).
SPREADING = ("auto", "balanced", "balanced_low_0", "sequential")


def config_of(launch: Launch) -> str:
    """The config class of the launch's trainer; GRPO's where nothing tells."""
    if launch.python is not None:
        for name in ALGORITHMS:
            if launch.python.has_call(name):
                return name
        found = _TRAINS.search(launch.python.source.text)
        if found is not None:
            return f"{found[1]}Config"
    script = launch.entry.rpartition("/")[2]
    return next((config for word, config in _SCRIPTS.items() if word in script), "GRPOConfig")


def model(draft: Draft) -> None:
    """The policy, where a script loads it itself: its name, and over which devices it lays it."""
    python = draft.launch.python
    if python is None or draft.value("model.path") is not None:
        return
    found = {}
    for call in python.calls("from_pretrained"):
        name = call.positionals[0] if call.positionals else call.keywords.get("pretrained_model_name_or_path")
        if isinstance(name, str) and re.search(r"Model(For(CausalLM|ImageTextToText)|$|\.)", call.name):
            found[name] = call
    if len(found) == 1:
        name, call = next(iter(found.items()))
        draft.put("model.path", Setting(value=name, file=python.source.file, line=call.line, key="from_pretrained"))
        laid = call.keywords.get("device_map")
        if laid is not None:
            open_ = laid.why if isinstance(laid, Unresolved) else None
            value = None if open_ is not None else laid in SPREADING
            line = call.keywords.lines["device_map"]
            file = python.source.file
            draft.put("model.spread", Setting(value=value, unknown=open_, file=file, line=line, key="device_map"))


class TRL(Dialect):
    name, owner = "TRL", "trl"
    entries: ClassVar[tuple[str, ...]] = (
        "trl grpo",
        "trl rloo",
        "trl.scripts.grpo",
        "trl.scripts.rloo",
        "*trl/scripts/grpo.py",
        "*trl/scripts/rloo.py",
    )
    keys = ("vllm_mode", "use_vllm", "num_generations", "vllm_device", "vllm_gpu_memory_utilization")
    config_options = ("config",)
    abbreviations = True
    calls: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(ALGORITHMS, ""),
        "LoraConfig": "peft.",
        **{f"{name.removesuffix('Config')}Trainer": "trainer." for name in ALGORITHMS},
    }
    groups: ClassVar[Mapping[str, str]] = {
        "GRPOConfig": "trl:GRPOConfig",
        "RLOOConfig": "trl:RLOOConfig",
        "OnlineDPOConfig": "trl:OnlineDPOConfig",
        "AsyncGRPOConfig": "trl:AsyncGRPOConfig",
    }
    table: ClassVar[Mapping[str, str | Rule]] = TABLE
    beside: ClassVar[tuple[str, ...]] = BESIDE
    derivations = (algorithm, start, placement, model, batch, engine, sampling, precision, strategy, adapters, rewards)

    def claims(self, launch: Launch) -> int:
        """Its commands, YAML with its keys, scripts that import it and sample; the options of a script not at hand."""
        if any(fnmatchcase(launch.entry, pattern) for pattern in self.entries):
            return 100 + self.specific
        if launch.tree is not None and any(launch.tree.has(key) for key in self.keys):
            return 60 + self.specific
        if launch.python is not None:
            text = launch.python.source.text
            return 50 + self.specific if launch.python.imports_from("trl") and _TRAINS.search(text) else 0
        words = {word.text.partition("=")[0].lstrip("-").replace("-", "_") for word in launch.words}
        return 40 + self.specific if launch.entry.endswith(".py") and words & set(_TELLING) else 0

    def registers(self, launch: Launch) -> bool:
        """A script of one's own may look its names up in another place."""
        return not any(fnmatchcase(launch.entry, pattern) for pattern in self.entries)

    def main_group(self, launch: Launch) -> str:
        """The options whose defaults count: of a command or parser its dataclasses', else its config's."""
        config = config_of(launch)
        if config in ("GRPOConfig", "RLOOConfig") and parses(launch):
            return f"{self.owner}:{ALGORITHMS[config]}"
        return self.groups.get(config) or _DEFAULTS.get(config, f"{self.owner}:GRPOConfig")

    def option_group(self, launch: Launch, native: Native) -> str | None:
        """As everywhere; the command lines of the other trainers' scripts have no table."""
        listed = native.form is Form.KEYWORD or config_of(launch) in ("GRPOConfig", "RLOOConfig")
        return super().option_group(launch, native) if listed else None

    def place(self, launch: Launch) -> Place | None:
        """The call that makes the config, else where a command's options stand."""
        if launch.python is not None:
            for name in ALGORITHMS:
                line = launch.python.call_line(name)
                if line is not None:
                    return Place(form=Form.KEYWORD, file=launch.python.source.file, line=line, group=name)
        return launch.place

    def _positional(self, python: PythonFile) -> Iterator[Native]:
        """The model, where a trainer is given it without its name: ``GRPOTrainer("model", ...)``."""
        for name in (name for name, prefix in self.calls.items() if prefix == "trainer."):
            for call in python.calls(name):
                if call.positionals and isinstance(call.positionals[0], str):
                    yield Native(
                        key="trainer.model",
                        value=call.positionals[0],
                        file=python.source.file,
                        line=call.line,
                        form=Form.KEYWORD,
                        group=name,
                    )

    def collected(self, launch: Launch) -> Iterator[Native]:
        """What stands in the script, in the YAML that ``--config`` names, on the command line; the last wins. A script
        with a parser of its own takes its options itself: they are found where it uses them."""
        arguments = launch.arguments(flags=self._flags)
        found: list[Native] = [] if launch.tree is None else list(launch.tree.natives())
        if launch.python is not None:
            found += launch.python.natives(self.calls, arguments)
            found += self._positional(launch.python)
        if parses(launch):
            for option in self.config_options:
                name = arguments.value(option)
                tree = launch.yaml(name) if isinstance(name, str) else None
                found += [] if tree is None else tree.natives()
            found += [native for native in arguments.natives if native.key not in self.config_options]
        # generation_kwargs override the single names, wherever they stand.
        yield from sorted(found, key=lambda native: native.key == "generation_kwargs")

    def take(self, draft: Draft, native: Native) -> None:
        """A field of the script's own dataclasses is nobody else's matter; a model object hides no name."""
        if native.key == "trainer.model" and isinstance(native.value, Unresolved):
            model(draft)
        named = draft.value("model.path") is not None
        own = native.form is not Form.KEYWORD and self.rule(native.key) is None
        if native.key == "trainer.model" and isinstance(native.value, Unresolved) and named:
            draft.record(native, "model.path")
        elif own and (native.key in _own_fields(draft.launch.python) or _launches(draft.launch, native.key)):
            draft.record(native, None)
            draft.beside += 1
        else:
            super().take(draft, native)

    def check_known(self, draft: Draft, native: Native) -> None:
        """Unknown options, where it is certain which dataclasses take them, and accelerate does not."""
        if native.form is not Form.KEYWORD:
            handed_on = any(fnmatchcase(native.key, pattern) for pattern in (*ACCELERATE, *LAUNCH, "env"))
            if handed_on or not self._complete(draft.launch, native.key):
                return
        found = len(draft.unknown)
        super().check_known(draft, native)
        if len(draft.unknown) == found:
            return
        # Before 0.19 TrlParser drops YAML keys that it does not know.
        dropped = native.form is Form.YAML and between(draft, "0", "0.19")
        dropped = dropped or (self.leaves(draft.launch) and not draft.unknown[-1].ambiguous)
        if native.form is not Form.KEYWORD and dropped:
            draft.unknown[-1] = replace(
                draft.unknown[-1], ignored=True, why="TRL drops what its dataclasses do not know"
            )

    def leaves(self, launch: Launch) -> bool:
        """What trl/scripts/*.py of 0.22 to 0.28 do."""
        return launch.entry.startswith("trl") and within(launch.version_of("trl"), "0.22", "0.29")

    def _complete(self, launch: Launch, key: str) -> bool:
        """Whether it is certain that nobody but the listed dataclasses takes an option of that name."""
        if launch.python is not None:
            return _only_trl(launch.python)
        if any(fnmatchcase(launch.entry, pattern) for pattern in self.entries):
            return True
        return launch.tree is not None and (key in self.table or key.startswith("vllm_"))

    def _whole(self, launch: Launch) -> bool:
        """Whether everything that may hold settings was read: the script, its YAML, the dictionaries of its config."""
        if launch.python is None and launch.entry.endswith(".py"):
            return any(fnmatchcase(launch.entry, pattern) for pattern in self.entries)
        if launch.python is not None and _spreads_unknown(launch.python):
            return False
        named = launch.arguments(flags=self._flags).value("config") if parses(launch) else None
        return not isinstance(named, str) or launch.files.find(named) is not None or named in launch.files.written

    def defaults(self, draft: Draft) -> None:
        """As everywhere; accelerate's gradient_accumulation_steps does not count, the training arguments' does."""
        accumulation = draft.settings.get("batch.accumulation")
        if accumulation is not None and accumulation is draft.launch.process.get("batch.accumulation"):
            del draft.settings["batch.accumulation"]
        # Where settings stand that were not read, nothing can be said of those that were not seen.
        if self._whole(draft.launch):
            super().defaults(draft)

    def engine_defaults(self, draft: Draft) -> None:
        """vLLM's own, for an engine that this launch starts."""
        if draft.value("placement.mode") in ("colocate", "separate"):
            super().engine_defaults(draft)

    def spell(self, edit: Edit, plan: RolloutPlan) -> Spelling:
        """As everywhere, in the names of the plan's release; what TRL computes, or a server's launch says, has none."""
        from rldoctor.frameworks.spelling import spell, unspelled

        if edit.option == "sleep.enabled":
            edit = replace(edit, option="engine.enable_sleep_mode")
        setting, text = plan.get(edit.option), f"--{edit.option.partition('.')[2]} {edit.value} where the server starts"
        if edit.option.startswith("engine.") and plan.server is None:
            if setting is not None and setting.source is Source.DERIVED and setting.form is None:
                return unspelled(edit, f"{self.name} computes it: {setting.how}")
            if setting is None and plan.value("placement.mode") == "server":
                return Spelling(text=text, reason="it belongs to the server's own launch")
        release = plan.version if self.owner == "trl" else None
        return spell(self if release is None else writing(TRL, release, "grpo"), edit, plan)


def parses(launch: Launch) -> bool:
    """Whether the command line is read into TRL's dataclasses: by its commands, and by scripts with its parser."""
    python = launch.python
    return python is None or python.has_call("TrlParser") or python.has_call("HfArgumentParser")


def _spreads_unknown(python: PythonFile) -> bool:
    """Whether a config is given a ``**`` dictionary that cannot be read."""
    for node in python.nodes:
        if isinstance(node.func, ast.Name) and node.func.id in ALGORITHMS and any(k.arg is None for k in node.keywords):
            line = python.line(node.lineno)
            read = next((call for call in python.calls(node.func.id) if call.line == line), None)
            if read is not None and len(read.keywords) < len(node.keywords):
                return True
    return False


def _launches(launch: Launch, key: str) -> bool:
    """Whether ``key`` is accelerate's, in a command that starts it."""
    return launch.entry.startswith("trl ") and any(fnmatchcase(key, pattern) for pattern in ACCELERATE)


def _own_fields(python: PythonFile | None) -> frozenset[str]:
    """Fields of the dataclasses that a script defines."""
    if python is None:
        return frozenset()
    classes = [node for node in ast.walk(python.tree) if isinstance(node, ast.ClassDef)]
    parts = [part.target for node in classes for part in node.body if isinstance(part, ast.AnnAssign)]
    return frozenset(target.id for target in parts if isinstance(target, ast.Name))


def _only_trl(python: PythonFile) -> bool:
    """Whether every dataclass of the script's parser is TRL's own."""
    known = {*ALGORITHMS, *_DATACLASSES}
    own = {node.name for node in ast.walk(python.tree) if isinstance(node, ast.ClassDef)}
    named = re.findall(r"(?:TrlParser|HfArgumentParser)\(\s*[\(\[]?([\w\s,.]*)", python.source.text)
    names = {name.strip().rpartition(".")[2] for group in named for name in group.split(",") if name.strip()}
    return names <= known and not names & own


DIALECT = TRL()
