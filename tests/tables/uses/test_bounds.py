"""The releases that have what another package imports, as computed from the sources of both."""

from __future__ import annotations

import pytest

from rldoctor.tables.uses import Table
from rldoctor.tables.uses.bounds import bounds


@pytest.mark.parametrize(
    ("package", "version", "expected"),
    [
        ("trl", "0.19.1", {"transformers>=4.50", "vllm>=0.6.4", "vllm<0.12"}),  # GuidedDecodingParams
        ("trl", "1.11.0", {"vllm>=0.17", "vllm<0.28"}),  # NCCLTrainerSendWeightsArgs
        (
            "verl",
            "0.6.1",
            {"transformers<5.0", "vllm>=0.6.5", "vllm<0.13"},
        ),  # vllm.lora.models, and a worker that it finds in two places
        ("verl", "0.9.1", set()),
        ("trl", "99.0", set()),
        ("flask", "3.0", set()),
    ],
)
def test_ends(package: str, version: str, expected: set[str]) -> None:
    assert {f"{end.package}{end.specifier}" for end in bounds(package, version)} == expected


def test_an_end_names_what_is_missing_and_where() -> None:
    _, end = [one for one in bounds("trl", "0.19.1") if one.package == "vllm"]
    assert (end.name, end.lacks) == ("vllm.sampling_params.GuidedDecodingParams", "0.12.0")


def test_the_tables_behind_them() -> None:
    table = Table.load("trl")
    assert ("vllm.sampling_params", "GuidedDecodingParams") in table.of("0.19.1")
    assert table.of("99.0") == ()
