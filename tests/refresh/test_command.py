"""The one command that refreshes every table of a package."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from rldoctor import cli
from rldoctor.frameworks.layouts import covered, file_of
from rldoctor.refresh import command, options
from rldoctor.refresh.releases import Publications
from rldoctor.tables import declarations, registries
from tests.served import Serve


def test_a_package_without_tables_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["flask"]) == 2
    assert "flask: no table speaks about it; they cover accelerate" in capsys.readouterr().err


def test_an_index_that_does_not_answer_leaves_every_table_as_it_was(serve: Serve, tmp_path: Path) -> None:
    before = {file: file.read_bytes() for file in (registries.TABLE, file_of("vllm"))}
    said: list[str] = []
    assert not command.refresh("vllm", Publications(tmp_path, f"{serve().address}/nowhere"), said.append)
    read = [line.partition(": ")[0] for line in said[:5]]
    assert read == [f"vllm, {table}" for table in ("declarations", "frames", "messages", "options", "registries")]
    assert all("404" in line for line in said[:3])
    assert {file: file.read_bytes() for file in before} == before


def test_what_was_fetched_goes_with_the_command(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    nowhere = f"{serve().address}/nowhere"
    assert command.main(["torchvision", "--index", nowhere]) == 2  # few tables speak about it
    with pytest.raises(SystemExit):
        cli.main(["compat", "peft", "--refresh", "--index", nowhere])
    assert list(tmp_path.iterdir()) == []


def test_known_defects_that_the_newest_release_may_have_are_for_a_person_to_judge() -> None:
    questions = list(command.to_judge("vllm"))
    newest = next(r.version for r in reversed(declarations.releases("vllm")) if r.final)
    assert questions and all(f"does {newest} still have" in question for question in questions)


def test_every_table_says_what_it_covers() -> None:
    assert set(options.COVERED) == set(covered())
