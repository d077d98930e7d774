"""Where log bytes come from: compression, encodings, folders, and what cannot be read."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from rldoctor.errors import InputError
from rldoctor.logs import sources
from rldoctor.logs.encodings import detect, text_of
from rldoctor.logs.folders import log_files
from rldoctor.logs.sources import BLOCK, Source, sources_of

TEXT = "first line\nValueError: größer als 4096\nlast line\n"


def content(path: Path) -> str:
    source = Source(str(path), path)
    return b"".join(block.data for block in source.blocks()).decode("utf-8", "replace")


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_compressed_files_are_recognised_by_their_bytes(tmp_path: Path, pack: object) -> None:
    file = tmp_path / "run.log"
    file.write_bytes(pack(TEXT.encode()))  # type: ignore[operator]
    assert content(file) == TEXT


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
)
def test_unicode_encodings_with_and_without_a_mark(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "run.log"
    file.write_bytes((TEXT * 3).encode(encoding))
    assert content(file).lstrip("﻿") == TEXT * 3


def test_utf_16_full_of_box_drawing_is_still_utf_16() -> None:
    assert (
        detect(("│ What is 2+2? │ The answer is 4 │\n├──────────────┼──────┤\n" * 50).encode("utf-16-le"))
        == "utf-16-le"
    )


def test_other_single_byte_text_is_shown_as_latin_1() -> None:
    assert text_of("größer".encode("latin-1")) == "größer"
    assert text_of("größer\x00".encode()) == "größer"
    assert text_of("文件不存在 ".encode() + b"\xff") == "文件不存在 �"


def test_a_truncated_archive_gives_what_it_has_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "run.log.gz"
    lines = "".join(f"line {i} {i * i}\n" for i in range(20_000))
    file.write_bytes(gzip.compress(lines.encode())[:-200])
    source = Source(str(file), file)
    got = b"".join(block.data for block in source.blocks())
    assert got and lines.encode().startswith(got)
    assert source.partial == "the compressed file is truncated"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty"),
        (b"\n \n\x00\n", "is empty"),
        (b"\x7fELF\x02\x01\x01" + bytes(100), "a program or library"),
        (b"PK\x03\x04" + bytes(range(256)) * 20, "a zip archive"),
        (bytes(range(256)) * 40, "binary data"),
        (gzip.compress(b"a\x00\x01\x02\x03\x04\x05\x06" * 500), "binary data"),
        (b"\x28\xb5\x2f\xfd\x00", "zstd"),
    ],
    # A packed file holds the time of packing: the workers of a parallel run would see different names.
    ids=["empty", "blank", "elf", "zip", "binary", "packed binary", "zstd"],
)
def test_what_is_no_text_is_one_clear_line(
    tmp_path: Path, data: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_ZSTD_MODULES", ())
    file = tmp_path / "run.log"
    file.write_bytes(data)
    with pytest.raises(InputError, match=why) as caught:
        content(file)
    assert "\n" not in str(caught.value)
    assert str(file) in str(caught.value)


def test_only_what_takes_long_is_announced(tmp_path: Path) -> None:
    with (tmp_path / "short.log").open("w") as short, (tmp_path / "long.log").open("w") as long:
        short.truncate(1 << 20)
        long.truncate(1 << 30)
    announced = [name for name in ("short.log", "long.log") if Source(name, tmp_path / name).takes_long()]
    assert announced == ["long.log"]
    assert Source("standard input").takes_long()


def test_a_hole_at_the_beginning_of_a_rotated_file_is_read_over(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    file.write_bytes(bytes(200_000) + TEXT.encode())
    assert content(file).endswith(TEXT)


def test_a_hole_of_any_size_takes_no_time(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    with path.open("wb") as log:
        log.seek(1 << 39)
        log.write(b"ValueError: x\n")
        log.truncate(1 << 40)
    blocks = [*Source(str(path), path).blocks()]
    assert len(blocks) < 8 and b"ValueError: x\n" in b"".join(block.data for block in blocks)


def test_a_line_without_an_end_comes_in_pieces_that_overlap(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    file.write_bytes(b"x" * (3 * BLOCK) + b"CUDA out of memory" + b"y" * BLOCK)
    blocks = list(Source(str(file), file).blocks())
    assert max(len(block.data) for block in blocks) <= 2 * BLOCK + sources.OVERLAP
    assert any(b"CUDA out of memory" in block.data for block in blocks)
    assert all(later.offset <= earlier.offset + len(earlier.data) for earlier, later in pairwise(blocks))


def test_progress_bars_without_line_ends_are_cut_at_carriage_returns(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    file.write_bytes(b"".join(b"\r %d%%|###| %d/100 [00:01<00:01]" % (i % 100, i) for i in range(200_000)))
    assert all(len(block.data) <= 2 * BLOCK for block in Source(str(file), file).blocks())


def test_a_file_that_grows_is_read_to_where_it_is_and_called_partial(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    file.write_bytes(TEXT.encode() * 100_000)
    source = Source(str(file), file)
    for block in source.blocks():
        if block.offset == 0:
            with file.open("ab") as more:
                more.write(b"another line\n")
    assert source.partial == "the file changed while it was read"


def test_folders_hold_rank_files_in_natural_order(tmp_path: Path) -> None:
    for name in ("rank_10.log", "rank_9.log", "config.yaml", "model.safetensors", "events.out.tfevents.1"):
        (tmp_path / name).write_text("x\n")
    deep = tmp_path / "run" / "attempt_0" / "3"
    deep.mkdir(parents=True)
    (deep / "stderr.log").write_text("x\n")
    (deep / "rank_10_again.log").symlink_to(tmp_path / "rank_10.log")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    found, notes = sources_of([str(tmp_path)])
    assert [Path(s.name).name for s in found] == ["rank_9.log", "rank_10.log", "stderr.log"]
    assert [s.origin.rank for s in found] == ["9", "10", "3"]
    assert notes == []


@pytest.mark.parametrize(
    ("path", "rank", "actor", "pid", "node"),
    [
        ("attempt_0/5/stdout.log", "5", None, None, None),
        ("logs/global_rank-12.txt", "12", None, None, None),
        ("node_2/rank3.log", "3", None, None, "node_2"),
        ("7.log", "7", None, None, None),
        ("worker-0123456789abcdef0123456789-01000000-4711.err", None, "worker", "4711", None),
        ("raylet.out", None, "raylet", None, None),
        ("train.log", None, None, None, None),
        ("rankings.txt", None, None, None, None),
    ],
)
def test_file_names_tell_the_process(
    path: str, rank: str | None, actor: str | None, pid: str | None, node: str | None
) -> None:
    from rldoctor.logs.paths import origin_of

    origin = origin_of(path)
    assert (origin.rank, origin.actor, origin.pid, origin.node) == (rank, actor, pid, node)


def test_torchelastic_error_files_are_read_as_the_traceback_they_hold(tmp_path: Path) -> None:
    folder = tmp_path / "attempt_0" / "1"
    folder.mkdir(parents=True)
    said = {
        "message": "KeyError: 1",
        "extraInfo": {"py_callstack": "Traceback\nKeyError: 1\n", "timestamp": "1763671743"},
    }
    (folder / "error.json").write_text(json.dumps({"message": said}))
    found, _ = sources_of([str(tmp_path)])
    assert found[0].origin.rank == "1"
    assert b"".join(b.data for b in found[0].blocks()).decode().splitlines()[1].endswith("| KeyError: 1")


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        sources_of([str(tmp_path / "nothing.log")])
    with pytest.raises(InputError, match="holds no log files"):
        sources_of([str(tmp_path)])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="neither a file nor a folder"):
        list(Source(str(pipe), pipe).blocks())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    file.write_text(TEXT)
    file.chmod(0)
    with pytest.raises(InputError, match="Permission denied"):
        content(file)


class _Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert b"".join(b.data for b in sources_of(["-"])[0][0].blocks()).decode() == TEXT
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(_Terminal()))
    with pytest.raises(InputError, match="is a terminal"):
        list(_blocks())


def _blocks() -> Iterator[object]:
    yield from sources_of(["-"])[0][0].blocks()


def test_a_link_to_a_name_that_no_file_can_have_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "b.log").write_text("step 1\n")
    (tmp_path / "a.log").symlink_to("x" * 300)
    found, notes = log_files(tmp_path)
    assert [path.name for path in found] == ["b.log"] and notes == []


def test_links_out_of_a_folder_of_logs_are_not_followed(tmp_path: Path) -> None:
    """Upwards, to the system, to what is hidden: the folder may be a stranger's. Sideways lies another run."""
    run, other = tmp_path / "run", tmp_path / "other"
    for folder in (run, other, tmp_path / ".ssh"):
        folder.mkdir()
        (folder / f"{folder.name}_log").write_text("step 1\n")
    for name, target in {
        "up": tmp_path,
        "root": Path("/"),
        "etc": Path("/etc"),
        "key": tmp_path / ".ssh/.ssh_log",
        "side": other,
    }.items():
        (run / name).symlink_to(target)
    found, notes = log_files(run)
    assert sorted(path.name for path in found) == ["other_log", "run_log"]
    assert len(notes) == 1 and notes[0].endswith("leads upwards, to the system or to what is hidden, not followed")


@pytest.mark.parametrize("folder", ["/", "/usr", "/proc", "/proc/self", "/dev", "//usr/../usr"])
def test_a_folder_of_the_system_is_no_run(folder: str) -> None:
    with pytest.raises(InputError, match="is a folder of the system: name the one that holds the logs of the run"):
        sources_of([folder])


def test_what_is_installed_below_a_run_is_no_log(tmp_path: Path) -> None:
    for name in ("run.log", ".venv/lib/site-packages/x/LICENSE", ".git/HEAD", "node_modules/a/README", "logs/rank0"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("step 1\n")
    found, notes = log_files(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in found] == ["run.log", "logs/rank0"] and notes == []
