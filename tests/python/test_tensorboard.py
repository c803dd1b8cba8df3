"""`SummaryWriter`: the files are decoded here, record by record and field by field."""

import math
import os
import re
import struct
import subprocess
import sys
import textwrap
import zlib

import numpy as np
import pytest

import gt
from gt.utils.tensorboard import SummaryWriter
from gt.utils.tensorboard.distribution import distribution
from gt.utils.tensorboard.pictures import png


def crc32c(data):
    """Bit by bit, from the definition."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def checked(data, stored):
    crc = crc32c(data)
    assert stored == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    content = path.read_bytes() if hasattr(path, "read_bytes") else open(path, "rb").read()
    at = 0
    while at < len(content):
        length, length_crc = struct.unpack_from("<QI", content, at)
        checked(content[at : at + 8], length_crc)
        data = content[at + 12 : at + 12 + length]
        checked(data, struct.unpack_from("<I", content, at + 12 + length)[0])
        yield data
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """A message as {field: [values]}."""
    out, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            (value,), at = struct.unpack_from("<d", data, at), at + 8
        elif kind == 5:
            (value,), at = struct.unpack_from("<f", data, at), at + 4
        else:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        out.setdefault(key >> 3, []).append(value)
    return out


def events(folder):
    """The events of a folder's one file, without the first: (step, fields of the summary's value or the event)."""
    (name,) = [name for name in os.listdir(folder) if name.startswith("events.out.tfevents.")]
    decoded = [fields(record) for record in records(os.path.join(folder, name))]
    assert decoded[0][3] == [b"brain.Event:2"]
    out = []
    for event in decoded[1:]:
        step = event.get(2, [0])[0]
        values = [fields(value) for summary in event.get(5, []) for value in fields(summary)[1]]
        out += [(step, value) for value in values] if values else [(step, event)]
    return out


def scalars(folder):
    return [(step, value[1][0].decode(), value[2][0]) for step, value in events(folder)]


def reads():
    return sum(worker["round_trips"] for worker in gt.debug.get_worker_stats().values())


def test_scalars(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 0.5, 0)
        writer.add_scalar("loss", 1, 1)
        writer.add_scalar("loss/tensor", gt.tensor(0.25), 2)
        writer.add_scalar("big", 1e300, 2**40)
        writer.add_scalar("none", gt.tensor([7]))
        writer.add_scalar("numpy", np.float64(1.5), np.int64(3))
        assert writer.get_logdir() == str(tmp_path)
    found = scalars(tmp_path)
    assert found[0] == (0, "loss", 0.5) and found[1] == (1, "loss", 1.0) and found[2] == (2, "loss/tensor", 0.25)
    assert found[3][0] == 2**40 and math.isinf(found[3][2])
    assert found[4:] == [(0, "none", 7.0), (3, "numpy", 1.5)]


def test_steps_below_zero_and_times(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("a", 1.0, -3, walltime=123.5)
    (name,) = os.listdir(tmp_path)
    event = [fields(record) for record in records(tmp_path / name)][1]
    assert event[1] == [123.5] and event[2] == [2**64 - 3]


def test_a_tensor_is_read_when_events_are_written(tmp_path):
    writer = SummaryWriter(tmp_path)
    value = gt.zeros(())
    gt.synchronize()
    before = reads()
    for step in range(50):
        value.add_(1)
        writer.add_scalar("x", value, step)
    assert reads() == before
    writer.flush()
    assert reads() == before + 1
    assert [v for _, _, v in scalars(tmp_path)] == list(range(1, 51))
    writer.close()


def test_gradients_are_not_held(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        x = gt.ones(2, requires_grad=True)
        loss = (x * x).sum()
        writer.add_scalar("loss", loss)
        loss.backward()
    assert scalars(tmp_path) == [(0, "loss", 2.0)]


def test_a_scalar_has_one_element(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        with pytest.raises(ValueError, match=r"'x' must have one element, but has shape \(2,\)"):
            writer.add_scalar("x", gt.ones(2))
        with pytest.raises((TypeError, ValueError)):
            writer.add_scalar("x", "no number")


def test_a_value_that_failed_does_not_take_the_others_with_it(tmp_path):
    writer = SummaryWriter(tmp_path)
    writer.add_scalar("good", gt.tensor(1.0), 1)
    writer.add_scalar("bad", gt.arange(3.0)[gt.tensor([7])].sum(), 2)
    writer.add_scalar("good", gt.tensor(3.0), 3)
    with pytest.raises(IndexError):
        writer.flush()
    found = scalars(tmp_path)
    assert [(step, tag) for step, tag, _ in found] == [(1, "good"), (2, "bad"), (3, "good")]
    assert found[0][2] == 1.0 and math.isnan(found[1][2]) and found[2][2] == 3.0
    writer.close()


def test_several_scalars_in_one_chart(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalars("run/loss", {"train": 1.0, "test": gt.tensor(2.0)}, 5)
    assert scalars(tmp_path / "run_loss_train") == [(5, "run/loss", 1.0)]
    assert scalars(tmp_path / "run_loss_test") == [(5, "run/loss", 2.0)]


def test_text(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_text("note", "**ü** 日本", 4)
    ((step, value),) = events(tmp_path)
    assert step == 4 and value[1] == [b"note/text_summary"]
    assert fields(fields(value[9][0])[1][0])[1] == [b"text"]
    tensor = fields(value[8][0])
    assert tensor[1] == [7] and tensor[8][0].decode() == "**ü** 日本"


def pixels(encoded):
    """Decodes an 8-bit PNG whose rows have no filter."""
    assert encoded[:8] == b"\x89PNG\r\n\x1a\n"
    at, data = 8, b""
    while at < len(encoded):
        (length,) = struct.unpack_from(">I", encoded, at)
        kind, content = encoded[at + 4 : at + 8], encoded[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", encoded, at + 8 + length)[0] == zlib.crc32(kind + content)
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack_from(">IIBB", content)
        elif kind == b"IDAT":
            data += content
        at += 12 + length
    assert depth == 8
    channels = {0: 1, 4: 2, 2: 3, 6: 4}[colour]
    rows = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, 1 + width * channels)
    assert (rows[:, 0] == 0).all()
    return rows[:, 1:].reshape(height, width, channels)


def picture(tmp_path):
    ((_, value),) = events(tmp_path)
    image = fields(value[4][0])
    shown = pixels(image[4][0])
    assert (image[1][0], image[2][0], image[3][0]) == shown.shape
    return shown


@pytest.mark.parametrize(
    "dataformats, channels", [("CHW", 3), ("HWC", 3), ("CHW", 1), ("CHW", 4), ("HWC", 2), ("HW", 1), ("WHC", 3)]
)
@pytest.mark.parametrize("as_tensor", [True, False])
def test_images(tmp_path, dataformats, channels, as_tensor):
    values = np.random.default_rng(0).random((4, 6, channels)).astype(np.float32)
    expected = (values * 255).astype(np.uint8)
    order = {"CHW": (2, 0, 1), "HWC": (0, 1, 2), "HW": (0, 1, 2), "WHC": (1, 0, 2)}[dataformats]
    given = values[:, :, 0] if dataformats == "HW" else values.transpose(order)
    with SummaryWriter(tmp_path) as writer:
        writer.add_image(
            "i", gt.tensor(np.ascontiguousarray(given)) if as_tensor else given, 1, dataformats=dataformats
        )
    assert (picture(tmp_path) == expected).all()


def test_images_of_integers_and_out_of_range(tmp_path):
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_image("i", gt.tensor([[0, 128], [255, 7]], dtype=gt.uint8), dataformats="HW")
    assert picture(tmp_path / "a")[:, :, 0].tolist() == [[0, 128], [255, 7]]
    with SummaryWriter(tmp_path / "b") as writer:
        writer.add_image("i", gt.tensor([[-1.0, 2.0]]), dataformats="HW")
    assert picture(tmp_path / "b")[:, :, 0].tolist() == [[0, 255]]
    with SummaryWriter(tmp_path / "c") as writer:
        writer.add_image("i", gt.tensor([[True, False]]), dataformats="HW")
    assert picture(tmp_path / "c")[:, :, 0].tolist() == [[255, 0]]


def test_a_grid_of_images(tmp_path):
    values = np.random.default_rng(0).integers(0, 255, (10, 3, 2, 2)).astype(np.uint8)
    with SummaryWriter(tmp_path) as writer:
        writer.add_images("i", values)
    shown = picture(tmp_path)
    assert shown.shape == (4, 16, 3)
    assert (shown[2:, 2:4] == values[9].transpose(1, 2, 0)).all() and (shown[2:, 4:] == 0).all()


def test_wrong_images(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        with pytest.raises(ValueError, match=r"shape is \(3, 4\), and dataformats 'CHW' names 3"):
            writer.add_image("i", gt.ones(3, 4))
        with pytest.raises(ValueError, match="1 to 4 channels, not 5"):
            writer.add_image("i", gt.ones(5, 2, 2))
        with pytest.raises(ValueError, match="dataformats must name"):
            writer.add_image("i", gt.ones(5, 2, 2), dataformats="CHX")


def test_png_of_one_pixel():
    assert pixels(png(b"\x01\x02\x03", 1, 1, 3)).tolist() == [[[1, 2, 3]]]


def by_numpy(values, edges):
    counts, _ = np.histogram(values, bins=edges)
    used = np.nonzero(counts)[0]
    first, last = used[0], used[-1]
    return list(edges[first : last + 2]), [0, *counts[first : last + 1]]


@pytest.mark.parametrize("values", [[0.0], [1.0, 2.0, 2.0], [-1e-30, 1e-30, 5e19], list(np.random.default_rng(0).normal(size=500))], ids=["zero", "few", "far", "normal"])  # fmt: skip
def test_histograms_have_the_usual_buckets(tmp_path, values):
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("h", gt.tensor(values, dtype=gt.float64), 9)
    ((step, value),) = events(tmp_path)
    histogram = fields(value[5][0])
    positive = [1e-12]
    while positive[-1] * 1.1 < 1e20:
        positive.append(positive[-1] * 1.1)
    limits, counts = by_numpy(values, [-edge for edge in reversed(positive)] + [0] + positive)
    stored = [np.frombuffer(histogram[field][0], "<f8") for field in (6, 7)]
    np.testing.assert_allclose(stored[0], limits, rtol=1e-12)
    assert stored[1].tolist() == counts and step == 9
    scalars = [histogram[field][0] for field in range(1, 6)]
    expected = [min(values), max(values), len(values), sum(values), sum(v * v for v in values)]
    np.testing.assert_allclose(scalars, expected, rtol=1e-9, atol=1e-9)


def test_histograms_of_other_bins_and_dtypes():
    values = np.random.default_rng(1).normal(size=200)
    for bins in (10, [-1.0, 0.0, 0.5, 1.0], "sturges"):
        edges = np.histogram_bin_edges(values, bins)
        limits, counts = by_numpy(values, edges)
        ours = distribution(gt.tensor(values), bins)
        np.testing.assert_allclose(ours.limits, limits, rtol=1e-9)
        assert ours.counts == counts
    assert sum(distribution(gt.tensor([True, False, True])).counts) == 3
    assert sum(distribution(gt.ones(4, dtype=gt.bfloat16)).counts) == 4
    assert sum(distribution(gt.tensor([2, 2]), bins=3).counts) == 2
    assert len(distribution(gt.tensor(values), max_bins=30).counts) <= 31
    assert sum(distribution(gt.tensor(values), max_bins=30).counts) == 200
    with pytest.raises(ValueError, match="no element"):
        distribution(gt.zeros(0))


def test_hyperparameters(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams(
            {"lr": 0.1, "layers": 4, "name": "adam", "tied": True}, {"hp/loss": gt.tensor(0.5)}, run_name="one"
        )
        with pytest.raises(TypeError):
            writer.add_hparams([], {})
        with pytest.raises(ValueError, match="'lr' should be one of"):
            writer.add_hparams({"lr": [1]}, {})
    found = events(tmp_path / "one")
    names = [value[1][0].decode() for _, value in found]
    assert names == ["_hparams_/experiment", "_hparams_/session_start_info", "_hparams_/session_end_info", "hp/loss"]
    plugins = [fields(fields(value[9][0])[1][0]) for _, value in found[:3]]
    assert [plugin[1] for plugin in plugins] == [[b"hparams"]] * 3
    experiment = fields(fields(plugins[0][2][0])[2][0])
    assert [fields(info)[1][0] for info in experiment[4]] == [b"lr", b"layers", b"name", b"tied"]
    assert [fields(info)[4][0] for info in experiment[4]] == [3, 3, 1, 2]
    assert fields(fields(experiment[5][0])[1][0])[2] == [b"hp/loss"]
    start = fields(fields(plugins[1][2][0])[3][0])
    values = {fields(entry)[1][0].decode(): fields(fields(entry)[2][0]) for entry in start[1]}
    assert values == {"lr": {2: [0.1]}, "layers": {2: [4.0]}, "name": {3: [b"adam"]}, "tied": {4: [1]}}


def test_purge_step(tmp_path):
    with SummaryWriter(tmp_path, purge_step=12, filename_suffix=".mine") as writer:
        writer.add_scalar("a", 1.0, 13)
    (step, event), _ = events(tmp_path)
    assert step == 12 and fields(event[7][0])[1] == [1]
    assert os.listdir(tmp_path)[0].endswith(".mine")


def test_the_default_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with SummaryWriter(comment="_tiny") as writer:
        assert re.fullmatch(r"runs/[A-Z][a-z]{2}\d\d_\d\d-\d\d-\d\d_.+_tiny", writer.log_dir)
    assert len(events(writer.log_dir)) == 0


def test_flushing(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    writer = SummaryWriter(tmp_path, flush_secs=120)
    writer.add_scalar("a", 1.0)
    assert events(tmp_path) == []
    now[0] = 121.0
    writer.add_scalar("a", 2.0)
    assert [v for _, _, v in scalars(tmp_path)] == [1.0, 2.0]
    writer.add_scalar("a", 3.0)
    assert len(events(tmp_path)) == 2
    writer.flush()
    assert len(events(tmp_path)) == 3
    writer.close()
    writer.close()
    with pytest.raises(RuntimeError, match="closed"):
        writer.add_scalar("a", 4.0)


def test_the_queue_is_bounded(tmp_path):
    writer = SummaryWriter(tmp_path, max_queue=10)
    for step in range(25):
        writer.add_scalar("a", gt.tensor(1.0), step)
    assert len(events(tmp_path)) == 20
    writer.close()


def test_two_writers_in_one_folder_have_files_of_their_own(tmp_path):
    first, second = SummaryWriter(tmp_path), SummaryWriter(tmp_path)
    first.close()
    second.close()
    assert len(os.listdir(tmp_path)) == 2


def test_what_was_added_is_written_when_the_program_ends(tmp_path):
    program = f"""
        import gt
        from gt.utils.tensorboard import SummaryWriter

        writer = SummaryWriter({str(tmp_path)!r})
        writer.add_scalar("loss", gt.tensor(0.5) * 3, 1)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
    assert scalars(tmp_path) == [(1, "loss", 1.5)]


def test_it_needs_no_other_package(tmp_path):
    program = f"""
        import sys
        import gt
        from gt.utils.tensorboard import SummaryWriter

        with SummaryWriter({str(tmp_path)!r}) as writer:
            writer.add_scalar("a", gt.tensor(1.0))
            writer.add_histogram("h", gt.randn(10))
            writer.add_image("i", gt.rand(3, 2, 2))
        assert "numpy" not in sys.modules and "tensorboard" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
