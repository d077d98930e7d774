"""open-r1."""

from __future__ import annotations

from rldoctor.frameworks.record import Framework, Layer, Memory, Package, Repository, Sync, Words

# Fields of its own dataclasses that recipes hold (src/open_r1/configs.py).
OWN = (
    "dataset_prompt_column",
    "system_prompt",
    "benchmarks",
    "dataset_mixture",
    "cosine_max_len",
    "code_language",
    "hub_model_revision",
    "overwrite_hub_revision",
)

FRAMEWORK = Framework(
    home=__name__,
    name="open-r1",
    title="open-r1",
    marks=("open_r1", *OWN),
    packages=(
        Package(
            name="open-r1",
            modules=("open_r1",),
            published=False,
            repository=Repository(
                name="huggingface/open-r1",
                tag="v",
                requirements="setup.py",
                version_file="setup.py",
                snapshots="src/open_r1/configs.py",
            ),
            since="0.dev0",
        ),
    ),
    over=(Layer(package="trl"),),
    words=Words(paths=r"/open[-_]r1/"),
    memory=Memory(whole_logits=4, keeps_reference=True, recomputes=("fsdp", "fsdp2")),
    sync=Sync(one_by_one=True, own_names=""),
    imports={"always": ("open_r1.grpo",)},
)
