"""The worked examples of the plugin's checks: what fires, and what stays quiet."""

import pytest

from rldoctor.catalogue import example, registry

LOADED = registry.load()
TOLD = [check for code, check in LOADED.checks.items() if code.startswith("ACME") and example.file_of(check)]


@pytest.mark.parametrize("check", TOLD, ids=lambda check: check.code)
def test_the_example_holds(check) -> None:
    read = example.read(example.file_of(check))
    assert example.findings(read.fires, check, LOADED)
    assert not example.findings(read.quiet, check, LOADED)
