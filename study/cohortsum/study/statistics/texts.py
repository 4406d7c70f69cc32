"""Numbers of the study as words in result tables and in the names of people sets."""


def plain(value: float) -> str:
    """Return the shortest decimal that reads back as ``value``, whole numbers without a point: ``0.2``, ``20``."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
