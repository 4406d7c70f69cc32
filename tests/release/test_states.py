"""The state machine of an item, over every state, act and party, against a table written here by hand."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.errors import AuthenticationError, RefusedError
from cohortsum.protocol.roster import Identity, Role
from cohortsum.study.catalogue.controls import Confirm
from cohortsum.study.catalogue.rules import RULES, RULES_BY_ID
from cohortsum.study.definition.models import Checkers
from cohortsum.study.disclosure.verdict import Outcome, RuleResult
from cohortsum.study.release.checklist import CHECKLIST, HUMAN, answered
from cohortsum.study.release.decision import Act, Decision
from cohortsum.study.release.item import Item, checked, computed_again, decided, item_digest
from cohortsum.study.release.panel import Panel, Signature, asked, nobody_signs, panel_of
from cohortsum.study.release.states import TRANSITIONS, State, Step, after
from tests.protocol.consortium import identity_key

STUDY, OTHER = b"s" * 32, b"o" * 32
CONTENT, NEWER = b"c" * 32, b"n" * 32
AT = "2026-11-30T18:00:00+00:00"
SURVIVORS = ("amc", "kcl")
WANTED = [Checkers(consortium=count, sites=sites) for count in (0, 1, 2) for sites in ("none", "any", "all")]


def identity(name: str, role: Role, key: str = "", index: int | None = None) -> Identity:
    return Identity(name, role, index, identity_key(key or name).public)


AUTHOR = identity("stat", Role.STATISTICIAN)
KNOWN = [
    AUTHOR,
    identity("hub", Role.COORDINATOR),
    identity("audit", Role.AUDITOR),
    identity("stat2", Role.STATISTICIAN),
    *(identity(name, Role.CHECKER) for name in ("chk1", "chk2", "chk3")),
]
SITES = [identity(name, Role.SITE, index=place) for place, name in enumerate(("amc", "kcl", "oak"))]
"""``oak`` is in the roster and not in the sums; ``gone`` was a checker and is denied."""
ENTITLED = ("chk1", "chk2", "chk3", "amc", "kcl")
NOBODIES = ("stat", "hub", "audit", "stat2", "oak", "gone", "stranger")


def panel(checkers: Checkers, known: list[Identity] = KNOWN, sites: list[Identity] = SITES) -> Panel:
    return panel_of(STUDY, checkers, [AUTHOR], known, sites, SURVIVORS)


def decision(by: str, act: Act, digest: bytes = CONTENT, reason: str = "because", at: str = AT) -> Decision:
    remedy = '{"actions": []}' if act is Act.RETURN else ""
    confirmed = HUMAN if act is Act.RELEASE else ()
    return Decision(STUDY, "ages", digest, act, reason, remedy, confirmed, by, at).sign(identity_key(by))


def item(state: State = State.QUEUE, signatures: tuple[Signature, ...] = ()) -> Item:
    return Item("ages", CONTENT, state, signatures)


def test_the_table_of_transitions_is_the_one_of_the_papers() -> None:
    drawn = """
        computed check    checks
        checks   pass     queue
        checks   refuse   withheld
        queue    release  released
        queue    return   returned
        queue    withhold withheld
        returned compute  computed
        released retract  retracted
    """
    rows = [line.split() for line in drawn.split("\n") if line.strip()]
    wanted = {(State(before), Step(step)): State(then) for before, step, then in rows}
    assert dict(TRANSITIONS) == wanted
    for state, step in itertools.product(State, Step):
        if (state, step) in wanted:
            assert after(state, step, "ages") is wanted[state, step]
        else:
            with pytest.raises(RefusedError, match="ages is "):
                after(state, step, "ages")


LEGAL = {
    (State.QUEUE, Act.RELEASE),
    (State.QUEUE, Act.RETURN),
    (State.QUEUE, Act.WITHHOLD),
    (State.RELEASED, Act.RETRACT),
}
BECOMES = {Act.RETURN: State.RETURNED, Act.WITHHOLD: State.WITHHELD, Act.RETRACT: State.RETRACTED}


@pytest.mark.parametrize("checkers", WANTED, ids=asked)
def test_every_state_act_and_party(checkers: Checkers) -> None:
    for state, act, by in itertools.product(State, Act, (*ENTITLED, *NOBODIES)):
        before, role = item(state), Role.CHECKER if by.startswith("chk") else Role.SITE
        asks = checkers.consortium > 0 if role is Role.CHECKER else checkers.sites != "none"
        may = by in ENTITLED and (act is not Act.RELEASE or asks)
        if (state, act) not in LEGAL or not may:
            with pytest.raises(RefusedError):
                decided(before, decision(by, act), panel(checkers))
            continue
        then = decided(before, decision(by, act), panel(checkers))
        assert then.signatures == (Signature(decision(by, act), role, identity_key(by).public),)
        assert (then.name, then.digest) == (before.name, before.digest)
        if act is not Act.RELEASE:
            assert then.state is BECOMES[act]
            continue
        enough = checkers.consortium <= (role is Role.CHECKER) and (
            checkers.sites == "none" or (checkers.sites == "any" and role is Role.SITE)
        )
        assert then.state is (State.RELEASED if enough else State.QUEUE)


@given(
    st.sampled_from(WANTED),
    st.lists(st.tuples(st.sampled_from((*ENTITLED, *NOBODIES)), st.sampled_from(list(Act))), max_size=12),
)
def test_any_story_ends_where_a_set_of_names_says(checkers: Checkers, story: list[tuple[str, Act]]) -> None:
    """The oracle holds a set of who signed, and nothing of the machine."""
    held, signed, state = item(), set[str](), "queue"
    board = panel(checkers)
    taken: set[tuple[str, Act]] = set()
    for by, act in story:
        role_asked = checkers.consortium > 0 if by.startswith("chk") else checkers.sites != "none"
        legal = (
            by in ENTITLED
            and (act is not Act.RELEASE or role_asked)
            and (state, act)
            in {("queue", one) for one in Act if one is not Act.RETRACT} | {("released", Act.RETRACT)}
        )
        if (by, act) in taken and by in ENTITLED:
            assert decided(held, decision(by, act), board) is held  # the very same decision again
            continue
        if not legal:
            with pytest.raises(RefusedError):
                decided(held, decision(by, act), board)
            continue
        held = decided(held, decision(by, act), board)
        taken.add((by, act))
        if act is Act.RELEASE:
            signed.add(by)
            sites = signed & set(SURVIVORS)
            enough = {"none": True, "any": bool(sites), "all": sites == set(SURVIVORS)}[checkers.sites]
            if enough and len(signed - set(SURVIVORS)) >= checkers.consortium:
                state = "released"
        else:
            state = BECOMES[act].value
        assert held.state == state


def test_where_nobody_is_asked_an_item_leaves_after_its_checks_and_what_the_gate_withholds_never_does() -> (
    None
):
    computed = item(State.COMPUTED)
    assert [checked(computed, passed=True, nobody_signs=free).state for free in (True, False)] == [
        State.RELEASED,
        State.QUEUE,
    ]
    assert {checked(computed, passed=False, nobody_signs=free).state for free in (True, False)} == {
        State.WITHHELD
    }
    assert [nobody_signs(checkers) for checkers in WANTED] == [True, *[False] * 8]
    for state in set(State) - {State.COMPUTED}:
        with pytest.raises(RefusedError):
            checked(item(state), passed=True, nobody_signs=True)


def test_a_returned_item_has_another_digest_and_no_signature() -> None:
    board = panel(Checkers(consortium=2))
    once = decided(item(), decision("chk1", Act.RELEASE), board)
    back = decided(once, decision("chk2", Act.RETURN), board)
    anew = computed_again(back, NEWER)
    assert anew == Item("ages", NEWER, State.COMPUTED, ())
    waits = checked(anew, passed=True, nobody_signs=False)
    for by in ("chk1", "chk2"):  # replayed, or signed before the table was computed again
        with pytest.raises(RefusedError, match="other content than the item has now"):
            decided(waits, decision(by, Act.RELEASE), board)
    assert decided(waits, decision("chk1", Act.RELEASE, NEWER), board).state is State.QUEUE
    with pytest.raises(RefusedError, match="nothing in it would change"):
        computed_again(back, CONTENT)
    for state in set(State) - {State.RETURNED}:
        with pytest.raises(RefusedError):
            computed_again(item(state), NEWER)


def test_a_decision_about_another_study_item_or_content_is_refused() -> None:
    board = panel(Checkers(consortium=1))
    made, key = decision("chk1", Act.RELEASE), identity_key("chk1")
    for altered in (replace(made, study=OTHER), replace(made, item="bands"), replace(made, digest=NEWER)):
        with pytest.raises(RefusedError):
            decided(item(), altered.sign(key), board)


def test_every_field_of_a_decision_is_signed() -> None:
    """Whoever alters anything on the way is found out, and so is whoever signs for somebody else."""
    board = panel(Checkers(consortium=1, sites="any"))
    made = decision("chk1", Act.WITHHOLD)
    forgeries = [
        replace(made, act=Act.RETRACT),
        replace(made, reason="another reason"),
        replace(made, remedy="{}"),
        replace(made, confirmed=("group_10",)),
        replace(made, at="2026-11-30T18:00:01+00:00"),
        replace(made, by="chk2"),
        replace(made, signature=bytes(64)),
        replace(made, signature=b""),
        replace(made, by="amc").sign(identity_key("chk1")),
        replace(made, by="chk1").sign(identity_key("stat")),
    ]
    for forged in forgeries:
        with pytest.raises(AuthenticationError):
            decided(item(), forged, board)
    shifted = replace(made, reason="becaus", remedy="e")
    with pytest.raises(AuthenticationError):
        decided(item(), replace(shifted, signature=made.signature), board)


def test_the_statistician_signs_under_no_name_and_no_key() -> None:
    """Neither a later roster that makes the statistician a checker, nor their key under another name, is of any use."""
    promoted = identity("stat", Role.CHECKER, "fresh key")
    renamed = identity("chk9", Role.CHECKER, "stat")
    twin_site = identity("amc", Role.SITE, "stat", 0)
    board = panel(Checkers(consortium=1), [*KNOWN[1:], promoted, renamed], [twin_site, *SITES[1:]])
    assert {"stat", "chk9", "amc"}.isdisjoint(board.parties)
    for by, key in (("stat", "fresh key"), ("chk9", "stat"), ("amc", "stat"), ("stat", "stat")):
        made = replace(decision("chk1", Act.RELEASE), by=by).sign(identity_key(key))
        with pytest.raises(RefusedError, match=f"'{by}' does not decide"):
            decided(item(), made, board)


def test_a_person_counts_once_whatever_they_sign_and_are_called() -> None:
    board = panel(Checkers(consortium=2))
    once = decided(item(), decision("chk1", Act.RELEASE), board)
    assert once.state is State.QUEUE
    for again in (
        decision("chk1", Act.RELEASE, at="2026-12-01T18:00:00+00:00"),
        decision("chk1", Act.RELEASE, reason="once more"),
    ):
        with pytest.raises(RefusedError, match="chk1 has signed it already; a person counts once"):
            decided(once, again, board)
    # the same key under another name, and the same name under another key
    renamed = panel(Checkers(consortium=2), [*KNOWN, identity("chk9", Role.CHECKER, "chk1")])
    with pytest.raises(RefusedError, match="counts once"):
        decided(once, replace(decision("chk1", Act.RELEASE), by="chk9").sign(identity_key("chk1")), renamed)
    rekeyed = panel(Checkers(consortium=2), [identity("chk1", Role.CHECKER, "new"), *KNOWN[5:]])
    with pytest.raises(RefusedError, match="counts once"):
        decided(
            once,
            replace(decision("chk1", Act.RELEASE), at="2026-12-02T00:00:00Z").sign(identity_key("new")),
            rekeyed,
        )
    # a checker's key does not count for a site too
    both = panel(
        Checkers(consortium=1, sites="any"), KNOWN, [identity("amc", Role.SITE, "chk1", 0), *SITES[1:]]
    )
    one = decided(item(), decision("chk1", Act.RELEASE), both)
    with pytest.raises(RefusedError, match="counts once"):
        decided(one, replace(decision("chk1", Act.RELEASE), by="amc").sign(identity_key("chk1")), both)


def test_a_checker_who_is_denied_before_an_item_leaves_no_longer_counts() -> None:
    checkers = Checkers(consortium=2)
    once = decided(item(), decision("chk1", Act.RELEASE), panel(checkers))
    without = panel(checkers, [one for one in KNOWN if one.id != "chk1"])
    twice = decided(once, decision("chk2", Act.RELEASE), without)
    assert (twice.state, without.missing(twice.signatures)) == (State.QUEUE, ("1 signature of checkers",))
    assert decided(twice, decision("chk3", Act.RELEASE), without).state is State.RELEASED
    with pytest.raises(RefusedError, match="'chk1' does not decide"):
        decided(once, decision("chk1", Act.WITHHOLD), without)


def test_every_site_of_the_sum_is_every_site_even_one_that_counts_no_longer() -> None:
    checkers = Checkers(consortium=0, sites="all")
    without = panel(
        checkers, KNOWN, [SITES[0], SITES[2]]
    )  # kcl is denied: its people are in the sums all the same
    once = decided(item(), decision("amc", Act.RELEASE), without)
    assert (once.state, without.missing(once.signatures)) == (State.QUEUE, ("the signatures of kcl",))


def test_a_decision_that_lacks_something_or_says_too_much_is_refused() -> None:
    board = panel(Checkers(consortium=1))

    def sent(**changes: object) -> None:
        act = changes.pop("act", Act.RELEASE)
        assert isinstance(act, Act)
        made = replace(decision("chk1", act), **changes)  # type: ignore[arg-type]  # fields by name
        decided(item(), made.sign(identity_key("chk1")), board)

    for leaving in HUMAN:
        with pytest.raises(RefusedError, match=f"not confirmed: {leaving}"):
            sent(confirmed=tuple(one for one in HUMAN if one != leaving))
    for sentence, changes in (
        ("not confirmed", {"confirmed": ()}),
        ("questions that nobody asks", {"confirmed": tuple(sorted((*HUMAN, "checklist_size")))}),
        ("questions that nobody asks", {"confirmed": tuple(reversed(HUMAN))}),
        ("questions that nobody asks", {"act": Act.WITHHOLD, "confirmed": HUMAN}),
        ("needs a reason", {"act": Act.WITHHOLD, "reason": "  "}),
        ("needs a reason", {"act": Act.RETURN, "reason": ""}),
        ("at most 2000 characters", {"reason": "x" * 2001}),
        ("a return needs one", {"act": Act.RETURN, "remedy": ""}),
        ("a remedy belongs to a return", {"remedy": "{}"}),
        ("expected a moment in UTC", {"at": "2026-11-30T18:00:00+01:00"}),
        ("expected a moment in UTC", {"at": "2026-11-30T18:00:00"}),
        ("expected a moment in UTC", {"at": "yesterday"}),
    ):
        with pytest.raises(RefusedError, match=sentence):
            sent(**changes)
    sent()  # and nothing else was wrong with it
    sent(reason="")


def test_the_checklist_is_the_pages_and_every_question_has_one_answerer() -> None:
    listed = [rule for rule in RULES if rule.source.heading == "Output Submission Checklist"]
    assert len(listed) == 9
    assert [one.id for one in CHECKLIST if one.id.startswith("checklist_")] == [rule.id for rule in listed]
    texts = {one.text for one in CHECKLIST}
    assert all(rule.control.what in texts for rule in RULES if isinstance(rule.control, Confirm))
    assert len(texts) == len(CHECKLIST)
    assert set(HUMAN) == {one.id for one in CHECKLIST if not one.machine}
    assert {"checklist_sign_off", "checklist_no_rows", "logs_in_agreement"} <= set(HUMAN)
    assert {one.id for one in CHECKLIST} <= set(RULES_BY_ID)


def test_the_machine_answers_from_what_its_rules_found_and_never_for_people() -> None:
    size = next(one for one in CHECKLIST if one.id == "checklist_size")
    every = next(one for one in CHECKLIST if one.id == "checklist_automated_check")

    def found(rule: str, outcome: Outcome) -> RuleResult:
        return RuleResult(rule, "ages", outcome, "said")

    assert answered(size, ()) is None
    assert answered(size, [found("primary_suppression", Outcome.CHANGED)]) is None
    assert answered(size, [found("group_10", Outcome.PASSED), found("idp_site_50", Outcome.CHANGED)]) is True
    for bad in (Outcome.WITHHELD, Outcome.WAIVED):
        assert answered(size, [found("group_10", Outcome.PASSED), found("idp_site_50", bad)]) is False
        assert answered(every, [found("a rule of the gate's own", bad)]) is False
    assert answered(every, [found("a rule of the gate's own", Outcome.PASSED)]) is True
    for one in CHECKLIST:
        if not one.machine:
            assert answered(one, [found("group_10", Outcome.PASSED)]) is None


def test_a_digest_is_about_one_study_and_one_content() -> None:
    digests = {item_digest(study, content) for study in (STUDY, OTHER) for content in (b"", b"a", b"b")}
    assert len(digests) == 6
    assert item_digest(STUDY[:-1], b"s" + b"a") != item_digest(STUDY, b"a")
