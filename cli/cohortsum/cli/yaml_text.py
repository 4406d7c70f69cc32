"""YAML as the command writes it: keys in the order given, text as it is."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

YAML: Any = import_module("yaml")  # typed with Any throughout; what comes back is text


def to_yaml(content: Mapping[str, object]) -> str:
    """Return block YAML that any of our loaders reads back as ``content``."""
    return str(YAML.safe_dump(dict(content), sort_keys=False, allow_unicode=True))
