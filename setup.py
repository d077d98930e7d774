"""Which packages are shipped; everything else stands in pyproject.toml."""

from setuptools import find_packages, setup

# The folder checks/ is installed as rldoctor_checks (package-dir in pyproject.toml), a name that nobody else takes.
setup(
    packages=[
        *find_packages(include=["rldoctor", "rldoctor.*"]),
        *(f"rldoctor_{name}" for name in find_packages(include=["checks", "checks.*"])),
    ]
)
