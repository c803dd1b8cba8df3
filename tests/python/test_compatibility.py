"""The page that lists what of PyTorch is there says what the package holds."""

import os

import compatibility


def test_golden_compatibility_page_matches_the_package():
    text = compatibility.PAGE.read_text()
    introduction, mark, _ = text.partition(compatibility.MARK)
    assert mark, f"{compatibility.PAGE.name} has lost the mark where its generated part begins"
    expected = introduction + compatibility.generated()
    if os.environ.get("GT_GOLDEN") == "write":
        compatibility.PAGE.write_text(expected)
        return
    assert text == expected, "docs/pytorch-compatibility.md is out of date: run `make golden`"
