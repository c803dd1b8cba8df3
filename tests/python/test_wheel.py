"""What is shipped holds no line tables and no symbols: these are ten times the size of the code."""

import os
import struct
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import gt

ROOT = Path(__file__).parents[2]


def read(name):
    return tomllib.loads((ROOT / name).read_text())


def sections(library):
    """The names of a 64-bit ELF file's sections."""
    (at,) = struct.unpack_from("<Q", library, 40)
    size, count, names = struct.unpack_from("<HHH", library, 58)
    headers = [struct.unpack_from("<IIQQQQ", library, at + size * i) for i in range(count)]
    table = headers[names][4]
    return {library[table + h[0] : library.index(b"\0", table + h[0])].decode() for h in headers}


def test_a_wheel_is_built_by_the_profile_that_strips_symbols():
    profile = read("pyproject.toml")["tool"]["maturin"]["profile"]
    settings = read("Cargo.toml")["profile"][profile]
    assert settings["strip"] in (True, "symbols")
    assert settings["inherits"] == "release" and settings.get("debug", 0) in (0, False)


@pytest.mark.skipif(sys.platform != "linux", reason="the extension is no ELF file there")
def test_sections_are_found_in_the_extension_that_runs():
    # Built for tests, so it has both.
    assert {".text", ".symtab", ".debug_line"} <= sections(Path(gt._core.__file__).read_bytes())


@pytest.mark.heavy
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform != "linux", reason="the extension is no ELF file there")
def test_the_library_in_a_wheel_has_neither_symbols_nor_line_tables(tmp_path):
    command = [sys.executable, "-m", "maturin", "build", "--out", str(tmp_path)]
    environment = os.environ | {"VIRTUAL_ENV": sys.prefix}
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        (library,) = [name for name in files.namelist() if name.endswith(".so")]
        found = sections(files.read(library))
    assert ".text" in found and not {name for name in found if name == ".symtab" or name.startswith(".debug")}
    assert wheel.stat().st_size < 20 << 20
