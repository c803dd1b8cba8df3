"""Every message that GT can show is plain English. `make messages` prints them all.

The messages are found in the source (`tests/messages.py`), so the rules also hold for those that no test provokes.
"""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import messages  # noqa: E402

# A rule is a pattern that no message matches, and the paths whose messages it is not for.
RULES = {
    "a word that readers stumble over": (
        r"\b(whoever|whatever|nobody|somebody|everybody|so many|by themselves|by itself|shown out|bereft|(?<!there )is no)\b(?! longer)",
        (),
    ),
    # Tables and examples are aligned.
    "two spaces": (r"\S  +\S", ("crates/cli/src/lib.rs", "python/gt/_tuning.py", "python/gt/data/_report.py")),
    # It converts PyTorch's files.
    "a name of PyTorch": (r"\btorch\.", ("python/gt/utils/safetensors.py",)),
    # What these say follows "internal error in GT, please report it:", or is a line of a log for developers.
    "a name that only developers know": (
        r"%\{|%\d|\b(window|template|payload|placer|seat)s?\b|\b(?!UTF|GT)[A-Z]{3,}-\d",
        ("crates/plan/", "crates/shard/", "crates/stream/", "crates/ir/src/text.rs", "crates/ir/src/codec.rs"),
    ),
}
# Messages of these crates are GT's own. Others have PyTorch's messages too, some with capitals and periods.
OWN_CRATES = ("data", "dispatcher", "gt", "net", "observe", "plan", "remote", "serve", "shard", "worker")
OWN = tuple(f"crates/{name}/" for name in OWN_CRATES)
# Lines of `gt worker --help`, which begin with capitals.
HELP = ("crates/gt/src/backends.rs",)
OWN_RULES = {
    "a capital at the beginning": r"[A-Z][a-z]+ ",
    "a period at the end": r".*\w\.\s*\Z",
}
# How `object_store` puts it; GT looks for these.
OF_LIBRARIES = {"Received non-partial response", "Range request not supported"}


def broken(message: messages.Message) -> list[str]:
    """The rules that a message breaks."""
    if message.text in OF_LIBRARIES:
        return []
    rules = [
        name for name, (bad, but) in RULES.items() if re.search(bad, message.text) and not message.path.startswith(but)
    ]
    if message.path.startswith(OWN) and not message.path.startswith(HELP):
        rules += [name for name, bad in OWN_RULES.items() if re.match(bad, message.text, re.S)]
    return rules


def test_every_message_is_plain():
    found = messages.messages()
    assert len(found) > 1500, "the walk over the source finds too little"
    wrong = [f"{m.path}:{m.line}: {', '.join(rules)}: {m.text}" for m in found if (rules := broken(m))]
    assert not wrong, "\n" + "\n".join(wrong)


PLANTED = {
    "nobody has the tensor": "a word that readers stumble over",
    "the value is no number": "a word that readers stumble over",
    "the value is  too large": "two spaces",
    "use torch.cat instead": "a name of PyTorch",
    "the window was refused": "a name that only developers know",
    "instruction 3 reads %{id}": "a name that only developers know",
    "PLAN-1: reads a value twice": "a name that only developers know",
    "The value is too large": "a capital at the beginning",
    "the value is too large.": "a period at the end",
}


@pytest.mark.parametrize("text", PLANTED)
def test_a_bad_message_is_found(tmp_path, text):
    file = tmp_path / "crates" / "gt" / "src" / "planted.rs"
    file.parent.mkdir(parents=True)
    file.write_text(f'fn f() -> Error {{\n    Error::Value(format!("{text}"))\n}}\n')
    (message,) = messages.rust_messages(file, tmp_path)
    assert broken(message) == [PLANTED[text]] and message.line == 2


def test_a_bad_message_in_python_is_found(tmp_path):
    file = tmp_path / "planted.py"
    file.write_text('def f(x):\n    """Nobody reads this."""\n    raise ValueError(f"nobody has {x}")\n')
    (message,) = messages.python_messages(file, tmp_path)
    assert broken(message) == ["a word that readers stumble over"] and message.text == "nobody has {x}"


def test_a_good_message_breaks_no_rule():
    good = "there is no column 'x'; the server no longer has the session"
    assert broken(messages.Message("crates/data/src/field.rs", 1, good)) == []
