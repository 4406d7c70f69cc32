"""The tutorial on one machine, over the loopback interface; on hosts of their own it is typed in tests/hosts."""

from contextlib import ExitStack
from pathlib import Path

from cohortsum.cli.results import read_document
from tests.end_to_end.tutorial import SITES, STUDY, Desk, Loopback, prepare, state_of, type_tutorial, until


def test_the_tutorial_works_as_it_is_typed(tmp_path: Path) -> None:
    type_tutorial(Loopback(tmp_path))


def test_a_revoked_site_is_taken_by_nobody(tmp_path: Path) -> None:
    """The deny-list counts at once: at the coordinator's door, and in every other site's eyes."""
    town = Desk(tmp_path)
    text = STUDY.replace("min_sites: 5 ", "min_sites: 4 ")
    text = text.replace("max_colluding_sites: 1 ", "max_colluding_sites: 0 ")
    text += "deadlines: {gather: 80s, step: 10s, step_max: 10s}\n"
    steps = prepare(town, text)
    with ExitStack() as stack:
        stack.enter_context(town.started("operator", steps.run_hub))
        for site in SITES:
            stack.enter_context(town.started(site, steps.run_node))
        until(lambda: "listening" in town.log("operator"), "the coordinator listens")
        for command in steps.submit:
            town.type("statistician", command)
        for site in SITES:
            until(lambda: "asd-open" in town.type(site, steps.decide[0]), f"{site} hears of the study")  # noqa: B023
        town.type("operator", "cohortsum coordinator revoke consortium oak --reason 'laptop stolen'")
        for file in ("deny.yaml", "deny.sig"):
            town.carry("operator", f"consortium/{file}", SITES)
        for site in SITES[:-1]:
            town.type(site, "cohortsum node deny site deny.yaml deny.sig")
        for site in reversed(SITES):  # oak first: the others' four approvals are enough to end the study
            town.type(site, steps.decide[-1])
        until(lambda: state_of(town) == "released", "the study is released")
    document = read_document(town.folders["operator"] / "consortium" / "results" / "asd-open" / "v1")
    assert document.sites.took_part == SITES[:-1]
