"""A case survives its journey through JSON, and what is no bundle is refused in one line."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from rldoctor import bundle
from rldoctor.api import Case, Unknown
from rldoctor.api.facts import Distribution, Gpu, Gpus, Packages, Series
from rldoctor.case import SCHEMA_VERSION
from rldoctor.errors import InputError

CASE = Case(
    tool="rldoctor 0.1.0",
    packages=Packages(python="3.12.1", distributions=(Distribution(name="vllm", version="0.11.0", requires=("ray",)),)),
    gpus=Gpus(vendor="nvidia", driver="580.65", devices=(Gpu(index=0, name="H200", memory_total=150754820096),)),
    environment={"CUDA_VISIBLE_DEVICES": "0,1"},
    observations={"rollout": {"rollout": {"ended": "done", "records": {"logprobs": [-0.5, None]}}}},
    unknown={"host": Unknown(reason="another machine", how="run it there")},
)


def test_metrics_keep_nan_and_infinities() -> None:
    values = (0.5, math.nan, math.inf, -math.inf)
    case = Case(metrics={"loss": Series(key="loss", steps=(1, 2, 3, 4), values=values)})
    again = bundle.parse(bundle.dump(case).encode(), "case.json").metrics
    assert again is not None and repr(again["loss"].values) == repr(values)


def test_round_trip(tmp_path: Path) -> None:
    file = tmp_path / "case.json"
    file.write_text(bundle.dump(CASE))
    assert bundle.load(file) == CASE


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not valid JSON"),
        (b'{"schema_version": 1, "packages": {', "not valid JSON"),
        (b"\x00\xff\xfe binary", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[1, 2]", "no schema_version"),
        (b'{"schema_version": true}', "no schema_version"),
        (b'{"schema_version": -1}', "no schema_version"),
        (json.dumps({"schema_version": SCHEMA_VERSION + 1}).encode(), "is newer than"),
        (b'{"schema_version": 1, "packages": {"python": 3}}', "$.packages.python"),
        (b'{"schema_version": 1, "gpus": {"vendor": "nvidia", "devices": [{}]}}', "$.gpus.devices[0]"),
    ],
)
def test_what_is_no_bundle_is_refused_with_the_place(tmp_path: Path, content: bytes, complaint: str) -> None:
    file = tmp_path / "case.json"
    file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        bundle.load(file)
    message = str(caught.value)
    assert str(file) in message
    assert complaint in message
    assert "\n" not in message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        bundle.load(tmp_path / "missing.json")


def test_what_may_never_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    for place, complaint in (
        (tmp_path / "pipe.json", "not a regular file"),
        (Path("/dev/zero"), "not a regular file"),
        (tmp_path, "not a regular file"),
    ):
        with pytest.raises(InputError, match=complaint):
            bundle.load(place)


def test_names_that_are_no_text_come_as_escapes() -> None:
    case = Case(target="run-\udce9.sh", environment={"HF_HOME": "/data/\udcff"})
    again = bundle.parse(bundle.dump(case).encode(), "case.json")
    assert again.target == "run-\\udce9.sh"
    assert again.environment == {"HF_HOME": "/data/\\udcff"}


@pytest.mark.parametrize(
    "observations",
    [
        {"rollout": 5},
        {"rollout": {"miniature": 5}},
        {"rollout": {"miniature": {"records": {}}}},
        {"rollout": {"miniature": {"ended": "died", "records": None}}},
        {"rollout": {"miniature": {"ended": "died", "tail": [1]}}},
    ],
)
def test_observations_that_no_probe_left_are_refused_in_one_line(observations: object) -> None:
    with pytest.raises(InputError, match="damaged bundle") as refused:
        bundle.parse(json.dumps({"schema_version": 1, "observations": observations}).encode(), "case.json")
    assert "\n" not in str(refused.value)


def test_the_log_of_another_machine_is_not_looked_for_on_this_one(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("assert len(self._async_stopped) == 0\n")
    job = {"ended": "died", "log": str(log), "records": {}, "tail": ["its last line"]}
    data = {"schema_version": 1, "observations": {"rollout": {"miniature": job}}}
    loaded = bundle.parse(json.dumps(data).encode(), "case.json")
    assert not Path(loaded.observations["rollout"]["miniature"]["log"]).exists()
