"""open-r1: TRL's GRPO with recipes; ``src/open_r1/grpo.py --config recipe.yaml``."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import ClassVar

from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.open_r1 import OWN
from rldoctor.frameworks.trl.dialect import TRL, parses
from rldoctor.frameworks.trl.table import BESIDE

# Rewards, sandboxes for code, data.
_REWARD_NAMES = """
cosine_* repetition_n_grams repetition_max_penalty code_* parallel_code_exec_* e2b_* morph_* ioi_* piston_* benchmarks*
max_completion_len soft_punish_cache dataset_mixture*
"""
_REWARDS = tuple(_REWARD_NAMES.split())


class OpenR1(TRL):
    name, owner = "open-r1", "open-r1"
    specific = 10
    entries: ClassVar[tuple[str, ...]] = ("*open_r1/grpo.py", "open_r1.grpo")
    imports = ("open_r1",)
    groups: ClassVar[dict[str, str]] = {"GRPOConfig": "open-r1:GRPOConfig"}
    beside: ClassVar[tuple[str, ...]] = (*BESIDE, *OWN, *_REWARDS)

    def claims(self, launch: Launch) -> int:
        """Its script, a recipe, and scripts that import it; the versions that count are TRL's."""
        if any(fnmatchcase(launch.entry, pattern) for pattern in self.entries):
            return 100 + self.specific
        if launch.tree is not None and any(launch.tree.has(key) for key in OWN):
            return super().claims(launch)
        imported = launch.python is not None and launch.python.imports_from("open_r1")
        return super().claims(launch) if imported else 0

    def registers(self, launch: Launch) -> bool:
        """Whoever launches from a clone may have put rewards into its table."""
        return launch.files.find("src/open_r1/rewards.py") is not None

    def main_group(self, launch: Launch) -> str:
        """Its dataclasses, which inherit TRL's."""
        return "open-r1:grpo" if parses(launch) else "open-r1:GRPOConfig"


DIALECT = OpenR1()
