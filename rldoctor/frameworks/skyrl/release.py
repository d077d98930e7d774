"""Which of SkyRL's two packages a launch runs, and in which release."""

from __future__ import annotations

from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.releases import within
from rldoctor.frameworks.skyrl.table import ENGINE

FIRST, SECOND = "skyrl-train", "skyrl"


def owner_of(launch: Launch) -> str:
    """``skyrl-train`` or ``skyrl``: by the module that is run, else by its keys, else by what is installed."""
    entry = launch.entry
    if "skyrl_train" in entry and "skyrl_agent" not in entry:  # whose integration has that name with both
        return FIRST
    if entry.startswith(("skyrl.", "examples.train.", "examples.train_integrations.")):
        return SECOND
    keys = [native.key for native in launch.arguments(overrides=True).natives]
    if any(key.startswith(f"{ENGINE}.") for key in keys):
        return SECOND
    if any(key.startswith("generator.") for key in keys):
        return FIRST
    return SECOND if launch.version_of(FIRST) is None and launch.version_of(SECOND) is not None else FIRST


def first(draft: Draft, low: str, high: str | None = None) -> bool:
    """Whether the launch runs a skyrl-train that is known to be in [low, high)."""
    return owner_of(draft.launch) == FIRST and within(draft.launch.version_of(FIRST), low, high)


def second(draft: Draft, low: str, high: str | None = None) -> bool:
    """Whether the launch runs a skyrl that is known to be in [low, high)."""
    return owner_of(draft.launch) == SECOND and within(draft.launch.version_of(SECOND), low, high)


def translates(launch: Launch) -> bool:
    """Whether it is a skyrl that still takes the names of skyrl-train (skyrl/train/config/legacy.py)."""
    return owner_of(launch) == SECOND and within(launch.version_of(SECOND), "0.1", "0.3")


def handed_over(draft: Draft) -> bool:
    """Whether the run is an integration's, which has engines and a placement of its own (main_base.py)."""
    return draft.native("trainer.override_entrypoint") is not None


def servers(draft: Draft) -> bool | None:
    """Whether engines are HTTP servers with one configuration (inference_servers/utils.py: from skyrl 0.3.0 always, in
    0.2 by default, in 0.1 and skyrl-train 0.4 on request) or actors with a seed each; None where the release is not
    known, or the run is handed over."""
    if handed_over(draft):
        return None
    asked = draft.value("env._SKYRL_USE_NEW_INFERENCE")
    wanted = None if asked is None else str(asked).lower() in ("true", "1", "yes")
    if second(draft, "0.3"):
        return True
    if second(draft, "0.2"):
        return wanted is not False
    if second(draft, "0.1") or first(draft, "0.4"):
        return wanted is True
    return False if first(draft, "0.1") else None
