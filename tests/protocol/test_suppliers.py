"""Who supplies what: a block with too few suppliers never travels, and approvals name nothing unknown."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from cohortsum.crypto.errors import LocalProtocolError, RemoteProtocolError
from cohortsum.protocol.approvals import ApprovalBook, approval_context, approve, read_approval
from cohortsum.protocol.coordinator_states import Aborted, Opened
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.messages import (
    Approval,
    Kind,
    Regimen,
)
from cohortsum.protocol.plan import PlannedBlock
from tests.protocol.consortium import Consortium, identity_key, plan_of, protection
from tests.protocol.lies import (
    N,
    first_errors,
)


def test_sites_that_supply_the_same_share_one_set() -> None:
    """At 200 sites and thousands of outcomes, one set per site would be 100 MB in every open round."""
    blocks = (PlannedBlock("bmi", 2, 2**40, "person", (frozenset({"bmi"}),)),)
    consortium = Consortium(
        N,
        blocks=blocks,
        items=("age", "bmi"),
        supplies=lambda index: frozenset({"age", "bmi"} if index < 2 else {"age"}),
    )
    book = ApprovalBook(consortium.plan, consortium.roster)
    held = book.read([consortium.approvals[index] for index in range(N)])
    assert held == {index: frozenset({"age", "bmi"} if index < 2 else {"age"}) for index in range(N)}
    assert len({id(items) for items in held.values()}) == 2


def test_a_block_with_too_few_suppliers_never_travels() -> None:
    blocks = (
        PlannedBlock("bmi", 2, 2**40, "person", (frozenset({"bmi"}),)),
        PlannedBlock("powers", 2, 2**40, "person", (frozenset({"age"}),)),
    )

    def supplies(index: int) -> frozenset[str]:
        return frozenset({"age", "bmi"} if index < 2 else {"age"})

    consortium = Consortium(N, blocks=blocks, items=("age", "bmi"), supplies=supplies)
    consortium.run()
    state = consortium.coordinator.state
    assert isinstance(state, Opened)
    assert [block.name for block in state.blocks] == ["people", "powers"]
    assert all(len(words) == 3 for words in consortium.uploads.values())


def first_three_supply_fiq(index: int) -> frozenset[str]:
    return frozenset({"fiq"} if index < 3 else ())


def fiq_values(index: int, length: int) -> NDArray[np.int64]:
    return np.array([10 + index, *([2**index if index < 3 else 0] * (length - 1))], dtype=np.int64)


def test_a_block_that_loses_its_suppliers_on_the_way_is_signed_by_nobody() -> None:
    blocks = (PlannedBlock("fiq", 2, 2**40, "person", (frozenset({"fiq"}),)),)
    consortium = Consortium(N, blocks=blocks, items=("fiq",), supplies=first_three_supply_fiq)
    consortium.values = fiq_values  # type: ignore[method-assign]
    consortium.before_send = lambda index, packet: not (index == 0 and packet.envelope.kind is Kind.MASKED)
    consortium.run()
    assert isinstance(consortium.coordinator.state, Aborted)
    assert not consortium.signed


def test_a_site_refuses_survivors_that_leave_a_block_too_few_suppliers() -> None:
    """The coordinator's own check is switched off; the sites' holds."""
    blocks = (PlannedBlock("fiq", 2, 2**40, "person", (frozenset({"fiq"}),)),)
    consortium = Consortium(N, blocks=blocks, items=("fiq",), supplies=first_three_supply_fiq)
    consortium.values = fiq_values  # type: ignore[method-assign]
    consortium.before_send = lambda index, packet: not (index == 0 and packet.envelope.kind is Kind.MASKED)
    lenient = consortium.coordinator.setup
    object.__setattr__(lenient, "plan", replace(lenient.plan, protection=protection(min_honest_inputs=1)))
    consortium.run()
    assert {error.check for error in first_errors(consortium).values()} == {"R3.6"}
    assert isinstance(consortium.coordinator.state, Aborted)


def test_an_approval_of_another_study_or_of_unknown_items_is_refused() -> None:
    consortium = Consortium(N)
    signer = consortium.signers[0]
    stranger = replace(plan_of(N, protection()), study_digest=hashlib.sha256(b"x").digest())
    with pytest.raises(RemoteProtocolError, match="M3"):
        read_approval(
            approve(signer, stranger, Regimen("open_data"), frozenset()), consortium.plan, consortium.roster
        )
    plan = consortium.plan
    forged = Approval(plan.study_digest, plan.roster_digest, Regimen("open_data"), b"\x01")
    signed = signer.sign(approval_context(plan.study_digest, plan.roster_digest), forged)
    with pytest.raises(RemoteProtocolError, match=r"R0\.1"):
        read_approval(signed, plan, consortium.roster)
    with pytest.raises(LocalProtocolError, match=r"R0\.1"):
        approve(signer, plan, Regimen("open_data"), frozenset({"x"}))


def test_a_key_that_is_not_in_the_roster_signs_nothing() -> None:
    consortium = Consortium(N)
    with pytest.raises(LocalProtocolError, match="M1"):
        Signer(consortium.roster.identities["site0"], identity_key("site1"))
