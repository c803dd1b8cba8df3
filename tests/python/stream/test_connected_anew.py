"""A program that goes on with another server when its own is gone."""

import pytest
from cluster import Cluster

pytestmark = pytest.mark.timeout(120)


def test_connecting_after_a_lost_server(cluster: Cluster):
    first, second = cluster.server(workers=1), cluster.server(workers=1)
    program = f"""
    import gt
    gt.connect("{first.address}")
    x = gt.ones(10)
    y = x * 2
    y.tolist()
    print("made", flush=True)
    try:
        while True:
            y = y + 1
            y.sum().item()
    except gt.WorkerLost as error:
        print("gone", flush=True)
    z = x + 5
    gt.connect("{second.address}")
    print("connected", flush=True)
    for what in (lambda: x.tolist(), lambda: z.sum().item(), lambda: (gt.ones(10) + y).sum().item()):
        try:
            print("read", what(), flush=True)
        except gt.WorkerLost as error:
            print("LOST", " / ".join(str(error).splitlines()), flush=True)
    # Those that are gone do no harm to the others, nor are they harmed when they are freed.
    a = gt.arange(10)
    both = [a * 2, x * 2, a.sum(), x.sum()]
    print(both[0].tolist(), both[2].item(), flush=True)
    del x, y, z
    with gt.no_grad():
        w = gt.zeros(3)
        for _ in range(20):
            w += 1
    gt.synchronize()
    print(w.tolist(), flush=True)
    """
    client = cluster.client(program)
    client.wait_for("made")
    first.kill()
    lines = client.succeeded().splitlines()
    assert lines[1:3] == ["gone", "connected"], lines
    assert not any(line.startswith("read") for line in lines), lines
    lost = [line for line in lines if line.startswith("LOST")]
    assert len(lost) == 3, lines
    assert all(first.address in line and "script_" in line and ".py:" in line for line in lost), lost
    assert lines[-2:] == ["[0, 2, 4, 6, 8, 10, 12, 14, 16, 18] 45", "[20.0, 20.0, 20.0]"], lines


def test_connecting_while_the_loss_is_not_yet_known(cluster: Cluster):
    first, second = cluster.server(workers=1), cluster.server(workers=1)
    program = f"""
    import gt, sys, time
    gt.connect("{first.address}")
    x = gt.ones(10)
    x.tolist()
    print("made", flush=True)
    time.sleep(0.5)
    gt.connect("{second.address}")
    print((gt.ones(3) * 2).tolist(), flush=True)
    try:
        print(x.tolist())
    except gt.WorkerLost as error:
        print("LOST", flush=True)
    """
    client = cluster.client(program)
    client.wait_for("made")
    first.kill()
    assert client.succeeded().splitlines()[1:] == ["[2.0, 2.0, 2.0]", "LOST"]


def test_a_server_that_is_not_there_changes_nothing(cluster: Cluster):
    server = cluster.server(workers=1)
    program = f"""
    import gt
    gt.connect("{server.address}")
    x = gt.ones(4) * 3
    try:
        gt.connect("127.0.0.1:1")
    except ConnectionError as error:
        print("refused", flush=True)
    print(x.tolist(), flush=True)
    """
    assert cluster.run(program) == "refused\n[3.0, 3.0, 3.0, 3.0]\n"
