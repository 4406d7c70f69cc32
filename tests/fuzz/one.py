"""One target under the fuzzer, in a process of its own: ``python -m tests.fuzz.one TARGET`` and options of libFuzzer.

Python's own bytecode is instrumented (atheris), so the fuzzer sees which branches of cohortsum an input takes and keeps what reaches
new ones. A case that makes the process larger by more than `target.SPARE_BYTES` and so much per byte is a finding, as is one that
raises; libFuzzer itself ends a case that hangs.
"""

import importlib
import logging
import os
import resource
import sys
from typing import Any

from tests.fuzz.target import PER_BYTE, SPARE_BYTES


class TooLargeError(Exception):
    """A case took more memory than its input may cost."""


def _most() -> int:
    """Return the greatest size that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Run a target until the fuzzer is content, or something is found."""
    name, options = sys.argv[1], sys.argv[2:]
    atheris: Any = importlib.import_module("atheris")
    logging.disable()
    with atheris.instrument_imports(include=["cohortsum"], enable_loader_override=False):
        from cohortsum.crypto.certificates import TLS13_ONLY

        os.environ[TLS13_ONLY[0]] = TLS13_ONLY[1]  # before anything imports grpc, as in the daemons
        target = importlib.import_module("tests.fuzz.registry").TARGETS[name]

    def case(data: bytes) -> None:
        before = _most()
        target.run(data)
        grown = _most() - before
        if grown > SPARE_BYTES + PER_BYTE * len(data):
            raise TooLargeError(f"{grown} bytes for an input of {len(data)}")

    for path in target.corpus():  # what is made once is made before anything is measured
        target.run(path.read_bytes())
    atheris.Setup([sys.argv[0], f"-max_len={target.size}", *options], case)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
