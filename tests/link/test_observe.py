"""Linking what is installed for a launch, and keeping what was found."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rldoctor import own_sources
from rldoctor.case import Case, Distribution, Packages
from rldoctor.case.lookup import Absent
from rldoctor.link import sources
from rldoctor.link.locate import SearchPath
from rldoctor.link.observe import observe
from rldoctor.link.sources import Sources
from rldoctor.plan.model import Form, Given, RolloutPlan, Setting
from tests.link.conftest import ENGINE

Site = Callable[[dict[str, str]], Path]
GONE = "from vllm.sampling_params import GuidedDecodingParams\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def case(root: Path, *names: str) -> Case:
    distributions = tuple(Distribution(name=name, version="0.12.0", location=str(root)) for name in names)
    return Case(packages=Packages(python="3.12.1", distributions=distributions))


def missing(found: object) -> list[str]:
    assert isinstance(found, dict)
    return [problem["name"] for framework in found["frameworks"] for problem in framework["problems"]]


def test_the_launchs_own_modules_are_linked(site: Site) -> None:
    root = site({**ENGINE, "trl/trainer/grpo_trainer.py": "", "trl/trainer/rloo_trainer.py": GONE})
    one = case(root, "trl", "vllm")
    assert missing(observe(one)) == []
    plan = RolloutPlan(framework="TRL", file="train.py", entry="train.py")
    assert missing(observe(replace(one, plan=plan))) == []
    rloo = replace(plan, settings={"trainer.algorithm": Setting(value="rloo")})
    assert missing(observe(replace(one, plan=rloo))) == ["GuidedDecodingParams"]


def test_what_a_framework_puts_back_is_there(site: Site) -> None:
    swift = "import vllm.sampling_params\nvllm.sampling_params.GuidedDecodingParams = None\nfrom trl.x import y\n"
    files = {**ENGINE, "swift/rlhf_trainers/grpo_trainer.py": swift, "trl/x.py": GONE + "y = 1\n"}
    assert missing(observe(case(site(files), "ms-swift", "trl", "vllm"))) == []


@pytest.mark.parametrize(
    "guard", ["", "from transformers.utils import is_peft_available\nif is_peft_available():\n    "]
)
def test_what_stands_between_the_trainer_and_another_package_is_linked(site: Site, guard: str) -> None:
    files = {
        **ENGINE,
        "trl/trainer/grpo_trainer.py": f"{guard}from peft import PeftModel\n",
        "peft/__init__.py": "from .peft_model import PeftModel\n",
        "peft/peft_model.py": "from transformers import DynamicCache, HybridCache\nclass PeftModel: ...\n",
        "transformers/__init__.py": "class DynamicCache: ...\n",
        "transformers/utils.py": "def is_peft_available(): return find('peft')\n",
    }
    found = observe(case(site(files), "trl", "vllm", "peft", "transformers"))
    assert missing(found) == ["HybridCache"]
    assert isinstance(found, dict)
    (problem,) = found["frameworks"][0]["problems"]
    assert (problem["file"], problem["when"]) == ("peft/peft_model.py", "import")
    assert missing(observe(case(site({**files, "trl/trainer/grpo_trainer.py": ""}), "trl", "vllm", "peft"))) == []


def test_no_framework_no_links(site: Site) -> None:
    assert isinstance(observe(case(site(ENGINE), "vllm")), Absent)


def test_what_was_found_is_kept_until_a_file_changes(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    root = site({**ENGINE, "trl/trainer/grpo_trainer.py": GONE})
    one = case(root, "trl", "vllm")
    first = observe(one)
    read: list[SearchPath] = []

    def watched(search: SearchPath) -> Sources:
        read.append(search)
        return Sources(search)

    monkeypatch.setattr(sources, "Sources", watched)
    assert observe(one) == first and not read
    (root / "trl/trainer/grpo_trainer.py").write_text("from vllm.sampling_params import StructuredOutputsParams\n")
    assert missing(observe(one)) == [] and len(read) == 1
    # Another rldoctor may find what this one did not.
    monkeypatch.setattr(own_sources, "state", lambda *folders: 1)
    observe(one)
    assert len(read) == 2


def test_a_cache_that_cannot_be_used_costs_only_time(site: Site, cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    root = site({**ENGINE, "trl/trainer/grpo_trainer.py": GONE})
    assert missing(observe(case(root, "trl", "vllm"))) == ["GuidedDecodingParams"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def (:\n", "is not Python that this interpreter can parse"),
        ("x = 1\n\0\0", "is not Python that this interpreter can parse"),
        ('print "Python 2"\n', "is not Python that this interpreter can parse"),
        ("x = " + "(" * 2000 + ")" * 2000 + "\n", "is not Python that this interpreter can parse"),
        ("from runtime import __pyarmor__\n__pyarmor__(__name__, __file__, b'xx')\n", "is obfuscated"),
        ("import base64\nexec(base64.b64decode('eD0x'))\n", "is obfuscated"),
        ("x = [\n" + "1,\n" * 1_500_000 + "]\n", "has 4 MiB"),
    ],
    ids=["syntax", "zeros", "python2", "deep", "protected", "encoded", "large"],
)
def test_what_cannot_be_read_is_said_and_the_rest_is_linked(site: Site, text: str, why: str) -> None:
    root = site({**ENGINE, "trl/trainer/grpo_trainer.py": "import trl.odd\n" + GONE, "trl/odd.py": ""})
    (root / "trl/odd.py").write_text(text)
    found = observe(case(root, "trl", "vllm"))
    assert isinstance(found, dict) and why in found["unread"]["trl.odd"]
    assert missing(found) == ["GuidedDecodingParams"]
    (root / "vllm/sampling_params.py").write_text(text)  # nobody knows then what the engine has
    assert missing(observe(case(root, "trl", "vllm"))) == []


def test_a_compiled_module_may_have_whatever_is_asked_of_it(site: Site) -> None:
    root = site({**ENGINE, "trl/trainer/grpo_trainer.py": "import vllm._C\nfrom vllm._C import ops\n" + GONE})
    (root / "vllm/_C.abi3.so").write_bytes(b"\x7fELF")
    found = observe(case(root, "trl", "vllm"))
    assert isinstance(found, dict) and missing(found) == ["GuidedDecodingParams"] and not found["unread"]
    (root / "vllm/sampling_params.py").rename(root / "vllm/sampling_params.cpython-312-x86_64-linux-gnu.so")
    found = observe(case(root, "trl", "vllm"))
    assert isinstance(found, dict) and missing(found) == []
    assert found["unread"] == {"vllm.sampling_params": "vllm.sampling_params is compiled"}


def test_an_engine_without_its_own_init_is_linked(site: Site) -> None:
    root = site({**ENGINE, "trl/trainer/grpo_trainer.py": GONE})
    (root / "vllm/__init__.py").unlink()
    assert missing(observe(case(root, "trl", "vllm"))) == ["GuidedDecodingParams"]


def test_a_package_in_an_archive_is_there_and_not_read(site: Site, tmp_path: Path) -> None:
    root = site({"trl/trainer/grpo_trainer.py": GONE})
    (tmp_path / "vllm.egg").write_bytes(b"PK")
    engine = Distribution(name="vllm", version="0.12.0", location=str(tmp_path / "vllm.egg"))
    one = case(root, "trl")
    assert one.packages is not None
    packages = replace(one.packages, distributions=(*one.packages.distributions, engine))
    found = observe(replace(one, packages=packages))
    assert isinstance(found, dict) and missing(found) == []
    assert found["unread"] == {"vllm.sampling_params": "vllm.sampling_params is in an archive"}


@pytest.mark.parametrize(("first", "found"), [("new", ["GuidedDecodingParams"]), ("old", [])])
def test_of_two_installs_that_which_is_imported_is_linked(
    site: Site, tmp_path: Path, first: str, found: object
) -> None:
    new, old, trainer = site(ENGINE), tmp_path / "old", tmp_path / "own"
    for file, text in (
        (old / "vllm/__init__.py", ""),
        (old / "vllm/sampling_params.py", "class GuidedDecodingParams: ...\n"),
        (trainer / "trl/__init__.py", ""),
        (trainer / "trl/trainer/grpo_trainer.py", GONE),
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    engines = [Distribution(name="vllm", version=v, location=str(p)) for v, p in (("0.12.0", new), ("0.11.0", old))]
    own = Distribution(name="trl", version="0.20.0", location=str(trainer))
    installed = (own, *(engines if first == "new" else reversed(engines)))
    assert missing(observe(Case(packages=Packages(python="3.12.1", distributions=installed)))) == found


def test_of_a_package_of_ten_thousand_files_only_those_that_are_asked_for_are_read(site: Site) -> None:
    root = site({**ENGINE, "trl/trainer/grpo_trainer.py": "import vllm.gen.p1.m100\n" + GONE})
    for folder in range(10):
        (root / f"vllm/gen/p{folder}").mkdir(parents=True)
        for number in range(1000):
            (root / f"vllm/gen/p{folder}/m{number}.py").touch()
    start = time.process_time()
    found = observe(case(root, "trl", "vllm"))
    assert missing(found) == ["GuidedDecodingParams"]
    assert time.process_time() - start < 2


def test_what_the_argument_class_refuses_of_the_launch(site: Site) -> None:
    config = (
        "class GRPOConfig:\n    num_generations: int = 8\n    def __post_init__(self):\n"
        "        if self.num_generations < 2:\n            raise ValueError('too few')\n"
    )
    root = site({"trl/trainer/grpo_trainer.py": "", "trl/trainer/grpo_config.py": config})
    given = Given(key="--num_generations", value=1, file="run.sh", line=3, form=Form.OPTION)
    plan = RolloutPlan(framework="TRL", file="run.sh", entry="train.py", given=(given,))
    found = observe(replace(case(root, "trl"), plan=plan))
    assert isinstance(found, dict)
    assert found["frameworks"][0]["refusal"]["message"] == "too few"
    more = observe(replace(case(root, "trl"), plan=replace(plan, given=(replace(given, value=4),))))
    assert isinstance(more, dict) and more["frameworks"][0]["refusal"] is None
