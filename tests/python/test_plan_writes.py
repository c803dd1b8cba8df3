"""`gt plan` runs a script on zeros: nothing of GT writes a file, and errors that come from zeros say so."""

import ast
import hashlib
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from isolated import environment

import gt

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[2]


def plan(folder, program, **variables):
    """What `gt plan` said of a program that runs in a folder."""
    script = folder / "train.py"
    if not script.exists():
        script.write_text(textwrap.dedent(program))
    command = [sys.executable, "-m", "gt", "plan", "--workers", "2", "train.py"]
    return subprocess.run(
        command, cwd=folder, env=environment(**variables), timeout=120, capture_output=True, text=True
    )


def contents(folder):
    """Every file and folder below, with what files hold and when they were written."""
    return {
        str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        if path.is_file()
        else None
        for path in sorted(folder.rglob("*"))
    }


def test_a_script_that_saves_keeps_its_checkpoint_under_gt_plan(tmp_path):
    gt.save({"weight": gt.full((3,), 7.0)}, tmp_path / "model.pt")
    done = plan(
        tmp_path,
        """
        import gt
        m = gt.nn.Linear(4, 2)
        for _ in range(3):
            gt.save(m.state_dict(), "model.pt")
        """,
    )
    assert done.returncode == 0, done.stderr
    assert gt.load(tmp_path / "model.pt")["weight"].tolist() == [7.0] * 3
    assert done.stderr.splitlines().count("gt plan: did not write model.pt") == 1, done.stderr


# Each of these writes when it is run without `gt plan`; the paths are those that it is to name.
WRITERS = {
    "gt.save": ("gt.save(state, 'saved.safetensors')", ["saved.safetensors"]),
    "gt.save to an open file": (
        "with open('opened.safetensors', 'r+b') as f: gt.save(state, f)",
        ["opened.safetensors"],
    ),
    "gt.save to a file opened to write": (
        "with open('opened.safetensors', 'wb') as f: gt.save(state, f)",
        ["opened.safetensors"],
    ),
    "gt.save to a new file, then renamed": (
        "gt.save(state, 'new.tmp'); import os; os.replace('new.tmp', 'saved.safetensors')",
        ["new.tmp", "saved.safetensors"],
    ),
    "open": ("with open('gt.log', 'w') as f: f.write('0.0')", ["gt.log"]),
    "open to append": ("with open('gt.log', mode='ab') as f: f.write(b'0.0')", ["gt.log"]),
    "pathlib": ("import pathlib; pathlib.Path('gt.log').write_text('0.0')", ["gt.log"]),
    "numpy.save": ("import numpy; numpy.save(open('gt.log', 'wb'), numpy.zeros(3))", ["gt.log"]),
    "save_file": (
        "from gt.utils.safetensors import save_file; save_file(state, 'file.safetensors')",
        ["file.safetensors"],
    ),
    "SummaryWriter": (
        """
        from gt.utils.tensorboard import SummaryWriter
        with SummaryWriter("runs/new") as writer:
            writer.add_scalar("loss", state["w"].sum(), 1)
            writer.add_scalars("both", {"a": 1.0}, 1)
        """,
        [r"runs/new/events\.out.*", r"runs/new/both_a/events\.out.*"],
    ),
    "save_pretrained": (
        "model().save_pretrained('old_model')",
        ["old_model/config.json", "old_model/model.safetensors"],
    ),
    "save_pretrained in shards": (
        "model().save_pretrained('old_model', max_shard_size=1000)",
        ["old_model/model.*safetensors", "old_model/model.safetensors.index.json"],
    ),
    "save_pretrained to a new folder": ("model().save_pretrained('new/model')", ["new/model/config.json"]),
    "write_parquet": ("gt.data.write_parquet('rows.parquet', {'x': [1, 2]})", ["rows.parquet"]),
    "gt data cache": ("command('cache', 'rows.jsonl', 'cached')", ["cached"]),
    "gt data shuffle": ("command('shuffle', 'rows.jsonl', 'shuffled')", ["shuffled"]),
    "the index of files": ("command('index', 'rows.jsonl')", []),
    "a loader's index": ("next(iter(gt.data.DataLoader(gt.data.JsonlDataset('rows.jsonl'), batch_size=2)))", []),
    "GT_INSTRUCTION_LOG": ("print(gt.ones(2).sum().item())", ["gt.log"]),
    "a server's log": (
        """
        server = subprocess.Popen([sys.executable, "-m", "gt", "server", "-p", "0", "--workers", "1",
                                   "--log-file", "server.log"],
                                  stderr=subprocess.PIPE, text=True)
        for line in server.stderr:
            print(line, end="", file=sys.stderr)
            if line.startswith("gt worker"):  # It has joined, which the log tells.
                break
        server.terminate()
        print(server.communicate()[1], file=sys.stderr)
        """,
        ["server.log"],
    ),
}
PRELUDE = """
import subprocess, sys, gt
state = {"w": gt.ones(3)}
def command(*arguments):
    subprocess.run([sys.executable, "-m", "gt", "data", *arguments], check=True)
def model():
    config = gt.models.Qwen3Config(vocab_size=16, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                   num_attention_heads=1, num_key_value_heads=1, head_dim=8)
    return gt.models.Qwen3ForCausalLM(config)
"""


def prepared(folder):
    """A folder with files that the writers would replace."""
    for name in ("saved.safetensors", "opened.safetensors", "file.safetensors", "gt.log", "server.log"):
        (folder / name).write_bytes(b"as it was")
    (folder / "rows.jsonl").write_text("".join(f'{{"x": {i}}}\n' for i in range(8)))
    (folder / "old_model").mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / "old_model" / name).write_bytes(b"as it was")
    (folder / "index").mkdir()


@pytest.mark.parametrize("writer", WRITERS)
def test_no_writer_changes_its_folder_under_gt_plan(tmp_path, writer):
    code, named = WRITERS[writer]
    prepared(tmp_path)
    (tmp_path / "train.py").write_text(PRELUDE + textwrap.dedent(code))
    before = contents(tmp_path)
    variables = {"GT_CACHE_DIR": "index"}
    if writer == "GT_INSTRUCTION_LOG":
        variables["GT_INSTRUCTION_LOG"] = "gt.log"
    done = plan(tmp_path, "", **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert contents(tmp_path) == before
    said = re.findall(r"^gt plan: did not write (.*)$", done.stderr, re.MULTILINE)
    assert len(set(said)) == len(said), said
    for pattern in named:
        assert any(re.fullmatch(pattern, path) for path in said), (pattern, said)


@pytest.mark.parametrize("writer", WRITERS)
def test_each_of_those_writers_writes_without_gt_plan(tmp_path, writer):
    # Or the test above could not fail.
    prepared(tmp_path)
    (tmp_path / "train.py").write_text(PRELUDE + textwrap.dedent(WRITERS[writer][0]))
    before = contents(tmp_path)
    variables = {"GT_CACHE_DIR": "index", "GT_INSTRUCTION_LOG": "gt.log"}
    if writer != "GT_INSTRUCTION_LOG":
        del variables["GT_INSTRUCTION_LOG"]
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, env=environment(**variables), timeout=120, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path) != before


ZEROS = {
    "an index": "table = {7: 'seven'}; table[int(gt.full((1,), 7).max())]",
    "a shape that depends on data": "x = gt.ones(4); x[x > 0].reshape(2, 2)",
    "a check of values": "loss = gt.ones(3).sum().item(); assert loss > 0",
}


@pytest.mark.parametrize("case", ZEROS)
def test_an_error_that_comes_from_zeros_says_so_under_gt_plan(tmp_path, case):
    done = plan(tmp_path, f"import gt\n{ZEROS[case]}\n")
    assert done.returncode != 0
    assert "every value that the script read" in done.stderr and "may be correct" in done.stderr, done.stderr


def test_an_error_before_any_read_is_not_blamed_on_zeros(tmp_path):
    done = plan(tmp_path, "import gt\ngt.ones(2) @ gt.ones(3)\n")
    assert done.returncode != 0 and "zero" not in done.stderr, done.stderr


def test_a_script_that_ends_itself_is_told_of_the_zeros_it_read(tmp_path):
    done = plan(tmp_path, "import gt, sys\nif gt.ones(3).sum().item() == 0: sys.exit(3)\n")
    assert done.returncode != 0
    assert done.stderr.count("values that the script read were zeros") == 1, done.stderr


def test_a_script_loads_what_it_has_saved_under_gt_plan(tmp_path):
    done = plan(
        tmp_path,
        """
        import gt
        m = gt.nn.Linear(3, 2)
        gt.save({"model": m.state_dict(), "step": 3}, "new.pt")
        loaded = gt.load("./new.pt")
        m.load_state_dict(loaded["model"])
        print(loaded["step"], loaded["model"]["weight"].shape)
        """,
    )
    assert done.returncode == 0 and "3 gt.Size([2, 3])" in done.stdout, done.stderr


def test_a_script_reads_back_what_it_wrote_to_an_open_file_under_gt_plan(tmp_path):
    (tmp_path / "old.txt").write_text("as it was")
    done = plan(
        tmp_path,
        """
        import gt, os
        with open("old.txt", "w+") as old:
            old.write("numbers")
            old.seek(0)
            print(old.read(), old.name)
        with open("new.txt", "w") as new:
            new.write("settings")
        print(open("new.txt").read())
        with open("old.txt", "r+") as changed:
            changed.write("AS")
        """,
    )
    assert done.returncode == 0, done.stderr
    assert "numbers old.txt\nsettings\n" in done.stdout
    assert (tmp_path / "old.txt").read_text() == "AS it was"


def test_an_empty_file_does_not_replace_a_checkpoint_under_gt_plan(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"as it was")
    done = plan(
        tmp_path,
        """
        import gt, os
        with open("model.tmp", "wb") as f:
            gt.save({"w": gt.ones(3)}, f)
        print(gt.load("model.tmp")["w"].shape)
        os.replace("model.tmp", "model.pt")
        """,
    )
    assert done.returncode == 0 and "gt.Size([3])" in done.stdout, done.stderr
    assert (tmp_path / "model.pt").read_bytes() == b"as it was"
    assert "gt plan: did not write model.pt" in done.stderr


def test_a_file_that_gt_plan_did_not_write_is_explained(tmp_path):
    done = plan(tmp_path, "import gt\ngt.save({'w': gt.ones(1)}, 'new.pt')\nopen('new.pt')\n")
    assert done.returncode != 0
    assert "gt plan writes no files" in done.stderr and "new.pt" in done.stderr, done.stderr


@pytest.mark.parametrize(
    "opens", ["open('typo.csv')", "gt.load('typo.pt')", "import pathlib; pathlib.Path('data/x').read_text()"]
)
def test_a_file_that_the_script_did_not_save_is_not_blamed_on_gt_plan(tmp_path, opens):
    done = plan(tmp_path, f"import gt\ngt.save({{'w': gt.ones(1)}}, 'new.pt')\n{opens}\n")
    assert done.returncode != 0 and "FileNotFoundError" in done.stderr
    assert "gt plan writes no files" not in done.stderr, done.stderr


@pytest.mark.parametrize("opens", ["open('new/model/config.json')", "import os; os.listdir('new/model')"])
def test_a_folder_that_gt_plan_did_not_make_is_explained(tmp_path, opens):
    (tmp_path / "train.py").write_text(PRELUDE + f"model().save_pretrained('new/model')\n{opens}\n")
    done = plan(tmp_path, "")
    assert done.returncode != 0 and "gt plan writes no files" in done.stderr, done.stderr


# --- one place that writes -------------------------------------------------------------------------------------------

RUST_WRITES = re.compile(
    r"File::create|OpenOptions|\bfs::(write|rename|copy|hard_link|create_dir|create_dir_all|remove_\w+|set_permissions)\b"
    r"|DirBuilder|\bsymlink\(|NamedTempFile|tempfile\("
)
RUST_MAY_WRITE = {
    "crates/observe/src/output.rs",
    # Sockets, which are no files of users and go away with their process.
    "crates/net/src/place.rs",
}
PYTHON_MAY_WRITE = {
    "python/gt/_output_files.py",
    # A file without a name that stands in for shared memory.
    "python/gt/data/_shared_blocks.py",
}
PYTHON_WRITES = {
    "makedirs", "mkdir", "rename", "renames", "replace", "unlink", "remove", "rmdir", "rmtree", "symlink", "link",
    "truncate", "touch", "write_text", "write_bytes", "mkstemp", "mkdtemp", "NamedTemporaryFile", "copyfile", "copytree",
}  # fmt: skip


def test_rust_opens_files_for_writing_in_one_place():
    found = []
    for path in sorted((ROOT / "crates").glob("*/src/**/*.rs")):
        name = str(path.relative_to(ROOT))
        if name in RUST_MAY_WRITE or path.stem == "tests" or path.stem.endswith("_tests") or "/src/bin/" in name:
            continue
        # Tests stand at the end of a file.
        code = path.read_text().split("#[cfg(test)]\nmod ")[0]
        lines = [line for line in code.splitlines() if not line.lstrip().startswith("//")]
        found += [f"{name}: {line.strip()}" for line in lines if RUST_WRITES.search(line)]
    assert not found, "these go around gt_observe::output, which writes nothing under gt plan:\n" + "\n".join(found)


def writes(call):
    """Whether a call in Python writes, makes or removes files."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "open":
        modes = [argument for argument in call.args[1:2] if isinstance(argument, ast.Constant)]
        modes += [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
        return any(set(str(getattr(mode, "value", "w"))) & set("wax+") for mode in modes)
    # Strings have `replace` too, and lists `remove`.
    on_os = isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") in ("os", "shutil", "tempfile")
    return name in PYTHON_WRITES and (on_os or name not in ("replace", "remove", "rename", "link", "truncate"))


def test_python_opens_files_for_writing_in_one_place():
    found = []
    for path in sorted((ROOT / "python" / "gt").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if name in PYTHON_MAY_WRITE:
            continue
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        found += [f"{name}:{call.lineno}: {ast.unparse(call)}" for call in calls if writes(call)]
    assert not found, "these go around gt._output_files, which writes nothing under gt plan:\n" + "\n".join(found)


def test_lines_on_stderr_are_written_whole():
    # `eprintln!` writes a line piece by piece, and pieces of processes that share a terminal are mixed.
    sources = sorted((ROOT / "crates").glob("*/src/**/*.rs"))
    found = [str(path.relative_to(ROOT)) for path in sources if "eprintln!" in path.read_text()]
    assert not found, f"use gt_observe::say in {found}"
