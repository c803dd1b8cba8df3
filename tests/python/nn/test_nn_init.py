"""First values: their bounds and spreads, of `nn.init` and of the layers."""

import math

import pytest

import gt
import gt.nn as nn
from gt.nn import init

N = 400


def spread(tensor):
    return tensor.detach().double().std().item(), tensor.detach().abs().max().item()


@pytest.mark.parametrize(
    "fill, std, bound",
    [
        (lambda w: init.uniform_(w, -3, 3), 3 / math.sqrt(3), 3),
        (lambda w: init.normal_(w, 0, 2), 2, 12),
        (lambda w: init.trunc_normal_(w), 0.8796, 2),
        (lambda w: init.trunc_normal_(w, std=0.02), 0.02, 0.15),
        (lambda w: init.xavier_uniform_(w), math.sqrt(2 / (2 * N)), math.sqrt(6 / (2 * N))),
        (lambda w: init.xavier_uniform_(w, gain=2), 2 * math.sqrt(2 / (2 * N)), 2 * math.sqrt(6 / (2 * N))),
        (lambda w: init.xavier_normal_(w), math.sqrt(2 / (2 * N)), 1),
        (lambda w: init.kaiming_uniform_(w), math.sqrt(2 / N), math.sqrt(6 / N)),
        (lambda w: init.kaiming_uniform_(w, a=math.sqrt(5)), math.sqrt(1 / (3 * N)), 1 / math.sqrt(N)),
        (lambda w: init.kaiming_normal_(w, nonlinearity="relu"), math.sqrt(2 / N), 1),
        (lambda w: init.kaiming_normal_(w, mode="fan_out", nonlinearity="linear"), math.sqrt(1 / N), 1),
    ],
)
def test_distributions(fill, std, bound):
    weight = nn.Parameter(gt.empty(N, N))
    assert fill(weight) is weight and weight.requires_grad and weight.grad_fn is None
    measured, largest = spread(weight)
    assert measured == pytest.approx(std, rel=0.02) and largest <= bound * (1 + 1e-6)
    assert weight.detach().mean().item() == pytest.approx(0, abs=4 * std / N)


def test_constants():
    assert init.ones_(gt.empty(2)).tolist() == [1, 1] and init.zeros_(gt.empty(2)).tolist() == [0, 0]
    assert init.constant_(gt.empty(2), 0.5).tolist() == [0.5, 0.5]
    assert init.eye_(gt.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]


def test_dirac():
    weight = init.dirac_(gt.empty(4, 2, 3), groups=2)
    x = gt.randn(1, 4, 6)
    assert gt.allclose(nn.functional.conv1d(x, weight, padding=1, groups=2), x)
    image = gt.randn(1, 3, 4, 4)
    assert gt.allclose(nn.functional.conv2d(image, init.dirac_(gt.empty(3, 3, 3, 3)), padding=1), image)


@pytest.mark.parametrize("shape", [(5, 8), (8, 5), (6, 6), (4, 2, 3)])
def test_orthogonal(shape):
    weight = init.orthogonal_(gt.empty(*shape), gain=2.0).reshape(shape[0], -1)
    rows, cols = weight.shape
    product = weight @ weight.T if rows <= cols else weight.T @ weight
    assert gt.allclose(product, 4 * gt.eye(min(rows, cols)), atol=1e-5)


def test_sparse():
    weight = init.sparse_(gt.empty(20, 5), 0.1, std=3.0)
    assert (weight == 0).sum(0).tolist() == [2] * 5


def test_gains():
    gain = init.calculate_gain
    assert gain("relu") == math.sqrt(2) and gain("tanh") == 5 / 3 and gain("linear") == 1 and gain("selu") == 0.75
    assert gain("leaky_relu", 0.2) == math.sqrt(2 / 1.04) and gain("leaky_relu") == math.sqrt(2 / 1.0001)


def test_generators_and_seeds():
    def drawn():
        return init.normal_(gt.empty(3), generator=gt.Generator().manual_seed(3)).tolist()

    assert drawn() == drawn()
    gt.manual_seed(1)
    first = nn.Linear(3, 3).weight.tolist()
    gt.manual_seed(1)
    assert nn.Linear(3, 3).weight.tolist() == first


@pytest.mark.parametrize(
    "made, bounds",
    [
        (lambda: nn.Linear(300, 200), {"weight": 1 / math.sqrt(300), "bias": 1 / math.sqrt(300)}),
        (lambda: nn.Bilinear(100, 20, 30), {"weight": 0.1, "bias": 0.1}),
        (lambda: nn.Conv1d(20, 40, 5), {"weight": 0.1, "bias": 0.1}),
        (lambda: nn.Conv2d(16, 40, 5, groups=4), {"weight": 0.1, "bias": 0.1}),
        (lambda: nn.ConvTranspose2d(40, 4, 5), {"weight": 0.1, "bias": 0.1}),
        (lambda: nn.LSTM(30, 100), {"weight_ih_l0": 0.1, "weight_hh_l0": 0.1, "bias_ih_l0": 0.1}),
        (lambda: nn.GRUCell(30, 100), {"weight_ih": 0.1, "bias_hh": 0.1}),
        (
            lambda: nn.MultiheadAttention(60, 2),
            {"in_proj_weight": math.sqrt(6 / 240), "out_proj.weight": 1 / math.sqrt(60)},
        ),
        (lambda: nn.Transformer(60, 2, 1, 1, 90), {"encoder.layers.0.linear1.weight": math.sqrt(6 / 150)}),
    ],
)
def test_layers_are_uniform_between_pytorchs_bounds(made, bounds):
    parameters = dict(made().named_parameters())
    for name, bound in bounds.items():
        measured, largest = spread(parameters[name])
        assert largest <= bound * (1 + 1e-6), name
        if parameters[name].numel() >= 30:
            assert measured == pytest.approx(bound / math.sqrt(3), rel=0.2), name


def test_other_layers():
    table = nn.Embedding(300, 50, padding_idx=3)
    assert spread(table.weight)[0] == pytest.approx(1, rel=0.03) and table.weight[3].abs().sum().item() == 0
    assert table.weight.requires_grad and table.weight.is_leaf
    for norm in (nn.LayerNorm(4), nn.BatchNorm1d(4), nn.GroupNorm(2, 4)):
        assert norm.weight.tolist() == [1] * 4 and norm.bias.tolist() == [0] * 4
    assert nn.RMSNorm(4).weight.tolist() == [1] * 4 and nn.PReLU(2).weight.tolist() == [0.25] * 2
    attention = nn.MultiheadAttention(4, 2)
    assert attention.in_proj_bias.tolist() == [0] * 12 and attention.out_proj.bias.tolist() == [0] * 4


def test_dtype_and_device():
    for made in (
        nn.Linear(2, 2, dtype=gt.float64, device="cuda"),
        nn.Conv2d(2, 2, 1, dtype=gt.float64, device="cuda"),
        nn.LayerNorm(2, dtype=gt.float64, device="cuda"),
        nn.Embedding(2, 2, dtype=gt.float64, device="cuda"),
        nn.MultiheadAttention(2, 1, dtype=gt.float64, device="cuda"),
        nn.LSTM(2, 2, dtype=gt.float64, device="cuda"),
    ):
        for parameter in made.parameters():
            assert parameter.dtype == gt.float64 and parameter.device == gt.device("cuda")


def test_old_names_warn():
    with pytest.warns(FutureWarning, match="xavier_uniform_"):
        init.xavier_uniform(gt.empty(2, 2))
