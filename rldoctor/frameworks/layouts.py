"""Which files and classes declare the options of each package, over all its releases, and where its table is kept."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from rldoctor.frameworks import frameworks
from rldoctor.tables import options
from rldoctor.tables.options.parts import Group, Layout, class_part, fields_of

TRANSFORMERS = Layout(
    packages=("transformers",),
    markers=("transformers/training_args.py",),
    groups={
        "TrainingArguments": fields_of("transformers/training_args.py:TrainingArguments"),
        "Seq2SeqTrainingArguments": Group(
            (class_part("transformers/training_args_seq2seq.py:Seq2SeqTrainingArguments", inherited=False),),
            ("TrainingArguments",),
        ),
    },
)

# A package that is no framework, whose options frameworks inherit: its table lies here.
_HERE: Mapping[str, Layout] = {"transformers": TRANSFORMERS}
_DATA = Path(str(options.__file__)).with_name("data")


@lru_cache(maxsize=32)
def layout_of(package: str) -> Layout:
    """The layout of a package. Raises ``KeyError`` for one that has none."""
    for framework in frameworks():
        if any(package == held.name for held in framework.packages) and package in (found := framework.layouts()):
            return found[package]
    if package not in _HERE:
        raise KeyError(f"no option table for {package}")
    return _HERE[package]


def covered() -> tuple[str, ...]:
    """Every package whose options are known by release."""
    return (*(package for framework in frameworks() for package in framework.layouts()), *_HERE)


def file_of(package: str) -> Path:
    """The file of a package's table."""
    home = next((f for f in frameworks() if any(package == held.name for held in f.packages)), None)
    return _DATA / f"{package}.json" if home is None else home.table(package)
