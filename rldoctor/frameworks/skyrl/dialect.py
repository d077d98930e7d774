"""SkyRL: overrides of ``skyrl_train`` (Hydra over its YAML, 0.1 to 0.4) and of ``skyrl`` (classes, no Hydra)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from rldoctor.formats.hydra.overrides import by_yaml
from rldoctor.formats.native import Native
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.releases import within, writing
from rldoctor.frameworks.rule import Rule
from rldoctor.frameworks.shared_rules import Deciding, not_twice
from rldoctor.frameworks.skyrl.engine import PASSED, engine, lengths, seeds
from rldoctor.frameworks.skyrl.place import batch, placement, trainer
from rldoctor.frameworks.skyrl.release import FIRST, SECOND, owner_of, translates
from rldoctor.frameworks.skyrl.table import BESIDE, ENGINE, LEGACY, TABLE
from rldoctor.frameworks.spelled import Spelling
from rldoctor.model import Edit
from rldoctor.plan.model import Form, RolloutPlan, UnknownOption

# Mains of the framework itself; those of examples may add classes with keys of their own.
_MAINS = ("skyrl_train.entrypoints.", "skyrl.train.entrypoints.")
_MIXED = "skyrl (which refuses names of skyrl-train together with its own)"
_PLUS = "skyrl (which takes no + before a key)"


def _inert(draft: Draft) -> None:
    """Keys that are declared and reach nobody. ``enable_chunked_prefill`` occurs in the configuration only, up to 0.4
    of either package; the engine takes what stands in ``engine_init_kwargs``, else its own default."""
    for key in (f"{ENGINE}.enable_chunked_prefill", "generator.enable_chunked_prefill"):
        setting, native = draft.settings.get("engine.enable_chunked_prefill"), draft.natives.get(key)
        if setting is None or setting.key != key:
            continue
        del draft.settings["engine.enable_chunked_prefill"]
        if native is None or native.value is not False:
            continue  # what a present engine does anyway
        draft.unknown.append(
            native.as_unknown(
                owner=f"SkyRL {draft.launch.version_of(owner_of(draft.launch)) or ''}".strip(),
                nearest=(f"{key.rpartition('.')[0]}.engine_init_kwargs.enable_chunked_prefill",),
                ignored=True,
                why="SkyRL declares the key and does not hand it to the engine",
            )
        )


class SkyRL(Deciding):
    name, owner = "SkyRL", SECOND
    entries = (*(f"{main}*" for main in _MAINS), "skyrl_agent.integrations.skyrl_train.*")
    keys = (
        ENGINE,
        "generator.sampling_params",
        "generator.num_inference_engines",
        "trainer.placement",
        "trainer.policy_mini_batch_size",
    )
    imports = ("skyrl_train", "skyrl.train")
    style = Form.OVERRIDE
    # backends/skyrl_train/utils/ppo_utils.py, validate_cfg
    words: ClassVar[Mapping[str, str]] = {
        "trainer.algorithm.advantage_estimator": "gae grpo rloo reinforce++ maxrl",
        "trainer.algorithm.policy_loss_type": "regular dual_clip sapo gspo cispo rollout_is dppo clip_cov kl_cov",
        "trainer.strategy": "fsdp fsdp2 megatron deepspeed",
        "generator.backend": "vllm sglang",
        f"{ENGINE}.backend": "vllm sglang",
    }
    strict = frozenset({Form.OVERRIDE})
    untyped = True
    table: ClassVar[Mapping[str, str | Rule]] = TABLE
    beside = BESIDE
    # Also what its HTTP server takes: chat_template, enable_log_requests (pop_openai_kwargs in vllm_engine.py).
    owners: ClassVar[Mapping[str, str]] = {
        f"{ENGINE}.engine_init_kwargs.": "vllm:serve",
        "generator.engine_init_kwargs.": "vllm:serve",
    }
    derivations = (_inert, trainer, placement, lengths, seeds, engine, batch)

    def role(self, launch: Launch) -> str:
        """``serve`` starts the engines alone."""
        return "server" if launch.entry.endswith(".entrypoints.serve") else "trainer"

    def collected(self, launch: Launch) -> Iterator[Native]:
        """skyrl has no Hydra: OmegaConf reads its overrides (config.py, from_cli_overrides)."""
        natives = super().collected(launch)
        yield from map(by_yaml, natives) if owner_of(launch) == SECOND else natives

    def main_group(self, launch: Launch) -> str:
        """The options of the package that the launch runs."""
        return owner_of(launch)

    def check_known(self, draft: Draft, native: Native) -> None:
        """Names of the other generation, names mixed from both, and a ``+`` where none is taken."""
        launch, key = draft.launch, native.key
        mine, other = launch.entry.startswith(_MAINS), LEGACY.get(key)
        if (
            native.form is not Form.OVERRIDE
            or launch.arguments(overrides=True).find("trainer.override_entrypoint") is not None
        ):
            return
        if mine and owner_of(launch) == SECOND and native.operator:
            with_operator = native.operator + native.spelled
            draft.unknown.append(native.as_unknown(owner=_PLUS, nearest=(native.spelled,), key=with_operator))
        elif other is not None and translates(launch) and _mixed(launch):
            draft.unknown.append(native.as_unknown(owner=_MIXED, nearest=(other,)))
        elif mine or other is not None or key.startswith(f"{ENGINE}."):
            before = len(draft.unknown)
            super().check_known(draft, native)
            if len(draft.unknown) > before and (same := self._counterparts(launch, key)):
                draft.unknown[-1] = replace(draft.unknown[-1], nearest=same)
            if len(draft.unknown) > before and not mine and not _another_name(draft.unknown[-1]):
                draft.unknown.pop()

    def _counterparts(self, launch: Launch, key: str) -> tuple[str, ...]:
        """What the launch's release calls a key of another one."""
        found, options = self.rules().get(key), launch.options(self.main_group(launch))
        if found is None or options is None:
            return ()
        return tuple(name for name, _ in self.native_keys(found.option) if options.known(name) is True and name != key)

    def plan(self, draft: Draft) -> RolloutPlan:
        """With the version of the package that the launch runs."""
        return replace(super().plan(draft), version=draft.launch.version_of(owner_of(draft.launch)))

    def spell(self, edit: Edit, plan: RolloutPlan) -> Spelling:
        """In the names that the plan's release has."""
        first = _first_generation(plan)
        version = plan.version if within(plan.version, "0.1") else "0.3.0"
        from rldoctor.frameworks.spelling import spell

        spelling = spell(writing(SkyRLTrain if first else SkyRL, version or "0.3.0", "main_base"), edit, plan)
        for section in self.owners:
            spelling = not_twice(spelling, section.rstrip("."), PASSED, "SkyRL")
        return spelling


class SkyRLTrain(SkyRL):
    """The same keys as skyrl-train writes them: Hydra takes new ones with ``++``."""

    owner = FIRST
    append = "++"


def _another_name(unknown: UnknownOption) -> bool:
    """Whether a key is one of another release, or close to a real one: what is neither may be a field of the class
    with which a main of one's own extends the configuration."""
    return bool(unknown.nearest or unknown.since or unknown.until)


def _mixed(launch: Launch) -> bool:
    keys = {native.key for native in launch.arguments(overrides=True).natives}
    return any(key.startswith(f"{ENGINE}.") for key in keys) and any(key in LEGACY for key in keys)


def _first_generation(plan: RolloutPlan) -> bool:
    if plan.entry.startswith(_MAINS):
        return plan.entry.startswith(_MAINS[0])
    keys = {given.key for given in plan.given}
    return any(key in LEGACY for key in keys) and not any(key.startswith(f"{ENGINE}.") for key in keys)


DIALECT = SkyRL()
