"""Small virtual environments with packages that are broken on purpose."""

from __future__ import annotations

import subprocess
import sysconfig
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path


class Environment:
    """A virtual environment of this Python without anything installed, into which packages are written."""

    def __init__(self, directory: Path, beside: Path | None = None) -> None:
        """``beside`` is the interpreter of another environment whose packages are visible too, behind one's own."""
        venv.create(directory, symlinks=True, with_pip=False)
        self.python = directory / "bin" / "python"
        version = sysconfig.get_python_version()
        if beside is not None:
            version = next((beside.parent.parent / "lib").glob("python3.*")).name.removeprefix("python")
            self.python.unlink()
            self.python.symlink_to(beside.resolve())
        self.site = directory / "lib" / f"python{version}" / "site-packages"
        self.site.mkdir(parents=True, exist_ok=True)
        if beside is not None:
            other = beside.parent.parent / "lib" / f"python{version}" / "site-packages"
            (self.site / "beside.pth").write_text(f"{other}\n")

    def install(self, name: str, version: str, files: Mapping[str, str], requires: Sequence[str] = ()) -> Environment:
        """Writes a distribution with its modules."""
        info = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        declared = "".join(f"Requires-Dist: {line}\n" for line in requires)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{declared}")
        for path, text in files.items():
            (self.site / path).parent.mkdir(parents=True, exist_ok=True)
            (self.site / path).write_text(text)
        return self

    def compile(self, module: str, source: str, *options: str) -> Environment:
        """Builds an extension module from C."""
        suffix = ".abi3.so"
        file = self.site / (module.replace(".", "/") + suffix)
        include = sysconfig.get_paths()["include"]
        command = ["gcc", "-shared", "-fPIC", f"-I{include}", "-DPy_LIMITED_API", "-x", "c", "-", "-o", str(file)]
        subprocess.run([*command, *options], input=source, text=True, check=True, timeout=60)
        return self


def extension(module: str, body: str = "", before: str = "") -> str:
    """The C source of an extension module; ``body`` runs when it is loaded."""
    return f"""#include <Python.h>
{before}
static struct PyModuleDef definition = {{PyModuleDef_HEAD_INIT, "{module}", 0, -1, 0, 0, 0, 0, 0}};
PyMODINIT_FUNC PyInit_{module}(void) {{ {body} return PyModule_Create(&definition); }}
"""
