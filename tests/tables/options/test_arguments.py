"""Options that ``add_argument`` calls declare."""

from __future__ import annotations

from collections.abc import Callable

from rldoctor.tables.options.arguments import Arguments
from rldoctor.tables.options.fields import Classes
from rldoctor.tables.options.model import MISSING, Computed, Options

Make = Callable[[dict[str, str]], Classes]


def options(made: Classes, function: str | None = None) -> Options:
    module = made.sources.at("pkg/main.py")
    assert module is not None
    return Arguments(made).options(module, function)


def test_the_main_block_of_a_script(classes: Make) -> None:
    read = options(
        classes(
            {
                "pkg/main.py": """
                import argparse
                def train(args):
                    pass
                if __name__ == "__main__":
                    parser = argparse.ArgumentParser()
                    parser.add_argument("--zero_stage", type=int, default=2, choices=[0, 1, 2, 3])
                    parser.add_argument("--colocate_all_models", action="store_true", default=False)
                    parser.add_argument("--keep", action="store_false")
                    parser.add_argument("--pretrain", type=str, required=True)
                    parser.add_argument("--max_mem", type=float, default=float("inf"))
                    parser.add_argument("--betas", type=float, nargs=2, default=(0.9, 0.95))
                    parser.add_argument("--run", default="ppo_%s" % datetime.now())
                    parser.add_argument("--old", type=int, default=None, help="[deprecated] use --zero_stage")
                    for prefix in ("actor", "critic"):
                        parser.add_argument(f"--{prefix}.lr", type=float, default=1e-6 if prefix == "actor" else 9e-6)
                    args = parser.parse_args()
                """
            }
        )
    )
    assert (read["zero_stage"].default, read["zero_stage"].choices) == (2, (0, 1, 2, 3))
    assert read["colocate_all_models"].default is False
    assert read["keep"].default is True
    assert read["pretrain"].required
    assert read["pretrain"].default is MISSING
    assert read["max_mem"].default == Computed('float("inf")')
    assert read["betas"].default == [0.9, 0.95]
    assert isinstance(read["run"].default, Computed)
    assert read["old"].deprecated
    assert (read["actor.lr"].default, read["critic.lr"].default) == (1e-6, 9e-6)


def test_a_parser_is_followed_through_functions_and_classes(classes: Make) -> None:
    # The way of vLLM: flags of a dataclass in a loop, and flags that unpack a field's description.
    read = options(
        classes(
            {
                "pkg/config.py": """
                from dataclasses import dataclass
                from typing import Literal
                @dataclass
                class Cache:
                    share: float = 0.92
                    block: Literal[8, 16] = 16
                    prefix: bool | None = None
                    tokens: int = 2048
                """,
                "pkg/frontend.py": """
                from dataclasses import dataclass
                @dataclass
                class Frontend:
                    host: str | None = None
                    reload: bool = False
                    @classmethod
                    def add_cli_args(cls, parser):
                        kwargs = get_kwargs(cls)
                        for key, value in kwargs.items():
                            parser.add_argument(f"--{key}", **value)
                        return parser
                """,
                "pkg/main.py": """
                from pkg.config import Cache
                from pkg.frontend import Frontend
                class Engine:
                    @staticmethod
                    def add_cli_args(parser):
                        cache = get_kwargs(Cache)
                        group = parser.add_argument_group(title="Cache")
                        group.add_argument("--gpu-memory-utilization", "-gmu", **cache["share"])
                        group.add_argument("--block-size", **cache["block"])
                        group.add_argument("--enable-prefix-caching", **cache["prefix"])
                        group.add_argument("--max-tokens", **{**cache["tokens"], "default": None})
                        group.add_argument("--log", action=argparse.BooleanOptionalAction, default=False)
                        return parser
                def make_arg_parser(parser):
                    parser = Frontend.add_cli_args(parser)
                    return Engine.add_cli_args(parser)
                """,
            }
        ),
        "make_arg_parser",
    )
    assert read["host"].type == "str?"
    assert read["no_reload"].alias == "reload"
    assert (read["gpu_memory_utilization"].default, read["-gmu"].alias) == (0.92, "gpu_memory_utilization")
    assert read["block_size"].choices == (8, 16)
    assert read["no_enable_prefix_caching"].alias == "enable_prefix_caching"
    assert (read["max_tokens"].default, read["max_tokens"].type) == (None, "int")
    assert "no_log" in read


def test_how_many_values_an_option_takes(classes: Make) -> None:
    text = """
    def add(parser):
        parser.add_argument("--betas", type=float, nargs=2)
        parser.add_argument("--rewards", nargs="+")
    """
    read = options(classes({"pkg/main.py": text}), "add")
    assert (read["betas"].count, read["rewards"].count) == (2, None)


def test_functions_that_a_function_defines_itself(classes: Make) -> None:
    text = """
    def provider(more):
        def add(parser):
            def cluster(parser):
                parser.add_argument("--nodes", type=int, default=1)
                return parser

            parser = cluster(parser)
            parser.add_argument("--colocate", action="store_true")
            return parser

        def unused(parser):
            parser.add_argument("--unused")

        return add
    """
    assert set(options(classes({"pkg/main.py": text}), "provider")) == {"nodes", "colocate"}
