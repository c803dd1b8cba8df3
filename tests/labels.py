"""Checks the labels of invariants, such as `PLAN-3`: each is defined once, and every label that is cited is defined.

A definition is a line of a module's page that begins with the label and a colon. Everything else is a citation.
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

LABEL = re.compile(r"\b[A-Z][A-Z]*(?:-[A-Z]+)*-\d+\b")
DEFINITION = re.compile(r"^(?:.*//[!/] |# |-? *)([A-Z][A-Z]*(?:-[A-Z]+)*-\d+): ")
# Names that look like labels: encodings, dtypes, formats, standards, licences.
NO_LABELS = re.compile(
    r"^(UTF|ISO|SHA|RFC|AES|CRC|POSIX|IEEE|GPT|QWEN|CVE|BSD|MIT|LGPL|APACHE|ASCII|EPYC|CC|X|V|P|PCG|AVX|INT|UINT|FLOAT|BF|F|I|U|N|SSH)-"
)


def main() -> int:
    listed = subprocess.run(
        ["git", "ls-files", "*.rs", "*.py", "Makefile", "*.md"], capture_output=True, text=True, check=True
    )
    defined: dict[str, list[str]] = defaultdict(list)
    cited: dict[str, list[str]] = defaultdict(list)
    for name in listed.stdout.split():
        if not Path(name).is_file():
            continue
        for number, line in enumerate(Path(name).read_text().splitlines(), 1):
            definition = DEFINITION.match(line)
            # Tests of a crate cite its labels.
            if definition and not re.match(r"crates/\w[\w-]*/tests/", name):
                defined[definition[1]].append(f"{name}:{number}")
            for label in LABEL.findall(line):
                if not NO_LABELS.match(label):
                    cited[label].append(f"{name}:{number}")
    wrong = [
        f"{label} is defined {len(at)} times: {', '.join(at)}" for label, at in sorted(defined.items()) if len(at) > 1
    ]
    wrong += [
        f"{label} is not defined, but cited at {at[0]}" for label, at in sorted(cited.items()) if label not in defined
    ]
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
