"""The software bill of materials of a bundle: CycloneDX 1.6 as JSON, from the wheels themselves.

One component per wheel, with name, version, package URL, SHA-256 of the file and licence, and who needs whom. Libraries that
are compiled into a wheel (OpenSSL in ``cryptography``, zlib in several) are not listed apart: wheels do not name them in a form
that can be read. Equal wheels give equal bytes: the serial number is derived from the digests. Source: ECMA-424.
"""

import json
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime

from deploy.bundle.wheels import BundleError, Wheel

SERIALS = uuid.UUID("0c9d5d53-7d3c-5a0e-9d0a-4d0f0f6f2a51")
"""Name space of our serial numbers; any fixed value does."""


def bill_of_materials(wheels: Sequence[Wheel], product: str, made_at: int) -> str:
    """Return the bill of materials as JSON text, ending in a line feed.

    Args:
        wheels: every wheel of the bundle, the product's own among them.
        product: normalised name of the product.
        made_at: seconds since 1970, UTC; stands in the document as its time.

    Raises:
        BundleError: the product's own wheel is missing.
    """
    own = next((wheel for wheel in wheels if wheel.name == product), None)
    if own is None:
        raise BundleError(f"no wheel of {product} among {len(wheels)}; build it first")
    others = [wheel for wheel in wheels if wheel is not own]
    refs = {wheel.name: purl(wheel) for wheel in wheels}
    digests = "\n".join(sorted(wheel.sha256 for wheel in wheels))
    document: dict[str, object] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(SERIALS, digests).urn,
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(made_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {**_component(own), "type": "application"},
        },
        "components": [_component(wheel) for wheel in others],
        "dependencies": [
            {"ref": refs[wheel.name], "dependsOn": [refs[name] for name in wheel.requires if name in refs]}
            for wheel in wheels
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def purl(wheel: Wheel) -> str:
    """Return the package URL; a plus sign, as in a local version, is escaped."""
    return f"pkg:pypi/{wheel.name}@{wheel.version.replace('+', '%2B')}"


def _component(wheel: Wheel) -> dict[str, object]:
    licence: dict[str, object] = (
        {"expression": wheel.licence.text}
        if wheel.licence.spdx
        else {"license": {"name": wheel.licence.text}}
    )
    return {
        "type": "library",
        "bom-ref": purl(wheel),
        "name": wheel.name,
        "version": wheel.version,
        "hashes": [{"alg": "SHA-256", "content": wheel.sha256}],
        "licenses": [licence],
        "purl": purl(wheel),
    }
