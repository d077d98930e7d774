"""Writes a file into ``folder`` and reads it back. Runs under the target's interpreter, with the standard library."""

import os
import sys
from pathlib import Path

sys.path.append(os.environ["RLDOCTOR_CHILDREN"])
from report import emit, run

DATA = b"acme"


def main(arguments):
    file = Path(arguments["folder"]) / f"rldoctor-{os.getpid()}"
    try:
        file.write_bytes(DATA)
        emit("written", {"folder": arguments["folder"], "bytes": len(file.read_bytes())})
    finally:
        file.unlink(missing_ok=True)


if __name__ == "__main__":
    run(main)
