"""The cohortsum command: rendering, progress and exit codes."""
