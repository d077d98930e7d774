"""ms-swift: ``swift rlhf``, ``swift rollout``, ``megatron rlhf`` with and without Ray, their scripts and YAML files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import ClassVar

from rldoctor.formats.native import Native
from rldoctor.formats.values import Unresolved
from rldoctor.formats.yaml.reader import YamlFile
from rldoctor.frameworks.dialect import Dialect
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.ms_swift.engine import engine, seeds
from rldoctor.frameworks.ms_swift.place import placement, serves, start
from rldoctor.frameworks.ms_swift.table import BESIDE, TABLE
from rldoctor.frameworks.ms_swift.trainer import batch, evaluation, training
from rldoctor.frameworks.releases import name_anew, within, writing
from rldoctor.frameworks.rule import Rule
from rldoctor.frameworks.spelled import Spelling
from rldoctor.frameworks.spelling import variable
from rldoctor.model import Edit
from rldoctor.plan.model import Form, RolloutPlan
from rldoctor.plan.vocabulary import terms

# Sections of the Ray path's YAML; what stands in one is the same option as above them (ray/megatron/driver_utils.py).
_ROLES = ("train", "rollout", "teacher")
_SERVERS = ("swift rollout", "swift deploy")
# Which commands have which options; deploy serves no training.
_COMMANDS = {
    "swift rlhf": "ms-swift:rlhf",
    "megatron rlhf": "ms-swift:megatron-rlhf",
    "swift rollout": "ms-swift:rollout",
}
# What names the files that register more rewards.
_PLUGINS = ("external_plugins", "custom_register_path")


class MsSwift(Dialect):
    name, owner = "ms-swift", "ms-swift"
    own_code = ("external_plugins",)
    entries = (
        "swift rlhf", "swift rollout", "swift deploy", "megatron rlhf", "*swift/cli/rlhf.py", "*swift/cli/rollout.py",
        "*swift/cli/_megatron/rlhf.py", "swift.cli.rlhf", "swift.cli.rollout", "swift.cli._megatron.rlhf",
    )  # fmt: skip
    keys = ("rlhf_type", "colocate_groups", "rollout.vllm_tensor_parallel_size")
    abbreviations = True
    calls: ClassVar[Mapping[str, str]] = {"RLHFArguments": "", "RolloutArguments": "", "MegatronRLHFArguments": ""}
    groups: ClassVar[Mapping[str, str]] = {
        "swift rollout": "ms-swift:rollout",
        "*rollout*": "ms-swift:rollout",
        "swift deploy": "ms-swift:deploy",
        "*megatron*": "ms-swift:megatron-rlhf",
        "RLHFArguments": "ms-swift:rlhf",
        "RolloutArguments": "ms-swift:rollout",
        "MegatronRLHFArguments": "ms-swift:megatron-rlhf",
    }
    owners: ClassVar[Mapping[str, str]] = {"vllm_engine_kwargs.": "vllm:EngineArgs"}
    # It brings SwanLab to releases of transformers that lack it (sft_args.py, _init_swanlab).
    lookups: ClassVar[Mapping[str, str]] = {"report_to": "transformers:TrainingArguments.report_to"}
    table: ClassVar[Mapping[str, str | Rule]] = TABLE
    beside = BESIDE
    derivations = (start, placement, batch, evaluation, training, engine, seeds)

    def registers(self, launch: Launch) -> bool:
        """Files of the launch's own are imported for what they register, also where its YAML names them; a script of
        one's own, and what was not read, may do so, too."""
        given = launch.arguments(flags=self._flags)
        files = [tree.source.text for tree in (launch.tree, *launch.trees) if tree is not None]
        named = any(given.value(name) is not None or any(name in text for text in files) for name in _PLUGINS)
        own = launch.python is not None or not any(fnmatchcase(launch.entry, one) for one in ("", *self.entries))
        return named or own or launch.missed is not None

    def claims(self, launch: Launch) -> int:
        """Its commands and YAML keys, scripts that make its arguments, and a fork's command with its telling option."""
        found = super().claims(launch)
        if not found and launch.python is not None and any(launch.python.has_call(name) for name in self.calls):
            found = 55
        return found or (60 if any(word.text.partition("=")[0] == "--rlhf_type" for word in launch.words) else 0)

    def role(self, launch: Launch) -> str:
        """``server`` for the commands that serve."""
        return "server" if launch.entry.startswith(_SERVERS) or launch.entry.endswith("rollout.py") else "trainer"

    def choices(self, launch: Launch) -> Mapping[str, str]:
        """The other command that trains, and the server beside it."""
        return {} if self.role(launch) == "server" else _COMMANDS

    def main_group(self, launch: Launch) -> str:
        """By the command; a YAML file that gives devices by role, or batches as Megatron does, is Megatron's."""
        if launch.tree is not None and any(
            map(launch.tree.has, ("train.gpus", "micro_batch_size", "global_batch_size"))
        ):
            return "ms-swift:megatron-rlhf"
        return super().main_group(launch)

    def rule(self, key: str) -> tuple[str, Rule] | None:
        """The table's, and any other engine argument behind ``vllm_``."""
        found = super().rule(key)
        if found is None and key.startswith("vllm_") and f"engine.{key[5:]}" in terms():
            return f"engine.{key[5:]}", Rule(f"engine.{key[5:]}")
        return found

    def read(self, launch: Launch) -> RolloutPlan:
        """The plan; variables in the ``ENV`` section of a YAML file count where the shell sets none (cli/main.py)."""
        for tree in (launch.tree, _first_yaml(launch)):
            section = None if tree is None else next((native for native in tree.natives() if native.key == "ENV"), None)
            for native in () if section is None else section.parts():
                name = native.key.removeprefix("ENV.")
                launch.variables.setdefault(name, replace(native, key=name, value=str(native.value)))
        return super().read(launch)

    def collected(self, launch: Launch) -> Iterator[Native]:
        """YAML, Python, the command line, the last wins: a YAML file stands in place of the first argument (4.1 on), or
        comes with ``--config`` (3.10 to 4.0: after all other options; with Ray)."""
        for tree in (launch.tree, _first_yaml(launch)):
            yield from () if tree is None else _flat(tree)
        if launch.python is not None:
            yield from launch.python.natives(self.calls, launch.arguments())
        arguments = launch.arguments()
        options = [native for native in arguments.natives if native.key != "config"]
        tree = _named(launch, arguments.value("config"))
        config = [] if tree is None else list(_flat(tree))
        last = within(launch.version_of("ms-swift"), "3.10", "4.1")
        for native in (*options, *config) if last else (*config, *options):
            yield _served(native) if self.role(launch) == "server" else native

    def check_known(self, draft: Draft, native: Native) -> None:
        """By the name as it stands; what is Ray's alone stands in no table, and is not refused."""
        key = native.key
        if native.form is Form.OPTION and "." not in key:
            key = native.spelled.lstrip("-").replace("-", "_")
        if native.form is Form.YAML and (
            key in ("ENV", "nnodes", "colocate_groups", *_ROLES) or key.partition(".")[0] in _ROLES
        ):
            return
        first = len(draft.unknown)
        super().check_known(draft, replace(native, key=key))
        name_anew(self, draft, first)

    def engine_defaults(self, draft: Draft) -> None:
        """vLLM's own, for an engine that this launch starts."""
        if serves(draft) or draft.value("placement.mode") not in ("server", "none"):
            super().engine_defaults(draft)

    def spell(self, edit: Edit, plan: RolloutPlan) -> Spelling:
        """As everywhere, in the names of the plan's release; processes are set by variables."""
        from rldoctor.frameworks.spelling import spell

        if edit.option in ("sleep.enabled", "engine.enable_sleep_mode") and isinstance(edit.value, bool):
            edit = replace(edit, option="sleep.level", value=int(edit.value))
        name = next(
            (key for key, rule in self.rules().items() if key.startswith("env:") and rule.option == edit.option), None
        )
        by_command = plan.entry.startswith(("swift ", "megatron "))
        setting = plan.get(edit.option)
        if (
            name is not None
            and edit.option.startswith("process.")
            and by_command
            and (setting is None or setting.form is None)
        ):
            return variable(name.removeprefix("env:"), edit.value, plan)
        elsewhere = plan.value("placement.mode") == "server" and plan.server is None and plan.role != "server"
        if elsewhere and edit.option.startswith("engine.") and setting is None:
            text = f"--vllm_{edit.option.partition('.')[2]} {edit.value} where the server starts"
            return Spelling(text=text, reason="it belongs to the server's own launch")
        if plan.version is None:
            return spell(self, edit, plan)
        group = next((g for pattern, g in self.groups.items() if pattern.strip("*") in plan.entry), "ms-swift:rlhf")
        return spell(writing(MsSwift, plan.version, group.partition(":")[2]), edit, plan)


def _first_yaml(launch: Launch) -> YamlFile | None:
    words = launch.arguments().positionals
    return _named(launch, words[0].value if words else None)


def _named(launch: Launch, name: object) -> YamlFile | None:
    """The YAML file of that name; of ``"$SCRIPT_DIR/run.yaml"`` the one that stands beside the launch file."""
    if isinstance(name, Unresolved):
        folder, _, name = name.raw.strip("\"'").rpartition("/")
        if not folder.startswith("$") or "/" in folder or launch.files.find(name) is None:
            return None
    return launch.yaml(name) if isinstance(name, str) and name.endswith((".yaml", ".yml", ".json")) else None


def _flat(tree: YamlFile) -> Iterator[Native]:
    """The entries of a YAML file, those of the Ray path's sections under their own names."""
    for native in tree.natives():
        if native.key == "ENV":
            continue
        if native.key not in _ROLES or not isinstance(native.value, dict):
            yield native
            continue
        for part in native.parts():
            own = native.key == "teacher" or part.key.endswith(".gpus")
            yield part if own else replace(part, key=part.key.partition(".")[2])


def _served(native: Native) -> Native:
    """A server's ``max_model_len`` is the engine's (3.4 to 3.9), a trainer's the model's."""
    return replace(native, key="vllm_max_model_len") if native.key == "max_model_len" else native


DIALECT = MsSwift()
