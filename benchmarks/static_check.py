"""`rldoctor check --level static` as a whole process, against `vllm collect-env` on the same environment.

Targets: 0.30 s, 60 MiB, and at least 30 times faster than the peer.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.measure import median


def main(python: str) -> None:
    doctor = str(Path(sys.executable).with_name("rldoctor"))
    static = median([doctor, "check", "--level", "static", "--python", python, "--fail-on", "never"], runs=15)
    peer = median([str(Path(python).with_name("vllm")), "collect-env"], runs=3)
    bare = median([sys.executable, "-c", "pass"], runs=15)
    print(f"rldoctor check --level static  {static.seconds:.3f} s  {static.peak_mib:.0f} MiB")
    print(f"vllm collect-env               {peer.seconds:.3f} s  {peer.peak_mib:.0f} MiB")
    print(f"python -c pass                 {bare.seconds:.3f} s  {bare.peak_mib:.0f} MiB")
    print(f"ratio peer / rldoctor          {peer.seconds / static.seconds:.1f}")


if __name__ == "__main__":
    main(sys.argv[1])
