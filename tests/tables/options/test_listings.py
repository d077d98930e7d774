"""Names that an option is looked up among, out of a framework's code."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import pytest

from rldoctor.tables.options.listings import listed
from rldoctor.tables.options.parts import Listing

SOURCES = {
    "pkg/tracking.py": """
        class Tracking:
            supported = ["console", "wandb"]

            def __init__(self, backend):
                assert backend in self.supported
        """,
    "pkg/rewards.py": 'registry = {"accuracy": Accuracy, "format": Format, OTHER: None}',
    "pkg/rollouts.py": 'registry = {("vllm", "async"): Server, ("hf", "sync"): Model}',
    "pkg/args.py": """
        class Arguments:
            def _init(self):
                mapping = {name: f"{name}.json" for name in ["zero2", "zero3"]}
        """,
    "pkg/enums.py": """
        class Optimizer(str, Enum):
            muon = "muon"
            DION = "dion"
        """,
    "pkg/managers/naive.py": """
        @register("naive")
        class Naive: ...

        @dispatch(mode="x")
        def step(): ...
        """,
    "pkg/managers/dapo.py": """
        @registry.register("dapo")
        class Dapo: ...
        """,
    "pkg/workers.py": """
        def build(config):
            if config.strategy == "adamw":
                return 1
            elif config.strategy in ("sgd", "lion"):
                return 2
            elif config.strategy != "none" or config.name == "beside":
                raise NotImplementedError
        """,
    "pkg/config.py": """
        Backend = Literal["ray", "mp"]

        def verify(self):
            if self.backend not in ("uni", None):
                raise ValueError
        """,
    "pkg/broken.py": "class (",
    "pkg/config/engine/dp.yaml": "",
    "pkg/config/engine/megatron.yaml": "",
    "pkg/config/engine/notes.md": "",
    "pkg/config/engine/more/other.yaml": "",
}


class Tree:
    """Source files by their paths."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = {path: textwrap.dedent(text) for path, text in files.items()}

    def read(self, path: str) -> str | None:
        return self.files.get(path)

    def names(self, folder: str) -> tuple[str, ...]:
        return tuple(path for path in self.files if path.startswith(f"{folder}/"))


@pytest.mark.parametrize(
    ("listing", "names"),
    [
        (Listing(places=("pkg/tracking.py:Tracking.supported",)), ("console", "wandb")),
        (Listing(places=("pkg/older.py:registry", "pkg/rewards.py:registry")), ("accuracy", "format")),
        (Listing(places=("pkg/rollouts.py:registry",)), ("hf", "vllm")),
        (Listing(places=("pkg/args.py:Arguments._init.mapping",)), ("zero2", "zero3")),
        (Listing(places=("pkg/enums.py:Optimizer",), besides=("own",)), ("dion", "muon", "own")),
        (Listing(registered=("pkg/managers:register",)), ("dapo", "naive")),
        (Listing(compared=("pkg/workers.py:config.strategy",)), ("adamw", "lion", "sgd")),
        (Listing(places=("pkg/config.py:Backend",)), ("mp", "ray")),
        (Listing(compared=("pkg/config.py:self.backend",)), ("uni",)),
        (Listing(files=("pkg/config/engine",)), ("dp", "megatron")),
        (Listing(places=("pkg/broken.py:registry",), besides=("own",)), ()),
        (Listing(places=("pkg/tracking.py:Tracking.backends",)), ()),
    ],
)
def test_names_are_found_where_the_layout_says(listing: Listing, names: tuple[str, ...]) -> None:
    assert listed(Tree(SOURCES), listing) == names
