"""Lazy layers, parametrized ones, packed sequences and averages keep their promises beyond the numbers."""

import copy
import pickle

import pytest

import gt
from gt import nn
from gt.nn.utils import parametrizations, parametrize, rnn, stateless
from gt.optim import swa_utils


def round_trips():
    return next(iter(gt.debug.get_worker_stats().values()))["round_trips"]


# --- lazy layers -----------------------------------------------------------------------------------------------------


def test_a_lazy_layer_keeps_mode_dtype_and_hooks():
    calls = []
    layer = nn.LazyLinear(2, dtype=gt.float64).eval()
    layer.register_forward_hook(lambda module, args, output: calls.append(type(module).__name__))
    assert layer(gt.ones(1, 3, dtype=gt.float64)).dtype == gt.float64
    assert type(layer) is nn.Linear and not layer.training and layer.in_features == 3
    layer(gt.ones(1, 3, dtype=gt.float64))
    assert calls == ["Linear", "Linear"]


def test_a_lazy_layer_converted_before_its_first_input():
    layer = nn.LazyConv2d(2, 3).double()
    assert layer(gt.ones(1, 3, 4, 4, dtype=gt.float64)).dtype == gt.float64


def test_lazy_layers_load_and_copy():
    ready = nn.Sequential(nn.Conv2d(4, 6, 3, groups=2), nn.BatchNorm2d(6), nn.ConvTranspose2d(6, 4, 2, groups=2))
    lazy = nn.Sequential(nn.LazyConv2d(6, 3, groups=2), nn.LazyBatchNorm2d(), nn.LazyConvTranspose2d(4, 2, groups=2))
    other = copy.deepcopy(lazy)
    assert isinstance(other[0].weight, nn.UninitializedParameter) and other[0].weight is not lazy[0].weight
    lazy.load_state_dict(ready.state_dict())
    x = gt.randn(2, 4, 5, 5)
    assert gt.equal(lazy.eval()(x), ready.eval()(x))
    assert pickle.loads(pickle.dumps(other))(x).shape == other(x).shape == (2, 4, 4, 4)


def test_a_lazy_layer_refuses_an_input_without_channels():
    with pytest.raises(RuntimeError, match="Expected 3D"):
        nn.LazyConv2d(2, 3)(gt.ones(4, 4))


# --- parametrized layers ---------------------------------------------------------------------------------------------


class Doubled(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * 2

    def right_inverse(self, x):
        return x / 2


def test_parametrization_keeps_the_value_and_takes_assignments():
    layer = nn.Linear(2, 2)
    before = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert gt.allclose(layer.weight, before) and isinstance(layer, nn.Linear)
    layer.weight = gt.full((2, 2), 6.0)
    assert layer.parametrizations.weight.original.tolist() == [[3, 3], [3, 3]]
    assert "weight" not in dict(layer.named_parameters()) and len(list(layer.parameters())) == 2
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert type(layer) is nn.Linear and layer.weight.tolist() == [[3, 3], [3, 3]]


def test_cached_parametrizations_are_computed_once():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Doubled())
    counter = layer.parametrizations.weight[0]
    counter.calls = 0
    with parametrize.cached():
        for _ in range(3):
            layer(gt.ones(1, 2))
    assert counter.calls == 1
    layer(gt.ones(1, 2))
    assert counter.calls == 2


def test_parametrized_copies_are_independent():
    layer = parametrizations.weight_norm(nn.Linear(2, 2))
    other = copy.deepcopy(layer)
    with gt.no_grad():
        other.parametrizations.weight.original0.zero_()
    assert other.weight.abs().sum().item() == 0 and layer.weight.abs().sum().item() > 0
    state = layer.state_dict()
    other.load_state_dict(state)
    assert gt.equal(other.weight, layer.weight)


def test_spectral_norm_bounds_the_largest_singular_value():
    for make in (nn.utils.spectral_norm, parametrizations.spectral_norm):
        layer = make(nn.Linear(6, 4))
        for _ in range(60):
            layer(gt.ones(1, 6))
        vector = gt.ones(6)
        for _ in range(60):
            vector = layer.weight.detach().t() @ (layer.weight.detach() @ vector)
            vector = vector / vector.norm()
        assert (layer.weight.detach() @ vector).norm().item() == pytest.approx(1.0, abs=1e-3)


def test_two_weight_norms_are_refused():
    with pytest.raises(RuntimeError, match="two weight_norm"):
        nn.utils.weight_norm(nn.utils.weight_norm(nn.Linear(1, 1)))


def test_functional_call_gives_back_what_was_there():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(1, 1, bias=False)
            self.b = nn.Linear(1, 1, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x, fail=False):
            if fail:
                raise ValueError("on purpose")
            return self.b(self.a(x))

    module = Twice()
    own = module.a.weight
    weight = gt.full((1, 1), 3.0, requires_grad=True)
    out = stateless.functional_call(module, {"a.weight": weight}, (gt.ones(1),))
    out.backward()
    assert out.item() == 9 and weight.grad.item() == 6 and own.grad is None, "a shared weight is replaced everywhere"
    with pytest.raises(ValueError, match="on purpose"):
        stateless.functional_call(module, {"a.weight": weight}, (gt.ones(1),), {"fail": True})
    assert module.a.weight is own and module.b.weight is own
    with pytest.raises(RuntimeError, match="unexpected key"):
        stateless.functional_call(module, {"c": weight}, (gt.ones(1),), strict=True)


# --- packed sequences ------------------------------------------------------------------------------------------------


def test_packed_sequences_do_not_wait():
    net = nn.LSTM(2, 3, bidirectional=True)
    padded = gt.randn(5, 3, 2)
    gt.synchronize()
    before = round_trips()
    packed = rnn.pack_padded_sequence(padded, [2, 5, 1], enforce_sorted=False)
    out, _ = net(packed)
    unpacked, _ = rnn.pad_packed_sequence(out)
    unpacked.sum().backward()
    assert round_trips() == before


def test_a_packed_sequence_is_what_each_sequence_gives_alone():
    net = nn.GRU(2, 3, num_layers=2, bidirectional=True, batch_first=True)
    sequences = [gt.randn(n, 2) for n in (2, 4, 1)]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    out, hidden = net(packed)
    for i, (sequence, made) in enumerate(zip(sequences, rnn.unpack_sequence(out))):
        alone, last = net(sequence)
        assert gt.allclose(made, alone, atol=1e-6) and gt.allclose(hidden[:, i], last, atol=1e-6)


def test_packed_sequences_check_their_lengths():
    with pytest.raises(RuntimeError, match="sorted in decreasing order"):
        rnn.pack_padded_sequence(gt.ones(3, 2, 1), [1, 3])
    with pytest.raises(RuntimeError, match="greater than 0"):
        rnn.pack_padded_sequence(gt.ones(3, 2, 1), [3, 0])
    with pytest.raises(ValueError, match="total_length"):
        rnn.pad_packed_sequence(rnn.pack_sequence([gt.ones(3)]), total_length=2)


# --- averages of weights ---------------------------------------------------------------------------------------------


def test_an_average_goes_on_after_a_checkpoint():
    model = nn.Linear(1, 1, bias=False)
    averaged = swa_utils.AveragedModel(model)
    for value in (1.0, 2.0):
        nn.init.constant_(model.weight, value)
        averaged.update_parameters(model)
    resumed = swa_utils.AveragedModel(model)
    resumed.load_state_dict(averaged.state_dict())
    nn.init.constant_(model.weight, 6.0)
    resumed.update_parameters(model)
    assert resumed.module.weight.item() == 3 and int(resumed.n_averaged) == 3


def test_averaging_does_not_wait():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    averaged = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
    gt.synchronize()
    before = round_trips()
    for _ in range(3):
        averaged.update_parameters(model)
    swa_utils.update_bn([gt.ones(2, 2), (gt.zeros(2, 2), gt.zeros(2))], averaged)
    assert round_trips() == before


def test_swa_arguments():
    model = nn.Linear(1, 1)
    with pytest.raises(AssertionError):
        swa_utils.AveragedModel(model, avg_fn=lambda a, b, n: a, multi_avg_fn=lambda a, b, n: None)
    with pytest.raises(ValueError, match="decay"):
        swa_utils.get_ema_avg_fn(1.5)
    with pytest.raises(ValueError, match="anneal_strategy"):
        swa_utils.SWALR(gt.optim.SGD(model.parameters(), lr=0.1), 0.05, anneal_strategy="steps")


# --- wrappers --------------------------------------------------------------------------------------------------------


def test_data_parallel_names_and_old_cuda_names():
    model = nn.DataParallel(nn.Linear(2, 2))
    assert sorted(model.state_dict()) == ["module.bias", "module.weight"] and model(gt.ones(1, 2)).shape == (1, 2)
    wrapped = nn.parallel.DistributedDataParallel(model.module)
    with wrapped.no_sync():
        wrapped(gt.ones(1, 2)).sum().backward()
    assert model.module.weight.grad is not None
    from gt.cuda.amp import GradScaler, autocast

    with autocast(enabled=False):
        assert gt.cuda.amp.GradScaler is GradScaler and model(gt.ones(1, 2)).dtype == gt.float32


def test_modules_are_found_where_pytorch_has_them():
    assert nn.modules.Linear is nn.Linear and nn.modules.linear.Linear is nn.Linear
    assert issubclass(nn.BatchNorm2d, nn.modules.batchnorm._BatchNorm)
    with pytest.raises(AttributeError):
        nn.modules.NoSuchLayer
