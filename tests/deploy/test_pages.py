"""Links of the deployment's pages lead somewhere, and the files they tell people to copy are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "deploy").rglob("*.md"))
FENCE = re.compile(r"^```.*?^```", re.M | re.S)


def anchors(text: str) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_there_are_pages() -> None:
    assert len(PAGES) == 3


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_resolve(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", FENCE.sub("", text)):
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        assert linked.exists(), target
        assert linked.is_relative_to(ROOT), target
        assert not anchor or anchor in anchors(linked.read_text(encoding="utf-8")), target


def test_every_file_that_an_admin_copies_is_there() -> None:
    folder = ROOT / "deploy" / "systemd"
    named = re.findall(r"^cp (\S+)", (folder / "README.md").read_text(encoding="utf-8"), re.M)
    assert len(named) == 7
    assert [name for name in named if not (folder / name).exists()] == []
