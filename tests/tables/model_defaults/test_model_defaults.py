"""The table against what the classes of the installed transformers really do."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from rldoctor.tables.model_defaults import SECTIONS, Table

# Defaults that one configuration makes of all of them: without their switch no window, a list for each layer.
MADE = {"sliding_window", ("gemma3n_text", "intermediate_size")}

BUILD = """
import json, sys
from transformers import __version__
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

built = {}
for kind, keys in json.loads(sys.stdin.read()).items():
    try:
        one = CONFIG_MAPPING[kind]()
    except Exception:
        continue
    built[kind] = {}
    for key in keys:
        try:
            built[kind][key] = getattr(one, key)
        except Exception:  # a setting of each layer
            pass
print(json.dumps([__version__, built], default=lambda value: getattr(value, "model_type", None)))
"""


@pytest.mark.engine
def test_the_defaults_are_those_of_the_classes(patient: Path) -> None:
    table = Table.load("transformers")
    keys = {kind: sorted(values) for kind, values in table.at(table.releases[-1]).items()}
    done = subprocess.run(
        [patient, "-c", BUILD], input=json.dumps(keys), capture_output=True, text=True, timeout=300, check=True
    )
    release, built = json.loads(done.stdout.splitlines()[-1])
    differing = {
        (kind, key): (expected, value)
        for kind, values in built.items()
        for key, value in values.items()
        if key not in SECTIONS and key not in MADE and (kind, key) not in MADE
        if (expected := table.value(kind, key, release)) is not None and value != expected
    }
    assert len(built) > 300
    assert not differing
