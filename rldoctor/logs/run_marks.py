"""Lines that open a run, and lines that tell which stage of training it reached."""

from __future__ import annotations

from rldoctor.frameworks import trainers

# A program was started here: by torchrun, by Ray's driver, by a shell trace, by nohup, by whoever wrote a title.
STARTS: tuple[str, ...] = (
    "Setting OMP_NUM_THREADS environment variable for each process",
    "Connecting to existing Ray cluster",
    # ray job submit
    "Job submission server address: ",
    "nohup: ignoring input",
    "+ torchrun ",
    "+ accelerate launch",
    "+ python ",
    "+ python3 ",
    "+ deepspeed ",
    "===== run ",
)
# What a program says soon after its start. Several processes of one run do, so that only a failure of the whole run in
# front of it makes it the beginning of another.
EARLY: tuple[str, ...] = (
    "Started a local Ray instance",
    "Automatically detected platform",
    "Triton is installed, but doesn't include",
    "non-default args: ",
    "LLM engine (v",
    "Loading weights:   0%",
    "Loading checkpoint shards:   0%",
    "Distutils was imported before Setuptools",
    "Setting ds_accelerator to",
    "Using auto half precision backend",
    # Megatron's table of its arguments, and what somebody types at a shell's prompt; with python many look at what is
    # installed once a run has failed.
    "-- arguments --",
    *(f"$ {program} " for program in ("bash", "sh", "torchrun", "deepspeed", "nohup", "accelerate launch")),
    *(text for framework in trainers() for text in framework.words.early),
)

# What a server writes that was asked to end (SIGINT, SIGTERM), and only then: vLLM's launcher of the front end, older
# and newer, SGLang's.
SHUTDOWN = "shutdown"
_ASKED_TO_END = (
    "[shutdown] API server: shutdown triggered",
    "Shutting down FastAPI HTTP server.",
    "SIGTERM received. signum=",
)

# Said once or a few times a phase; lines of every step would only slow the pass down.
STAGES: dict[str, str] = {
    **dict.fromkeys(_ASKED_TO_END, SHUTDOWN),
    "Loading safetensors checkpoint shards:   0%": "weights",
    "Loading checkpoint shards:   0%": "weights",
    "Starting to load model ": "weights",
    "Capturing cudagraphs": "start",
    "Capturing the model for CUDA graphs": "start",
    "***** Running training *****": "update",
    "***** Running Evaluation": "evaluation",
    "***** Running evaluation": "evaluation",
    "Saving model checkpoint to": "checkpoint",
    **{text: stage for framework in trainers() for text, stage in framework.words.stages.items()},
}
