"""The instruction log: seven columns, one line an event."""

import re
import subprocess
import sys

import pytest
from isolated import environment, run

pytestmark = pytest.mark.timeout(300)

# --- the instruction log ---------------------------------------------------------------------------------------------

LINE = re.compile(
    r"^\s*\d+\.\d{6}s \| #\d{4,} \| (CONNECT|DISCONNECT|RECV|SEND|WORKER_SEND|WORKER_RECV|EXEC|COMPILE|REPLAY|ERROR) *"
    r"\| \S+ *\| \S+ *\| *(-|\d+(\.\d+)?(B|KB|MB|GB)) \|.*$"
)
LOGGED = """
import gt
x = gt.ones(3, 4)
y = (x * 2 + 1).relu()
z = y @ y.T
print(z.sum().item())
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "gt.log"
    run(LOGGED, GT_INSTRUCTION_LOG=path)
    return path


def test_log_lines_have_seven_columns(log):
    lines = log.read_text().splitlines()
    assert lines
    for line in lines:
        assert LINE.match(line), line
        assert len(line.split("|", 6)) == 7


def test_log_counts_what_the_program_did(log):
    received = [line for line in log.read_text().splitlines() if " RECV " in line]
    assert len(received) >= 6, "one line an instruction: fill, mul, add, relu, matmul, sum"
    for word in ("mul", "add", "relu", "matmul", "sum"):
        assert any(word in line.lower() for line in received), word


def test_log_numbers_and_times_rise(log):
    rows = [line.split("|") for line in log.read_text().splitlines()]
    numbers = [int(row[1].strip()[1:]) for row in rows]
    times = [float(row[0].strip().rstrip("s")) for row in rows]
    assert numbers == sorted(numbers) and len(set(numbers)) == len(numbers) and times == sorted(times)


def test_log_answers_the_documented_awk(log):
    done = subprocess.run(["awk", "{print $1, $7, $9}", str(log)], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        moment, source, command = line.split()
        assert re.fullmatch(r"\d+\.\d{6}s", moment)
        assert re.match(r"(CLIENT|WORKER|DISPATCHER|SERVER)\b", source) and command != "|"


def test_log_names_lines_and_durations(tmp_path):
    script, path = tmp_path / "program.py", tmp_path / "gt.log"
    script.write_text(LOGGED)
    subprocess.run(
        [sys.executable, str(script)],
        env=environment(GT_INSTRUCTION_LOG=path),
        check=True,
        timeout=60,
        capture_output=True,
    )
    executed = [line for line in path.read_text().splitlines() if " EXEC " in line]
    assert executed and all("dur_us=" in line and "instrs=" in line for line in executed)
    assert any("program.py:" in line for line in executed)


def test_log_of_an_error(tmp_path):
    path = tmp_path / "gt.log"
    run(
        "import gt\nx = gt.ones(3)[gt.tensor([9])]\ntry:\n    x.tolist()\nexcept IndexError: pass",
        GT_INSTRUCTION_LOG=path,
    )
    assert any(" ERROR " in line for line in path.read_text().splitlines())
