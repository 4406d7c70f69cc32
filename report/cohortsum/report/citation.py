"""CITATION.cff: how to cite a release, in the Citation File Format 1.2.0 (Druskat et al. 2021).

The file is YAML whose every text is a double-quoted scalar, written as JSON writes strings: each JSON string is a YAML
one, so no name of a study can change the structure. There is no date in it, for a release knows none.
"""

import json
import re
from typing import Final

from cohortsum.report.document import ResultDocument

VERSION: Final = "1.2.0"

_UNPRINTABLE: Final = re.compile(
    "[\x7f-\x9f\ud800-\udfff\ufffe\uffff]"
)  # raw ones are no YAML, and JSON leaves them raw


def citation_cff(document: ResultDocument) -> str:
    """Return the file; its author is the consortium where the document names it, else the sites in the sums."""
    study = document.study
    consortium = document.roster.consortium
    authors = [consortium] if consortium else [f"site {site}" for site in document.sites.survivors]
    program, _, version = document.software.partition(" ")
    lines = [
        f"cff-version: {VERSION}",
        f"message: {_text('If you use these results, please cite them as below, and the software that computed them.')}",
        "type: dataset",
        f"title: {_text(study.title or study.id)}",
        f"version: {_text(str(study.version))}",
        "authors:",
        *(f"  - name: {_text(name)}" for name in authors),
        "identifiers:",
        "  - type: other",
        f"    value: {_text(f'sha256:{study.digest}')}",
        '    description: "digest of the study file that the sites approved"',
        "  - type: other",
        f"    value: {_text(f'{document.round.id}/{document.round.attempt}')}",
        '    description: "round and attempt that opened the sums"',
        "keywords:",
        '  - "secure aggregation"',
        '  - "federated analysis"',
        "references:",
        "  - type: software",
        f"    title: {_text(program)}",
        *([f"    version: {_text(version)}"] if version else []),
        "    authors:",
        '      - name: "the cohortsum developers"',
        "    license: Apache-2.0",
    ]
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    flat = _UNPRINTABLE.sub("\ufffd", " ".join(text.split())) or "untitled"
    return json.dumps(flat, ensure_ascii=False)  # an escaped surrogate pair is JSON and not YAML
