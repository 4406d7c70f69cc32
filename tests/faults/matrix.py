"""The fault matrix: sixteen faults at seven steps, what must come of each, and the tests that show it.

``python -m tests.faults.matrix`` writes the page for reviewers, docs/fault-matrix.md; `test_matrix.py` compares it with the data, and the
names here with the tests that pytest collects. Tests below ``tests/faults`` kill and cut real processes and lines (`make faults`); the
others run in `make test`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "fault-matrix.md"
STEPS = ("R0 advertise", "R1 share", "R2 masked", "R3 consistency", "R4a gate", "R4b unmask", "R5 publish")
KINDS = ("ADVERT", "SHARES", "MASKED", "CONSISTENCY", "GATE_SHARES", "DATA_SHARES")
SHORT = ("r0", "r1", "r2", "r3", "r4a", "r4b")


class Outcome(StrEnum):
    """What may come of a fault."""

    SAME = "SAME"
    WAIT = "WAIT"
    RES = "RES"
    DROP = "DROP"
    REJ = "REJ"
    EVID = "EVID"
    AF = "AF"
    AC = "AC"
    ALARM = "ALARM"
    NONE = "n/a"


MEANING = {
    Outcome.SAME: "the same bytes again, with no second effect",
    Outcome.WAIT: "repeated until it succeeds, inside the deadline",
    Outcome.RES: "the coordinator goes on with the same attempt from its database",
    Outcome.DROP: "the site sends nothing more in this attempt and never enters it again; the attempt goes on with enough others",
    Outcome.REJ: "refused under the name of its check, with a line in the audit log; nothing changes",
    Outcome.EVID: "as REJ, and the signed evidence is kept for anybody to check; a site that holds it stops the attempt",
    Outcome.AF: "the attempt ends, and has cost nothing",
    Outcome.AC: "the attempt ends; what was written down stays charged until tombstones close it",
    Outcome.ALARM: "the operator is told",
    Outcome.NONE: "nothing: the fault has no effect at this step",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One fault at one step.

    Attributes:
        fault: which one.
        step: of the round.
        outcomes: what is required.
        what: in words, as it is built.
        tests: ids of tests; without parameters all of them.
    """

    fault: str
    step: str
    outcomes: tuple[Outcome, ...]
    what: str
    tests: tuple[str, ...]


Row = tuple[tuple[str, str, tuple[str, ...]], ...]
"""Outcomes, words and tests for each step."""

ROUND = "tests/protocol/test_faults.py::test_"
HOSTILE = "tests/protocol/test_hostile_network.py::test_"
STORE = "tests/edges/test_store_faults.py::test_"
FENCED = "tests/edges/test_fencing.py::test_"
SKEW = "tests/edges/test_clock_skew.py::test_"
REFUSED = "tests/edges/test_refusals.py::test_"
KILLED = "tests/faults/test_site_killed.py::test_"
HUB = "tests/faults/test_coordinator_killed.py::test_at_every_write_of_a_step"
TAKEN = "tests/faults/test_takeover.py::test_"
LINES = "tests/faults/test_lines.py::test_"
ENDS = "tests/faults/test_certificates_end.py::test_"
DOWN = "tests/faults/test_database_down.py::test_"
OLDER = "tests/faults/test_older_image.py::test_set_back_after_a_step"
RECOVERY = "tests/life/test_recovery.py::test_"


def _killed(step: int, more: tuple[str, ...] = ()) -> tuple[str, ...]:
    return (f"{KILLED}at_every_point_of_a_step[{SHORT[step]}]", *more)


CHARGE = f"{KILLED}a_noised_study_is_charged_with_the_record_of_the_masked_input_and_not_before"
OVER = f"{KILLED}when_it_hears_how_the_round_ended"

BEFORE_RECORD: Row = (
    ("WAIT", "the node that is started again takes the same free place, with new keys", _killed(0)),
    ("DROP", "", _killed(1)),
    ("DROP", "not charged", _killed(2, (CHARGE,))),
    ("DROP", "charged; its masked input is in and counts", _killed(3, (CHARGE,))),
    ("DROP", "charged; it counts, others' shares suffice", _killed(4)),
    ("DROP", "charged; it counts, others' shares suffice", _killed(5)),
    ("SAME", "the result stands and is fetched again; its ledger lacks only the end", (f"{OVER}[before]",)),
)
AFTER_RECORD: Row = (
    ("DROP", "", _killed(0)),
    ("DROP", "", _killed(1)),
    ("DROP", "charged; the masked input is never made again", _killed(2, (CHARGE,))),
    ("DROP", "it signs no survivor set again; its masked input counts", _killed(3)),
    ("DROP", "it counts, others' shares suffice", _killed(4, (CHARGE,))),
    ("DROP", "it counts, others' shares suffice", _killed(5)),
    ("SAME", "its ledger is final", (f"{OVER}[recorded]",)),
)
AFTER_SEND: Row = (
    ("DROP", "in U1, not in U2", _killed(0)),
    ("DROP", "in U2, not in U3; its mask seed is recovered", _killed(1)),
    ("DROP", "in U3: its self seeds are recovered from its peers", _killed(2)),
    ("DROP", "its signature counts if it arrived", _killed(3)),
    ("DROP", "its shares count if they arrived", _killed(4)),
    ("DROP", "its shares count if they arrived", _killed(5)),
    ("SAME", "the result is fetched again", (f"{OVER}[recorded]",)),
)
HUB_BEFORE: Row = (
    *(("WAIT", "sites repeat the same bytes", (f"{HUB}[{step}]",)) for step in SHORT[:2]),
    (
        "WAIT",
        "sites repeat message and upload; an upload begins anew, it is not resumed in the middle",
        (f"{HUB}[r2]",),
    ),
    ("WAIT", "sites repeat the same bytes", (f"{HUB}[named]", f"{HUB}[r3]")),
    *(("WAIT", "sites repeat the same bytes, from memory", (f"{HUB}[{step}]",)) for step in SHORT[4:]),
    (
        "RES",
        "the same sum is opened again, and the same result computed",
        (f"{HUB}[r5]", f"{HUB}[published]"),
    ),
)
HUB_AFTER: Row = (
    *(("RES SAME", "", (f"{HUB}[{step}]",)) for step in SHORT[:2]),
    (
        "RES SAME",
        "uploads lie under a key in memory alone: sites send them again, and each is added once",
        (
            f"{HUB}[r2]",
            "tests/faults/test_coordinator_killed.py::test_inside_an_iteration_of_a_fit",
            "tests/coordinator/test_spool.py::test_words_cannot_be_read_from_disk",
        ),
    ),
    (
        "RES SAME",
        "the named survivors stay",
        (
            f"{HUB}[named]",
            f"{HUB}[r3]",
            "tests/edges/test_round.py::test_a_restarted_coordinator_keeps_to_the_named_survivors_and_then_to_the_result",
        ),
    ),
    *(("RES", "shares are not kept: sites send them again", (f"{HUB}[{step}]",)) for step in SHORT[4:]),
    (
        "SAME",
        "the result row is there",
        (
            f"{HUB}[r5]",
            f"{HUB}[published]",
            "tests/edges/test_round.py::test_a_coordinator_that_stopped_between_result_and_files_writes_them_without_asking_any_site",
        ),
    ),
)


def _fenced(step: int, *more: str) -> tuple[str, ...]:
    last = f"{FENCED}the_last_message_of_a_step_is_refused[{KINDS[step]}]"
    return (last, f"{TAKEN}the_second_takes_over_where_the_first_was_killed[{SHORT[step]}]", *more)


PAUSED = f"{TAKEN}a_coordinator_that_slept_through_its_lease_writes_and_says_nothing_any_more"
TWO: Row = (
    ("REJ", "fenced", _fenced(0, PAUSED, f"{FENCED}an_attempt_is_not_opened_and_nobody_is_sent_away")),
    (
        "REJ",
        "fenced; a deadline of the one that sleeps ends nothing",
        _fenced(1, f"{FENCED}a_deadline_ends_nothing"),
    ),
    ("REJ", "fenced", _fenced(2)),
    (
        "REJ EVID",
        "fenced before it names anybody; of two survivor sets no site signs the second",
        _fenced(
            3,
            f"{TAKEN}the_second_takes_over_where_the_first_was_killed[named]",
            f"{ROUND}a_site_that_is_shown_other_bytes_under_the_same_key_keeps_to_the_first[SURVIVORS]",
            "tests/protocol/test_hostile_coordinator.py::test_no_two_statements_can_be_signed_in_one_context",
        ),
    ),
    ("REJ", "fenced", _fenced(4)),
    ("REJ", "fenced", _fenced(5)),
    (
        "REJ SAME",
        "one row for the opened round and one for the result: one process writes them",
        (
            f"{FENCED}an_opened_sum_is_neither_kept_nor_told",
            f"{TAKEN}the_second_takes_over_where_the_first_was_killed[r5]",
            f"{TAKEN}the_second_takes_over_where_the_first_was_killed[published]",
            "tests/coordinator/test_store.py::test_a_context_is_opened_once",
        ),
    ),
)


def _again(step: int, *more: str) -> tuple[str, ...]:
    return (f"{ROUND}the_same_bytes_again_have_no_second_effect_at_once_or_late[{KINDS[step]}]", *more)


def _wire(kind: str) -> str:
    return f"{REFUSED}the_same_bytes_again_are_taken_without_a_second_effect_or_a_line[{kind}]"


REPEATED = f"{HOSTILE}a_repeated_message_gets_identical_bytes_and_a_different_one_is_refused"
DUPLICATE: Row = (
    ("SAME", "", _again(0, _wire("ADVERT"))),
    ("SAME", "", _again(1, _wire("SHARES"))),
    ("SAME", "an upload is added once", _again(2, _wire("MASKED"), f"{ROUND}an_upload_again_is_added_once")),
    ("SAME", "", _again(3, REPEATED)),
    ("SAME", "", _again(4, REPEATED)),
    ("SAME", "", _again(5, REPEATED)),
    (
        "SAME",
        "a second closing finds the context over and changes nothing; the result is one document",
        (
            f"{ROUND}a_closing_again_or_another_one_finds_the_context_over[same]",
            "tests/edges/test_round.py::test_the_released_file_the_stored_row_and_the_outcome_are_one_document",
        ),
    ),
)


def _other(step: int, *to_site: str) -> tuple[str, ...]:
    mine = f"{ROUND}other_bytes_under_the_same_key_are_refused_and_the_first_kept[{KINDS[step]}]"
    shown = f"{ROUND}a_site_that_is_shown_other_bytes_under_the_same_key_keeps_to_the_first"
    return (mine, *(f"{shown}[{kind}]" for kind in to_site))


PROVEN = "tests/evidence/test_edges.py::test_"
OTHER_BYTES: Row = (
    (
        "REJ EVID",
        "the first is kept, the second goes into an evidence file",
        (
            *_other(0),
            f"{PROVEN}a_site_that_signs_two_adverts_is_shown_to_have_by_the_file_of_the_coordinator",
        ),
    ),
    ("EVID", "the first is kept; a site that is shown two stops", _other(1, "ADVERTS")),
    ("EVID", "the first is kept; a site that is shown two stops", _other(2, "DELIVERY")),
    (
        "EVID",
        "a site signs no second statement, and one that is shown two survivor sets stops",
        (
            *_other(3, "SURVIVORS"),
            f"{PROVEN}a_coordinator_that_names_two_survivor_sets_is_shown_to_have_by_the_file_of_one_site",
            "tests/node/test_ledger.py::test_a_deed_is_done_once_per_context",
        ),
    ),
    ("EVID", "the first is kept; of answers with shares one evidence file per attempt", _other(4, "QUORUM")),
    (
        "EVID",
        "the first is kept; of answers with shares one evidence file per attempt",
        _other(5, "GATE_OPENING"),
    ),
    (
        "EVID",
        "a second closing finds the context over; one under another statement than was signed is evidence",
        (
            f"{ROUND}a_closing_again_or_another_one_finds_the_context_over[other]",
            "tests/evidence/test_coordinator_lies.py::test_a_closing_under_another_statement_is_proven",
        ),
    ),
)
REPLAYED = f"{HOSTILE}every_message_replayed_into_another_round_is_refused"


def _late(step: int, *more: str) -> tuple[str, ...]:
    kind = KINDS[step]
    late = f"{ROUND}a_message_that_comes_after_its_step_changes_nothing[{kind}]"
    return (late, f"{ROUND}messages_of_later_steps_are_refused_while_a_step_waits[{kind}]", REPLAYED, *more)


ENOUGH = "a late one of this context changes nothing: the answers of others sufficed"
LATE: Row = (
    ("REJ", "the site waits for the next attempt", _late(0)),
    ("REJ DROP", "", _late(1)),
    (
        "REJ DROP",
        "the upload is wiped; the site stays in U2 without U3",
        _late(
            2,
            "tests/protocol/test_bytes.py::test_a_late_upload_is_not_taken",
            "tests/coordinator/test_spool.py::test_keep_only_wipes_everybody_else",
        ),
    ),
    ("REJ", ENOUGH, _late(3)),
    ("REJ", ENOUGH, _late(4)),
    ("REJ", ENOUGH, _late(5)),
    ("REJ", "", (REPLAYED, f"{ROUND}a_closing_again_or_another_one_finds_the_context_over[same]")),
)


def _few(step: int) -> tuple[str, ...]:
    kind = KINDS[step]
    return (
        f"{ROUND}sites_that_come_back_before_the_deadline_are_in_the_sum[few-{kind}]",
        f"{ROUND}a_few_that_stay_away_are_dropouts_or_not_needed_any_more[{kind}]",
        f"{LINES}sites_that_come_back_in_time_are_in_the_sum[few-{kind}]",
        f"{LINES}a_few_that_stay_away_are_dropouts_or_not_needed[{kind}]",
    )


HEARS = f"{LINES}who_is_cut_off_before_it_hears_the_end_hears_it_when_it_is_back"
FEW: Row = (
    ("DROP", "a smaller U1, if the floors hold", _few(0)),
    *(("DROP", "the attempt goes on; those who are back in time are in it", _few(step)) for step in (1, 2)),
    *(("WAIT", "the attempt goes on; they count, and hear the end", _few(step)) for step in (3, 4, 5)),
    ("WAIT", "they hear the end when they are back", (f"{HEARS}[few]",)),
)


def _many(step: int, soft: bool = False) -> tuple[str, ...]:
    kind = KINDS[step]
    waits = (f"{ROUND}named_survivors_are_waited_for_beyond_a_soft_deadline[{kind}]",) if soft else ()
    return (
        f"{ROUND}sites_that_come_back_before_the_deadline_are_in_the_sum[many-{kind}]",
        f"{ROUND}too_many_that_stay_away_end_the_attempt_and_what_comes_then_opens_nothing[{kind}]",
        *waits,
        f"{LINES}sites_that_come_back_in_time_are_in_the_sum[many-{kind}]",
        f"{LINES}too_many_end_the_attempt_and_the_next_one_opens_when_they_are_back[{kind}]",
    )


BURIED = "tests/edges/test_round.py::test_an_attempt_that_the_sites_bury_binds_nobody_and_the_others_go_on"
MANY: Row = (
    (
        "AF",
        "another attempt follows when they are back",
        (
            *_many(0),
            "tests/edges/test_round.py::test_an_attempt_in_which_nobody_dealt_is_free_and_the_next_one_follows",
        ),
    ),
    ("AF", "another attempt follows when they are back", _many(1)),
    (
        "AC",
        "for those who wrote a masked input down; the sites that are there close it with tombstones at once",
        (*_many(2), f"{BURIED}[UPLOAD]"),
    ),
    ("AC", "as in R2; before that the named survivors are waited for", _many(3, soft=True)),
    (
        "AC",
        "gate shares are out, so no tombstone closes it: the next attempt keeps to the same survivors",
        (
            *_many(4, soft=True),
            "tests/edges/test_round.py::test_survivors_whose_gate_shares_are_out_bind_a_retry_and_without_them_there_is_none",
        ),
    ),
    (
        "AC RES",
        "the same survivors open if they are back in time, or in the next attempt",
        _many(5, soft=True),
    ),
    ("n/a", "the sum is open; they hear the end when they are back", (f"{HEARS}[many]",)),
)


def _altered(number: int) -> tuple[str, ...]:
    return tuple(
        f"{HOSTILE}a_site_message_altered_on_the_way_leaves_an_audit_line[{where}-{number}]"
        for where in ("payload", "signature", "context")
    )


def _damaged(kind: str) -> tuple[str, ...]:
    name = f"{LINES}damaged_bytes_below_tls_break_the_connection_and_nothing_else"
    return (f"{name}[{kind}-flip]", f"{name}[{kind}-truncate]")


SIZES = "tests/protocol/test_bytes.py::test_every_message_of_a_round_survives_the_wire_and_no_truncation_or_extension_does"


LIMIT = "tests/edges/test_limits.py::test_every_call_takes_a_message_of_its_length_and_refuses_one_byte_more"


def _refusal(name: str) -> str:
    return f"{REFUSED}a_refusal_changes_nothing_and_leaves_one_line_with_its_check[{name}]"


BLAMED = (
    "tests/protocol/test_hostile_sites.py::test_wrong_shares_are_attributed_and_survived_up_to_the_threshold"
)
CORRUPT: Row = (
    ("REJ", "", (*_altered(3), *_damaged("ADVERT"), SIZES, LIMIT)),
    (
        "REJ EVID",
        "a sealed share that does not open is complained about with its dealer's signature, before anything leaves",
        (
            *_altered(5),
            *_damaged("SHARES"),
            SIZES,
            "tests/protocol/test_hostile_sites.py::test_shares_sealed_wrongly_are_found_before_anything_leaves",
            f"{PROVEN}evidence_against_a_dealer_is_on_disk_before_the_complaint_leaves",
        ),
    ),
    (
        "REJ SAME",
        "the chunk is refused and the upload sent again",
        (
            *_altered(7),
            *_damaged("MASKED"),
            _refusal("a damaged chunk"),
            _refusal("a chunk that is too large"),
            _refusal("an upload that is too short"),
            _refusal("an upload that is too long"),
            f"{REFUSED}an_upload_that_breaks_off_leaves_nothing_on_disk",
            "tests/edges/test_limits.py::test_an_upload_that_would_not_fit_the_site_s_quota_is_refused_before_it_is_spooled",
        ),
    ),
    ("REJ", "", (*_altered(9), *_damaged("CONSISTENCY"), SIZES)),
    (
        "REJ",
        "a share that is not the committed one is refused and its sender named; others suffice",
        (*_altered(11), *_damaged("GATE_SHARES"), BLAMED),
    ),
    ("REJ", "as in R4a", (*_altered(13), *_damaged("DATA_SHARES"), BLAMED)),
    (
        "SAME",
        "the site gets it again; what it holds is compared with the digests that it signed",
        (
            *_damaged("CLOSING"),
            *(
                f"{HOSTILE}a_message_altered_on_the_way_is_refused_and_changes_nothing[{where}-14]"
                for where in ("payload", "signature", "context")
            ),
        ),
    ),
)
EACH_CALL = f"{ENDS}a_key_that_is_new_with_every_call_costs_nothing"
ANEW = f"{ENDS}a_certificate_that_has_ended_when_the_line_breaks_is_made_anew"
HUB_KEY = (
    "tests/coordinator/test_certificates.py::test_a_server_that_runs_for_weeks_presents_a_new_certificate"
)
TLS: Row = (
    *(
        (
            "WAIT",
            "a new channel under the same identity key; the call is repeated",
            (f"{ANEW}[{kind}]", EACH_CALL),
        )
        for kind in KINDS
    ),
    (
        "WAIT ALARM",
        "both ends make new certificates by themselves; one that ended none the less is a finding of the doctor",
        (
            f"{ANEW}[CLOSING]",
            EACH_CALL,
            HUB_KEY,
            "tests/admin/test_doctor_line.py::test_what_is_left_of_the_certificate_is_judged",
        ),
    ),
)
CLOCKS = (f"{SKEW}at_a_site", f"{SKEW}at_the_coordinator")
CLOCK: Row = (
    (
        "REJ ALARM",
        "only the date of expiry is read: past it the site stays out and says why at home; the doctor names a clock that is further behind",
        (
            *CLOCKS,
            "tests/node/test_session.py::test_a_study_that_has_expired_is_declined",
            "tests/node/test_session.py::test_a_study_expires_at_the_end_of_its_last_day",
            "tests/admin/test_doctor_line.py::test_a_clock_that_is_behind_is_named",
        ),
    ),
    *(("n/a", "certificates allow for two hours", CLOCKS) for _ in range(5)),
    ("n/a", "times in the result are those of the coordinator's rows", CLOCKS),
)


def _store(step: int, *more: str) -> tuple[str, ...]:
    kind = KINDS[step]
    return (
        f"{STORE}the_last_message_that_a_step_needs[{kind}]",
        f"{DOWN}when_the_last_message_of_a_step_comes[{kind}]",
        *more,
    )


LATER = f"{STORE}what_a_deadline_brings_is_taken_once_the_store_takes_it"
DATABASE: Row = (
    (
        "WAIT",
        "calls are answered UNAVAILABLE and repeated; a study whose own writes are refused waits too",
        _store(
            0,
            *(
                f"{STORE}a_write_that_fails[{write}]"
                for write in ("answer", "enter", "close_window", "attempts", "attempt_opened")
            ),
            f"{DOWN}when_the_coordinator_writes_by_itself[attempt_opened]",
        ),
    ),
    ("WAIT", "", _store(1, LATER)),
    (
        "WAIT",
        "a full disk costs a repeated upload",
        _store(
            2,
            f"{STORE}a_write_that_fails[event]",
            "tests/edges/test_faults.py::test_a_disk_that_is_full_once_costs_a_repeated_upload",
        ),
    ),
    (
        "WAIT",
        "no site hears of survivors that are not written down",
        _store(
            3,
            f"{STORE}a_write_that_fails[survivors]",
            f"{DOWN}when_the_coordinator_writes_by_itself[survivors]",
        ),
    ),
    ("WAIT", "", _store(4)),
    (
        "WAIT",
        "no site hears of a sum that is not written down",
        _store(
            5,
            f"{STORE}a_write_that_fails[iteration_opened]",
            f"{DOWN}when_the_coordinator_writes_by_itself[iteration_opened]",
        ),
    ),
    (
        "SAME",
        "sum, review and result are each one transaction: there whole or not at all, and written once",
        (
            f"{STORE}a_write_that_fails[computed]",
            f"{STORE}a_write_that_fails[wrote]",
            f"{DOWN}when_the_coordinator_writes_by_itself[computed]",
            f"{DOWN}when_the_coordinator_writes_by_itself[wrote]",
            "tests/coordinator/test_store.py::test_a_transaction_is_taken_whole_or_not_at_all",
            "tests/coordinator/test_turns.py::test_two_that_decide_on_what_they_only_read_do_not_both_decide",
        ),
    ),
)


def _image(point: str, *more: str) -> tuple[str, ...]:
    return (f"{OLDER}[{point}]", *more)


RESTARTED = (
    "tests/node/test_session.py::test_a_restarted_site_leaves_the_open_round_and_never_enters_it_again"
)
HALTS = "it halts until it is recovered, as the coordinator holds a masked input that it does not know"
IMAGE: Row = (
    (
        "DROP",
        "another advert under the same context is refused; it may take part in the next study",
        _image("r0.sent"),
    ),
    ("DROP", "an upgraded site is one that was started again", _image("r1.sent", *_killed(1), RESTARTED)),
    (
        "DROP ALARM",
        f"it never makes a masked input in this context again; {HALTS}",
        _image("r2.sent", *_killed(2), RESTARTED),
    ),
    ("DROP ALARM", HALTS, _image("r3.sent", *_killed(3))),
    ("DROP ALARM", HALTS, _image("r4a.sent", *_killed(4))),
    ("DROP ALARM", f"it gives no share of another kind; {HALTS}", _image("r4b.sent", *_killed(5))),
    (
        "ALARM",
        "the gap is found against the coordinator's transcripts, or by the other sites' counters: it halts until it is recovered",
        _image(
            "r5.recorded",
            f"{RECOVERY}a_restored_node_halts_and_goes_on_after_recovery",
            f"{RECOVERY}where_the_coordinator_hides_the_trail_the_other_sites_refuse",
        ),
    ),
)

ROWS: dict[str, Row] = {
    "site killed before its record": BEFORE_RECORD,
    "site killed after its record, before it sends": AFTER_RECORD,
    "site killed after it has sent": AFTER_SEND,
    "coordinator killed before it commits": HUB_BEFORE,
    "coordinator killed after it has committed, before it answers": HUB_AFTER,
    "two coordinators: lease ended, or paused": TWO,
    "delivered twice, same bytes": DUPLICATE,
    "same key, other bytes": OTHER_BYTES,
    "late, of an older context, or out of order": LATE,
    "at most n - t sites cut off": FEW,
    "more than n - t sites cut off": MANY,
    "truncated, corrupt or too large": CORRUPT,
    "TLS key renewed, or its certificate ended, in a step": TLS,
    "clock an hour off": CLOCK,
    "database away, in conflict, or disk full": DATABASE,
    "site restored from an older image, or upgraded, in a step": IMAGE,
}


FROZEN = (
    "tests/edges/test_fits.py::test_a_site_that_leaves_in_the_midst_of_a_fit_is_left_out_and_the_result_says_so",
    "tests/edges/test_fits.py::test_a_protected_site_that_restarts_is_waited_for_and_the_round_deals_anew",
    "tests/edges/test_fits.py::test_a_fit_does_not_go_on_without_a_protected_site",
    "tests/protocol/test_round.py::test_every_dropout_pattern_gives_the_survivors_sum_or_nothing",
)
"""Beside the cells: what DROP comes to in a fit, and every pattern of dropouts."""


def cells() -> Iterator[Cell]:
    """Yield all cells, fault by fault."""
    for fault, row in ROWS.items():
        for step, (outcomes, what, tests) in zip(STEPS, row, strict=True):
            yield Cell(fault, step, tuple(map(Outcome, outcomes.split())), what, tests)


HEAD = """# Fault matrix

What must come of sixteen faults at each of the seven steps of a round, and the tests that show it. Written by
`python -m tests.faults.matrix` from `tests/faults/matrix.py`; a test compares the two, and every name with the tests that pytest collects.

Tests below `tests/faults` kill real processes, switch a real PostgreSQL off and cut real lines: `make faults`. All others run in `make test`.
After every run in which processes are killed or lines cut this holds (`tests/faults/invariants.py`): the result is that of the pooled
rows of the survivors, or there is none; a site did every deed once per context; what the coordinator holds of a site is what the site's
ledger says that left; nothing is charged that was not written down, and in noised rounds everything that was; the transcript of an opened
round proves its survivors to each of them; no id of a person is on any disk but in the table it came from. On lines, where every packet is
seen, a site gave one kind of share for each peer: shares of self seeds for the survivors, of mask seeds for the others.

In a fit a DROP of a site leaves a smaller cohort, or, where a protected site is missing, ends the attempt, and the others wait for it.
Beside the cells, every pattern of dropouts of small consortia gives the survivors' sum or nothing. Shown by FROZEN.

| outcome | meaning |
|---|---|
"""


def page() -> str:
    """Return docs/fault-matrix.md."""
    beside = ", ".join(f"`{test.removeprefix('tests/')}`" for test in FROZEN)
    lines = [
        HEAD.replace("FROZEN", beside)
        + "\n".join(f"| **{outcome}** | {meaning} |" for outcome, meaning in MEANING.items())
    ]
    held = list(cells())
    for fault in ROWS:
        lines.append(
            f"\n## {fault[0].upper()}{fault[1:]}\n\n| step | outcome | as built | shown by |\n|---|---|---|---|"
        )
        for cell in held:
            if cell.fault == fault:
                shown = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in cell.tests)
                lines.append(f"| {cell.step} | {', '.join(cell.outcomes)} | {cell.what} | {shown} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
