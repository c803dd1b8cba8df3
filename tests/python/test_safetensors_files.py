"""Safetensors files of others: all that is valid is read, and no file does harm."""

import base64
import gc
import io
import json
import os
import random
import resource
import struct
import subprocess
import sys
import textwrap
import zlib

import pytest

import gt
from gt.serialization import load, load_file, safe_open, save, save_file
from gt.utils import safetensors

# Written by the safetensors package: every dtype GT has, and metadata.
ALL_DTYPES = zlib.decompress(
    base64.b85decode(
        b"c-n>1v1-FG5C&kmPf~8aA(D(xvLs{(1PYllmEfwxqJ|oqS{;H3$)out@-Us$vnbTUZgb$_4u9x=q?ZR4s)Z~ob7zjmnJj}v3%2?wje`Z$4$cULO8e>2"
        b"o$8#1TWS%SH`8~|2ZR7CYn$9PG?}43kg~DbM2e4@My`67m$f@ZQi_3`p&VPTez2u~|D+tnBo%2-i<oX>I))-e5rV#2u7+~Gq5hXnoGCO)5!Q|6T_^?0"
        b"kh9RyuKEsBD8s6s5!>tk6G~ch9uij7dz5gudm7M*3z2h7DdG8%Dm=1;v3;o9lCh3H)_r;Jugg`(v~RB$pRnW`y${C*"
    )
)
# The same with dtypes GT does not have beside one it has.
FOREIGN_DTYPES = zlib.decompress(
    base64.b85decode(
        b"c-q^+00GrX>G}C7N><fMDJ7K!sY+H#ZpKDRI!eVEi6CCIQLK(qN@7W3e12M5acW61P{=^XBDNN!BEP5vS)-?+8GelxI)+9doh6xhl_)k^#JigK8spb&"
        b"XryCk5?foV009gP4fY_+$iT#4VF3V*$~yl"
    )
)


def same_bits(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape
    assert bytes(gt._core._tensor_bytes(a)) == bytes(gt._core._tensor_bytes(b))


@pytest.mark.transport
def test_a_file_of_the_safetensors_package(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(ALL_DTYPES)
    tensors = load(path)
    assert {name: str(t.dtype) for name, t in tensors.items()} == {
        "f32": "gt.float32", "f64": "gt.float64", "f16": "gt.float16", "bf16": "gt.bfloat16", "i64": "gt.int64",
        "i32": "gt.int32", "i8": "gt.int8", "u8": "gt.uint8", "bool": "gt.bool", "empty": "gt.float32",
    }  # fmt: skip
    assert tensors["f32"].tolist() == [[1.5, -2.0]] and tensors["f64"].tolist() == [1 / 3]
    assert tensors["f16"].tolist() == [0.5, 65504.0] and tensors["bf16"].tolist() == [1.0, -3.0]
    assert tensors["i64"].item() == 2**40 and tensors["i64"].shape == () and tensors["empty"].shape == (0, 3)
    assert tensors["i8"].tolist() == [-128, 127] and tensors["bool"].tolist() == [True, False, True]
    assert safe_open(path).metadata() == {"format": "pt"}
    again = tmp_path / "again.safetensors"
    save_file(tensors, again, metadata={"format": "pt"})
    for name, tensor in load_file(again).items():
        same_bits(tensor, tensors[name])


@pytest.mark.transport
def test_dtypes_that_gt_does_not_have(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(FOREIGN_DTYPES)
    with pytest.raises(
        ValueError,
        match=r"tensor \"(short|tiny)\" of .*model.safetensors has dtype (I16|F8_E4M3), which GT does not support",
    ):
        load(path)
    with safe_open(path) as file:
        assert file.get_tensor("good").tolist() == [1, 1] and file.shape("short") == (2,)
        with pytest.raises(ValueError, match='tensor "short" .* has dtype I16, which'):
            file.get_tensor("short")


@pytest.mark.transport
def test_reading_one_tensor_of_many(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file({f"layer.{i}": gt.full((100,), i) for i in range(10)}, path, metadata={"about": "ten"})
    with safe_open(path, framework="pt", device="cpu") as file:
        assert len(file) == 10 and "layer.3" in file and "layer.11" not in file and list(file) == file.keys()
        assert file.get_tensor("layer.7")[0].item() == 7 and file.metadata() == {"about": "ten"}
        with pytest.raises(KeyError, match="layer.99"):
            file.get_tensor("layer.99")


@pytest.mark.transport
def test_a_file_cut_short_while_it_is_open(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file({"a": gt.ones(1000), "b": gt.ones(1000)}, path)
    file = safe_open(path)
    os.truncate(path, 5000)
    assert file.get_tensor(file.keys()[0]).numel() == 1000
    with pytest.raises(ValueError, match="cannot read tensor"):
        file.get_tensor(file.keys()[1])


@pytest.mark.transport
def test_bytes_and_dicts():
    content = safetensors.save({"a": gt.ones(2), "b": gt.zeros(1, dtype=gt.int8)})
    assert {name: t.tolist() for name, t in safetensors.load(content).items()} == {"a": [1, 1], "b": [0]}
    assert load(content)["a"].tolist() == [1, 1]


@pytest.mark.transport
def test_elements_lie_at_multiples_of_their_size():
    tensors = {"a": gt.ones(3, dtype=gt.int8), "b": gt.ones(3, dtype=gt.float64), "c": gt.ones(1, dtype=gt.float16)}
    content = safetensors.save(tensors)
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    assert (8 + length) % 8 == 0
    for name, entry in header.items():
        assert (8 + length + entry["data_offsets"][0]) % tensors[name].element_size() == 0


WRONG_CALLS = [
    (lambda p: save_file({1: gt.ones(1)}, p), TypeError, "names of tensors must be str"),
    (lambda p: save_file({"a": 1}, p), TypeError, "'a' must be a tensor, not int"),
    (lambda p: save_file({"__metadata__": gt.ones(1)}, p), ValueError, "__metadata__"),
    (lambda p: save_file({}, p, metadata={"a": 1}), TypeError, "must map str to str"),
]


@pytest.mark.transport
@pytest.mark.parametrize("call, error, message", WRONG_CALLS, ids=[row[2] for row in WRONG_CALLS])
def test_wrong_calls(tmp_path, call, error, message):
    with pytest.raises(error, match=message):
        call(tmp_path / "x")
    assert os.listdir(tmp_path) == []


@pytest.mark.transport
def test_files_of_pytorch_say_what_to_do(tmp_path):
    path = tmp_path / "model.pt"
    for content in (
        b"PK\x03\x04" + bytes(60),
        b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M",
        b"\x80\x04\x95" + bytes(20),
    ):
        path.write_bytes(content)
        with pytest.raises(
            ValueError, match=r"model\.pt is a (zip archive|pickle).*torch\.save.*save_file\(torch\.load"
        ):
            load(path)
        with pytest.raises(ValueError, match="the given data is a"):
            load(io.BytesIO(content))


@pytest.mark.transport
def test_a_header_length_that_looks_like_a_pickle_is_none():
    text = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    content = struct.pack("<Q", 0x80) + text.ljust(0x80) + bytes(4)
    assert load(content)["a"].tolist() == [0]


@pytest.mark.transport
def test_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)


# Hostile files.


def with_header(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(shape, offsets, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


HUGE = 2**62
HOSTILE = {
    "empty": b"",
    "seven bytes": bytes(7),
    "no header": bytes(8),
    "longest length": b"\xff" * 8,
    "length beyond the end": struct.pack("<Q", 1000) + b"{}",
    "length beyond every limit": struct.pack("<Q", 2**40) + b"{" * 100,
    "not utf-8": with_header(b"\xff\xfe{}"),
    "not json": with_header(b"{this is no json"),
    "a list": with_header(b"[1, 2]"),
    "a number": with_header(b"1"),
    "deeply nested": with_header(b'{"a":' * 5000 + b"1" + b"}" * 5000),
    "deeply nested lists": with_header(b"[" * 100_000),
    "offsets beyond the end": with_header({"a": entry([100], [0, 400])}, bytes(8)),
    "huge offsets": with_header({"a": entry([HUGE], [0, HUGE * 4])}, bytes(8)),
    "huge shape": with_header({"a": entry([HUGE, 4], [0, 16])}, bytes(16)),
    "shape overflows": with_header({"a": entry([2**32, 2**32, 2], [0, 0])}),
    "negative shape": with_header({"a": entry([-1], [0, 4])}, bytes(4)),
    "negative offsets": with_header({"a": entry([1], [-4, 0])}, bytes(4)),
    "reversed offsets": with_header({"a": entry([1], [4, 0])}, bytes(4)),
    "shape and bytes differ": with_header({"a": entry([3], [0, 8])}, bytes(8)),
    "overlap": with_header({"a": entry([2], [0, 8]), "b": entry([2], [4, 12])}, bytes(12)),
    "hole": with_header({"a": entry([1], [0, 4]), "b": entry([1], [8, 12])}, bytes(12)),
    "data left over": with_header({"a": entry([1], [0, 4])}, bytes(9)),
    "data missing": with_header({"a": entry([2], [0, 8])}, bytes(7)),
    "unknown dtype": with_header({"a": entry([1], [0, 4], "F33")}, bytes(4)),
    "no shape": with_header({"a": {"dtype": "F32", "data_offsets": [0, 4]}}, bytes(4)),
    "three offsets": with_header({"a": entry([1], [0, 4, 8])}, bytes(4)),
    "float shape": with_header({"a": entry([1.5], [0, 4])}, bytes(4)),
    "text as offsets": with_header({"a": entry([1], "04")}, bytes(4)),
    "metadata with a number": with_header({"__metadata__": {"a": 1}}),
    "metadata is a list": with_header({"__metadata__": []}),
    "the same name twice": with_header(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', bytes(2)),
    "too many dimensions": with_header({"a": entry([1] * 1000, [0, 4])}, bytes(4)),
}  # fmt: skip


@pytest.mark.transport
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(tmp_path, name):
    path = tmp_path / "hostile.safetensors"
    path.write_bytes(HOSTILE[name])
    for source in (path, HOSTILE[name]):
        with pytest.raises(ValueError, match="hostile.safetensors|the given data"):
            load(source)


@pytest.mark.transport
def test_empty_tensors_of_strange_shapes():
    for shape in ([0, HUGE], [0, 2**40, 2**40], [2**40, 0, 2**40]):
        with pytest.raises(ValueError, match="too large"):
            load(with_header({"a": entry(shape, [0, 0])}))
    for shape in ([0, 2**40], [0] * 3):
        tensor = load(with_header({"a": entry(shape, [0, 0])}))["a"]
        assert tensor.numel() == 0 and list(tensor.shape) == shape and tensor.sum().item() == 0


@pytest.mark.transport
def test_bools_are_zero_or_one_whatever_the_file_says():
    back = load(with_header({"a": entry([4], [0, 4], "BOOL")}, b"\x00\x01\x02\xff"))["a"]
    assert back.tolist() == [False, True, True, True] and back.sum().item() == 3


BAD_STRUCTURES = [
    "", "{", "null", "[]", "1", '{"version":1}', '{"version":2,"value":1}', '{"value":1}', '{"version":1,"value":{}}',
    '{"version":1,"value":{"tensor":"missing"}}', '{"version":1,"value":{"tensor":5}}', '{"version":1,"value":{"tensor":"a","handle":"x"}}',
    '{"version":1,"value":{"call":"os.system"}}', '{"version":1,"value":{"dict":5}}', '{"version":1,"value":{"dict":[[1]]}}',
    '{"version":1,"value":{"dict":[[[1],2]]}}', '{"version":1,"value":{"set":[[1]]}}', '{"version":1,"value":{"bytes":"not base 64!"}}',
    '{"version":1,"value":{"float":"x"}}', '{"version":1,"value":{"dtype":"Tensor"}}', '{"version":1,"value":{"dtype":["float32"]}}',
    '{"version":1,"value":{"complex":[1,2,3]}}', '{"version":1,"value":{"size":["x"]}}', '{"version":1,"value":{"tuple":1,"set":[]}}',
    '{"version":1,"value":' + "[" * 100_000, '{"version":1,"value":' + "[" * 3000 + "]" * 3000 + "}",
]  # fmt: skip


@pytest.mark.transport
@pytest.mark.parametrize("structure", BAD_STRUCTURES, ids=lambda text: text[-40:])
def test_damaged_structures(structure):
    content = safetensors.save({"a": gt.ones(1)}, metadata={"format": "gt", "gt.structure": structure})
    with pytest.raises(ValueError, match="the stored structure cannot be read"):
        load(content)


def peak_kilobytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def mutated(content, source):
    """A file with a few bytes changed, taken out, doubled or cut off; most changes hit the header."""
    out = bytearray(content)
    for _ in range(source.randint(1, 3)):
        at = source.randrange(len(out)) if source.random() < 0.3 else source.randrange(min(len(out), 400))
        kind = source.randrange(6)
        if kind == 0:
            out[at] = source.randrange(256)
        elif kind == 1:
            out[at] ^= 1 << source.randrange(8)
        elif kind == 2:
            del out[at : at + source.randint(1, 8)]
        elif kind == 3:
            out[at:at] = out[at : at + source.randint(1, 20)]
        elif kind == 4:
            out[at] = source.choice(b'0123456789[]{}",:-e')
        else:
            del out[max(at, 1) :]
        if not out:
            break
    return bytes(out)


@pytest.mark.transport
def test_random_changes_of_files_never_crash_nor_take_memory(tmp_path):
    source = random.Random(20240607)
    plain = safetensors.save({"a": gt.ones(4), "b": gt.arange(3), "c": gt.ones(2, 2, dtype=gt.bfloat16)}, {"k": "v"})
    nested = io.BytesIO()
    save({"m": {"w": gt.ones(3), "n": (1, 2.5, None, "s", b"b")}, 3: [gt.ones(2, requires_grad=True)]}, nested)
    load(plain)
    gc.collect()
    before = peak_kilobytes()
    refused = 0
    path = tmp_path / "fuzz.safetensors"
    for i in range(6000):
        content = mutated(plain if i % 2 else nested.getvalue(), source)
        try:
            if i % 10 == 0:
                path.write_bytes(content)
                load(path)
            else:
                load(content)
        except (ValueError, RuntimeError):
            refused += 1
    assert refused > 3000
    assert peak_kilobytes() - before < 64 * 1024


@pytest.mark.transport
def test_every_truncation_is_an_error():
    content = safetensors.save({"a": gt.ones(4), "b": gt.arange(3)}, {"k": "v"})
    for end in range(len(content)):
        with pytest.raises(ValueError):
            load(content[:end])


@pytest.mark.heavy
def test_a_large_file_is_loaded_without_a_second_copy(tmp_path):
    """In a process of its own: the peak is what the tensors take, and one tensor more."""
    path = tmp_path / "large.safetensors"
    save_file({f"w{i}": gt.ones(8 << 20) for i in range(16)}, path)
    program = f"""
        import resource
        import gt
        from gt.serialization import load_file

        gt.ones(1).sum().item()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        tensors = load_file({str(path)!r})
        gt.synchronize()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, check=True)
    assert int(done.stdout) < 1.4 * 16 * 32 * 1024
