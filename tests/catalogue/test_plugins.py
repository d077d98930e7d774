"""Entry points are those that Python's own reader finds."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from rldoctor.catalogue import plugins

PLAIN = "[acme]\none = acme.one\ntwo=acme.two : Two [extra]\n"
DISTRIBUTIONS = {
    "plain-1.0.dist-info": PLAIN,
    "commented-1.0.dist-info": "# one\n[ acme]\n\n  three  =  acme.three\n; = semicolon\n[acme.more]\nfour = a = b\n",
    "before_a_group-1.0.dist-info": "[acme]\nfive = acme.five\n[acme]\nsix = acme.six\n",
    "egg-1.0-py3.11.egg-info": "[acme]\nseven = acme.seven\n",
    "Two.Names-1.0.dist-info": "[acme]\neight = acme.eight\n",
    "two_names-2.0.dist-info": "[acme]\neight = acme.eight\n",
    "without-1.0.dist-info": None,
}


def install(folder: Path, distributions: dict[str, str | None]) -> None:
    for name, text in distributions.items():
        (folder / name).mkdir(parents=True)
        project = name.partition("-")[0]
        (folder / name / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n")
        if text is not None:
            (folder / name / plugins.FILE).write_text(text)


def known(group: str) -> list[tuple[str, str]]:
    return sorted((one.name, one.value) for one in plugins.entries(group))


@pytest.fixture
def as_python_reads(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def compare(*path: Path) -> None:
        for place in reversed(path):
            monkeypatch.syspath_prepend(str(place))
        for group in ("acme", "acme.more", " acme", "console_scripts", *plugins_of_this_project()):
            assert known(group) == sorted({(one.name, one.value) for one in entry_points(group=group)}), group

    return compare


def plugins_of_this_project() -> tuple[str, ...]:
    return ("rldoctor.checks", "rldoctor.probes", "pytest11")


def test_in_folders_of_the_path(tmp_path: Path, as_python_reads: Callable[..., None]) -> None:
    install(tmp_path / "first", DISTRIBUTIONS)
    install(tmp_path / "second", {"plain-2.0.dist-info": "[acme]\nlater = acme.later\n"})
    as_python_reads(tmp_path / "first", tmp_path / "second", tmp_path / "absent")
    assert ("one", "acme.one") in known("acme") and ("later", "acme.later") not in known("acme")


def test_in_an_archive(tmp_path: Path, as_python_reads: Callable[..., None]) -> None:
    install(tmp_path / "unpacked", {"plain-1.0.dist-info": PLAIN})
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        for file in (tmp_path / "unpacked").rglob("*"):
            archive.write(file, file.relative_to(tmp_path / "unpacked"))
    as_python_reads(tmp_path / "packed.zip")
    assert ("one", "acme.one") in known("acme")


def test_in_the_folder_one_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, {"plain-1.0.dist-info": PLAIN})
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    assert ("one", "acme.one") in known("acme")


def test_beside_a_file_that_nobody_may_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, {"plain-1.0.dist-info": PLAIN, "torn-1.0.dist-info": None})
    (tmp_path / "torn-1.0.dist-info" / plugins.FILE).mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert ("one", "acme.one") in known("acme")


@pytest.mark.parametrize(
    ("value", "module"),
    [
        ("acme", "acme"),
        ("acme.doctor", "acme.doctor"),
        ("acme.doctor:check", "acme.doctor"),
        ("acme : check [extra]", "acme"),
        ("no module!", None),
        ("", None),
    ],
)
def test_the_module_that_one_names(value: str, module: str | None) -> None:
    assert plugins.Entry("name", value, "group").module == module
