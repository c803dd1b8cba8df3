"""Checkpoint folders: round trips, shards, wrong contents, saves that are cut short."""

import json
import os

import pytest
from tiny_models import FIXTURES, some_tokens, tiny_model

import gt
from gt import optim
from gt.models import Qwen3ForCausalLM, checkpoint_files
from gt.serialization import load_file, save_file
from gt.testing import assert_close


@pytest.mark.parametrize("size", ["5GB", 4000, "2KB"])
@pytest.mark.parametrize("tied", [True, False])
def test_round_trip(tmp_path, size, tied):
    model = tiny_model(tie_word_embeddings=tied)
    model.save_pretrained(tmp_path, max_shard_size=size)
    files = sorted(path.name for path in tmp_path.iterdir())
    if size == "5GB":
        assert files == ["config.json", "model.safetensors"]
    else:
        assert "model.safetensors.index.json" in files and "model.safetensors" not in files
        assert len([name for name in files if name.startswith("model-00001-of-")]) == 1
    again = Qwen3ForCausalLM.from_pretrained(tmp_path)
    assert again.config.to_dict() == model.config.to_dict()
    assert {n: p.tolist() for n, p in again.named_parameters()} == {n: p.tolist() for n, p in model.named_parameters()}
    assert (again.lm_head.weight is again.model.embed_tokens.weight) == tied
    assert not again.training
    tokens = some_tokens()
    assert_close(again(tokens).logits, model(tokens).logits)


def test_tied_weights_are_stored_once(tmp_path):
    tiny_model(tie_word_embeddings=True).save_pretrained(tmp_path)
    assert "lm_head.weight" not in load_file(tmp_path / "model.safetensors")


def test_a_tied_checkpoint_may_hold_the_head_too(tmp_path):
    model = tiny_model(tie_word_embeddings=True)
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    save_file({**weights, "lm_head.weight": weights["model.embed_tokens.weight"]}, tmp_path / "model.safetensors")
    again = Qwen3ForCausalLM.from_pretrained(tmp_path)
    assert again.lm_head.weight is again.model.embed_tokens.weight


def test_a_model_that_was_loaded_trains(tmp_path):
    tiny_model(tie_word_embeddings=True).save_pretrained(tmp_path)
    model = Qwen3ForCausalLM.from_pretrained(tmp_path).train()
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    tokens, losses = some_tokens(), []
    for _ in range(5):
        loss = model(tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("dtype", [gt.bfloat16, "bfloat16", "torch.bfloat16", "gt.bfloat16"])
def test_dtype_on_loading(dtype):
    model = Qwen3ForCausalLM.from_pretrained(FIXTURES / "tied", dtype=dtype)
    assert {p.dtype for p in model.parameters()} == {gt.bfloat16}


def test_dtype_as_stored(tmp_path):
    tiny_model().to(gt.float16).save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "float16"
    assert {p.dtype for p in Qwen3ForCausalLM.from_pretrained(tmp_path).parameters()} == {gt.float16}
    model = Qwen3ForCausalLM.from_pretrained(tmp_path, dtype="float32")
    assert {p.dtype for p in model.parameters()} == {gt.float32}


@pytest.mark.parametrize("dtype", ["int64", gt.int32, "float31", 7])
def test_wrong_dtypes_are_refused(dtype):
    with pytest.raises(ValueError, match="dtype must be"):
        Qwen3ForCausalLM.from_pretrained(FIXTURES / "tied", dtype=dtype)


def test_every_mismatch_is_listed(tmp_path):
    tiny_model().save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.norm.weight"], weights["model.layers.1.mlp.up_proj.weight"]
    weights["model.layers.0.mlp.extra.weight"] = gt.zeros(1)
    weights["strange"] = gt.zeros(1)
    weights["lm_head.weight"] = gt.zeros(40, 15)
    weights["model.layers.0.self_attn.q_norm.weight"] = gt.zeros(6)
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(RuntimeError) as caught:
        Qwen3ForCausalLM.from_pretrained(tmp_path)
    message = str(caught.value)
    for part in (
        "model.norm.weight",
        "model.layers.1.mlp.up_proj.weight",
        "model.layers.0.mlp.extra.weight",
        "strange",
        "lm_head.weight",
        "model.layers.0.self_attn.q_norm.weight",
        "15",
        str(tmp_path),
    ):
        assert part in message


def test_an_untied_checkpoint_needs_its_head(tmp_path):
    tiny_model(tie_word_embeddings=True).save_pretrained(tmp_path)
    fields = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**fields, "tie_word_embeddings": False}))
    with pytest.raises(RuntimeError, match="lm_head.weight"):
        Qwen3ForCausalLM.from_pretrained(tmp_path)


def test_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="config.json"):
        Qwen3ForCausalLM.from_pretrained(tmp_path)
    tiny_model().config.save_pretrained(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(
        FileNotFoundError, match="has neither model.safetensors.*; convert pytorch_model.bin to safetensors"
    ):
        Qwen3ForCausalLM.from_pretrained(tmp_path)


def sharded(tmp_path):
    tiny_model().save_pretrained(tmp_path, max_shard_size=4000)
    path = tmp_path / "model.safetensors.index.json"
    return path, json.loads(path.read_text())


def test_a_missing_shard_is_named(tmp_path):
    _, index = sharded(tmp_path)
    name = index["weight_map"]["model.norm.weight"]
    (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"names missing files: {name}"):
        Qwen3ForCausalLM.from_pretrained(tmp_path)


def test_an_index_that_disagrees_with_its_shards(tmp_path):
    path, index = sharded(tmp_path)
    other = next(n for n in index["weight_map"].values() if n != index["weight_map"]["model.norm.weight"])
    index["weight_map"]["model.norm.weight"] = other
    index["weight_map"]["ghost"] = other
    path.write_text(json.dumps(index))
    with pytest.raises(ValueError, match="model.norm.weight, which the index places elsewhere.*does not contain ghost"):
        Qwen3ForCausalLM.from_pretrained(tmp_path)


@pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/passwd", "..", "a/b.safetensors"])
def test_an_index_may_not_point_outside(tmp_path, name):
    path, index = sharded(tmp_path)
    index["weight_map"]["model.norm.weight"] = name
    path.write_text(json.dumps(index))
    with pytest.raises(ValueError, match="outside of its folder"):
        Qwen3ForCausalLM.from_pretrained(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 1}}'])
def test_a_broken_index(tmp_path, content):
    path, _ = sharded(tmp_path)
    path.write_text(content)
    with pytest.raises(ValueError, match="index.json"):
        Qwen3ForCausalLM.from_pretrained(tmp_path)


@pytest.mark.parametrize("keep", [0, 7, 8, 100, -1])
def test_a_truncated_file(tmp_path, keep):
    tiny_model().save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises((ValueError, RuntimeError)):
        Qwen3ForCausalLM.from_pretrained(tmp_path)


def tree(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("old_size", ["5GB", 4000])
@pytest.mark.parametrize("new_size", ["5GB", 4000, 9000])
def test_saving_over_an_older_checkpoint(tmp_path, old_size, new_size):
    tiny_model().save_pretrained(tmp_path, max_shard_size=old_size)
    (tmp_path / "tokenizer.json").write_text("{}")
    model = tiny_model()
    with gt.no_grad():
        model.model.norm.weight.fill_(3.0)
    model.save_pretrained(tmp_path, max_shard_size=new_size)
    assert Qwen3ForCausalLM.from_pretrained(tmp_path).model.norm.weight.tolist() == [3.0] * 16
    names = set(tree(tmp_path))
    assert "tokenizer.json" in names and not any(name.endswith(".tmp") for name in names)
    assert ("model.safetensors" in names) == (new_size == "5GB")
    paths, _ = checkpoint_files.weight_files(tmp_path)
    assert {p.name for p in paths} == {name for name in names if name.endswith(".safetensors")}


@pytest.mark.parametrize("old_size", ["5GB", 4000])
@pytest.mark.parametrize("new_size", ["5GB", 4000])
@pytest.mark.parametrize("at", range(6))
def test_a_save_cut_short_leaves_a_whole_checkpoint(tmp_path, monkeypatch, old_size, new_size, at):
    """Whatever rename or removal fails, the folder holds the old weights or the new ones, whole."""
    tiny_model().save_pretrained(tmp_path, max_shard_size=old_size)
    model = tiny_model()
    with gt.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    calls = iter(range(100))

    def failing(real):
        def call(*args, **kwargs):
            if next(calls) == at:
                raise OSError("the disk is full")
            return real(*args, **kwargs)

        return call

    monkeypatch.setattr(os, "replace", failing(os.replace))
    names, failed = set(tree(tmp_path)), False
    try:
        model.save_pretrained(tmp_path, max_shard_size=new_size)
    except OSError as error:
        failed = True
        assert "the disk is full" in str(error)
    monkeypatch.undo()
    assert not failed or set(tree(tmp_path)) == names
    loaded = dict(Qwen3ForCausalLM.from_pretrained(tmp_path).named_parameters())
    same = [gt.equal(loaded[name], parameter) for name, parameter in tiny_model().named_parameters()]
    moved = [gt.equal(loaded[name], parameter) for name, parameter in model.named_parameters()]
    assert all(same) or all(moved)


def test_a_save_with_wrong_arguments_writes_nothing(tmp_path):
    tiny_model().save_pretrained(tmp_path)
    before = tree(tmp_path)
    with pytest.raises(ValueError, match="a size must be"):
        tiny_model().save_pretrained(tmp_path, max_shard_size="many")
    assert tree(tmp_path) == before


def test_saving_onto_a_file(tmp_path):
    (tmp_path / "model").write_text("")
    with pytest.raises(NotADirectoryError, match="is a file"):
        tiny_model().save_pretrained(tmp_path / "model")


@pytest.mark.parametrize(
    "size, expected",
    [(10, 10), ("10", 10), ("1KB", 1000), ("1.5 MB", 1_500_000), ("2GiB", 2**31), ("5gb", 5 * 10**9), ("3 KiB", 3072)],
)
def test_sizes(size, expected):
    assert checkpoint_files.size_in_bytes(size) == expected


@pytest.mark.parametrize("size", [0, -1, "", "MB", "0KB", "1XB", "1.2.3MB", None, True])
def test_wrong_sizes(size):
    with pytest.raises(ValueError, match="a size must be"):
        checkpoint_files.size_in_bytes(size)


def test_weights_larger_than_a_shard_get_one_of_their_own():
    shards = checkpoint_files.in_shards([("a", 5), ("b", 50), ("c", 3), ("d", 6), ("e", 4)], 10)
    assert shards == [["a"], ["b"], ["c", "d"], ["e"]]
