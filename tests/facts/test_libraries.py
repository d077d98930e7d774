"""Native libraries: the age of the system's C++ runtime, and what stands in front of a wheel's own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rldoctor.facts.libraries import in_front, libc_version, newest_glibcxx


def test_the_newest_symbol_version_is_the_greatest_number(tmp_path: Path) -> None:
    directory = tmp_path / "usr/lib64"
    directory.mkdir(parents=True)
    (directory / "libstdc++.so.6").write_bytes(b"\x7fELF\0GLIBCXX_3.4.9\0GLIBCXX_3.4.30\0GLIBCXX_3.4\0GLIBCXX_LDBL\0")
    assert newest_glibcxx(tmp_path) == "3.4.30"


def test_no_library_or_an_empty_one_is_no_answer(tmp_path: Path) -> None:
    assert newest_glibcxx(tmp_path) is None
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libstdc++.so.6").touch()
    assert newest_glibcxx(tmp_path) is None


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is Linux's")
def test_this_machine_has_versions() -> None:
    assert (libc_version() or "glibc").startswith("glibc")
    assert (newest_glibcxx() or "3.4").startswith("3.4")


def test_runtime_libraries_in_front_are_listed_in_the_loaders_order(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for directory, names in (
        (first, ["libnccl.so.2.19.3"]),
        (second, ["libnccl.so.2", "libcudnn.so.9", "libfoo.so.1"]),
    ):
        directory.mkdir()
        for name in names:
            (directory / name).touch()
    (first / "libnccl.so.2").symlink_to("libnccl.so.2.19.3")
    environ = {"LD_LIBRARY_PATH": f"{first}:/no/such/directory::{second}"}
    assert in_front(environ) == {
        str(first / "libnccl.so.2"): str(first / "libnccl.so.2.19.3"),
        str(second / "libcudnn.so.9"): str(second / "libcudnn.so.9"),
    }
    preloaded = in_front({**environ, "LD_PRELOAD": f"{second / 'libnccl.so.2'} /lib/libjemalloc.so.2"})
    assert list(preloaded) == [str(second / "libnccl.so.2"), str(second / "libcudnn.so.9")]


def test_nothing_set_is_nothing_in_front() -> None:
    assert in_front({}) == {}
