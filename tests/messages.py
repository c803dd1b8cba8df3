"""Prints every message that GT can show: errors, warnings, log lines, help. `make messages` runs this file.

Messages are found in the source, not provoked: every string literal of shipped code that reads as a sentence or part of one
counts. So a message cannot be forgotten, and a few strings that no user meets are listed too.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# A word, a space, another word: anything shorter is a name, a format or a key.
SENTENCE = re.compile(r"[A-Za-z`'}\])]{2,}[,:;.]? +[A-Za-z0-9%`'({\[-]")
# Strings inside these calls are for developers of GT, or documentation.
INTERNAL_CALLS = re.compile(
    r"\b(?:debug_)?assert(?:_eq|_ne)?!\s*\(|\bunreachable!\s*\(|\bpanic!\s*\(|\.expect(?:_err)?\s*\(|\btodo!\s*\(|\basm!\s*\("
    r"|\bcfg!?\s*\(|#!?\[\s*(?:doc|cfg|allow|expect|deprecated|must_use)\b|^(?:unary|methods|casts|tests)!\s*\{|\.(?:contains|starts_with)\s*\(",
    re.MULTILINE,
)
# Functions whose strings are representations of objects.
REPRESENTATIONS = {"__repr__", "extra_repr"}
RUST_TOKEN = re.compile(
    r"""(?P<line>//[^\n]*)
      | (?P<block>/\*.*?\*/)
      | (?P<raw>b?r(?P<hashes>\#*)"(?P<rawtext>.*?)"(?P=hashes))
      | (?P<string>b?"(?P<text>(?:\\.|[^"\\])*)")
      | (?P<char>b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^\\'])')
    """,
    re.DOTALL | re.VERBOSE,
)
# clap turns the doc comments of these types into help.
HELP = re.compile(
    r"(?:^///[^\n]*\n|^#\[[^\n]*\n)*^#\[derive\([^\n]*\b(?:Args|Parser|Subcommand|ValueEnum)\b.*?^\}",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Message:
    path: str
    line: int
    text: str


def shipped_rust() -> Iterator[Path]:
    for path in sorted((ROOT / "crates").glob("*/src/**/*.rs")):
        inside = path.relative_to(ROOT / "crates").parts
        is_test = any(part == "tests" or part.endswith(("tests.rs", "_tests")) for part in inside)
        is_benchmark = inside[-2:] == ("kernels", "bench.rs")
        if inside[0] != "fuzz" and not (is_test or is_benchmark) and "conformance" not in inside:
            yield path


def closing(source: str, start: int) -> int:
    """The end of the bracket that opens before `start`. Strings and comments do not count."""
    depth = 1
    position = start
    while depth and position < len(source):
        token = RUST_TOKEN.match(source, position)
        if token:
            position = token.end()
            continue
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(source[position], 0)
        position += 1
    return position


def unescaped(text: str) -> str:
    text = re.sub(r"\\\n\s*", "", text)
    return text.replace('\\"', '"').replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")


def rust_messages(path: Path, root: Path = ROOT) -> Iterator[Message]:
    source = path.read_text(encoding="utf-8")
    # Unit tests stand at the end of a file.
    tests = re.search(r"^#\[cfg\(test\)\]\s*mod \w+ \{", source, re.MULTILINE)
    end = tests.start() if tests else len(source)
    help_texts = [range(*m.span()) for m in HELP.finditer(source)]
    position = 0
    while position < end:
        internal = INTERNAL_CALLS.match(source, position)
        if internal and (position == 0 or not (source[position - 1].isalnum() or source[position - 1] == "_")):
            position = closing(source, internal.end())
            continue
        token = RUST_TOKEN.match(source, position)
        if not token:
            position += 1
            continue
        position = token.end()
        text = None
        if token["string"]:
            text = unescaped(token["text"])
        elif token["raw"]:
            text = token["rawtext"]
        elif (token["line"] or "").startswith("///") and any(token.start() in span for span in help_texts):
            text = token["line"][3:].strip()
        if text and SENTENCE.search(text):
            yield Message(str(path.relative_to(root)), source.count("\n", 0, token.start()) + 1, text)


def python_text(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) else "{" + ast.unparse(part.value) + "}"
            for part in node.values
        )
    return None


def is_no_message(node: ast.AST) -> bool:
    """Whether strings inside a node are documentation, names, or what `repr` returns."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Assert():
            return True
        case ast.FunctionDef(name=name):
            return name in REPRESENTATIONS
        case ast.Assign(targets=[ast.Attribute(attr="__doc__")]):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="split")):
            return True
        # The table of functions: signature, documentation, example, result.
        case ast.AnnAssign(annotation=annotation):
            return "_Row" in ast.unparse(annotation)
    return False


def python_messages(path: Path, root: Path = ROOT) -> Iterator[Message]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs, parts = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts.update(node.values)
        if is_no_message(node):
            docs.update(ast.walk(node))
    for node in ast.walk(tree):
        if node in docs or node in parts:
            continue
        text = python_text(node) if isinstance(node, ast.expr) else None
        if text and SENTENCE.search(text):
            yield Message(str(path.relative_to(root)), node.lineno, text)


def messages() -> list[Message]:
    found = [message for path in shipped_rust() for message in rust_messages(path)]
    for path in sorted((ROOT / "python" / "gt").glob("**/*.py")):
        found += python_messages(path)
    return found


def main() -> None:
    path = None
    for message in messages():
        if message.path != path:
            path = message.path
            print(f"\n{path}")
        print(f"{message.line:5}  " + message.text.replace("\n", "\n       "))


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="replace")
    main()
