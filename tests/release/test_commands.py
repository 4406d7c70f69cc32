"""`cohortsum release ...` as checkers, sites and others type it, against a coordinator on loopback."""

import asyncio
import hashlib
import json
from pathlib import Path

from cohortsum.coordinator.service import ConsortiumService, secure_server
from cohortsum.crypto.fingerprint import short_form
from cohortsum.protocol.roster import ROSTER
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.release.checklist import HUMAN
from tests.admin import desk
from tests.edges.harness import HUB
from tests.protocol.consortium import identity_key
from tests.release.world import COARSER, World, asking, play, roster_text

PEOPLE = ("chk1", "chk2", "site1", "aud1", "statistician")


class Counter:
    """A terminal in a folder with roster and keys, and the port of the coordinator."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self._port = folder, port
        text, operator = roster_text(2), identity_key("operator")
        (folder / "consortium.yaml").write_bytes(text)
        (folder / "consortium.sig").write_text(operator.sign(ROSTER, text).hex())
        (folder / "operator.pub").write_text(operator.public.hex())
        for name in PEOPLE:
            (folder / f"{name}.key").write_text(hashlib.sha256(name.encode()).hexdigest())

    async def run(self, who: str, *arguments: str | Path, given: str = "") -> desk.Screen:
        """Type a command, and wait for it while the coordinator serves."""
        person = ("--key", self._folder / f"{who}.key", "--id", who)
        where = ("--coordinator", f"127.0.0.1:{self._port}", "--roster", self._folder / "consortium.yaml")
        return await asyncio.to_thread(desk.run, "release", *arguments, *where, *person, given=given)


def test_the_commands_of_a_release(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        study = world.over(asking())
        server, port = secure_server(
            ConsortiumService(world.hub), world.roll, identity_key(HUB), "127.0.0.1:0"
        )
        await server.start()
        try:
            await typed(world, Counter(tmp_path, port), study, tmp_path)
        finally:
            await server.stop(None)

    play(tmp_path, story)


async def typed(world: World, counter: Counter, held: FrozenStudy, folder: Path) -> None:
    study = held.study
    listed = await counter.run("statistician", "list", study)
    assert listed.code == 0, listed
    assert "1 signature of checkers and the signature of a site" in " ".join(listed.out.split())
    assert "loopback is in review" in listed.said

    # values are for those who decide, and for auditors
    assert (
        "is no checker or site or auditor of"
        in (await counter.run("statistician", "show", study, "ages")).refusal
    )
    page = folder / "ages.html"
    shown = await counter.run("chk1", "show", study, "ages", "--html", page)
    assert shown.code == 0, shown
    digest = world.hub.review.standing(held.digest).item("ages").item.digest
    for words in (
        short_form(digest),
        digest.hex(),
        "rules: none in force",
        "checklist_sign_off",
        "still needs",
    ):
        assert words in " ".join(shown.out.split())
    assert digest.hex() in page.read_text()
    assert (await counter.run("aud1", "show", study, "ages")).code == 0
    assert "no checker or site" in (await counter.run("aud1", "sign", study, "ages", "--yes")).refusal

    # another digest, an unknown question, and a question that is answered with no
    assert (
        "its digest is"
        in (await counter.run("chk1", "sign", study, "ages", "--yes", "--digest", "00")).refusal
    )
    assert "no such question" in (await counter.run("chk1", "sign", study, "ages", "--confirm", "x")).refusal
    stopped = await counter.run("chk1", "sign", study, "ages", given="y\ny\nn\n")
    assert (stopped.code, world.states(held)["ages"]) == (1, "queue")
    assert "is not confirmed" in stopped.said

    signed = await counter.run("chk1", "sign", study, "ages", given="y\n" * len(HUMAN))
    assert signed.code == 0, signed
    assert "it still needs the signature of a site" in signed.said
    answers = [part for one in HUMAN for part in ("--confirm", one)]
    last = await counter.run("site1", "sign", study, "ages", *answers, "--digest", short_form(digest))
    assert "ages is released" in last.said

    remedy = folder / "remedy.json"
    remedy.write_text(COARSER)
    back = await counter.run("chk2", "return", study, "bands", "--remedy", remedy, "--reason", "small bins")
    assert back.code == 0, back
    changed = await counter.run("chk2", "show", study, "bands")
    assert "turn 1, returned" in " ".join(changed.out.split())
    assert (await counter.run("site1", "withhold", study, "thickness", "--reason", "few")).code == 0
    assert world.states(held) == {"ages": "released", "bands": "queue", "thickness": "withheld"}

    out = folder / "csv"
    exported = await counter.run("statistician", "export", study, "--out", out)
    assert exported.code == 0, exported
    assert {path.name for path in out.iterdir()} == {"ages.csv", "README.txt"}
    await counter.run("statistician", "export", study, "--format", "json", "--out", folder / "json")
    written = json.loads((folder / "json" / "result.json").read_bytes())
    assert [table["analysis"] for table in written["tables"]] == ["ages"]

    taken = await counter.run("chk2", "retract", study, "ages", "--reason", "wrong epoch")
    assert "retracted: ages" in taken.said
    assert world.states(held)["ages"] == "retracted"
