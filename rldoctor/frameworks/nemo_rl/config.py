"""NeMo-RL's configuration files: what a launch composes through ``defaults``, and the options that stand in for a
parent that is not at hand."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from rldoctor.errors import InputError
from rldoctor.formats.native import Native
from rldoctor.formats.source import Files
from rldoctor.formats.yaml.reader import YamlFile
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.nemo_rl.layout import NEMO_RL

# examples/run_*.py: what each takes without --config, beside itself in configs/.
_UNNAMED = {
    "run_grpo.py": "grpo_math_1B",
    "run_grpo_math.py": "grpo_math_1B",
    "run_grpo_rm.py": "grpo_rm_1B",
    "run_grpo_sliding_puzzle.py": "grpo_sliding_puzzle",
    "run_grpo_single_controller.py": "grpo_math_1B_megatron_single_controller",
    "run_vlm_grpo.py": "vlm_grpo_3B",
    "run_ppo.py": "ppo_math_1B",
    "run_distillation.py": "distillation_math",
    "run_distillation_math.py": "distillation_math",
    "run_eval.py": "evals/eval",
}
MAX_PARENTS = 20
MAX_TEXT = 200_000
_POLICY = re.compile(r"^policy:", re.MULTILINE)
_WORKERS = re.compile(r"^\s+(vllm_cfg|dtensor_cfg|megatron_cfg):", re.MULTILINE)
_PARENT = re.compile(r"^defaults:\s*(?:\n\s*-\s*)?[\"']?([^\s\"'#]+\.ya?ml)", re.MULTILINE)
# The base configurations that ship with the framework.
_BASES = re.compile(r"(vlm_)?(grpo|ppo|distillation|dapo|gspo|prorl|gdpo)[_-]")


def named(launch: Launch) -> str | None:
    """The configuration file that a command names, or takes unnamed; None where that is not known."""
    given = launch.arguments(overrides=True).find("config")
    if given is not None:
        return given.value if isinstance(given.value, str) else None
    script = PurePosixPath(launch.entry)
    stem = _UNNAMED.get(script.name)
    return None if stem is None else str(script.parent / "configs" / f"{stem}.yaml")


def own_file(launch: Launch) -> str | None:
    """The configuration file of the launch itself, where it is at hand; what it inherits stands in others."""
    if launch.tree is not None:
        return launch.tree.source.file
    name = named(launch)
    found = launch.files.find(name) if name is not None else None
    return None if found is None else str(found)


def shaped(path: Path, files: Files, depth: int = 0) -> bool:
    """Whether the text of a file, or of one that it inherits, looks like a configuration of NeMo-RL."""
    try:
        text = files.source(path).text[:MAX_TEXT]
    except InputError:
        return False
    if _POLICY.search(text) and _WORKERS.search(text):
        return True
    parent = _PARENT.search(text)
    if parent is None or depth >= MAX_PARENTS:
        return False
    return _BASES.match(Path(parent[1]).name) is not None or shaped(
        path.absolute().parent / parent[1], files, depth + 1
    )


def inherited(launch: Launch, tree: YamlFile, above: tuple[str, ...] = ()) -> Iterator[Native]:
    """The settings of a configuration, those of its ``defaults`` first (load_config_with_inheritance in
    nemo_rl/utils/config.py): paths count from the file that names them, later parents win over earlier ones, and a
    section with ``_override_: true`` replaces the inherited one."""
    own = [native for native in tree.natives() if native.key != "defaults"]
    replaced = {
        native.key for native in own if isinstance(native.value, dict) and native.value.get("_override_") is True
    }
    file = tree.source.file
    for parent in _parents(tree):
        path = os.path.normpath(Path(file).absolute().parent / parent)
        if file not in above and len(above) < MAX_PARENTS and (found := base(launch, path)) is not None:
            yield from (native for native in inherited(launch, found, (*above, file)) if native.key not in replaced)
    yield from own


def base(launch: Launch, name: str) -> YamlFile | None:
    """A configuration file of the launch; one that is not at hand and that tables list is the release's own."""
    return launch.yaml(name, shipped=PurePosixPath(name).stem in NEMO_RL.groups)


def _parents(tree: YamlFile) -> list[str]:
    listed = tree.value.get("defaults")
    return [str(name) for name in (listed if isinstance(listed, list) else [listed]) if isinstance(name, str)]


def complete(launch: Launch) -> bool:
    """Whether every file of the configuration was at hand, and could be read."""
    absent = any(name.endswith((".yaml", ".yml")) for name in launch.files.missing)
    return own_file(launch) is not None and not absent and launch.missed is None


def stand_ins(launch: Launch) -> list[str]:
    """The ``owner:group`` of the options that the missing files of a configuration hold, as far as tables list them."""
    stems = [PurePosixPath(name).stem for name in launch.files.missing if name.endswith((".yaml", ".yml"))]
    return [f"nemo-rl:{stem}" for stem in stems if stem in NEMO_RL.groups]
