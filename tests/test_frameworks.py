"""A framework is one folder: nothing else of rldoctor names one, and every register derives from the records."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from rldoctor.frameworks import Framework, frameworks, last_dialects, likely_dialects, trainers

ROOT = Path(__file__).parents[1]
TRAINERS = ROOT / "rldoctor" / "probes" / "children" / "trainers"


def spelled(framework: Framework) -> re.Pattern[str]:
    """The framework's names as words, however their parts are joined."""
    own = (package for package in framework.packages if not package.distribution)  # a fork has its parent's modules
    names = {framework.name, framework.title, *(name for package in own for name in (package.name, *package.modules))}
    words = "|".join("[-_ ]?".join(map(re.escape, re.split(r"[-_]|(?<=[a-z])(?=[A-Z])", name))) for name in names)
    return re.compile(rf"(?<![a-z0-9])(?:{words})(?![a-z0-9])".lower())


NAMES = {framework.name: spelled(framework) for framework in trainers()}


def code_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Identifiers and texts with their lines; strings that stand alone are documentation."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield line, node.value
        elif isinstance(node, ast.Name):
            yield line, node.id
        elif isinstance(node, ast.Attribute):
            yield line, node.attr
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.alias):
            yield line, node.name
        elif isinstance(node, ast.arg):
            yield line, node.arg


@cache
def named(text: str) -> list[str]:
    """The frameworks that a text or identifier (``EasyR1Block``, ``_TRL``) names."""
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower()
    return [name for name, pattern in NAMES.items() if pattern.search(parts) or pattern.search(text.lower())]


def test_no_code_names_a_framework_outside_its_folder() -> None:
    folders = {ROOT / "rldoctor" / "frameworks" / framework.home.rpartition(".")[2] for framework in frameworks()}
    # What runs under the target's interpreter lies with the other children, and names its own framework alone.
    programs = {TRAINERS / f"{one.asked_by}.py": one.name for one in frameworks() if one.asked_by}
    found = [
        f"{file.relative_to(ROOT)}:{line}: {text[:60]!r} names {', '.join(names)}"
        for file in sorted((ROOT / "rldoctor").rglob("*.py"))
        if not folders & set(file.parents)
        for line, text in code_of(ast.parse(file.read_text()))
        if (names := [name for name in named(text) if name != programs.get(file)])
    ]
    assert found == []


def test_every_module_for_a_trainer_is_named_by_its_framework() -> None:
    named_by = sorted(one.asked_by for one in frameworks() if one.asked_by)
    assert named_by == sorted(file.stem for file in TRAINERS.glob("*.py") if file.stem != "__init__")


@pytest.mark.parametrize(
    ("text", "names"),
    [("verl", ["verl"]), ("overlay", []), ("EasyR1Block", ["easyr1"]), ("/nemo_rl/", ["nemo-rl"]), ("control", [])],
)
def test_the_words_that_count_as_a_name(text: str, names: list[str]) -> None:
    assert named(text) == names


def test_the_ground_floor_knows_no_frameworks() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, rldoctor.model, rldoctor.plan.seeds, rldoctor.plan.evidence; "
            "import rldoctor.formats.hydra.overrides, rldoctor.formats.shell.reader; "
            "import rldoctor.formats.python.reader, rldoctor.formats.yaml.reader; "
            "print([name for name in sys.modules if name.startswith('rldoctor.frameworks')])",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "[]"


def test_records_are_whole() -> None:
    for framework in frameworks():
        assert framework.dialects(), framework.name
        for owner in framework.layouts():
            assert framework.table(owner).is_file(), owner
        if (metrics := framework.metrics()) is not None and metrics.like:
            assert any(other.name == metrics.like for other in trainers())


def test_whatever_a_dialect_knows_its_launches_by_has_a_mark_of_its_record() -> None:
    for framework in filter(lambda record: record.marks, frameworks()):
        for dialect in framework.dialects():
            own = vars(type(dialect))
            entries = [re.split(r"[*?]", entry) for entry in own.get("entries", ())]
            names = [name.split(".") for kind in ("keys", "imports") for name in own.get(kind, ())]
            for parts in (*entries, *names, *([name] for name in own.get("helpers", ()))):
                assert any(mark in part for mark in framework.marks or () for part in parts), (framework.name, parts)


def test_one_framework_alone_is_for_what_nobody_claims() -> None:
    assert all(framework.marks is not None for framework in frameworks())
    assert len([*last_dialects()]) == 1 and not {*last_dialects()} & {*likely_dialects(*NAMES)}


def test_what_is_built_over_another_comes_before_it() -> None:
    names = [framework.name for framework in trainers()]
    for framework in trainers():
        for below in {layer.package for layer in framework.over} & set(names):
            assert names.index(framework.name) < names.index(below)


PLUGIN = {
    "gardener/__init__.py": """
        from rldoctor.frameworks.record import Framework, Package, Words

        FRAMEWORK = Framework(
            home=__name__,
            name="gardener",
            title="Gardener",
            packages=(Package(name="gardener-rl", modules=("gardener",), requires="seedlings"),),
            programs=("gardener",),
            variables="GARDENER_",
            words=Words(paths=r"/gardener/", texts=("[gardener]",)),
        )
    """,
    "gardener/dialect.py": """
        from rldoctor.frameworks.dialect import Dialect


        class Gardener(Dialect):
            name, owner = "Gardener", "gardener-rl"
            entries = ("gardener grow",)
            table = {"prompt": "lengths.prompt", "answer": "lengths.response"}


        DIALECT = Gardener()
    """,
    "gardener-1.0.dist-info/METADATA": "Name: gardener\nVersion: 1.0\n",
    "gardener-1.0.dist-info/entry_points.txt": "[rldoctor.frameworks]\ngardener = gardener\n",
    "torn-1.0.dist-info/METADATA": "Name: torn\nVersion: 1.0\n",
    "torn-1.0.dist-info/entry_points.txt": "[rldoctor.frameworks]\ntorn = torn_and_absent\n",
}
ASKED = """
from rldoctor.frameworks import broken, framework
from rldoctor.facts.environment import is_allowed
from rldoctor.facts.packages import DECLARING
from rldoctor.knowledge.packages import FRAMEWORKS
from rldoctor.launch.recognise import read
from rldoctor.logs.code_paths import is_users
from rldoctor.logs.reveals import framework_of

(plan,) = read("run.sh")
assert (plan.framework, plan.value("lengths.prompt"), plan.value("lengths.response")) == ("Gardener", 512, 256)
assert framework("gardener_rl").title == "Gardener"
assert "gardener-rl" in FRAMEWORKS and "gardener-rl" in DECLARING and is_allowed("GARDENER_HOME")
assert framework_of(["/srv/gardener/loop.py"]) == "gardener" and not is_users("/srv/gardener/loop.py")
assert [plugin.plugin for plugin in broken()] == ["torn"]
"""


def test_a_distribution_brings_a_framework(tmp_path: Path) -> None:
    for name, text in PLUGIN.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip())
    (tmp_path / "run.sh").write_text("gardener grow --prompt 512 --answer 256\n")
    subprocess.run([sys.executable, "-c", ASKED], cwd=tmp_path, check=True, timeout=60)
