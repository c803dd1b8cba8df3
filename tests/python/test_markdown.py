"""Every Python block of the pages for users runs as printed, one after the other, and every page names what there is."""

import glob
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    "README.md",
    "docs/data.md",
    "docs/signals.md",
    "docs/training.md",
    "docs/tutorials/files.md",
    "docs/tutorials/loop.md",
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES)
def test_the_snippets_of_a_page_run(page, tmp_path, monkeypatch):
    text = (ROOT / page).read_text()
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.S | re.M))
    assert blocks, f"{page} has no Python in it"
    for block in blocks:
        line = text.count("\n", 0, block.start(1))
        exec(compile("\n" * line + block.group(1), page, "exec"), namespace)


def every_page():
    folders = ("*.md", "docs/**/*.md", "examples/**/*.md", "bench/**/*.md", "crates/**/*.md")
    return sorted(str(page.relative_to(ROOT)) for folder in folders for page in ROOT.glob(folder))


def anchors(text):
    """What a heading can be linked as."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", text, re.M)
    }


@pytest.mark.parametrize("page", every_page())
def test_the_links_of_a_page_lead_somewhere(page):
    path = ROOT / page
    prose = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.S | re.M)
    broken = []
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", prose):
        if "://" in target:
            continue
        there = path.parent / target if target else path
        if not there.exists() or anchor and anchor not in anchors(there.read_text()):
            broken.append(f"{target}#{anchor}")
    assert broken == []


@pytest.mark.parametrize("page", every_page())
def test_the_files_and_commands_that_a_page_names_are_there(page):
    text = (ROOT / page).read_text()
    paths = re.findall(r"`((?:crates|docs|python|tests|bench|examples)/[^`\s]*)`", text)
    assert [path for path in paths if not glob.glob(str(ROOT / path), recursive=True)] == []
    commands = re.findall(r"`make ([a-z-]+)", text)
    rules = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    assert sorted(set(commands) - set(rules)) == []
