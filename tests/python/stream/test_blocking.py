"""GT_BLOCKING: each window is waited for, so that what fails is raised where it was written."""

from collections.abc import Iterator

import pytest
from cluster import Cluster, Server
from isolated import TRAIN

pytestmark = pytest.mark.timeout(120)

EACH_OP = {"GT_BLOCKING": 1, "GT_CLIENT_BATCH_SIZE": 1}


@pytest.fixture(scope="module")
def server(shared: Cluster) -> Iterator[Server]:
    yield shared.server(workers=1)


@pytest.fixture(params=["embedded", "server"])
def address(request: pytest.FixtureRequest, server: Server) -> str | None:
    """Where the program runs."""
    return server.address if request.param == "server" else None


FAILS = """
    import gt, traceback
    def line(error):
        return traceback.extract_tb(error.__traceback__)[0].lineno
    x, w = gt.arange(5), gt.ones(2, dtype=gt.int64)
    try:
        y = x[gt.tensor([1, 9])]  # line 7
        w.add_(y)
        w.tolist()  # line 9
    except IndexError as error:
        print(line(error), ".py:7" in str(error))
    gt.synchronize()
    w += x[1:3]
    print(w.tolist(), (x + 1).tolist())
"""


def test_a_failure_is_raised_at_the_line_of_its_op(shared: Cluster, address: str | None):
    raised, rest = shared.run(FAILS, address, **EACH_OP).splitlines()
    assert raised == "7 True"
    assert rest == "[2, 3] [1, 2, 3, 4, 5]", "it is raised once, and the session goes on"


def test_without_it_a_failure_is_raised_by_the_read(shared: Cluster, address: str | None):
    assert shared.run(FAILS, address).splitlines()[0] == "9 True"


def test_a_window_that_failed_is_raised_where_it_ends(shared: Cluster, address: str | None):
    program = """
        import gt, traceback
        x = gt.arange(5)
        try:
            bad = x[gt.tensor([1, 9])]
            for i in range(200):
                x = x + 1  # line 7
        except IndexError as error:
            print(traceback.extract_tb(error.__traceback__)[0].lineno, ".py:5" in str(error))
    """
    assert shared.run(program, address, GT_BLOCKING=1) == "7 True\n"


def test_a_failure_within_backward_is_raised_by_it(shared: Cluster, address: str | None):
    program = """
        import gt, traceback
        class Fails(gt.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2
            @staticmethod
            def backward(ctx, grad):
                return grad[gt.tensor([0, 99, 0])]  # line 9
        x = gt.ones(3, requires_grad=True)
        loss = Fails.apply(x).sum()
        try:
            loss.backward()  # line 13
        except IndexError as error:
            print(traceback.extract_tb(error.__traceback__)[0].lineno, ".py:9" in str(error))
        print(x.grad, x.tolist())
    """
    assert shared.run(program, address, **EACH_OP).splitlines() == ["13 True", "None [1.0, 1.0, 1.0]"]


def test_threads_wait_for_what_they_record(shared: Cluster, address: str | None):
    program = """
        import gt, threading
        shared, sums = gt.full((100,), 3.0), [None] * 4
        def work(n):
            x = shared
            for _ in range(30):
                x = x + n
            sums[n] = x.sum().item()
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(sums)
    """
    assert shared.run(program, address, **EACH_OP) == "[300.0, 3300.0, 6300.0, 9300.0]\n"


@pytest.mark.parametrize("variables", [EACH_OP, {"GT_BLOCKING": 1}], ids=str)
def test_numbers_do_not_change(shared: Cluster, address: str | None, variables: dict[str, int]):
    assert shared.run(TRAIN, address, **variables) == shared.run(TRAIN)


def test_large_arrays_are_sent_with_the_window_that_is_waited_for(shared: Cluster, address: str | None):
    program = """
        import gt, numpy
        array = numpy.arange(6 << 20, dtype=numpy.float32)
        print(gt.from_numpy(array)[-1].item() == array[-1])
    """
    assert shared.run(program, address, **EACH_OP) == "True\n"


def test_other_sessions_of_the_server_do_not_wait(shared: Cluster, server: Server):
    waits = shared.client("import gt\nfor i in range(300): x = gt.full((9,), 2.0)", server.address, **EACH_OP)
    assert shared.run(FAILS, server.address).splitlines()[0] == "9 True"
    waits.succeeded()
