"""Who is there: a site is present while it polls and for a moment afterwards, and for no other reason."""

from datetime import UTC, datetime

from cohortsum.coordinator.presence import LINGERS_S, Presence


class Hand:
    """A clock that a test moves."""

    def __init__(self, seconds: float = 1000.0) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds


def test_a_site_that_never_called_is_not_present_even_at_the_clock_s_zero() -> None:
    presence = Presence(Hand(0.0))
    assert not presence.is_present(0)
    assert presence.last_heard(0) is None


def test_a_call_makes_a_site_present_for_a_moment() -> None:
    hand = Hand()
    presence = Presence(hand)
    presence.seen(3)
    hand.seconds += LINGERS_S - 0.01
    assert presence.is_present(3)
    assert not presence.is_present(2)
    hand.seconds += 0.02
    assert not presence.is_present(3)


def test_an_open_poll_keeps_a_site_present_however_long_it_lasts() -> None:
    hand = Hand()
    presence = Presence(hand)
    with presence.polling(1):
        hand.seconds += 100 * LINGERS_S
        assert presence.is_present(1)
    assert presence.is_present(1)
    hand.seconds += LINGERS_S
    assert not presence.is_present(1)


def test_of_two_open_polls_the_one_that_is_left_counts() -> None:
    """A node that reconnects polls twice for a while."""
    hand = Hand()
    presence = Presence(hand)
    with presence.polling(1):
        with presence.polling(1):
            pass
        hand.seconds += 2 * LINGERS_S
        assert presence.is_present(1)
    hand.seconds += 2 * LINGERS_S
    assert not presence.is_present(1)


def test_a_poll_that_breaks_off_ends() -> None:
    hand = Hand()
    presence = Presence(hand)
    try:
        with presence.polling(1):
            raise ConnectionError
    except ConnectionError:
        hand.seconds += 2 * LINGERS_S
    assert not presence.is_present(1)


def test_last_heard_is_the_last_call_and_now_while_a_poll_is_open() -> None:
    presence = Presence()
    before = datetime.now(UTC)
    presence.seen(1)
    heard = presence.last_heard(1)
    assert heard is not None
    assert before <= heard <= datetime.now(UTC)
    assert presence.last_heard(1) == heard
    with presence.polling(1):
        first, second = presence.last_heard(1), presence.last_heard(1)
    assert first is not None
    assert second is not None
    assert heard <= first <= second
    assert presence.last_heard(1) != heard
