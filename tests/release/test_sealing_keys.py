"""An auditor's sealing key comes into the roster with a request that its owner signed, and with nobody else's."""

from pathlib import Path

import pytest

from cohortsum.coordinator.admission import admit, found, load_consortium
from cohortsum.crypto.errors import AuthenticationError, PublicKeyError, StudyFileError
from cohortsum.study.definition.consortium import (
    IdentityEntry,
    format_key,
    load_request,
    load_roster,
    write_request,
)
from tests.edges.harness import roster_yaml
from tests.protocol.consortium import identity_key
from tests.release.bundles import GUESTS, sealing_key

SEAL = sealing_key("aud1").public


def test_a_request_carries_the_sealing_key_under_its_signature() -> None:
    key = identity_key("aud1")
    text = write_request("aud1", "auditor", "A", "U", key, SEAL)
    assert load_request(text, "r").seal == f"x25519:{SEAL.hex()}"
    without = write_request("aud1", "auditor", "A", "U", key)
    assert load_request(without, "r").seal is None
    for changed in (
        text.replace(SEAL.hex().encode(), sealing_key("other").public.hex().encode()),
        b"\n".join(line for line in text.split(b"\n") if not line.startswith(b"seal")),
        without + b'seal: "x25519:' + SEAL.hex().encode() + b'"\n',
    ):
        with pytest.raises(AuthenticationError, match="not by the key it names"):
            load_request(changed, "r")


def test_only_auditors_have_one() -> None:
    with pytest.raises(StudyFileError, match="a sealing key is for auditors"):
        write_request("chk1", "checker", "C", "U", identity_key("chk1"), SEAL)


def test_the_operator_admits_and_renews_it(tmp_path: Path) -> None:
    operator = identity_key("operator")
    hub = IdentityEntry(
        id="hub", role="coordinator", name="H", organisation="U", key=format_key(identity_key("hub").public)
    )
    files = dict(found("test", hub, "0.0.0.0:443", operator))
    for seal in (b"", SEAL, sealing_key("new").public, b""):
        for name, data in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(data)
        request = load_request(write_request("aud1", "auditor", "A", "U", identity_key("aud1"), seal), "r")
        files = dict(admit(load_consortium(tmp_path), [request], operator))
        if files:
            roster = load_roster(files["consortium.yaml"], "consortium.yaml")
            assert roster.identities["aud1"].seal == seal
    assert not files  # a request without one takes none away


def test_a_key_that_nobody_can_hold_is_refused() -> None:
    text = roster_yaml(3, GUESTS).replace(SEAL.hex().encode(), b"00" * 32)
    with pytest.raises(PublicKeyError, match="low order"):
        load_roster(text, "consortium.yaml")
