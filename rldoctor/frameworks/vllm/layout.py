"""Where vLLM declares its options."""

from __future__ import annotations

from rldoctor.tables.options.parts import Group, Layout, Listing, ParserPart, class_part, fields_of, parameters_of

_SERVE = tuple(f"vllm/entrypoints/{folder}/cli_args.py" for folder in ("openai", "common", "launchers"))

VLLM = Layout(
    packages=("vllm",),
    markers=("vllm/engine/arg_utils.py",),
    groups={
        "EngineArgs": fields_of("vllm/engine/arg_utils.py:EngineArgs"),
        "AsyncEngineArgs": Group(
            (class_part("vllm/engine/arg_utils.py:AsyncEngineArgs", inherited=False),), ("EngineArgs",)
        ),
        "LLM": parameters_of("vllm/entrypoints/llm.py:LLM.__init__", includes=("EngineArgs",)),
        "SamplingParams": fields_of("vllm/sampling_params.py:SamplingParams"),
        "serve": Group((ParserPart(tuple((path, "make_arg_parser") for path in _SERVE)),), abbreviations=True),
    },
    names={
        # Any other text is the path of a class.
        "distributed_executor_backend": Listing(
            places=tuple(
                f"vllm/{path}:DistributedExecutorBackend"
                for path in ("config/parallel.py", "config/__init__.py", "config.py")
            ),
            compared=("vllm/config.py:self.distributed_executor_backend",),
            closed=True,
        ),
    },
)

LAYOUTS = {"vllm": VLLM}
