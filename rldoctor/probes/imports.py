"""The ``imports`` probe: which heavy packages load in the target's interpreter, and what stops those that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rldoctor.case import Case, Packages
from rldoctor.case.lookup import find
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Job, Probe, Request
from rldoctor.frameworks import frameworks
from rldoctor.model import Level

# One row: distribution, module, attributes to take from it, modules to import after it. An import alone proves little
# where a package loads lazily: `transformers` reaches torchvision only through PreTrainedModel and the like, `vllm`
# its engine through LLM and its kernels through `_custom_ops`.
Row = tuple[str, str, tuple[str, ...], tuple[str, ...]]
FRAMEWORKS: tuple[Row, ...] = (
    *(
        (package.name, package.modules[0], package.attributes, package.further)
        for framework in sorted(frameworks(), key=lambda framework: framework.trains)  # engines take longest
        for package in framework.packages
        if not package.device
    ),
    ("deepspeed", "deepspeed", (), ()),
    ("peft", "peft", ("PeftModel", "LoraConfig"), ()),
    ("bitsandbytes", "bitsandbytes", (), ()),
)
# What the frameworks may have brought along; one that they have is not imported again.
FOUNDATIONS: tuple[Row, ...] = (
    ("transformers", "transformers", ("PreTrainedModel", "AutoModelForCausalLM", "AutoTokenizer"), ()),
    ("xformers", "xformers", (), ("xformers.ops",)),
    ("flash-attn", "flash_attn", ("flash_attn_func",), ()),
    ("flashinfer-python", "flashinfer", (), ()),
    ("accelerate", "accelerate", ("Accelerator",), ()),
    ("ray", "ray", ("init", "remote"), ()),
    ("datasets", "datasets", ("Dataset",), ()),
    ("torchvision", "torchvision", (), ()),
    ("torchaudio", "torchaudio", (), ()),
    ("torch", "torch", (), ()),
    ("pandas", "pandas", (), ()),
    ("numpy", "numpy", (), ()),
)

SECONDS_EACH = 120.0
SECONDS_ALL = 360.0
PARALLEL = 2


def _jobs(case: Case, request: Request) -> dict[str, Job]:
    packages = case.packages
    assert packages is not None  # the probe needs them
    waves = [_installed(packages, rows) for rows in (FRAMEWORKS, FOUNDATIONS)]
    if not any(waves):
        raise NotApplicable("none of the packages that reinforcement learning runs on is installed")
    arguments = {"waves": waves, "parallel": PARALLEL, "seconds": SECONDS_EACH}
    return {"stack": Job(arguments=arguments, time_limit=SECONDS_ALL)}


def _installed(packages: Packages, rows: tuple[Row, ...]) -> list[dict[str, Any]]:
    return [
        {"name": name, "module": module, "attributes": attributes, "modules": modules}
        for name, module, attributes, modules in rows
        if find(packages, name)
    ]


imports = Probe(
    name="imports",
    level=Level.IMPORTS,
    child=Path(__file__).parent / "children" / "import_all.py",
    jobs=_jobs,
    needs=("packages",),
    seconds=10.0,
)
