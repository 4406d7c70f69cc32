"""Every decoder under inputs that nobody meant: the kept corpus, what becomes of it by small changes, and bytes without sense.

The fuzzer (`make fuzz`) goes on from here for as long as it is let; what it finds joins the corpus.
"""

import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cohortsum.protocol.messages import Kind
from tests.fuzz.registry import TARGETS
from tests.fuzz.target import CORPUS, PER_BYTE, SPARE_BYTES, Target

NAMES = sorted(TARGETS)
MACHINES = ("site-round", "coordinator-round")


@st.composite
def inputs(draw: st.DrawFn, target: Target) -> bytes:
    """Draw bytes without sense, or a kept input with a few changes."""
    if draw(st.integers(0, 7)) == 0:
        return draw(st.binary(max_size=min(target.size, 400)))
    data = draw(st.sampled_from(target.corpus())).read_bytes()
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data)))
        cut = draw(st.integers(0, 12))
        data = data[:place] + draw(st.binary(max_size=12)) + data[place + cut :]
    return data


@pytest.mark.parametrize("name", NAMES)
def test_every_decoder_raises_only_errors_of_the_tree_and_encodes_what_it_decoded(name: str) -> None:
    target = TARGETS[name]

    @settings(
        max_examples=target.examples, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
    )
    @given(data=inputs(target))
    def property_of(data: bytes) -> None:
        target.run(data)

    property_of()


@pytest.mark.parametrize("name", NAMES)
def test_every_kept_input_is_read_or_refused_in_bounded_memory(name: str) -> None:
    target = TARGETS[name]
    target.run(target.corpus()[0].read_bytes())  # whatever is made once is made now
    for path in target.corpus():
        data = path.read_bytes()
        tracemalloc.start()
        try:
            target.run(data)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < SPARE_BYTES + PER_BYTE * len(data), path.name


def test_every_target_has_a_corpus_and_the_corpus_is_small() -> None:
    kept = [path for path in CORPUS.rglob("*") if path.is_file()]
    assert {path.parent.name for path in kept} == set(TARGETS)
    assert all(path.parent.parent == CORPUS for path in kept)
    assert sum(path.stat().st_size for path in kept) < 2_000_000


def test_every_kind_of_message_is_a_target() -> None:
    assert {f"message-{kind.name.lower().replace('_', '-')}" for kind in Kind} <= set(TARGETS)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("message-") or name == "packet"])
def test_valid_inputs_decode(name: str) -> None:
    """A target of which nothing decodes would look at nothing."""
    from cohortsum.protocol import codec

    target = TARGETS[name]
    kinds = {f"message-{kind.name.lower().replace('_', '-')}": kind for kind in Kind}
    valid = [
        path for path in target.corpus() if path.name.startswith(("round-", "made-")) or name == "packet"
    ]
    assert valid
    for path in valid:
        if path.name == "nothing":
            continue
        if name == "packet":
            codec.packet_from_bytes(path.read_bytes())
        else:
            codec.decode(kinds[name], path.read_bytes())
