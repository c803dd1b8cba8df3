"""`gt.save` and `gt.load`: everything comes back, others can read it, and a crash leaves the old file."""

import collections
import io
import os
import pathlib
import stat
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from parity import DTYPES, dtype_of

import gt
import gt.nn
import gt.optim
from gt.serialization import load, load_file, save
from gt.utils import safetensors


def through_file(value, **options):
    file = io.BytesIO()
    save(value, file)
    return load(io.BytesIO(file.getvalue()), **options)


def alike(a, b):
    """Whether two values are the same, types and dtypes and bits."""
    if isinstance(a, gt.Tensor):
        assert isinstance(b, gt.Tensor) and a.dtype == b.dtype and a.shape == b.shape, (a, b)
        assert bytes(gt._core._tensor_bytes(a)) == bytes(gt._core._tensor_bytes(b))
        assert a.requires_grad == b.requires_grad
        return
    assert type(a) is type(b), (a, b)
    if isinstance(a, dict):
        assert list(a) == list(b) and [type(key) for key in a] == [type(key) for key in b]
        for key in a:
            alike(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            alike(x, y)
    else:
        assert repr(a) == repr(b)


PLAIN = [
    None, True, False, 0, -5, 2**80, 0.1, 1e-320, -0.0, float("inf"), float("-inf"), float("nan"), "", "text ü 日本 \ud800 \0 \"",
    b"", b"\x00\xff", 1 + 2j, complex("nan"), gt.float16, gt.bool, gt.device("cpu"), gt.device("cuda:0"), gt.Size([2, 3]), [], (), {}, set(), frozenset(),
    {1, 2, 3}, frozenset({"a"}), [1, [2, [3, [4]]]], (1,), ((), [()]), {"a": 1, 2: "b", None: 3, (1, "x"): 4, 2.5: 5, True: 6, b"k": 7},
    collections.OrderedDict([("z", 1), ("a", 2)]), collections.Counter("abca"), {"": {"": {"": 1}}}, {".": 1, "a.b": 2},
]  # fmt: skip


@pytest.mark.transport
@pytest.mark.parametrize("value", PLAIN, ids=lambda v: ascii(v)[:40])
def test_plain_values(value):
    alike(through_file(value), value)
    alike(through_file({"nested": [value, (value,)]}), {"nested": [value, (value,)]})


@pytest.mark.transport
def test_subclasses_of_plain_values_become_plain():
    class Name(str):
        pass

    value = through_file({"name": Name("x"), "np": [np.float64(0.5), np.int64(3), np.float32(0.1), np.bool_(True)]})
    assert type(value["name"]) is str and value["np"] == [0.5, 3, float(np.float32(0.1)), True]
    assert [type(v) for v in value["np"]] == [float, int, float, bool]
    assert type(through_file(collections.defaultdict(list, a=1))) is dict


@pytest.mark.transport
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (2, 3, 4)], ids=str)
def test_tensors_of_every_dtype_and_shape(dtype, shape):
    count = int(np.prod(shape))
    tensor = gt.tensor(np.arange(count).reshape(shape) % 2, dtype=dtype_of(dtype))
    alike(through_file(tensor), tensor)


@pytest.mark.transport
def test_special_values_bit_for_bit():
    for dtype in (gt.float64, gt.float32, gt.float16, gt.bfloat16):
        tensor = gt.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 1e-7], dtype=dtype)
        alike(through_file([tensor])[0], tensor)


@pytest.mark.transport
def test_views_hold_what_they_show():
    base = gt.arange(12.0).reshape(3, 4)
    for view in (base.T, base[1:, ::2], base[:1].expand(3, 4), base.diagonal()):
        back = through_file(view)
        assert back.tolist() == view.tolist() and back.is_contiguous()


@pytest.mark.transport
def test_a_snapshot_is_taken():
    tensor = gt.ones(2)
    file = io.BytesIO()
    save(tensor, file)
    tensor.zero_()
    assert load(io.BytesIO(file.getvalue())).tolist() == [1, 1]


@pytest.mark.transport
def test_requires_grad_and_parameters():
    back = through_file({"leaf": gt.ones(2, requires_grad=True), "graph": gt.ones(2, requires_grad=True) * 2})
    assert all(t.requires_grad and t.is_leaf for t in back.values())
    parameter = through_file([gt.nn.Parameter(gt.ones(2)), gt.nn.Parameter(gt.ones(2), requires_grad=False)])
    assert all(isinstance(p, gt.nn.Parameter) for p in parameter)
    assert [p.requires_grad for p in parameter] == [True, False]


@pytest.mark.transport
def test_the_same_object_is_the_same_again_and_stored_once():
    weight = gt.randn(1000)
    file = io.BytesIO()
    save({"a": weight, "b": [weight], "handle": weight.detach()}, file)
    assert len(file.getvalue()) < 1000 * 4 + 1000
    back = load(io.BytesIO(file.getvalue()))
    assert back["a"] is back["b"][0] and back["handle"] is not back["a"]
    back["a"].zero_()
    assert not back["handle"].any()


@pytest.mark.transport
def test_equal_tensors_that_do_not_share_stay_apart():
    back = through_file([gt.ones(2), gt.ones(2)])
    back[0].zero_()
    assert back[1].tolist() == [1, 1]
    base = gt.arange(6.0)
    parts = through_file([base[:3], base[3:], base])
    assert [p.tolist() for p in parts] == [[0, 1, 2], [3, 4, 5], [0, 1, 2, 3, 4, 5]]


@pytest.mark.transport
def test_a_loaded_tensor_may_be_written():
    back = through_file(gt.ones(2))
    back[0] = 5
    assert back.tolist() == [5, 1]


def tied_model():
    model = gt.nn.Sequential(gt.nn.Linear(4, 4), gt.nn.Linear(4, 4))
    model[1].weight = model[0].weight
    return model


@pytest.mark.transport
def test_a_training_run_goes_on_from_its_checkpoint(tmp_path):
    path = tmp_path / "run.safetensors"

    def make():
        gt.manual_seed(3)
        model = tied_model()
        optimizer = gt.optim.AdamW(model.parameters(), lr=0.1, amsgrad=True)
        return model, optimizer, gt.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20)

    def train(model, optimizer, schedule, steps):
        for step in range(steps):
            optimizer.zero_grad()
            (model(gt.ones(2, 4) * (step + 1)) ** 2).mean().backward()
            optimizer.step()
            schedule.step()

    first = make()
    train(*first, 5)
    state = {name: part.state_dict() for name, part in zip(("model", "optimizer", "schedule"), first)}
    save({**state, "rng": gt.get_rng_state(), "epoch": 5}, path)
    loaded = load(path)
    alike({name: loaded[name] for name in state}, {name: part.state_dict() for name, part in zip(state, first)})
    second = make()
    for part, name in zip(second, state):
        part.load_state_dict(loaded[name])
    train(*first, 5)
    train(*second, 5)
    alike(second[0].state_dict(), first[0].state_dict())
    alike(second[1].state_dict(), first[1].state_dict())


@pytest.mark.transport
def test_names_in_the_file_are_the_places(tmp_path):
    path = tmp_path / "names.safetensors"
    save(
        {"model": {"w": gt.ones(1), "x": [gt.ones(2), {7: gt.ones(3)}]}, "a.b": gt.ones(4), "a": {"b": gt.ones(5)}},
        path,
    )
    names = {name: tuple(tensor.shape) for name, tensor in load_file(path).items()}
    assert names == {"model.w": (1,), "model.x.0": (2,), "model.x.1.7": (3,), "a.b": (4,), "a.b~2": (5,)}
    save(gt.ones(1), path)
    assert list(load_file(path)) == ["tensor"]
    save({"__metadata__": gt.ones(1), "\ud800": gt.ones(2)}, path)
    assert {k: v.numel() for k, v in load(path).items()} == {"__metadata__": 1, "\ud800": 2}


@pytest.mark.transport
def test_the_same_state_gives_the_same_file(tmp_path):
    state = {"b": gt.ones(3), "a": gt.zeros(2, dtype=gt.int8), "c": [gt.ones(1, dtype=gt.float64), 5]}
    first, second = io.BytesIO(), io.BytesIO()
    save(state, first)
    save(state, second)
    assert first.getvalue() == second.getvalue()


CANNOT = [
    ({"a": [1, object()]}, r"the value\['a'\]\[1\], a builtins.object"),
    ({"f": lambda: 1}, r"the value\['f'\], a builtins.function"),
    (np.ones(3), "gt.from_numpy"),
    ({"model": gt.nn.Linear(1, 1)}, r"save its state_dict\(\)"),
    (collections.namedtuple("Pair", "a b")(1, 2), "Pair"),
    ({gt.ones(1): 1}, "a tensor cannot be a dict key"),
    (pathlib.Path("x"), "PosixPath"),
]


@pytest.mark.transport
@pytest.mark.parametrize("value, message", CANNOT, ids=[row[1][-20:] for row in CANNOT])
def test_values_that_cannot_be_saved(tmp_path, value, message):
    with pytest.raises(TypeError, match=message):
        save(value, tmp_path / "x")
    assert os.listdir(tmp_path) == []


@pytest.mark.transport
def test_values_that_contain_themselves(tmp_path):
    loop = {"a": []}
    loop["a"].append(loop)
    with pytest.raises(ValueError, match=r"contains itself: the value\['a'\]\[0\]"):
        save(loop, tmp_path / "x")
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested too deeply"):
        save(deep, tmp_path / "x")
    while deep:
        deep = deep[0]
    twice = [1, 2]
    assert through_file([twice, twice]) == [[1, 2], [1, 2]]


# Writing.


@pytest.mark.transport
def test_saving_replaces_the_old_file_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "state.safetensors"
    for i in range(3):
        save({"i": i, "t": gt.full((10,), i)}, path)
    assert load(path)["i"] == 2 and os.listdir(tmp_path) == ["state.safetensors"]
    assert os.stat(path).st_mode & 0o777 == 0o666 & ~_umask()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_saved_file_keeps_the_permissions_of_the_old_one(tmp_path, mode):
    path = tmp_path / "state.safetensors"
    save({"i": 1}, path)
    path.chmod(mode)
    save({"i": 2}, path)
    assert load(path)["i"] == 2 and path.stat().st_mode & 0o777 == mode


def test_saving_to_a_pipe_does_not_replace_it(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with (tmp_path / "read").open("wb") as read:
        reader = subprocess.Popen(["cat", str(path)], stdout=read)
    save({"t": gt.arange(100_000)}, path)
    assert reader.wait(timeout=60) == 0
    assert load(tmp_path / "read")["t"].sum().item() == 4999950000
    assert path.is_fifo() and sorted(os.listdir(tmp_path)) == ["pipe", "read"]


def test_saving_to_a_device_does_not_replace_it():
    # In a folder of devices, where a test that fails can make no file.
    screen, device = os.openpty()
    path = os.ttyname(device)
    save({"t": gt.ones(3)}, path)
    assert os.path.exists(path) and stat.S_ISCHR(os.stat(path).st_mode)
    assert b"gt.structure" in os.read(screen, 4096)
    os.close(device)
    os.close(screen)


def _umask():
    old = os.umask(0)
    os.umask(old)
    return old


@pytest.mark.transport
def test_a_failure_in_the_middle_leaves_the_old_file(tmp_path):
    path = tmp_path / "state.safetensors"
    save({"a": gt.ones(3)}, path)
    before = path.read_bytes()

    def pieces():
        yield b"half of a file"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        safetensors._write_pieces(path, pieces())
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["state.safetensors"]


@pytest.mark.timeout(240)  # Through a server, its worker may still be busy with what others left.
@pytest.mark.parametrize("when", ["write", "fsync", "replace"])
def test_a_process_killed_in_the_middle_leaves_the_old_file(tmp_path, when):
    path = tmp_path / "state.safetensors"
    save({"a": gt.ones(3)}, path)
    before = path.read_bytes()
    program = f"""
        import os, signal
        import gt
        from gt import _core
        from gt.serialization import save

        def die(*_):
            os.kill(os.getpid(), signal.SIGKILL)

        if {when!r} == "write":
            _core._tensor_bytes = die
        else:
            setattr(os, {when!r}, die)
        save({{"a": gt.zeros(1000)}}, {str(path)!r})
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True)
    assert done.returncode == -9, done.stderr.decode()
    assert path.read_bytes() == before
    assert load(path)["a"].tolist() == [1, 1, 1]


@pytest.mark.transport
def test_links_stay_links(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "latest"
    link.symlink_to(tmp_path / "real" / "file")
    save(1, link)
    assert link.is_symlink() and load(tmp_path / "real" / "file") == 1
    assert os.listdir(tmp_path / "real") == ["file"]


@pytest.mark.transport
def test_places_that_cannot_be_written(tmp_path):
    with pytest.raises(FileNotFoundError, match="the folder .*missing does not exist"):
        save(1, tmp_path / "missing" / "x")
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        save(1, tmp_path)
    with pytest.raises(TypeError):
        save(1, 3.5)


@pytest.mark.transport
def test_paths_of_every_kind(tmp_path):
    for path in (tmp_path / "a", str(tmp_path / "b"), str(tmp_path / ("long" * 60))):
        save([1], path)
        assert load(path) == [1]
    with open(tmp_path / "c", "wb") as file:
        save({"t": gt.ones(2)}, file)
    with open(tmp_path / "c", "rb") as file:
        assert load(file)["t"].tolist() == [1, 1]


@pytest.mark.transport
def test_map_location():
    for place in ("cpu", gt.device("cpu"), None, {"cuda:0": "cpu"}, {"cpu": "cpu"}, lambda storage, location: storage):
        assert through_file({"a": gt.ones(2)}, map_location=place)["a"].tolist() == [1, 1]
    assert through_file(gt.ones(2), map_location="cuda", weights_only=True, mmap=True).device.type == "cuda"
    with pytest.raises(RuntimeError):
        through_file(gt.ones(2), map_location="no such device")
