"""Storing and loading: names, errors that tell everything, and nothing changed by a checkpoint that does not fit."""

from collections import OrderedDict

import pytest

import gt
import gt.nn as nn


def net():
    return nn.Sequential(OrderedDict(first=nn.Linear(2, 3), norm=nn.BatchNorm1d(3), last=nn.Linear(3, 1)))


NAMES = [
    "first.weight",
    "first.bias",
    "norm.weight",
    "norm.bias",
    "norm.running_mean",
    "norm.running_var",
    "norm.num_batches_tracked",
    "last.weight",
    "last.bias",
]


def values(module):
    return {name: tensor.tolist() for name, tensor in module.state_dict().items()}


def test_names_and_order():
    state = net().state_dict()
    assert list(state) == NAMES and isinstance(state, OrderedDict)
    assert list(net().state_dict(prefix="model.")) == [f"model.{n}" for n in NAMES]
    assert state._metadata["norm"] == {"version": 2} and state._metadata[""] == {"version": 1}


def test_entries_are_detached_and_shared():
    module = net()
    state = module.state_dict()
    assert not any(t.requires_grad for t in state.values()) and type(state["first.weight"]) is gt.Tensor
    assert module.state_dict(keep_vars=True)["first.weight"] is module.first.weight
    with gt.no_grad():
        module.first.weight.zero_()
    assert state["first.weight"].sum().item() == 0


def test_round_trip():
    source, target = net(), net()
    source(gt.randn(5, 2))
    held = list(target.parameters())
    answer = target.load_state_dict(source.state_dict())
    assert repr(answer) == "<All keys matched successfully>" and answer.missing_keys == []
    assert values(source) == values(target)
    assert all(a is b for a, b in zip(held, target.parameters())), "loading writes, it does not replace"
    with gt.no_grad():
        source.first.weight.zero_()
    assert target.first.weight.abs().sum().item() > 0, "the copies are separate"


def test_plain_dicts_load():
    source, target = net(), net()
    target.load_state_dict(dict(source.state_dict()))
    assert values(source) == values(target)


def test_float_widths_are_cast():
    module = nn.Linear(2, 1)
    module.load_state_dict({"weight": gt.ones(1, 2, dtype=gt.float64), "bias": gt.ones(1, dtype=gt.bfloat16)})
    assert module.weight.dtype == gt.float32 and module.weight.tolist() == [[1, 1]] and module.bias.tolist() == [1]


def test_every_mismatch_is_listed_and_nothing_is_changed():
    module = net()
    before = values(module)
    state = module.state_dict()
    wrong = {n: t + 1 for n, t in state.items()}
    del wrong["first.bias"], wrong["norm.running_var"]
    wrong |= {
        "first.weight": gt.ones(3, 3),
        "last.weight": gt.ones(3),
        "last.bias": gt.ones(1, dtype=gt.int64),
        "norm.num_batches_tracked": gt.tensor(1.0),
        "norm.bias": [1.0, 2.0, 3.0],
        "first.scale": gt.ones(1),
        "middle.weight": gt.ones(1),
    }
    with pytest.raises(RuntimeError) as caught:
        module.load_state_dict(wrong)
    text = str(caught.value)
    assert text.startswith("Error(s) in loading state_dict for Sequential:\n\t")
    assert 'Missing key(s) in state_dict: "first.bias", "norm.running_var". ' in text
    assert 'Unexpected key(s) in state_dict: "middle.weight", "first.scale". ' in text
    for line in (
        "size mismatch for first.weight: copying a param with shape gt.Size([3, 3]) from checkpoint, the shape in current "
        "model is gt.Size([3, 2]).",
        "size mismatch for last.weight: copying a param with shape gt.Size([3]) from checkpoint",
        "dtype mismatch for last.bias: the checkpoint holds gt.int64, the model has gt.float32",
        "dtype mismatch for norm.num_batches_tracked: the checkpoint holds gt.float32, the model has gt.int64",
        "norm.bias: expected a gt.Tensor in the checkpoint, but it holds <class 'list'>",
    ):
        assert line in text
    assert values(module) == before


def test_not_strict():
    module = net()
    answer = module.load_state_dict({"first.weight": gt.ones(3, 2), "other": gt.ones(1)}, strict=False)
    assert answer.unexpected_keys == ["other"] and "first.bias" in answer.missing_keys and len(answer.missing_keys) == 7
    assert module.first.weight.tolist() == [[1, 1]] * 3 and "missing_keys=" in repr(answer)
    with pytest.raises(RuntimeError, match="size mismatch"):
        module.load_state_dict({"first.weight": gt.ones(2, 2)}, strict=False)


def test_assign():
    module = nn.Linear(2, 1)
    weight = gt.ones(1, 2, dtype=gt.float64)
    module.weight.requires_grad_(False)
    module.load_state_dict({"weight": weight, "bias": gt.zeros(1)}, assign=True)
    assert module.weight.dtype == gt.float64 and isinstance(module.weight, nn.Parameter)
    assert not module.weight.requires_grad and module.bias.requires_grad
    weight.add_(1)
    assert module.weight.tolist() == [[2, 2]], "the checkpoint's own tensor is used"


def test_none_members_are_not_stored():
    module = nn.Linear(2, 1, bias=False)
    assert list(module.state_dict()) == ["weight"]
    with pytest.raises(RuntimeError, match='Unexpected key.*"bias"'):
        module.load_state_dict({"weight": gt.ones(1, 2), "bias": gt.ones(1)})


def test_buffers_that_are_not_persistent():
    module = nn.Module()
    module.register_buffer("a", gt.ones(1), persistent=False)
    module.register_buffer("b", gt.ones(1))
    assert list(module.state_dict()) == ["b"]
    module.load_state_dict({"b": gt.zeros(1)})
    with pytest.raises(RuntimeError, match="Unexpected"):
        module.load_state_dict({"a": gt.zeros(1), "b": gt.zeros(1)})


def test_single_numbers_stored_as_vectors():
    module = nn.Module()
    module.scale = nn.Parameter(gt.tensor(1.0))
    module.load_state_dict({"scale": gt.tensor([3.0])})
    assert module.scale.item() == 3


def test_old_batch_norm_checkpoints():
    module = nn.BatchNorm1d(2)
    state = OrderedDict((n, t) for n, t in module.state_dict().items() if n != "num_batches_tracked")
    state._metadata = {"": {"version": 1}}
    module.load_state_dict(state)
    # A plain dict says no version, as one of a safetensors file: PyTorch takes it for an old one.
    module.load_state_dict(dict(state))
    state._metadata = {"": {"version": 2}}
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        module.load_state_dict(state)


def test_extra_state():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = 0

        def get_extra_state(self):
            return {"steps": self.steps}

        def set_extra_state(self, state):
            self.steps = state["steps"]

    source, target = nn.Sequential(Counting()), nn.Sequential(Counting())
    source[0].steps = 5
    assert list(source.state_dict()) == ["0._extra_state"]
    target.load_state_dict(source.state_dict())
    assert target[0].steps == 5
    with pytest.raises(RuntimeError, match="_extra_state"):
        target.load_state_dict({})


def test_hooks_around_state_dict():
    module = nn.Linear(2, 1)
    calls = []
    module.register_state_dict_pre_hook(lambda m, prefix, keep: calls.append(("pre", prefix, keep)))
    handle = module.register_state_dict_post_hook(lambda m, state, prefix, meta: state.update({prefix + "more": 1}))
    assert list(nn.Sequential(module).state_dict()) == ["0.weight", "0.bias", "0.more"]
    assert calls == [("pre", "0.", False)]
    handle.remove()
    assert list(module.state_dict()) == ["weight", "bias"]


def test_hooks_that_rename_keys():
    module = nn.Linear(2, 1)

    def rename(owner, state, prefix, *rest):
        assert owner is module
        state[prefix + "weight"] = state.pop(prefix + "kernel")

    module.register_load_state_dict_pre_hook(rename)
    given = {"kernel": gt.ones(1, 2), "bias": gt.zeros(1)}
    module.load_state_dict(given)
    assert module.weight.tolist() == [[1, 1]] and "kernel" in given, "the caller's dict is left alone"


def test_hooks_after_loading():
    module = nn.Linear(2, 1)
    module.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    module.load_state_dict({"weight": gt.ones(1, 2)})
    assert module.weight.tolist() == [[1, 1]]


def test_overridden_loading():
    class Renamed(nn.Linear):
        def _load_from_state_dict(self, state_dict, prefix, *rest):
            if prefix + "w" in state_dict:
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")
            super()._load_from_state_dict(state_dict, prefix, *rest)

    module = nn.Sequential(Renamed(2, 1))
    module.load_state_dict({"0.w": gt.ones(1, 2), "0.bias": gt.zeros(1)})
    assert module[0].weight.tolist() == [[1, 1]]


TRANSFORMER_NAMES = """self_attn.in_proj_weight self_attn.in_proj_bias self_attn.out_proj.weight self_attn.out_proj.bias linear1.weight
linear1.bias linear2.weight linear2.bias norm1.weight norm1.bias norm2.weight norm2.bias""".split()


@pytest.mark.parametrize(
    "module, names",
    [
        (lambda: nn.TransformerEncoderLayer(4, 2, 6), TRANSFORMER_NAMES),
        (
            lambda: nn.MultiheadAttention(4, 2, kdim=3, vdim=5, add_bias_kv=True),
            "q_proj_weight k_proj_weight v_proj_weight in_proj_bias bias_k bias_v out_proj.weight out_proj.bias".split(),
        ),
        (
            lambda: nn.LSTM(3, 4, proj_size=2, bidirectional=True),
            """weight_ih_l0 weight_hh_l0 bias_ih_l0 bias_hh_l0 weight_hr_l0 weight_ih_l0_reverse weight_hh_l0_reverse
            bias_ih_l0_reverse bias_hh_l0_reverse weight_hr_l0_reverse""".split(),
        ),
        (lambda: nn.PReLU(3), ["weight"]),
        (lambda: nn.CrossEntropyLoss(gt.ones(3)), ["weight"]),
        (lambda: nn.BCEWithLogitsLoss(pos_weight=gt.ones(3)), ["pos_weight"]),
        (lambda: nn.ParameterList([gt.ones(1), gt.ones(2)]), ["0", "1"]),
        (lambda: nn.ParameterDict({"b": gt.ones(1), "a": gt.ones(2)}), ["b", "a"]),
        (lambda: nn.ModuleDict({"x": nn.ModuleList([nn.Linear(1, 1)])}), ["x.0.weight", "x.0.bias"]),
    ],
)
def test_names_are_pytorchs(module, names):
    assert list(module().state_dict()) == names
