"""What keeps a trainer from starting, and what only looks like it."""

from __future__ import annotations

import ast
from itertools import count

import pytest

from rldoctor.link import conditions
from rldoctor.link.follow import Follower, Frame, Outcome
from tests.link.conftest import Link

GONE = "from vllm.sampling_params import GuidedDecodingParams\n"
FOUND = "name GuidedDecodingParams of vllm.sampling_params"


def test_a_name_that_the_engine_does_not_define(link: Link) -> None:
    assert link("import os\n" + GONE) == [f"import: trl/trainer/grpo_trainer.py:2 {FOUND}"]


def test_a_module_that_the_engine_does_not_have(link: Link) -> None:
    assert link("from vllm.worker.worker_base import WorkerWrapperBase\n") == [
        "import: trl/trainer/grpo_trainer.py:1 module vllm.worker.worker_base of vllm"
    ]


def test_an_attribute_of_a_module_that_is_used_while_it_is_imported(link: Link) -> None:
    text = "import vllm.sampling_params as params\nclass Mine(params.GuidedDecodingParams): ...\n"
    assert link(text) == [
        "import: trl/trainer/grpo_trainer.py:2 attribute GuidedDecodingParams of vllm.sampling_params"
    ]


def test_it_is_found_behind_the_trainers_own_modules(link: Link) -> None:
    found = link("from ..extras.client import Client\n", {"trl/extras/client.py": GONE + "class Client: ...\n"})
    assert found == [f"import: trl/extras/client.py:1 {FOUND}"]


@pytest.mark.parametrize(
    "trainer",
    [
        "from vllm import LLM\nfrom vllm.sampling_params import SamplingParams, StructuredOutputsParams\n",
        "from vllm.utils import get_open_port\n",  # through a star import
        "import vllm\nvllm.utils.get_open_port()\n",
        "from vllm.made import computed_by_its_loop\n",
        "from vllm.sampling_params import *\n",
        f"try:\n    {GONE}except ImportError:\n    GuidedDecodingParams = None\n",
        f"from contextlib import suppress\nwith suppress(ImportError):\n    {GONE}",
        f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    {GONE}",
        f"import typing\nif typing.TYPE_CHECKING:\n    {GONE}",
        "import vllm\nfrom packaging.version import Version\n"
        f"if Version(vllm.__version__) < Version('0.12'):\n    {GONE}",
        f"from packaging import version\nfrom importlib import metadata\n"
        f"if version.parse(metadata.version('vllm')) <= version.parse('0.11.2'):\n    {GONE}",
        f"import vllm.sampling_params\nif hasattr(vllm.sampling_params, 'GuidedDecodingParams'):\n    {GONE}",
        f"import importlib.util\nif importlib.util.find_spec('vllm') is None:\n    {GONE}",
        f"import sys\nif sys.version_info < (3, 6):\n    {GONE}",
        f"def later():\n    {GONE}",
        "later = lambda: __import__('vllm').nothing\n",
        "from __future__ import annotations\nimport vllm.sampling_params\ndef f(x: vllm.sampling_params.Gone): ...\n",
    ],
)
def test_what_a_healthy_trainer_writes(link: Link, trainer: str) -> None:
    assert link(trainer) == []


def test_the_handler_of_a_failed_import_is_followed(link: Link) -> None:
    text = f"try:\n    {GONE}except ImportError:\n    from vllm.sampling_params import StructuredParams\n"
    assert link(text) == ["import: trl/trainer/grpo_trainer.py:4 name StructuredParams of vllm.sampling_params"]


def test_a_failure_deep_below_a_guard_is_caught_by_it(link: Link) -> None:
    guarded = "try:\n    from ..extras.client import Client\nexcept ImportError:\n    Client = None\n"
    assert link(guarded, {"trl/extras/client.py": GONE}) == []


def test_a_condition_that_nobody_can_tell_makes_a_finding_uncertain(link: Link) -> None:
    assert link(f"import os\nif os.environ.get('TRL_OLD'):\n    {GONE}") == [
        f"perhaps: trl/trainer/grpo_trainer.py:3 {FOUND}"
    ]


def test_what_fails_on_every_way_is_certain(link: Link) -> None:
    text = f"import os\nif os.environ.get('TRL_OLD'):\n    {GONE}else:\n    {GONE}"
    assert link(text) == [f"import: trl/trainer/grpo_trainer.py:{line} {FOUND}" for line in (3, 5)]
    loaded = {"trl/old.py": GONE, "trl/new.py": f"import os\nif os.environ.get('X'):\n    {GONE}"}
    text = "import os\nif os.environ.get('TRL_OLD'):\n    import trl.old\nelse:\n    import trl.new\n"
    assert link(text, loaded) == [f"perhaps: trl/old.py:1 {FOUND}", f"perhaps: trl/new.py:3 {FOUND}"]


def test_a_module_that_is_perhaps_imported_first_and_certainly_later(link: Link) -> None:
    text = "import os\nif os.environ.get('TRL_OLD'):\n    import trl.old\nfrom trl import old\n"
    assert link(text, {"trl/old.py": GONE}) == [f"import: trl/old.py:1 {FOUND}"]


def test_variables_that_were_looked_for_decide(link: Link) -> None:
    text = f"import os\nif 'ROCM_PATH' in os.environ or os.getenv('VLLM_OLD', '0') == '1':\n    {GONE}"
    assert link(text) == [f"perhaps: trl/trainer/grpo_trainer.py:3 {FOUND}"]
    assert link(text, environment={}) == []
    assert link(text, environment={"VLLM_OLD": "1"}) == [f"import: trl/trainer/grpo_trainer.py:3 {FOUND}"]


@pytest.mark.parametrize("again", ["raise ImportError('no fp8') from error", "raise"])
def test_a_handler_that_raises_again(link: Link, again: str) -> None:
    text = f"try:\n    {GONE}except ImportError as error:\n    {again}\n"
    assert link(text) == [f"import: trl/trainer/grpo_trainer.py:2 {FOUND}"]
    guarded = "try:\n    import trl.fp8\nexcept ImportError:\n    pass\n"
    assert link(guarded, {"trl/fp8.py": text}) == []


def test_a_trainers_own_answer_to_what_is_available(link: Link) -> None:
    utils = """
        import importlib.metadata
        def _is_package_available(name):
            return importlib.util.find_spec(name) is not None
        def is_old():
            from packaging.version import Version
            return Version(importlib.metadata.version("vllm")) < Version("0.12")
        """
    trainer = f"from ..import_utils import is_vllm_available, is_old\nif is_vllm_available() and is_old():\n    {GONE}"
    assert link(trainer, {"trl/import_utils.py": utils}) == []
    least = f"from ..import_utils import is_vllm_available\nif is_vllm_available(min_version='0.12.0'):\n    {GONE}"
    assert link(least, {"trl/import_utils.py": utils}) == [f"import: trl/trainer/grpo_trainer.py:3 {FOUND}"]


ASKS_IF_THERE = {
    "trl/import_utils.py": """
        from transformers.utils.import_utils import _is_package_available
        _mergekit_available = _is_package_available("mergekit")
        def is_mergekit_available():
            return _mergekit_available
        """,
}


@pytest.mark.parametrize(
    ("signature", "body", "always"),
    [
        # transformers before and from 5.3 on
        (
            "(name, return_version=False) -> tuple[bool, str] | bool",
            "if return_version:\n        return there, '1'\n    else:\n        return there",
            False,
        ),
        ("(name, return_version=False) -> tuple[bool, str]", "return (there, '1')", True),
        (
            "(name, return_version=False) -> tuple[bool, str]",
            "if return_version:\n        return there, '1'\n    else:\n        return there, None",
            True,
        ),
        ("(name) -> tuple[bool, ...]", "return tuple(there)", False),
        ("(name) -> tuple[bool, ...]", "if there:\n        return there, '1'", False),
        ("(name) -> bool", "return there", False),
    ],
)
def test_what_is_asked_for_always_is_not_there(link: Link, signature: str, body: str, always: bool) -> None:
    utils = f"def _is_package_available{signature}:\n    there = find(name)\n    {body}\n"
    packages = {**ASKS_IF_THERE, "transformers/utils/import_utils.py": utils}
    trainer = (
        "from ..import_utils import is_mergekit_available\nif is_mergekit_available():\n    import mergekit.merge\n"
    )
    said = (
        "import: trl/trainer/grpo_trainer.py:3 always mergekit.merge"
        " of transformers.utils.import_utils._is_package_available"
    )
    assert link(trainer, packages) == ([said] if always else [])
    guarded = trainer.replace(
        "    import mergekit.merge", "    try: import mergekit.merge\n    except ImportError: pass"
    )
    assert link(guarded, packages) == []
    assert link(trainer, {**packages, "mergekit/merge.py": ""}) == []


def test_a_guard_that_the_trainer_replaces_before_is_another(link: Link) -> None:
    guard = "from transformers.imports import _is_there\ndef is_merged():\n    return _is_there('mergekit')\n"
    guarded = "from trl.checks import is_merged\nif is_merged():\n    from mergekit import merge\n"
    packages = {
        "trl/checks.py": guard,
        "trl/merges.py": guarded,
        "transformers/imports.py": "def _is_there(name) -> tuple[bool, str]:\n    return (there, '1')\n",
    }
    replaced = "import trl.checks as checks\nbefore = checks.is_merged\ncheck = lambda: bool(before()[0])\n"
    assert len(link(replaced + "import trl.merges\n", packages)) == 1
    assert link(replaced + "checks.is_merged = check\nimport trl.merges\n", packages) == []


def test_functions_ask_only_when_they_are_called(link: Link) -> None:
    assert link(f"def old():\n    {GONE}", functions=True) == [f"call: trl/trainer/grpo_trainer.py:2 {FOUND}"]


def test_calls_are_held_against_the_signature(link: Link) -> None:
    text = """
        from vllm.entrypoints.llm import LLM
        def build(options):
            LLM("model", dtype="bfloat16")
            LLM(**options)
            LLM("model", seed=1)
            LLM()
        """
    assert link(text, functions=True) == [
        "call: trl/trainer/grpo_trainer.py:6 argument seed of vllm.entrypoints.llm.LLM",
        "call: trl/trainer/grpo_trainer.py:7 missing-argument model of vllm.entrypoints.llm.LLM",
    ]


def test_positions_are_counted_and_a_signature_may_be_inherited(link: Link) -> None:
    engine = """
        class Base:
            def __init__(self, model, *, dtype='auto'): ...
        class LLM(Base): ...
        class Made(type(Base)): ...
        """
    text = """
        from vllm.entrypoints.llm import LLM, Made
        def build(some):
            LLM("model", "auto")
            LLM(*some)
            LLM(model="model", dtype="auto")
            Made(1, 2, 3)
        """
    assert link(text, {"vllm/entrypoints/llm.py": engine}, functions=True) == [
        "call: trl/trainer/grpo_trainer.py:4 positions 2 of vllm.entrypoints.llm.LLM"
    ]


def test_a_method_in_the_place_of_another_takes_what_is_passed_to_it(link: Link) -> None:
    above = """
        class Trainer:
            def training_step(self, model, inputs):
                return self.compute_loss(model, inputs, num_items_in_batch=1)
            def compute_loss(self, model, inputs, num_items_in_batch=None): ...
            def log(self, logs, start_time=None): ...
            def train(self):
                self.log({}, start_time=0)
        """
    text = """
        from transformers.trainer import Trainer
        class Old(Trainer):
            def compute_loss(self, model, inputs): ...
            def log(self, *args, **kwargs): ...
        class New(Trainer):
            def compute_loss(self, model, inputs, num_items_in_batch=None): ...
        class Own(Trainer):
            def training_step(self, model, inputs): ...
            def compute_loss(self, model, inputs): ...
        """
    assert link(text, {"transformers/trainer.py": above}) == [
        "call: trl/trainer/grpo_trainer.py:4 override-argument num_items_in_batch of "
        "transformers.trainer.Trainer.compute_loss"
    ]


def test_a_method_in_the_place_of_another_gets_what_it_requires(link: Link) -> None:
    above = """
        class Trainer:
            def train(self):
                self.training_step(1, 2)
                self.sampler(1)
                self.evaluate(*args)
                self.log(1)
            def training_step(self, model, inputs): ...
            def sampler(self, dataset=None): ...
            def evaluate(self, dataset): ...
            def log(self, logs): ...
        """
    text = """
        from transformers.trainer import Trainer
        class Newer(Trainer):
            def training_step(self, model, inputs, num_items): ...
            def sampler(self): ...
            def evaluate(self): ...
            @staticmethod
            def log(logs): ...
        class Fits(Trainer):
            def training_step(self, model, inputs, num_items=None, *, more=1): ...
            def sampler(self, *args): ...
        """
    owner = "transformers.trainer.Trainer"
    assert link(text, {"transformers/trainer.py": above}) == [
        f"call: trl/trainer/grpo_trainer.py:4 override-missing-argument num_items of {owner}.training_step",
        f"call: trl/trainer/grpo_trainer.py:5 override-positions 1 of {owner}.sampler",
    ]


ABOVE = """
    class Base:
        def log(self, logs, start_time=None): ...
        def save(self, output_dir): ...
        @property
        def model(self): ...
        if True:
            def prepare(self): ...
        else:
            def prepare(self, more): ...
    class Trainer(Base):
        def train(self, resume=None): ...
"""


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("super().train(resume=1)", None),
        ("super().train(trial=1)", "argument trial of transformers.trainer.Trainer.train"),
        ("super().log({}, 1, 2)", "positions 3 of transformers.trainer.Base.log"),
        ("self.save()", "missing-argument output_dir of transformers.trainer.Base.save"),
        ("self.save(*given)", None),
        ("self.train(trial=1)", None),  # its own
        ("self.model(1, 2)", None),
        ("super().prepare(1, 2)", None),  # which of them is not known
        ("super().absent(1)", None),
        ("other.save()", None),
        ("super(Base, self).save()", None),
        ("super().save() if hasattr(transformers.trainer, 'absent') else None", None),
    ],
)
def test_a_call_of_an_inherited_method_fits_it(link: Link, call: str, found: str | None) -> None:
    text = f"""
        import transformers.trainer
        from transformers.trainer import Trainer
        class Middle(Trainer): ...
        class GRPOTrainer(Middle):
            def train(self, trial=None):
                {call}
        """
    wanted = [f"call: trl/trainer/grpo_trainer.py:7 {found}"] if found is not None else []
    assert link(text, {"transformers/trainer.py": ABOVE}, functions=True) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "class GRPOTrainer(Trainer):\n    log = wider\n",
        "class GRPOTrainer(Trainer):\n    if sys.platform:\n        def log(self, a, b, c, d): ...\n",
        "class GRPOTrainer(Trainer):\n    def __init__(self, log):\n        self.log = log\n",
        "class GRPOTrainer(Trainer):\n    def __init__(self, log):\n        setattr(self, 'log', log)\n",
        "Trainer.log = wider\nclass GRPOTrainer(Trainer): ...\n",
        "class Below:\n    def log(self, a, b, c, d): ...\nclass GRPOTrainer(Trainer): ...\n",
    ],
)
def test_a_method_that_something_else_may_stand_for_is_not_held_against_the_one_above(link: Link, text: str) -> None:
    call = "    def train(self):\n        self.log(1, 2, 3, 4)\n"
    head = "import sys\nfrom transformers.trainer import Trainer\n"
    assert link(head + text.replace(" ...\n", "\n") + call, {"transformers/trainer.py": ABOVE}, functions=True) == []


def test_a_dataclass_has_another_init_than_it_inherits(link: Link) -> None:
    above = """
        from dataclasses import dataclass
        class Base:
            def __init__(self): ...
        @dataclass
        class Config(Base):
            rank: int = 0
        """
    text = """
        from transformers.config import Config
        class Mine(Config):
            def __init__(self, rank):
                super().__init__(rank=rank)
        """
    assert link(text, {"transformers/config.py": above}, functions=True) == []


@pytest.mark.parametrize(
    "text",
    [
        "class Mixin:\n    def train(self): ...\nclass Mine(Mixin, Trainer):\n",
        "class Mine(anything.Mixin, Trainer):\n",
        "class Mine(Trainer):\n    train = anything\n",
        "class Mine(Trainer):\n    if anything:\n        def train(self): ...\n",
    ],
)
def test_a_call_by_a_method_that_is_replaced_itself_is_not_made(link: Link, text: str) -> None:
    above = "class Trainer:\n    def train(self):\n        self.step(1)\n    def step(self, a): ...\n"
    head, own = "from transformers.trainer import Trainer\n", "    def step(self, a, b): ...\n"
    assert link(head + text + own, {"transformers/trainer.py": above}) == []
    assert len(link(f"{head}class Mine(Trainer):\n{own}", {"transformers/trainer.py": above})) == 1


def test_of_several_classes_above_nobody_knows_whose_method_it_is(link: Link) -> None:
    text = """
        from transformers.trainer import Trainer
        class Mixin:
            def save(self): ...
        class GRPOTrainer(Mixin, Trainer):
            def train(self):
                super().save()
        """
    assert link(text, {"transformers/trainer.py": ABOVE}, functions=True) == []


def test_a_package_that_is_not_installed_is_another_checks_question(link: Link) -> None:
    assert link("import deepspeed\nfrom peft import Nothing\n") == []


def test_a_lazy_package_gives_what_its_text_names(link: Link) -> None:
    lazy = """
        import sys
        from typing import TYPE_CHECKING
        _import_structure = {"auto": ["AutoModel"]}
        if TYPE_CHECKING:
            from .auto import AutoModel
        else:
            sys.modules[__name__] = _LazyModule(__name__, globals()["__file__"], _import_structure)
        """
    trainer = "from transformers import AutoModel, AutoModelForVision2Seq\n"
    found = link(trainer, {"transformers/__init__.py": lazy, "transformers/auto.py": "class AutoModel: ...\n"})
    assert found == ["import: trl/trainer/grpo_trainer.py:1 name AutoModelForVision2Seq of transformers"]


def test_a_star_from_a_module_that_is_not_there_gives_nothing(link: Link) -> None:
    lazy = """
        import sys
        from typing import TYPE_CHECKING
        from .utils.lazy import _LazyModule
        if TYPE_CHECKING:
            from .utils.dummies import *
        else:
            sys.modules[__name__] = _LazyModule(__name__, {"integrations": ["is_wandb_available"]})
        """
    packages = {
        "transformers/__init__.py": lazy,
        "transformers/utils/lazy.py": "class _LazyModule: ...\n",
        "transformers/integrations.py": "def is_wandb_available(): ...\n",
    }
    text = "from transformers import is_wandb_available, is_trackio_available\n"
    assert link(text, packages) == ["import: trl/trainer/grpo_trainer.py:1 name is_trackio_available of transformers"]
    # A package may put a module there itself.
    aliased = {**packages, "transformers/__init__.py": lazy + '        alias(".utils.dummies")\n'}
    assert link(text, aliased) == []


def test_a_star_from_the_standard_library_may_give_anything(link: Link) -> None:
    checkpoint = {"vllm/checkpoint.py": "from typing import *\ndef noop(): ...\n"}
    assert link("from vllm.checkpoint import ContextManager, noop\n", checkpoint) == []


def test_what_cannot_be_read_is_taken_to_be_well(link: Link) -> None:
    text = "from vllm.broken import anything\nfrom vllm.compiled import anything\n"
    assert link(text, {"vllm/broken.py": "def (:\n", "vllm/compiled.abi3.so": ""}) == []


def test_functions_that_call_each_other_on_many_ways_are_followed_once(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each asks the next one on eight ways: without memory that would be 8^4 ways through them."""
    followed = count()
    plain = Follower.follow

    def counted(self: Follower, body: list[ast.stmt], frame: Frame) -> Outcome:
        next(followed)
        return plain(self, body, frame)

    monkeypatch.setattr(Follower, "follow", counted)
    asks = "".join("    if unknown(x):\n        return f{0}(x)\n" for _ in range(8))
    chain = "".join(f"def f{n}(x):\n{asks.format(n + 1)}    return 1\n" for n in range(5))
    assert link(f"{chain}def f5(x): return 1\nvalue = f0(1)\n{GONE}") != []
    assert next(followed) < 500


OWN_VERSION = """
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from packaging import version as vs
def get_version(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None
at_hand = get_version("vllm")
if at_hand is None:
    raise ValueError("no vllm")
elif vs.parse(at_hand) >= vs.parse("{}"):
    pass
else:
    if find_spec("sglang") is None:
        raise ValueError(f"vllm version {{at_hand}} not supported")
"""


def test_a_trainer_that_refuses_a_version(link: Link) -> None:
    refused = "16 refused vllm version 0.12.0 not supported of vllm"
    assert link(OWN_VERSION.format("0.18.0").lstrip()) == [f"import: trl/trainer/grpo_trainer.py:{refused}"]
    # A release that it takes, a condition that is not known, a handler, what is no version.
    assert link(OWN_VERSION.format("0.12.0").lstrip()) == []
    unsure = OWN_VERSION.format("0.18.0").lstrip().replace("find_spec(", "asked(")
    assert link(unsure) == [f"perhaps: trl/trainer/grpo_trainer.py:{refused}"]
    guarded = "try:\n    import trl.engine\nexcept ValueError:\n    pass\n"
    assert link(guarded, {"trl/engine.py": OWN_VERSION.format("0.18.0").lstrip()}) == []
    assert link("LIMIT = '0.12.1'\nif LIMIT == '0.12.1':\n    raise ValueError('vllm')\n") == []


def test_a_device_that_a_package_beside_torch_brings(link: Link) -> None:
    text = f"import torch\nif hasattr(torch, 'npu'):\n    {GONE}"
    torch = {"torch/__init__.py": "def __getattr__(name): ...\n"}
    assert link(text, torch) == []
    assert link(text, {**torch, "torch_npu/__init__.py": ""}) == [f"import: trl/trainer/grpo_trainer.py:3 {FOUND}"]


def test_a_device_that_a_trainers_own_function_asks_for(link: Link) -> None:
    said = f"from ..devices import is_torch_npu_available\nif is_torch_npu_available():\n    pass\nelse:\n    {GONE}"
    own = {"trl/devices.py": "def is_torch_npu_available():\n    return asked()\n"}
    assert link(said, own) == [f"import: trl/trainer/grpo_trainer.py:5 {FOUND}"]
    assert link(said, {**own, "torch_npu/__init__.py": ""}) == [f"perhaps: trl/trainer/grpo_trainer.py:5 {FOUND}"]


@pytest.mark.parametrize(
    ("system", "found"), [("Linux", [f"import: trl/trainer/grpo_trainer.py:10 {FOUND}"]), ("Darwin", [])]
)
def test_what_is_there_on_one_kind_of_machine_alone(
    link: Link, monkeypatch: pytest.MonkeyPatch, system: str, found: list[str]
) -> None:
    """As unsloth keeps Apple's machines and the others apart."""
    monkeypatch.setitem(conditions.MACHINE, "platform.system", lambda: system)
    asks = "import platform\ndef _is_mlx_available():\n    if platform.system() != 'Darwin':\n        return False\n"
    text = f"{asks}    return True\n_IS_MLX = _is_mlx_available()\nif _IS_MLX:\n    pass\nelse:\n    {GONE}"
    assert link(text) == found


@pytest.mark.parametrize(("last", "found"), [("", "perhaps"), (GONE, "import")])
def test_modules_that_all_import_each_other_are_counted_once(link: Link, last: str, found: str) -> None:
    """What each way through a condition leads to is worked out over modules, of which there are few, and not over the
    ways through them."""
    count = 20
    imports = "".join(f"    import trl.m{number}\n" for number in range(count))
    way = f"import os\nif os.path.exists('x'):\n{imports}else:\n{imports}"
    each = {f"trl/m{number}.py": imports.replace("    ", "") + way for number in range(count)}
    each["trl/end.py"] = GONE
    problems = link(f"{way}{last}if os.path.exists('y'):\n    import trl.end\n", each)
    assert f"{found}: trl/{'end.py:1' if not last else 'trainer/grpo_trainer.py:44'} {FOUND}" in problems
