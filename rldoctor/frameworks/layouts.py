"""Which files and classes declare the options of each package, over all its releases, and where its table is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from rldoctor.frameworks import frameworks
from rldoctor.tables import options
from rldoctor.tables.options.parts import ClassPart, Group, Layout, Listing, class_part, fields_of

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
    names={
        "report_to": Listing(
            places=("transformers/integrations/integration_utils.py:INTEGRATION_TO_CALLBACK",),
            besides=("all", "none"),
            closed=True,
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


def classes_of(package: str, group: str) -> Iterator[tuple[str, str, str]]:
    """The classes whose fields are the options of a group, older places too: package, module and name of each; none
    for a package without options."""
    try:
        layout = layout_of(package)
    except KeyError:
        return
    description = layout.groups[group or layout.main]
    for part in description.parts:
        for path, name in part.places if isinstance(part, ClassPart) else ():
            yield package, path.removesuffix(".py").removesuffix("/__init__").replace("/", "."), name
    for included in description.includes:
        owner, _, inner = included.lstrip("?").rpartition(":")
        yield from classes_of(owner or package, inner)


def covered() -> tuple[str, ...]:
    """Every package whose options are known by release."""
    return (*(package for framework in frameworks() for package in framework.layouts()), *_HERE)


def file_of(package: str) -> Path:
    """The file of a package's table."""
    home = next((f for f in frameworks() if any(package == held.name for held in f.packages)), None)
    return _DATA / f"{package}.json" if home is None else home.table(package)
