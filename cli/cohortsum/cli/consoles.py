"""Where the command writes: results to standard output, everything else to standard error.

A terminal decides the width of tables itself; a file or pipe gets room for the longest names.
"""

import sys

from rich.console import Console

WIDTH_WITHOUT_TERMINAL = 110


def output() -> Console:
    """Return the console for results."""
    return _console(stderr=False, terminal=sys.stdout.isatty())


def messages() -> Console:
    """Return the console for progress, notes and errors."""
    return _console(stderr=True, terminal=sys.stderr.isatty())


def _console(stderr: bool, terminal: bool) -> Console:
    width = None if terminal else WIDTH_WITHOUT_TERMINAL
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=True)
