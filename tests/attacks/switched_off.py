"""Defences taken away from the product, one by one: with each of them gone an attack must succeed, or its test shows nothing."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace

import pytest

from cohortsum.protocol import coordinator_checks, opening, site, site_checks
from cohortsum.protocol.bounds import threshold
from cohortsum.protocol.effects import SiteEffect
from cohortsum.protocol.messages import DataShares, GateShares, MaskedInput, Survivors
from cohortsum.protocol.seeds import SharedSeeds
from cohortsum.protocol.site import SiteRound
from cohortsum.protocol.site_states import Agreed, Masked, SiteSetup


def nothing(*_: object) -> None:
    """Check nothing."""


def true(*_: object) -> bool:
    """Find everything equal."""
    return True


def no_signatures(*_: object) -> tuple[tuple[int, bytes], ...]:
    """Ask for no signature."""
    return ()


def one_for_all(*_: object) -> bytes:
    """Return the same context whatever the round."""
    return bytes(32)


def one_lower(sites: int) -> int:
    """Return one less than the threshold."""
    return threshold(sites) - 1


def one_kind_of_share(patch: pytest.MonkeyPatch) -> None:
    """Let sites answer for whatever they hold, like an aggregator that takes two lists and does not compare them."""
    honest = SiteRound._answer  # pyright: ignore[reportPrivateUsage]

    def answer(
        self: SiteRound, agreed: Agreed, part: str, answer: GateShares | DataShares
    ) -> tuple[SiteEffect, ...]:
        held = agreed.dealt.shares
        if isinstance(answer, GateShares):
            gate = {owner: one.gate for owner, one in held.items()}
            answer = replace(answer, gate=gate, mask={owner: one.mask for owner, one in held.items()})
        else:
            answer = replace(answer, data={owner: one.data for owner, one in held.items()})
        return honest(self, agreed, part, answer)

    patch.setattr(SiteRound, "_answer", answer)
    patch.setattr("cohortsum.node.session.check_packet", nothing)  # a second look finds it too


def quorum(patch: pytest.MonkeyPatch) -> None:
    """R4.1 to R4.4."""
    patch.setattr(site_checks, "quorum", no_signatures)


def contexts(patch: pytest.MonkeyPatch) -> None:
    """The context, at sites and in the hand of the coordinator."""
    patch.setattr(site, "context_hash", one_for_all)
    patch.setattr("tests.attacks.hand.context_hash", one_for_all)


def comparisons(patch: pytest.MonkeyPatch) -> None:
    """Whatever sites compare with a digest that somebody signed (R2.4, R4.5, R5.0)."""
    for module in (site_checks, opening):
        patch.setattr(module, "hmac", SimpleNamespace(compare_digest=true))


def thresholds(patch: pytest.MonkeyPatch) -> None:
    """Let sites be content with one fewer than the threshold."""
    patch.setattr(site_checks, "threshold", one_lower)


def commitments_to_shares(patch: pytest.MonkeyPatch) -> None:
    """R4.13."""
    patch.setattr(coordinator_checks, "_share", nothing)


class Plenty:
    """Finds two hundred suppliers of everything."""

    def __init__(self, *_: object) -> None:
        pass

    def least(self, *_: object) -> int:
        return 200


def bounds(patch: pytest.MonkeyPatch) -> None:
    """B1 to B3 at sites (R1.7)."""
    patch.setattr(site_checks, "check_bounds", nothing)


def suppliers(patch: pytest.MonkeyPatch) -> None:
    """R3.6."""
    patch.setattr(site_checks, "Suppliers", Plenty)


def parts(patch: pytest.MonkeyPatch) -> None:
    """Labels and self seeds of their own for gate and data."""
    honest = SharedSeeds.element

    def element(self: SharedSeeds, kind: str) -> int:
        return honest(self, "gate" if kind == "data" else kind)

    patch.setattr(SharedSeeds, "element", element)
    for labels in ("SELF_MASK", "PAIR_MASK"):
        patch.setattr(f"cohortsum.protocol.seeds.{labels}", dict.fromkeys(("gate", "data"), "one for both"))


def protected(patch: pytest.MonkeyPatch) -> None:
    """R3.8, both halves: which protected sites stand together, and that an attempt which they name was seen here."""
    patch.setattr(site_checks, "protected_rule", nothing)
    honest = site_checks.survivors

    def survivors(setup: SiteSetup, state: Masked, message: Survivors) -> Mapping[int, MaskedInput]:
        claimed = {advert.used for advert in state.roll.adverts.values()}
        everybody = tuple(
            index
            for index in sorted(state.roll.adverts)
            if f"site{index}" in {one.sender for one in message.masked}
        )
        return honest(replace(setup, named=dict.fromkeys(claimed, everybody)), state, message)

    patch.setattr(site_checks, "survivors", survivors)


def no_peers(_ledger: object) -> dict[int, int]:
    """Remember nothing of other sites."""
    return {}
