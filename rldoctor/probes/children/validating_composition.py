"""Has Hydra compose a framework's own configuration with the overrides of a launch; nothing of the framework runs.

Arguments: ``module`` (which the launch starts; its ``@hydra.main`` says where the files lie), ``path`` and ``name`` (of
the primary one, where the launch names another), ``overrides`` as Hydra reads them, ``open`` (names of those whose
values nobody can read)."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

from leaves import PLAIN, leaves
from report import emit

REFUSALS: tuple[type[Exception], ...] = ()


def ways(arguments: dict[str, Any]) -> list[tuple[str, Any]]:
    """One: it is composed as given."""
    global REFUSALS
    import hydra
    from hydra.errors import HydraException

    REFUSALS = (HydraException,)
    file = _file(arguments["module"])
    folder, name = _primary(file, arguments["path"], arguments["name"])
    emit("package", {"name": "hydra-core", "version": hydra.__version__})
    emit("taken", sorted(one.partition("=")[0] for one in arguments["overrides"]))
    emit("left_out", arguments["open"])
    return [("as given", lambda: _composed(folder, name, arguments["overrides"]))]


def of_the_machine(error: BaseException) -> bool:
    """No refusal of Hydra's is: where its files do not compose by themselves, that is a :class:`LookupError`."""
    return False


def _file(module: str) -> Path:
    top, *rest = module.split(".")
    found = importlib.util.find_spec(top)
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        file = Path(folder, *rest).with_suffix(".py")
        if file.is_file():
            return file
    raise ModuleNotFoundError(f"No module named {module!r}", name=module)


def _primary(file: Path, other_path: str | None, other_name: str | None) -> tuple[Path, str]:
    """The folder and the name that the launch gives, else ``@hydra.main``; where that computes the folder, the next
    ``config`` above that holds the name."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "hydra.main":
            given = {k.arg: getattr(k.value, "value", None) for k in node.keywords}
            path, name = other_path or given.get("config_path"), other_name or given.get("config_name")
            name = str(name).removesuffix(".yaml")
            near = [file.parent / path] if isinstance(path, str) else [above / "config" for above in file.parents]
            found = next((folder for folder in near if (folder / f"{name}.yaml").is_file()), None)
            if found is not None:
                return found.resolve(), name
    raise LookupError(f"{file.name} has no @hydra.main whose configuration is found")


def _composed(folder: Path, name: str, overrides: list[str]) -> dict[str, Any]:
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(config_dir=str(folder), version_base=None):
        try:
            made = compose(config_name=name, overrides=overrides)
        except REFUSALS:
            # A search path may begin at the folder in which the launch is started (file://verl/trainer/config).
            try:
                compose(config_name=name)
            except REFUSALS as alone:
                raise LookupError(f"{name} does not compose here without overrides: {alone}") from None
            raise
    # What asks this machine is not the launch's, and what the framework's own functions compute is not known.
    told = leaves(OmegaConf.to_container(made, resolve=False), kept=(*PLAIN, list))
    asked = {name: value for name, value in told if "${oc." not in str(value)}
    found = {name: _resolved(made, name) if "${" in str(value) else value for name, value in asked.items()}
    return {name: value for name, value in found.items() if value is not None}


def _resolved(made: Any, name: str) -> Any:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        value = OmegaConf.select(made, name)
    except OmegaConfBaseException:
        return None
    return value if isinstance(value, PLAIN) else None
