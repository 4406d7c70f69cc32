"""What a worker gives up before it computes: files, network, children, core dumps, privileges, time and memory.

Every lock is put on by the worker itself and cannot be taken off by it. `early` comes before anything is imported that starts threads,
`late` when all files it needs are open; from then on no descriptor can be opened at all, so there is no file and no socket but the two
pipes, and no process can be started. Locks that a system does not have are left out, and what is on is reported.

On Linux a filter of system calls (seccomp) refuses children, programs, files, sockets, and reaching into other processes. It is known
for two machines, x86-64 and 64-bit Arm; elsewhere limits stand alone, and the one on processes does not bind root. A service manager may
refuse the limits: then the filter stands alone.
"""

import ctypes
import os
import platform
import resource
import struct
import sys

CPU_SECONDS = 600
MEMORY_BYTES = 2 * 2**30
DESCRIPTORS = 64
_NO_NEW_PRIVS = 38  # PR_SET_NO_NEW_PRIVS
_DUMPABLE = 4  # PR_SET_DUMPABLE: 0 for nobody else of this user tracing it or reading its memory
_SECCOMP, _FILTER = 22, 2  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_X32 = 0x40000000  # numbers from here on are the x32 calls of x86-64
_LOAD, _EQUAL, _FROM, _RETURN = 0x20, 0x15, 0x35, 0x06  # BPF: load a word; jump if equal, if not less; return
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001  # SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO with EPERM
_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# clone, fork, vfork, execve, execveat, clone3; open, creat, openat, openat2, socket, io_uring_setup;
# ptrace, kill, process_vm_readv, process_vm_writev
_REFUSED = {
    "x86_64": (56, 57, 58, 59, 322, 435, 2, 85, 257, 437, 41, 425, 101, 62, 310, 311),
    "aarch64": (220, 221, 281, 435, 56, 437, 198, 425, 117, 129, 270, 271),
}
ENOUGH = frozenset({"system calls", "no new files or sockets"})
"""One of these two must be on, or a worker does not compute."""


def early() -> list[str]:
    """Put on what can be on from the start; return the names of the locks."""
    limits = {
        "no core dumps": (resource.RLIMIT_CORE, 0),
        "processor time": (resource.RLIMIT_CPU, CPU_SECONDS),
        "memory": (resource.RLIMIT_AS, MEMORY_BYTES),
        "descriptors": (resource.RLIMIT_NOFILE, DESCRIPTORS),
    }
    names = [name for name, (which, most) in limits.items() if _limit(which, most)]
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
            names.append("no new privileges")
        if libc.prctl(_DUMPABLE, 0, 0, 0, 0) == 0:
            names.append("not traceable")
        if libc.unshare(_NEW_USER | _NEW_NETWORK) == 0:
            names.append("network namespace")
    return names


def late() -> list[str]:
    """Put on what would have hindered imports; return the names of the locks."""
    names: list[str] = []
    filtered = sys.platform == "linux" and _filter(platform.machine())
    if filtered:
        names.append("system calls")
    if (_limit(resource.RLIMIT_NPROC, 0) and os.geteuid() != 0) or filtered:
        names.append("no children")
    if _limit(resource.RLIMIT_FSIZE, 0):
        names.append("no writing to files")
    if _limit(resource.RLIMIT_NOFILE, 0):
        names.append("no new files or sockets")
    return names


def _limit(which: int, most: int) -> bool:
    """Lower a limit for good, one that is lower already stays; return whether the system takes it."""
    _, hard = resource.getrlimit(which)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    try:
        resource.setrlimit(which, (most, most))
    except (ValueError, OSError):  # macOS knows some limits and takes none
        return False
    return True


def _filter(machine: str) -> bool:
    """Refuse system calls for good; return whether that worked."""
    if machine not in _MACHINES:
        return False
    refused = _REFUSED[machine]
    checks = [(_FROM, len(refused) + 1, 0, _X32)]
    checks += [(_EQUAL, len(refused) - place, 0, call) for place, call in enumerate(refused)]
    steps = [
        (_LOAD, 0, 0, 4),  # the machine that the call is made for
        (_EQUAL, 1, 0, _MACHINES[machine]),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, 0),  # the number of the call
        *checks,
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    program = Program(len(steps), ctypes.addressof(code))
    return bool(ctypes.CDLL(None).prctl(_SECCOMP, _FILTER, ctypes.byref(program), 0, 0) == 0)
