"""The servers that a run talks to: the rollout server that some frameworks' trainers ask, with the command that starts
it, and Ray, with what it costs to stop it."""

from __future__ import annotations

from rldoctor.api import LogEvent

_SERVES = {
    "axolotl": "axolotl vllm-serve CONFIG.yaml",
    "ms-swift": "swift rollout --model MODEL",
    "open-r1": "trl vllm-serve --model MODEL",
    "trl": "trl vllm-serve --model MODEL",
}
# `ray stop` looks for processes by their names, whichever cluster they are of.
STOPS_ALL_OF_RAY = "it ends every Ray on that machine, those of other runs and people included"
# What only TRL's client says, or asks for, where a log names no framework.
_CLIENT = (
    r"vllm_client|The vLLM server can't be reached|Server is not up yet|/(?:health|get_world_size|init_communicator)/"
)


def serving(event: LogEvent) -> tuple[str, ...]:
    """The command that starts the rollout server of the run; empty where the run has none, or none that is known."""
    framework = event.incident.framework
    if framework is None and event.search(_CLIENT) is not None:
        framework = "trl"
    return (_SERVES[framework],) if framework in _SERVES else ()
