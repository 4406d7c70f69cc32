"""Known answers as the design document writes them: right to half a unit of the last digit written."""

import pytest


def written(number: str) -> object:
    """Return what equals every float that rounds to ``number``, such as ``"4.2246788893"`` or ``"2.65e-38"``."""
    mantissa, _, exponent = number.partition("e")
    decimals = len(mantissa.partition(".")[2])
    # a little over half a unit: the document's own digits were rounded from floats
    return pytest.approx(float(number), rel=0, abs=0.501 * 10.0 ** (int(exponent or 0) - decimals))
