"""Who called the library in which a failure was raised, where that library works for others."""

from __future__ import annotations

from rldoctor.logs.code_paths import package_of
from rldoctor.logs.model import LoggedException

# They validate, compose, fetch, carry and compute for whoever calls them: what they refuse was wrong before it came
# there.
_FOR_OTHERS = frozenset(
    [
        "pydantic",
        "omegaconf",
        "hydra",
        "antlr4",
        "httpcore",
        "httpx",
        "urllib3",
        "requests",
        "aiohttp",
        "anyio",
        "torch",
        "numpy",
        "pandas",
        "pyarrow",
        "datasets",
        "huggingface_hub",
        "safetensors",
        "tokenizers",
        "tensordict",
        "torchdata",
        "bitsandbytes",
        "flash_attn",
        "xformers",
        "triton",
        "wandb",
    ]
)


def call(root: LoggedException) -> tuple[str, str]:
    """The library that works for others in which a failure, or what it grew from, was raised, and who called it; both
    empty where another's code raised, or nobody is seen to call."""
    link = next((link for link in root.chain if link.frames), root)
    frames = [(package_of(frame.file, frame.function), frame) for frame in reversed(link.frames)]
    library = frames[0][0] if frames and not link.is_cut_off else None
    calling = next((frame for package, frame in frames if package not in ("python", *_FOR_OTHERS)), None)
    if library is None or library not in _FOR_OTHERS or calling is None:
        return "", ""
    line = f":{calling.line}" if calling.line is not None else ""
    return library, f"{calling.function} ({calling.file}{line})"


def called_by(root: LoggedException) -> str:
    """The same as the end of a sentence: ``; torch was called by step (trainer.py:12)``, or empty."""
    library, calling = call(root)
    return f"; {library} was called by {calling}" if calling else ""
