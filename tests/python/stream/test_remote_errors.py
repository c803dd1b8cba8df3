"""What goes wrong on a worker is raised in the script, with the script's own lines."""

from collections.abc import Iterator

import pytest
from cluster import Cluster, Server

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def server(shared: Cluster) -> Iterator[Server]:
    yield shared.server(workers=1)


def test_an_index_error_names_the_line_of_the_script(shared: Cluster, server: Server):
    program = """
        import gt
        x = gt.arange(5)
        y = x[gt.tensor([1, 9])]  # line 4
        z = y * 2
        for what in (z, y):
            try:
                what.tolist()
            except IndexError as error:
                print(" / ".join(str(error).splitlines()))
        print((x + 1).tolist())
    """
    first, second, rest = shared.run(program, server.address).splitlines()
    for line in (first, second):
        assert "9" in line and ".py:4" in line, line
    assert rest == "[1, 2, 3, 4, 5]"


def test_a_skipped_write_is_raised_once(shared: Cluster, server: Server):
    program = """
        import gt
        w = gt.ones(3)
        bad = gt.ones(3)[gt.tensor([7, 7, 7])]
        w.add_(bad)
        for turn in range(3):
            try:
                gt.synchronize()
                print("fine")
            except IndexError as error:
                print("raised", ".py:4" in str(error) or ".py:5" in str(error))
    """
    embedded = shared.run(program).splitlines()
    assert embedded == ["raised True", "fine", "fine"]
    assert shared.run(program, server.address).splitlines() == embedded


def test_poison_stays_with_what_was_computed_from_it(shared: Cluster, server: Server):
    program = """
        import gt
        x = gt.ones(4, requires_grad=True)
        bad = x[gt.tensor([4])]
        loss = (x * 2).sum() + bad.sum()
        loss.backward()
        for name, value in {"loss": loss, "grad": x.grad, "x": x.detach()}.items():
            try:
                print(name, value.tolist())
            except Exception as error:
                print(name, type(error).__name__)
    """
    assert shared.run(program, server.address) == shared.run(program)


def test_other_sessions_do_not_hear_of_errors(shared: Cluster, server: Server):
    good = shared.client("import gt\nfor i in range(300): assert gt.full((9,), 2.0).sum().item() == 18", server.address)
    bad = "import gt\nfor i in range(50):\n    try: gt.ones(3)[gt.tensor([9])].tolist()\n    except IndexError: pass"
    shared.run(bad, server.address)
    good.succeeded()


VARIABLES = """
import gt
for i in range(30):
    y = (gt.full((8,), 2.0) * 3 + 1).relu().sum()
    y.item()
(stats,) = gt.debug.get_worker_stats().values()
print(stats["compiled_windows"] > 0, stats["cached_plans"] > 0)
"""


def test_variables_travel_with_the_session(shared: Cluster, server: Server):
    """They hold for the session that has them, and for no other on the same worker."""
    for variables in ({}, {"GT_COMPILE": "0"}, {"GT_COMPILE": "1"}, {}):
        assert shared.run(VARIABLES, server.address, **variables) == shared.run(VARIABLES, **variables), variables


@pytest.mark.parametrize(
    "name, value", [("GT_COMPILE", "maybe"), ("GT_WORKER_BATCH_SIZE", "-3"), ("GT_HOTPATH_THRESHOLD", "many")]
)
def test_a_bad_variable_is_refused_by_name(shared: Cluster, server: Server, name: str, value: str):
    client = shared.client("import gt; gt.ones(3).sum().item()", server.address, **{name: value})
    assert client.ended() == 1 and name in client.said(), client.said()
    assert not [s for s in shared.status(server)["sessions"] if str(client.pid) in s["name"]]


def test_the_script_is_named_in_the_status(shared: Cluster, server: Server):
    client = shared.client("import gt, time\ngt.ones(3).sum().item()\nprint('here')\ntime.sleep(30)", server.address)
    client.wait_for("here")
    names = [s["name"] for s in shared.status(server)["sessions"]]
    assert any("script_" in name and str(client.pid) in name for name in names), names
    client.kill()
