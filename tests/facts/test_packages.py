"""What an interpreter would import: order, duplicates, editable installs, forks, damage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rldoctor.case import Packages
from rldoctor.case.lookup import canonical, find, find_all
from rldoctor.catalogue.probe import Request
from rldoctor.facts import interpreter, packages

MakeDist = Callable[..., Path]


def read(*path: Path) -> Packages:
    distributions, broken = packages.read(tuple(map(str, path)))
    return Packages(python="3.11", distributions=distributions, broken=broken)


def test_this_environment_is_what_importlib_says() -> None:
    from importlib.metadata import distributions

    ours = {(d.name, d.version) for d in packages.collect(Request()).distributions}
    for distribution in distributions(path=list(interpreter.this_one().path)):
        assert (canonical(distribution.metadata["Name"]), distribution.version) in ours


def test_declarations_are_read_for_those_that_matter(tmp_path: Path, dist_info: MakeDist) -> None:
    dist_info(tmp_path, "trl", "0.24.0", ["vllm<0.12; extra == 'vllm'"])
    dist_info(tmp_path, "aiohttp", "3.9.0", ["yarl"])
    found = read(tmp_path)
    trl, aiohttp = find(found, "trl"), find(found, "aiohttp")
    assert trl is not None and trl.requires == ("vllm<0.12; extra == 'vllm'",) and trl.requires_python == ">=3.9"
    assert aiohttp is not None and aiohttp.version == "3.9.0" and aiohttp.requires == ()
    assert trl.location == str(tmp_path)


def test_the_first_on_the_path_is_imported(tmp_path: Path, dist_info: MakeDist) -> None:
    dist_info(tmp_path / "user", "torch", "2.6.0")
    dist_info(tmp_path / "site", "torch", "2.7.0")
    (tmp_path / "lib64").symlink_to(tmp_path / "site")
    found = read(tmp_path / "missing", tmp_path / "user", tmp_path / "site", tmp_path / "lib64")
    assert [(d.version, d.location) for d in find_all(found, "torch")] == [
        ("2.6.0", str(tmp_path / "user")),
        ("2.7.0", str(tmp_path / "site")),
    ]


@pytest.mark.parametrize("imported", ["2.6.0", "2.7.0"])
def test_of_two_in_one_directory_that_which_fits_the_files_comes_first(
    tmp_path: Path, dist_info: MakeDist, imported: str
) -> None:
    leftover = "2.7.0" if imported == "2.6.0" else "2.6.0"
    same = {"torch/a.py": "a", "torch/b.py": "bb"}
    dist_info(tmp_path, "torch", leftover, module={**same, "torch/version.py": "old contents", "torch/orphan.py": "o"})
    dist_info(tmp_path, "torch", imported, module={**same, "torch/version.py": "new"})
    os.utime(tmp_path / f"torch-{imported}.dist-info", (0, 0))  # the leftover was touched later, which says nothing
    assert [d.version for d in find_all(read(tmp_path), "torch")] == [imported, leftover]


def test_a_leftover_without_metadata_comes_last_and_says_so(tmp_path: Path, dist_info: MakeDist) -> None:
    (tmp_path / "vllm-0.9.1.dist-info").mkdir()
    dist_info(tmp_path, "vllm", "0.8.5")
    os.utime(tmp_path / "vllm-0.8.5.dist-info", (0, 0))
    first, second = find_all(read(tmp_path), "vllm")
    assert (first.version, first.damage) == ("0.8.5", None)
    assert (second.version, second.damage) == ("0.9.1", f"{tmp_path / 'vllm-0.9.1.dist-info'} holds no METADATA")


def test_a_name_that_is_no_text_is_passed_over(tmp_path: Path, dist_info: MakeDist) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9-1.0.dist-info")).mkdir()
    dist_info(tmp_path, "torch", "2.7.0")
    assert [d.name for d in read(tmp_path).distributions] == ["torch"]


def test_pip_leftovers_with_a_tilde_are_no_distributions(tmp_path: Path, dist_info: MakeDist) -> None:
    dist_info(tmp_path, "torch", "2.7.0").rename(tmp_path / "~orch-2.7.0.dist-info")
    assert read(tmp_path).distributions == ()


def test_a_version_that_cannot_be_reported_is_not_made_up(tmp_path: Path, dist_info: MakeDist) -> None:
    empty = tmp_path / "ray.dist-info"
    empty.mkdir()
    odd = dist_info(tmp_path, "deepspeed", "unknown")
    dist_info(tmp_path, "transformers", "5.0.0")
    (tmp_path / "transformers.egg-info").mkdir()
    found = read(tmp_path)
    assert [d.name for d in found.distributions] == ["transformers"]
    assert found.broken == {
        "ray": f"{empty} holds no METADATA",
        "deepspeed": f"{odd} gives 'unknown' as its version",
    }


def test_the_metadata_is_believed_over_the_directory(tmp_path: Path, dist_info: MakeDist) -> None:
    dist_info(tmp_path, "torch", "2.7.0+cu128").rename(tmp_path / "torch-2.7.0.dist-info")
    assert [d.version for d in read(tmp_path).distributions] == ["2.7.0+cu128"]


@pytest.mark.parametrize(("recorded", "on_path"), [("src", "src"), ("linked", "src"), ("src", "linked")])
def test_an_editable_install_is_its_tree_once(tmp_path: Path, dist_info: MakeDist, recorded: str, on_path: str) -> None:
    tree = tmp_path / "src" / "trl"
    (tree / "trl.egg-info").mkdir(parents=True)
    (tree / "trl.egg-info" / "PKG-INFO").write_text("Name: trl\nVersion: 0.19.0\n")
    info = dist_info(tmp_path / "site", "trl", "0.24.0")
    origin = {"url": (tmp_path / recorded / "trl").as_uri(), "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(origin))
    (tmp_path / "linked").symlink_to(tmp_path / "src")
    (found,) = find_all(read(tmp_path / "site", tmp_path / on_path / "trl"), "trl")
    assert (found.version, found.editable) == ("0.24.0", str(tmp_path / recorded / "trl"))


def test_a_source_tree_on_the_path_in_front_of_an_install_is_a_second_one(tmp_path: Path, dist_info: MakeDist) -> None:
    (tmp_path / "trl.egg-info").mkdir()
    (tmp_path / "trl.egg-info" / "PKG-INFO").write_text("Name: trl\nVersion: 0.19.0\n")
    dist_info(tmp_path / "site", "trl", "0.24.0")
    assert [d.version for d in find_all(read(tmp_path, tmp_path / "site"), "trl")] == ["0.19.0", "0.24.0"]


def test_an_install_by_setup_py_develop_is_editable(tmp_path: Path) -> None:
    site, tree = tmp_path / "site", tmp_path / "swift"
    site.mkdir()
    (tree / "ms_swift.egg-info").mkdir(parents=True)
    (tree / "ms_swift.egg-info" / "PKG-INFO").write_text("Name: ms_swift\nVersion: 3.9.0.dev0\n")
    (site / "ms-swift.egg-link").write_text(f"{tree}\n.")
    (found,) = read(site, tree).distributions
    assert (found.name, found.version, found.editable) == ("ms-swift", "3.9.0.dev0", str(tree))


def test_an_old_style_egg_on_the_path(tmp_path: Path) -> None:
    egg = tmp_path / "flash_attn-2.5.8-py3.11-linux-x86_64.egg"
    (egg / "EGG-INFO").mkdir(parents=True)
    (egg / "EGG-INFO" / "PKG-INFO").write_text("Name: flash-attn\nVersion: 2.5.8\n")
    (egg / "EGG-INFO" / "requires.txt").write_text("torch\neinops\n")
    (found,) = read(tmp_path, egg).distributions
    assert (found.name, found.version, found.requires) == ("flash-attn", "2.5.8", ("torch", "einops"))


def test_easyr1_is_reported_from_verl_by_its_trainer(tmp_path: Path, dist_info: MakeDist) -> None:
    dist_info(tmp_path / "easyr1", "verl", "0.3.2", module={"verl/trainer/main.py": "", "verl/trainer/config.py": ""})
    dist_info(tmp_path / "verl", "verl", "0.5.0", module={"verl/trainer/main_ppo.py": ""})
    assert [(d.name, d.version) for d in read(tmp_path / "easyr1", tmp_path / "verl").distributions] == [
        ("easyr1", "0.3.2"),
        ("verl", "0.5.0"),
    ]


def test_zip_files_hooks_and_nonsense_on_the_path_are_passed_over(tmp_path: Path, dist_info: MakeDist) -> None:
    (tmp_path / "python311.zip").write_bytes(b"PK")
    dist_info(tmp_path / "site", "torch", "2.7.0")
    path = (str(tmp_path / "python311.zip"), "__editable__.x.finder.__path_hook__", "a\0b", str(tmp_path / "site"))
    assert [d.name for d in packages.read(path)[0]] == ["torch"]


def test_what_lies_in_an_archive_is_installed(tmp_path: Path, dist_info: MakeDist) -> None:
    """Python imports from an archive on the path as from a folder."""
    with zipfile.ZipFile(tmp_path / "site.zip", "w") as archive:
        archive.writestr("trl-0.20.0.dist-info/METADATA", "Name: trl\nVersion: 0.20.0\n")
        archive.writestr("trl/__init__.py", "")
    with zipfile.ZipFile(tmp_path / "vllm-0.12.0-py3.11.egg", "w") as archive:
        archive.writestr("EGG-INFO/PKG-INFO", "Name: vllm\nVersion: 0.12.0\n")
    dist_info(tmp_path / "site", "torch", "2.7.0")
    found = read(tmp_path / "site.zip", tmp_path / "vllm-0.12.0-py3.11.egg", tmp_path / "site")
    assert [(d.name, d.version, Path(d.location).name) for d in found.distributions] == [
        ("trl", "0.20.0", "site.zip"),
        ("vllm", "0.12.0", "vllm-0.12.0-py3.11.egg"),
        ("torch", "2.7.0", "site"),
    ]


def test_another_interpreters_real_environment(tmp_path: Path, dist_info: MakeDist) -> None:
    directory = tmp_path / "venv"
    venv.create(directory, with_pip=False)
    python = directory / "bin" / "python"
    site = next(directory.glob("lib/python*/site-packages"))
    dist_info(site, "vllm", "0.9.1", ["torch==2.7.0"])
    dist_info(site, "vllm", "0.8.5")
    (site / "vllm-0.8.5.dist-info" / "METADATA").write_bytes(b"")
    found = packages.collect(Request(python=python))
    assert found.executable == str(python) and found.prefix == str(directory) and found.complete
    assert [d.version for d in find_all(found, "vllm")] == ["0.9.1", "0.8.5"]
    assert find(found, "pytest") is None


@pytest.mark.parametrize("pythonpath", [True, False])
def test_pythonpath_comes_before_the_site_directory(tmp_path: Path, dist_info: MakeDist, pythonpath: bool) -> None:
    dist_info(tmp_path, "torch", "1.0.0")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path) if pythonpath else ""}
    request = Request(python=Path(sys.executable), environ=environ)
    assert (find(packages.collect(request), "torch") is not None) == pythonpath


def test_the_scan_reads_few_files(tmp_path: Path, dist_info: MakeDist) -> None:
    """A hundred and fifty distributions cost little because only what matters is opened."""
    for i in range(150):
        dist_info(tmp_path, f"package_{i}", "1.0")
        (tmp_path / f"package_{i}-1.0.dist-info" / "METADATA").unlink()
    program = (
        "import sys\n"
        "opened = []\n"
        "from rldoctor.facts import packages\n"
        "sys.addaudithook(lambda name, args: name == 'open' and opened.append(str(args[0])))\n"
        f"found = packages.read(({str(tmp_path)!r},))[0]\n"
        "print(len(found), sum(name.endswith('METADATA') for name in opened))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["150", "0"]
