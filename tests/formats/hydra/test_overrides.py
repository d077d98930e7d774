"""Hydra's overrides: values, quoting, interpolation; and config files with their defaults lists."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from rldoctor.formats.hydra.overrides import MISSING, fill, parse
from rldoctor.formats.values import SECRET, Unresolved
from rldoctor.launch.recognise import read


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        ("1e-6", 1e-6),
        ("True", True),
        ("null", None),
        ("", ""),
        ("'8'", "8"),
        ('"a b"', "a b"),
        ("org/Model-7B", "org/Model-7B"),
        ('["console","wandb"]', ["console", "wandb"]),
        ("[a, 1, [2]]", ["a", 1, [2]]),
        ("{level: 3, sizes: [1,2]}", {"level": 3, "sizes": [1, 2]}),
        ("{}", {}),
        ("1,2,3", Unresolved("1,2,3", "a sweep over several values")),
        ("choice(a,b)", Unresolved("choice(a,b)", "a sweep over several values")),
        ("${data.n}", "${data.n}"),
        ("[unclosed", Unresolved("[unclosed", "Hydra refuses it: ']' is missing")),
        ("<removed:HUB_TOKEN>", Unresolved("<removed:HUB_TOKEN>", SECRET)),
        ("https://x/y", "https://x/y"),
        ("on", "on"),
        ("010", "010"),
    ],
)
def test_values(text: str, value: object) -> None:
    assert parse(text) == value


RESOLVERS = {"mul": operator.mul}
TREE = {"a": 8, "b": "${a}", "c": "${mul:${a}, ${b}}", "loop": "${loop}", "s.x": 1, "s.y": "${.x}"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${a}", 8),
        ("${c}", 64),
        ("n-${b}", "n-8"),
        ("${oc.env:PORT,80}", "80"),
        ("${oc.env:HOST}", "here"),
        ("${oc.select:nothing,512}", 512),
        ("${oc.select:a,512}", 8),
        ("[${a}]", "[8]"),
    ],
)
def test_interpolation(text: str, value: object) -> None:
    assert (
        fill(text, "k", lambda name: TREE[name] if name in TREE else _missing(), {"HOST": "here"}, RESOLVERS) == value
    )


HELD = {
    "i": 1,
    "f": 0.5,
    "b": True,
    "n": None,
    "t": "12",
    "l": [1, 2],
    "d": {"x": 1, "k": "i"},
    "z": "${i}",
    "y": "p${n}",
}


@pytest.mark.parametrize(
    "text",
    [
        *("${i}", "${b}", "${n}", "${t}", "${l}", "${d}", "${d.x}", "${z}", "${y}", "${${d.k}}", "${ i }"),
        *("${i}${i}", "${i}.${i}", "${t}${t}", "${z}${z}", "a${n}", "${n}${n}", "${b}x", "x_${l}", "-${i}", "${i}e3"),
        *("${oc.env:NUMBER}", "${oc.env:NUMBER}0", "${oc.env:NUMBER,9}", "${oc.env:EMPTY}", "${oc.env:NONE,5}"),
        *("${oc.env:NONE,null}", "${oc.env:NONE,abc}", '${oc.env:NONE,"x y"}', "${oc.env:NONE,'5'}"),
        *("${oc.env:NONE,true}", "${oc.env:NONE,${i}}", "${oc.select:i}", "${oc.select:q,7}", "${oc.select:q}"),
    ],
)
def test_interpolation_is_omegaconfs(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"NUMBER": "8", "EMPTY": ""}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NONE", raising=False)
    container: Any = OmegaConf.to_container(OmegaConf.create({**HELD, "made": text}), resolve=True)
    flat = {**HELD, **{f"d.{name}": value for name, value in {"x": 1, "k": "i"}.items()}}
    found = fill(text, "made", lambda name: flat.get(name, MISSING), variables, {})
    assert (type(found), found) == (type(container["made"]), container["made"])


def test_a_relative_interpolation_looks_beside_its_own_key() -> None:
    assert fill("${.x}", "s.y", lambda name: TREE.get(name), {}, {}) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("${nobody}", "nobody is not set in this launch"),
        ("${loop}", "it refers to itself"),
        ("${now:%Y}", "now is computed by the framework's own code"),
        ("${oc.env:NOBODY}", "NOBODY is not set in this file"),
    ],
)
def test_what_cannot_be_filled_in_is_unknown(text: str, why: str) -> None:
    found = fill(text, "k", lambda name: TREE[name] if name in TREE else _missing(), {}, RESOLVERS)
    assert isinstance(found, Unresolved)
    assert found.why == why


def _missing() -> object:
    from rldoctor.formats.hydra.overrides import MISSING

    return MISSING


def test_a_config_file_is_composed_with_its_defaults_and_the_overrides_win(tmp_path: Path) -> None:
    config = tmp_path / "examples" / "config"
    (config / "rollout").mkdir(parents=True)
    (config / "mine.yaml").write_text(
        "hydra:\n  searchpath:\n    - file://verl/trainer/config\n\ndefaults:\n  - ppo_trainer\n"
        "  - rollout@actor_rollout_ref.rollout: long\n  - _self_\n\ndata:\n  max_prompt_length: 1024\n"
        "  max_response_length: ${data.max_prompt_length}\n"
    )
    (config / "rollout" / "long.yaml").write_text("n: 4\nmax_num_batched_tokens: 9000\n")
    run = tmp_path / "examples" / "scripts" / "run.sh"
    run.parent.mkdir()
    run.write_text(
        'PROJECT_DIR="$(pwd)"\nCONFIG_PATH="$PROJECT_DIR/examples/config"\n'
        'python3 -m verl.trainer.main_ppo --config-path="$CONFIG_PATH" --config-name=mine \\\n'
        "    actor_rollout_ref.rollout.n=8\n"
    )
    (plan,) = read(run)
    assert plan.value("lengths.response") == 1024
    assert plan.value("engine.max_num_batched_tokens") == 9000
    assert plan.value("batch.generations") == 8
    given = plan.get("engine.max_num_batched_tokens")
    assert given is not None
    assert given.file is not None
    assert (Path(given.file).name, given.line) == ("long.yaml", 2)
    assert any("ppo_trainer.yaml: not found" in note.text for note in plan.notes)
