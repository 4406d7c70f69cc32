"""The cohortsum command: rendering, progress and exit codes.

Commands that run a daemon and commands that call one live in one program, so gRPC is imported before any of them runs. It reads once, when it is
imported, which cipher suites TLS may use: that is said here, before every other module of this package.
"""

import os

from cohortsum.crypto.certificates import TLS13_ONLY

os.environ[TLS13_ONLY[0]] = TLS13_ONLY[1]
