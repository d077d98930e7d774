"""What tells one model's files from another's."""

from __future__ import annotations

from pathlib import Path

from rldoctor.facts import fingerprints


def test_the_same_content_has_the_same_hash_wherever_it_lies(tmp_path: Path) -> None:
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.json").write_text('{"model_type": "qwen2"}')
    assert fingerprints.of(tmp_path / "one") == fingerprints.of(tmp_path / "other")
    (tmp_path / "other/config.json").write_text('{"model_type": "qwen3"}')
    assert fingerprints.of(tmp_path / "one") != fingerprints.of(tmp_path / "other")


def test_a_large_file_is_told_by_its_length_and_by_pieces_of_it(tmp_path: Path) -> None:
    def sparse(name: str, size: int, at: int, content: bytes) -> str:
        with (tmp_path / name).open("wb") as opened:
            opened.truncate(size)
            opened.seek(at)
            opened.write(content)
        return fingerprints.of(tmp_path)[name]

    size = fingerprints.WHOLE + (1 << 20)
    first = sparse("a.safetensors", size, 0, b"header")
    assert first == sparse("b.safetensors", size, 0, b"header")
    assert first != sparse("c.safetensors", size + 1, 0, b"header")
    assert first != sparse("d.safetensors", size, 0, b"another header")
    assert first != sparse("e.safetensors", size, size - 9, b"other end")


def test_the_hubs_cache_names_its_files_by_their_hash(tmp_path: Path) -> None:
    name = "ab" * 32
    (tmp_path / name).write_text("weights")
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot/model.safetensors").symlink_to(tmp_path / name)
    assert fingerprints.of(tmp_path / "snapshot") == {"model.safetensors": name[:16]}


def test_what_is_not_there_has_none(tmp_path: Path) -> None:
    (tmp_path / "gone.bin").symlink_to(tmp_path / "nowhere")
    assert fingerprints.of(tmp_path) == {}
    assert fingerprints.of(tmp_path / "nowhere") == {}
