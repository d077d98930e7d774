"""RLD407: what vLLM's serializer refuses."""

from __future__ import annotations

from typing import Any

import pytest
from rldoctor_checks.sync.rpc_serialization import check

from rldoctor.api import Outcome
from tests.checks.launches import finding, judged, quiet
from tests.logs.asking import finding as logged
from tests.logs.asking import findings, raised

MODE: dict[str, Any] = {"placement__mode": "server"}


def test_types_through_a_serializer_that_takes_none() -> None:
    # https://github.com/huggingface/trl/issues/3676
    found = finding(check, version="0.19.0", vllm="0.9.1", **MODE)
    assert any(command.startswith("pip install 'trl>=0.19.1,<=") for command in found.fixes[0].commands)
    assert found.fixes[1].edits[0].option == "env.VLLM_ALLOW_INSECURE_SERIALIZATION"
    assert finding(check, "ms-swift", version="3.5.3", vllm="0.9.0", **MODE)


def test_releases_that_agree() -> None:
    assert judged(check, version="0.19.1", vllm="0.9.1", **MODE).outcome is Outcome.PASS
    assert quiet(check, version="0.17.0", vllm="0.8.5", **MODE)
    assert quiet(check, "ms-swift", version="3.6.0", vllm="0.9.1", **MODE)
    assert quiet(check, version="0.19.0", vllm="0.9.1", placement__mode="colocate")


def test_who_lets_pickle_through_or_runs_v0() -> None:
    allow: dict[str, Any] = {"env__VLLM_ALLOW_INSECURE_SERIALIZATION": "1"}
    assert quiet(check, version="0.19.0", vllm="0.9.1", **MODE, **allow)
    assert quiet(check, version="0.19.0", vllm="0.9.1", **MODE, server=allow)
    assert quiet(check, version="0.19.0", vllm="0.9.1", **MODE, server={"env__VLLM_USE_V1": "0"})


@pytest.mark.parametrize(
    ("kind", "first"),
    [("function", "env.VLLM_ALLOW_INSECURE_SERIALIZATION"), ("torch.dtype", None)],
)
def test_the_refusal_names_the_type(kind: str, first: str | None) -> None:
    text = (
        f"Object of type <class '{kind}'> is not serializableSet VLLM_ALLOW_INSECURE_SERIALIZATION=1 to allow fallback "
        "to pickle-based serialization."
    )
    found = logged(check, raised("TypeError", text))
    assert kind in found.message
    assert next((edit.option for edit in found.fixes[0].edits), None) == first


def test_other_serializers_are_not_vllms() -> None:
    assert findings(check, raised("TypeError", "Object of type float32 is not JSON serializable")) == []
