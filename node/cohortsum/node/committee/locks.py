"""What a worker gives up before it computes: files, network, children, core dumps, privileges, time and memory.

Every lock is put on by the worker itself and cannot be taken off by it. `early` comes before anything is imported that starts threads,
`late` when all files it needs are open; from then on no descriptor can be opened at all, so there is no file and no socket but the two
pipes. Locks that a system does not have are left out, and what is on is reported.
"""

import ctypes
import resource
import sys

CPU_SECONDS = 600
MEMORY_BYTES = 2 * 2**30
DESCRIPTORS = 64
_NO_NEW_PRIVS = 38  # PR_SET_NO_NEW_PRIVS
_NOT_DUMPABLE = 4  # PR_SET_DUMPABLE: no other process of this user may trace it or read its memory
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000


def early() -> list[str]:
    """Put on what can be on from the start; return the names of the locks."""
    names = ["no core dumps", "processor time", "memory", "descriptors"]
    for which, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_NOFILE, DESCRIPTORS),
    ):
        _limit(which, most)
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
            names.append("no new privileges")
        if libc.prctl(_NOT_DUMPABLE, 0, 0, 0, 0) == 0:
            names.append("not traceable")
        if libc.unshare(_NEW_USER | _NEW_NETWORK) == 0:
            names.append("network namespace")
    return names


def late() -> list[str]:
    """Put on what would have hindered imports; return the names of the locks."""
    _limit(resource.RLIMIT_NOFILE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_NPROC, 0)
    return ["no new files or sockets", "no writing to files", "no children"]


def _limit(which: int, most: int) -> None:
    """Lower a limit for good; one that is lower already stays."""
    _, hard = resource.getrlimit(which)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (most, most))
