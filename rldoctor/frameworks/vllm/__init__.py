"""Plain vLLM: its server, and scripts that drive it."""

from __future__ import annotations

from rldoctor.frameworks.record import Framework, Package, Validation

# Where the server's own options are looked at, by release.
_SERVER = tuple(f"vllm.entrypoints.{place}.cli_args" for place in ("openai", "launchers", "common"))

FRAMEWORK = Framework(
    home=__name__,
    name="vllm",
    title="vLLM",
    marks=("vllm",),
    packages=(
        Package(
            name="vllm",
            modules=("vllm",),
            since="0.6.3",
            attributes=("LLM", "SamplingParams"),
            further=("vllm._custom_ops",),
        ),
    ),
    trains=False,
    validations=(
        Validation(
            module="vllm.engine.arg_utils",
            name="EngineArgs",
            method="create_engine_config",
            makes=tuple(
                f"vllm.config{module}:{name}Config"
                for name in ("Model", "Cache", "Parallel", "Scheduler")
                for module in ("", f".{name.lower()}")
            ),
        ),
        *(
            Validation(
                module=module,
                name="validate_parsed_serve_args",
                settings="args",
                group="vllm:serve",
                command="subparser",
            )
            for module in _SERVER
        ),
    ),
    programs=("vllm",),
)
