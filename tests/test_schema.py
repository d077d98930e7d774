"""What is written and read keeps to the schemas that are published, and they are the present ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rldoctor import bundle
from rldoctor.catalogue import example
from rldoctor.facts import machine
from rldoctor.project import settings
from rldoctor.report import json_document
from tests.commands import run
from tests.loaded import REGISTRY
from tests.test_bundle import CASE

DOCS = Path(__file__).parents[1] / "docs"
SCHEMAS = {"report": json_document, "machine": machine, "bundle": bundle, "settings": settings}
SETTINGS = """
fail-on = "warning"
require = ["RLD202"]
severity = {RLD104 = "note"}
thresholds = {RLD503 = {share = 0.99}}
[[ignore]]
code = "RLD104"
reason = "pinned by the image"
files = ["runs/*.sh"]
"""


def validate(document: Any, name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(document, json.loads((DOCS / f"{name}.schema.json").read_text()))


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_published_schema_is_the_present_one(name: str) -> None:
    published = (DOCS / f"{name}.schema.json").read_text()
    assert published == SCHEMAS[name].schema(), f"{name} has changed: publish its schema anew"


def test_bundles_keep_to_theirs() -> None:
    validate(json.loads(bundle.dump(CASE)), "bundle")


def test_a_bundle_of_this_machine_keeps_to_it(tmp_path: Path) -> None:
    assert run("bundle", "--output", "case.json", "--level", "static", cwd=tmp_path).returncode == 0
    validate(json.loads((tmp_path / "case.json").read_text()), "bundle")


def test_machines_of_worked_examples_keep_to_theirs() -> None:
    files = [file for check in REGISTRY.checks.values() if (file := example.file_of(check)) is not None]
    scenes = [scene for file in files for scene in (example.read(file).fires, example.read(file).quiet)]
    given = [scene.files[example.MACHINE] for scene in scenes if example.MACHINE in scene.files]
    assert len(given) > 20
    for text in given:
        validate(json.loads(text), "machine")


def test_settings_keep_to_theirs(tmp_path: Path) -> None:
    (tmp_path / "rldoctor.toml").write_text(SETTINGS)
    assert settings.load(tmp_path).fail_on == "warning"
    validate(msgspec.toml.decode(SETTINGS), "settings")
    # The template's examples are comments; each is a setting that the schema knows.
    lines = settings.template().splitlines()
    shown = "\n".join(line.removeprefix("# ") for line in lines if re.match(r"# ([\w-]+ = |\[)", line))
    example_settings = json.loads(json.dumps(msgspec.toml.decode(shown), default=str))
    assert {key.replace("_", "-") for key in settings._KEYS} <= example_settings.keys()
    validate(example_settings, "settings")


@pytest.mark.parametrize("text", ["fail_on = 'error'", "select = 'RLD1'", "[[ignore]]\ncode = 'RLD104'"])
def test_settings_that_are_refused_do_not_keep_to_it(text: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    with pytest.raises(jsonschema.ValidationError):
        validate(msgspec.toml.decode(text), "settings")
