"""Configurations: what is read, kept, written and refused."""

import json

import pytest
from tiny_models import CASES, FIXTURES, tiny_config

import gt
from gt.models import Qwen3Config


def test_defaults_are_those_of_hugging_face():
    config = Qwen3Config()
    assert (config.vocab_size, config.hidden_size, config.intermediate_size) == (151_936, 4096, 22_016)
    assert (config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads) == (32, 32, 32)
    assert (config.head_dim, config.rms_norm_eps, config.rope_theta) == (128, 1e-6, 10_000.0)
    assert config.sliding_window is None and config.layer_types == ["full_attention"] * 32


@pytest.mark.parametrize("case", CASES)
def test_what_hugging_face_wrote_is_kept(case):
    stored = json.loads((FIXTURES / case / "config.json").read_text())
    written = Qwen3Config.from_pretrained(FIXTURES / case).to_dict()
    rope = stored.pop("rope_parameters")
    assert {name: written[name] for name in stored} == stored
    assert written["rope_theta"] == rope.pop("rope_theta")
    assert written["rope_scaling"] == (None if rope == {"rope_type": "default"} else rope)


def test_round_trip_keeps_unknown_fields(tmp_path):
    config = tiny_config(torch_dtype="bfloat16", something_of_mine={"a": [1, 2]}, eos_token_id=[1, 2])
    config.save_pretrained(tmp_path)
    assert Qwen3Config.from_pretrained(tmp_path) == config
    assert Qwen3Config.from_pretrained(tmp_path / "config.json").something_of_mine == {"a": [1, 2]}
    assert Qwen3Config.from_pretrained(tmp_path, vocab_size=9).vocab_size == 9
    assert "something_of_mine" in repr(config)


def test_both_spellings_of_rotary_settings():
    old = tiny_config(rope_theta=5e5, rope_scaling={"type": "linear", "factor": 2.0})
    new = tiny_config(rope_parameters={"rope_theta": 5e5, "rope_type": "linear", "factor": 2.0})
    assert old.rope_theta == new.rope_theta == 5e5
    tokens = gt.tensor([[1, 2, 3]])
    gt.manual_seed(0)
    first = gt.models.Qwen3Model(old)(tokens).last_hidden_state
    gt.manual_seed(0)
    assert gt.equal(first, gt.models.Qwen3Model(new)(tokens).last_hidden_state)
    assert tiny_config(rope_parameters={"rope_theta": 3.0, "rope_type": "default"}).rope_scaling is None


def test_head_dim_and_key_value_heads_follow_if_not_given():
    config = tiny_config(head_dim=None, num_key_value_heads=None)
    assert config.head_dim == 4 and config.num_key_value_heads == 4


def test_layer_types_follow_from_the_window():
    config = tiny_config(use_sliding_window=True, sliding_window=8, max_window_layers=1)
    assert config.layer_types == ["full_attention", "sliding_attention"]
    assert tiny_config(sliding_window=8).sliding_window is None


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"vocab_size": 0}, "vocab_size must be a positive integer, not 0"),
        ({"hidden_size": 2.5}, "hidden_size must be a positive integer"),
        ({"num_hidden_layers": True}, "num_hidden_layers must be a positive integer"),
        ({"num_key_value_heads": 3}, r"num_attention_heads \(4\) must be a multiple of num_key_value_heads \(3\)"),
        ({"head_dim": 5}, "head_dim must be even"),
        ({"hidden_act": "cube"}, "hidden_act 'cube' is not known"),
        ({"attention_dropout": 1.0}, "attention_dropout must be in"),
        ({"layer_types": ["full_attention"]}, "layer_types has 1 entries for 2 layers"),
        ({"layer_types": ["full_attention", "odd"]}, "layer_types: unknown odd"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "set use_sliding_window"),
        ({"rope_scaling": {"rope_type": "longrope"}}, "rope_scaling: unknown type 'longrope'"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "needs a positive factor"),
        ({"model_type": "llama"}, "expected the configuration of a 'qwen3' model, got that of a 'llama' model"),
    ],
)
def test_wrong_fields_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        tiny_config(**changes)


def test_wrong_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="config.json"):
        Qwen3Config.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match="is not JSON"):
        Qwen3Config.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(ValueError, match="must contain a JSON object, but contains a list"):
        Qwen3Config.from_pretrained(tmp_path)
