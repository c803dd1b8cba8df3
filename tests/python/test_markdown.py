"""Every Python block of the pages for users runs as printed, one after the other."""

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
