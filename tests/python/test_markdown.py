"""Every Python block of the pages for users runs as printed, one after the other, and every page names what there is."""

import glob
import re
import subprocess
import sys
from pathlib import Path

import isolated
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    "README.md",
    "docs/data.md",
    "docs/errors.md",
    "docs/getting-started.md",
    "docs/signals.md",
    "docs/training.md",
    "docs/tutorials/files.md",
    "docs/tutorials/loop.md",
]


# The workers that a page ends with, where one would mean that its point is lost.
WORKERS = {"docs/getting-started.md": 2}


def script_of(page):
    """The Python blocks of a page, each at the lines that it has there."""
    text = (ROOT / page).read_text()
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.S | re.M))
    assert blocks, f"{page} has no Python in it"
    script = ""
    for block in blocks:
        script += "\n" * (text.count("\n", 0, block.start(1)) - script.count("\n")) + block.group(1)
    return script


def run_script(script, folder):
    """Runs a script as a user does, in a process of its own; a warning is an error."""
    file = folder / "page.py"
    file.write_text(script)
    command = [sys.executable, "-W", "error::UserWarning", str(file)]
    return subprocess.run(
        command, cwd=folder, env=isolated.environment(), timeout=280, capture_output=True, text=True, check=False
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES)
def test_the_snippets_of_a_page_run(page, tmp_path):
    script = script_of(page)
    if page in WORKERS:
        script += f"\nassert len(gt.debug.get_worker_stats()) == {WORKERS[page]}\n"
    done = run_script(script, tmp_path)
    assert done.returncode == 0 and "warning" not in done.stderr.lower(), f"{done.stdout}\n{done.stderr}"


def test_a_page_that_warns_would_fail(tmp_path):
    script = 'import gt\nwith gt.signal.context("not_configured"):\n    gt.ones(2)\n'
    assert "UserWarning" in run_script(script, tmp_path).stderr


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


NO_GPU = "There is no GPU engine yet"


def test_users_were_not_told_that_there_is_no_gpu_engine():
    done = isolated.run("import gt; gt.ones(1).item()", check=False, GT_BACKEND="cuda")
    has_engine = done.returncode == 0
    assert has_engine or "this build of GT has no CUDA engine" in done.stderr, done.stderr
    for page in ("README.md", "docs/getting-started.md", "docs/pytorch-compatibility.md", "docs/variables.md"):
        assert (NO_GPU in (ROOT / page).read_text()) != has_engine, page
    (backends,) = re.findall(r"^\| `GT_BACKEND` \| (.*?) \|", (ROOT / "docs/variables.md").read_text(), re.M)
    assert backends == "`auto`, `cpu`, `cuda`, `reference`"


def test_the_tests_that_the_page_on_security_names_are_there():
    assert "](docs/security.md)" in (ROOT / "README.md").read_text()
    page = (ROOT / "docs/security.md").read_text()
    rows = re.findall(r"^\| .* \| (.*) \|$", page[page.index("\n## Tests\n") :], re.M)[1:]
    assert len(rows) > 15, "the table of tests is not where this test looks"
    for row in rows:
        folder = None
        named = re.findall(r"`([\w/*.-]+\.(?:rs|py))`", row)
        assert named, row
        for name in named:
            # A name without a folder lies beside the one before it.
            path = ROOT / name if "/" in name else folder / name
            assert glob.glob(str(path)), f"{name} in: {row}"
            folder = path.parent
