"""What one distribution's metadata says, whole or damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rldoctor.facts.metadata import editable_tree, read_headers, split_name


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("torch-2.13.0+cpu.dist-info", ("torch", "2.13.0+cpu")),
        ("ms_swift-3.9.1.dist-info", ("ms_swift", "3.9.1")),
        ("old-style-name-1.0.dist-info", ("old-style-name", "1.0")),
        ("vllm.dist-info", ("vllm", "")),
        ("verl.egg-info", ("verl", "")),
        ("PyYAML-5.3.1.egg-info", ("PyYAML", "5.3.1")),
        ("apex-0.1-py3.11.egg-info", ("apex", "0.1")),
        ("flash_attn-2.5.8-py3.11-linux-x86_64.egg", ("flash_attn", "2.5.8")),
        ("develop-py3.11.egg", ("develop", "")),
    ],
)
def test_names_carry_the_version(entry: str, expected: tuple[str, str]) -> None:
    assert split_name(entry) == expected


def test_headers_are_read_up_to_the_description(tmp_path: Path) -> None:
    (tmp_path / "METADATA").write_bytes(
        b"Metadata-Version: 2.1\r\nName: trl\r\nVersion: 0.24.0\r\nLicense: Apache\r\n        Version: of 2004\r\n"
        b"Requires-Python: >=3.9\r\nRequires-Dist: accelerate>=1.4.0\r\nRequires-Dist: vllm<0.12; extra == 'vllm'\r\n"
        b"\r\nRequires-Dist: not-a-header\r\n"
    )
    headers = read_headers(tmp_path)
    assert (headers.name, headers.version, headers.requires_python) == ("trl", "0.24.0", ">=3.9")
    assert headers.requires == ("accelerate>=1.4.0", "vllm<0.12; extra == 'vllm'")
    assert headers.damage is None


def test_headers_longer_than_one_read(tmp_path: Path) -> None:
    many = "".join(f"Requires-Dist: package-{i}>={i}.0\n" for i in range(3000))
    (tmp_path / "METADATA").write_text(f"Name: big\nVersion: 1\n{many}\nprose\n")
    assert len(read_headers(tmp_path).requires) == 3000


def test_requirements_of_an_egg_info_stand_in_a_file_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "PKG-INFO").write_text("Name: verl\nVersion: 0.5.0\n")
    (tmp_path / "requires.txt").write_text(
        'ray>=2.41\ntensordict<=0.6.2\n\n[vllm]\nvllm<=0.8.5\n\n[:python_version < "3.11"]\ntomli\n\n'
        '[gpu:platform_machine == "x86_64"]\nliger-kernel\n'
    )
    assert read_headers(tmp_path).requires == (
        "ray>=2.41",
        "tensordict<=0.6.2",
        'vllm<=0.8.5 ; extra == "vllm"',
        'tomli ; (python_version < "3.11")',
        'liger-kernel ; (platform_machine == "x86_64") and extra == "gpu"',
    )


def test_an_egg_info_may_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "apex-0.1-py3.11.egg-info"
    file.write_text("Metadata-Version: 1.0\nName: apex\nVersion: 0.1\n")
    assert read_headers(file).version == "0.1"


@pytest.mark.parametrize(
    ("content", "damage"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"\x00\xff\xfe" * 1000, "holds no name"),
        (b"Version: 1.0\n", "holds no name"),
    ],
)
def test_damage_is_named(tmp_path: Path, content: bytes, damage: str) -> None:
    (tmp_path / "METADATA").write_bytes(content)
    assert read_headers(tmp_path).damage == f"{tmp_path / 'METADATA'} {damage}"


def test_missing_and_unreadable_metadata(tmp_path: Path) -> None:
    assert read_headers(tmp_path).damage == f"{tmp_path} holds no METADATA"
    (tmp_path / "METADATA").symlink_to(tmp_path / "METADATA")
    assert "cannot be read: Too many levels" in (read_headers(tmp_path).damage or "")


@pytest.mark.parametrize(
    ("content", "tree"),
    [
        ({"url": "file:///src/my%20verl", "dir_info": {"editable": True}}, "/src/my verl"),
        ({"url": "file:///src/verl", "dir_info": {}}, None),
        ({"url": "https://github.com/volcengine/verl", "vcs_info": {"vcs": "git"}}, None),
        (["nonsense"], None),
        ({"url": 3, "dir_info": {"editable": True}}, None),
    ],
)
def test_editable_installs_name_their_tree(tmp_path: Path, content: object, tree: str | None) -> None:
    (tmp_path / "direct_url.json").write_text(json.dumps(content))
    assert editable_tree(tmp_path) == tree


@pytest.mark.parametrize(
    "content", [b"\x00{", b"", b"[" * 100_000, b'{"url": "file://", "dir_info": {"editable": true}}']
)
def test_an_origin_that_says_nothing_is_no_editable_install(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "direct_url.json").write_bytes(content)
    assert editable_tree(tmp_path) is None
