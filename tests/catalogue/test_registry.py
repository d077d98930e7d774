"""Plugins come in through entry points; a bad one is named and the rest still works."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rldoctor.api import Check
from rldoctor.catalogue import registry
from rldoctor.errors import InputError


@pytest.fixture
def plugin_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def install(folder: Path, name: str, source: str) -> None:
    """Puts a distribution with one module and an entry point on the path, as pip would leave it."""
    (folder / f"{name}.py").write_text(source)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[rldoctor.checks]\n{name} = {name}\n")
    sys.modules.pop(name, None)


def test_the_built_in_checks_come_in_by_the_same_door() -> None:
    found = registry.load()
    assert found.broken == []
    assert {"RLD101", "RLD105", "RLD301", "RLD404"} <= set(found.checks)
    assert {found.origin[code] for code in ("RLD101", "RLD301")} == {"builtin"}


def test_every_built_in_check_has_a_document_and_a_detector() -> None:
    for code, check in registry.load().checks.items():
        assert check.detectors or check.signatures, code
        for heading in ("What it looks for", "Why it hurts", "How sure it is", "The fix", "References"):
            assert heading in check.doc, f"{code} lacks {heading!r}"
        # SARIF's helpUri: GitHub links a rule to its first reference.
        assert "https://" in check.doc.partition("References")[2], f"{code} has no address to read on"


def test_a_third_party_brings_a_check(plugin_path: Path) -> None:
    source = "from rldoctor.api import Check\ncheck = Check('ACME01', 'acme', 'Document.')\n"
    install(plugin_path, "acme_doctor", source)
    found = registry.load()
    assert found.checks["ACME01"].name == "acme"
    assert found.origin["ACME01"] == "acme_doctor"
    assert "ACME01" not in registry.load(disabled=("acme_doctor",)).checks


def test_a_plugin_that_fails_to_import_is_named(plugin_path: Path) -> None:
    install(plugin_path, "torn_doctor", "raise RuntimeError('torn apart')\n")
    found = registry.load()
    assert [(b.plugin, b.reason) for b in found.broken] == [("torn_doctor", "torn_doctor: RuntimeError: torn apart")]
    assert "RLD101" in found.checks


def test_a_plugin_that_exits_while_importing_is_named_too(plugin_path: Path) -> None:
    install(plugin_path, "leaving_doctor", "import sys\nsys.exit(3)\n")
    assert [b.plugin for b in registry.load().broken] == ["leaving_doctor"]


def test_a_plugin_whose_import_does_not_end_is_named_too(plugin_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "IMPORT_SECONDS", 0.2)
    install(plugin_path, "waiting_doctor", "try:\n    while True: pass\nexcept Exception: pass\n")
    found = registry.load()
    assert [(b.plugin, b.reason) for b in found.broken] == [
        ("waiting_doctor", "waiting_doctor: TookTooLong: its import did not end within 0.2 s")
    ]
    assert "RLD101" in found.checks


def test_what_a_plugin_prints_is_not_in_the_report(plugin_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(plugin_path, "chatty_doctor", "print('hello from a plugin')\n")
    assert registry.load().broken == []
    written = capsys.readouterr()
    assert (written.out, written.err) == ("", "hello from a plugin\n")


def test_what_a_plugins_own_programs_print_is_not_in_the_report(
    plugin_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = "import os, subprocess, sys\nos.write(1, b'bytes ')\nsubprocess.run(['echo', 'from a child'])\n"
    install(plugin_path, "chatty_doctor", f"{said}sys.__stdout__.write('beneath')\n")
    assert registry.load().broken == []
    written = capfd.readouterr()
    assert "from a child" in written.err and written.out == ""


def test_a_code_that_is_taken_stays_with_its_first_owner(plugin_path: Path) -> None:
    source = "from rldoctor.api import Check\ncheck = Check('RLD101', 'usurper', 'Document.')\n"
    install(plugin_path, "usurping_doctor", source)
    found = registry.load()
    assert found.checks["RLD101"].name == "vllm-version-incompatible"
    assert [b.reason for b in found.broken] == ["RLD101 is already registered by builtin"]


def test_selection_by_code_and_prefix() -> None:
    found = registry.Registry()
    for code in ("RLD101", "RLD102", "RLD201"):
        found.add("test", Check(code, code.lower(), "Document."))
    assert [c.code for c in found.select(("RLD1",))] == ["RLD101", "RLD102"]
    with pytest.raises(InputError, match="unknown code 'RLD999'"):
        found.select(("RLD999",))


@pytest.mark.parametrize("damage", [b"[rldoctor.checks]\nno equals sign\n", b"\xff\xfe"])
def test_damaged_metadata_of_somebody_else_costs_nothing(plugin_path: Path, damage: bytes) -> None:
    install(
        plugin_path, "acme_doctor", "from rldoctor.api import Check\ncheck = Check('ACME01', 'acme', 'Document.')\n"
    )
    install(plugin_path, "torn_package", "")
    (plugin_path / "torn_package-1.0.dist-info" / "entry_points.txt").write_bytes(damage)
    assert {"RLD101", "ACME01"} <= set(registry.load().checks)


def test_an_entry_point_without_a_module_is_named(plugin_path: Path) -> None:
    install(plugin_path, "vague_doctor", "")
    (plugin_path / "vague_doctor-1.0.dist-info" / "entry_points.txt").write_text(
        "[rldoctor.checks]\nvague = no module!\n"
    )
    assert [(b.plugin, b.reason) for b in registry.load().broken] == [
        ("vague", "its entry point names no module: 'no module!'")
    ]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("Check('acme01', 'acme', 'Document.')", "ValueError: 'acme01' is no code"),
        ("Check('ACME01', 'acme', 'Document.').declared(needs='packages')", "TypeError: ACME01: needs must be a list"),
        ("print('hello') or [][0]", "IndexError: list index out of range"),
    ],
)
def test_a_check_that_nobody_could_ask_for_is_refused(
    plugin_path: Path, capsys: pytest.CaptureFixture[str], source: str, reason: str
) -> None:
    install(plugin_path, "sloppy_doctor", f"from rldoctor.api import Check\n{source}\n")
    (broken,) = registry.load().broken
    assert broken.reason.startswith(f"sloppy_doctor: {reason}")
    assert capsys.readouterr().out == ""


def test_a_folder_is_one_check(plugin_path: Path) -> None:
    folder(plugin_path, "acme_doctor", logged="from . import check\ncheck.signature('flux drained', says='drained')\n")
    check = registry.load().checks["ACME01"]
    assert len(check.signatures) == 1 and check.module == "acme_doctor"


def test_a_folder_whose_part_fails_is_no_check(plugin_path: Path) -> None:
    folder(plugin_path, "half_doctor", live="raise RuntimeError('torn apart')\n")
    found = registry.load()
    assert "ACME01" not in found.checks
    assert [b.reason for b in found.broken] == ["half_doctor.live: RuntimeError: torn apart"]


def folder(path: Path, name: str, **parts: str) -> None:
    """Puts a distribution whose one check is a folder with these parts on the path."""
    install(path, name, "")
    (path / f"{name}.py").unlink()
    (path / name).mkdir()
    (path / name / "__init__.py").write_text(
        "from rldoctor.api import Check\ncheck = Check('ACME01', 'acme', 'Document.')\n"
    )
    for part, source in parts.items():
        (path / name / f"{part}.py").write_text(source)
    for module in [module for module in sys.modules if module.split(".")[0] == name]:
        del sys.modules[module]
