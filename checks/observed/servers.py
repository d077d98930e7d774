"""The rollout server that some frameworks' trainers talk to, and the command that starts it."""

from __future__ import annotations

from rldoctor.api import LogEvent

_SERVES = {
    "axolotl": "axolotl vllm-serve CONFIG.yaml",
    "ms-swift": "swift rollout --model MODEL",
    "open-r1": "trl vllm-serve --model MODEL",
    "trl": "trl vllm-serve --model MODEL",
}
# What only TRL's client says, or asks for, where a log names no framework.
_CLIENT = (
    r"vllm_client|The vLLM server can't be reached|Server is not up yet|/(?:health|get_world_size|init_communicator)/"
)


def serving(event: LogEvent) -> str | None:
    """The command that starts the rollout server of the run; None where the run has none, or none that is known."""
    framework = event.incident.framework
    if framework is None:
        return _SERVES["trl"] if event.search(_CLIENT) is not None else None
    return _SERVES.get(framework)
