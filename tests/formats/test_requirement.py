"""Requirements as they are declared, against packaging itself."""

from __future__ import annotations

import pytest
from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Read

from rldoctor.formats.requirement import requirement
from rldoctor.knowledge.packages import PACKAGES
from rldoctor.tables import declarations

LINUX = {
    "python_version": "3.11",
    "python_full_version": "3.11.7",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "os_name": "posix",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
    "extra": "",
}
ENVIRONMENTS = [
    LINUX,
    {**LINUX, "extra": "vllm"},
    {**LINUX, "extra": "flash-attn", "platform_machine": "aarch64"},
    {**LINUX, "python_version": "3.9", "python_full_version": "3.9.2", "sys_platform": "darwin"},
]


def declared() -> set[str]:
    return {line for name in PACKAGES for release in declarations.releases(name) for line in release.requires}


def differs(line: str) -> bool:
    """Whether a line is read otherwise than packaging reads it."""
    try:
        read = Read(line)
    except InvalidRequirement:
        return requirement(line) is not None
    found = requirement(line)
    return (
        found is None
        or (found.bounds, found.url) != (str(read.specifier), read.url)
        or any(found.holds(one) != (read.marker is None or read.marker.evaluate(dict(one))) for one in ENVIRONMENTS)
    )


def test_what_packages_declare_is_read_as_packaging_reads_it() -> None:
    lines = declared()
    assert len(lines) > 1000
    assert [line for line in sorted(lines) if differs(line)] == []


@pytest.mark.parametrize(
    "line",
    [
        "torch",
        "torch ==2.8.0",
        "ray[cgraph]!=2.44.*,>=2.43.0",
        "vllm <=0.8.5 ; extra == 'vllm'",
        'flash_attn; extra == "Flash_Attn"',
        'xgrammar==0.1.25; platform_machine == "x86_64" or platform_machine == "aarch64" and extra == "vllm"',
        'tomli>=2; python_version < "3.11" and sys_platform == "linux"',
        "vllm @ https://example.org/vllm-0.11.0-cp38-abi3-linux_x86_64.whl",
        "torch (>=2.0)",
        "torch~=2.0",
        "torch>=2.*",
        "torch==2.0+cu118",
        "torch===2.0",
        "torch>=nightly",
        "torch>",
        "-torch",
        'torch; extra == "a" or',
        'torch; (extra == "vllm")',
        "torch; vllm",
        "",
    ],
)
def test_what_is_not_plain_is_read_by_packaging(line: str) -> None:
    assert not differs(line)
