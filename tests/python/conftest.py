"""Settings that every test of the Python package shares; markers and the timeout are in pyproject.toml."""

import os
import signal
import zlib

import pytest

import gt

# Processes of pytest-xdist share the cores, and each has a server of its own where `through_server.py` started some.
if xdist := os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ.setdefault("GT_NUM_THREADS", "1")
    if servers := os.environ.pop("SERVERS_OF_TESTS", "").split():
        os.environ["GT_ADDRESS"] = servers[int(xdist.removeprefix("gw")) % len(servers)]

# Jobs that a script starts in the background ignore Ctrl-C, and processes that the tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--recorded-part", metavar="N/M", help="of the tests marked recorded, run part N of M (0 to M - 1)"
    )


def pytest_configure(config: pytest.Config) -> None:
    # Both sides warn about the variance of one element; the tests ask for it on purpose.
    config.addinivalue_line("filterwarnings", "ignore:.*[Dd]egrees of freedom")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps the part of the recorded programs that was asked for."""
    if not (asked := config.getoption("--recorded-part")):
        return
    part, parts = map(int, asked.split("/"))
    left_out = [
        item
        for item in items
        if item.get_closest_marker("recorded") and zlib.crc32(item.nodeid.encode()) % parts != part % parts
    ]
    config.hook.pytest_deselected(items=left_out)
    dropped = set(left_out)
    items[:] = [item for item in items if item not in dropped]


@pytest.fixture(autouse=True)
def seeded() -> None:
    gt.manual_seed(0)
