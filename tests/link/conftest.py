"""Small packages in a folder, and the linker over them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from rldoctor.link.follow import Follower
from rldoctor.link.functions import follow_functions
from rldoctor.link.locate import SearchPath
from rldoctor.link.sources import Sources

Link = Callable[..., list[str]]


@pytest.fixture
def site(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """Writes modules by their path; a folder gets its ``__init__.py``."""

    root = tmp_path / "site"

    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            for folder in file.relative_to(root).parents:
                if folder.name and not (root / folder / "__init__.py").exists():
                    (root / folder / "__init__.py").write_text("")
            file.write_text(dedent(text))
        return root

    return write


ENGINE = {
    "vllm/__init__.py": """
        __version__ = "0.12.0"
        MODULE_ATTRS = {"LLM": ".entrypoints.llm:LLM"}
        def __getattr__(name):
            raise AttributeError(name)
        """,
    "vllm/entrypoints/llm.py": "class LLM:\n    def __init__(self, model, *, dtype='auto'): ...\n",
    "vllm/sampling_params.py": "class SamplingParams: ...\nclass StructuredOutputsParams: ...\n",
    "vllm/made.py": "import _made\nfor name in dir(_made):\n    globals()[name] = getattr(_made, name)\n",
    "vllm/utils/__init__.py": "from vllm.utils.network import *\n",
    "vllm/utils/network.py": "def get_open_port(): ...\n",
}


@pytest.fixture
def link(site: Callable[[dict[str, str]], Path]) -> Link:
    """What a trainer module of this text lacks of an engine of release 0.12, one line for each problem."""

    def linked(
        trainer: str,
        further: dict[str, str] | None = None,
        *,
        functions: bool = False,
        environment: dict[str, str] | None = None,
    ) -> list[str]:
        root = site({**ENGINE, "trl/trainer/grpo_trainer.py": trainer, **(further or {})})
        versions = {"vllm": "0.12.0", "trl": "0.20.0"}
        others = frozenset({"vllm", "transformers", "peft"})
        follower = Follower(Sources(SearchPath([root])), frozenset({"trl"}), others, versions, environment)
        assert follower.enter("trl.trainer.grpo_trainer") is None
        if functions:
            follow_functions(follower)
        return [f"{p.when.value}: {p.file}:{p.line} {p.kind} {p.name} of {p.owner}" for p in follower.problems]

    return linked
