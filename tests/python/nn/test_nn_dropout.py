"""Dropout: shares, scale, channels, reproducibility and gradients."""

import pytest

import gt
import gt.nn as nn
from gt.nn import functional as F


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_share_and_scale(p):
    x = gt.ones(100_000)
    out = F.dropout(x, p)
    kept = out != 0
    assert kept.float().mean().item() == pytest.approx(1 - p, abs=0.01)
    assert gt.allclose(out[kept], gt.full((int(kept.sum().item()),), 1 / (1 - p)))


def test_edges():
    x = gt.ones(5)
    assert F.dropout(x, 0.0) is x and F.dropout(x, 1.0).tolist() == [0] * 5
    assert F.dropout(x, 0.5, training=False) is x and nn.Dropout(0.7).eval()(x) is x


def test_seeds():
    gt.manual_seed(3)
    first = F.dropout(gt.ones(50)).tolist()
    second = F.dropout(gt.ones(50)).tolist()
    gt.manual_seed(3)
    assert F.dropout(gt.ones(50)).tolist() == first and first != second


def test_gradient_uses_the_mask():
    x = gt.ones(50, requires_grad=True)
    out = nn.Dropout(0.4)(x)
    out.sum().backward()
    assert gt.equal(x.grad, out.detach())


def test_in_place():
    x = gt.ones(50)
    out = F.dropout(x, 0.5, inplace=True)
    assert out is x and 0 < (x == 0).sum().item() < 50


@pytest.mark.parametrize(
    "function, module, shape",
    [
        (F.dropout1d, nn.Dropout1d, (40, 50, 4)),
        (F.dropout2d, nn.Dropout2d, (40, 50, 2, 3)),
        (F.dropout3d, nn.Dropout3d, (40, 50, 2, 1, 3)),
    ],
)
def test_whole_channels(function, module, shape):
    for out in (function(gt.ones(*shape), 0.3), module(0.3)(gt.ones(*shape))):
        flat = out.reshape(40 * 50, -1)
        assert gt.equal(flat, flat[:, :1].expand(flat.shape).contiguous())
        assert (flat[:, 0] != 0).float().mean().item() == pytest.approx(0.7, abs=0.05)
    single = function(gt.ones(*shape[1:]), 0.5).reshape(50, -1)
    assert gt.equal(single, single[:, :1].expand(single.shape).contiguous())


def test_alpha_dropout_keeps_mean_and_variance():
    x = gt.randn(200_000)
    out = F.alpha_dropout(x, 0.3, training=True)
    assert out.mean().item() == pytest.approx(0, abs=0.02) and out.std().item() == pytest.approx(1, abs=0.02)
    out = nn.FeatureAlphaDropout(0.3)(gt.randn(400, 500, 1))
    assert out.mean().item() == pytest.approx(0, abs=0.02) and out.std().item() == pytest.approx(1, abs=0.02)


def test_attention_dropout():
    q = gt.ones(1, 1, 4, 8)
    out = F.scaled_dot_product_attention(q, q, q, dropout_p=0.5)
    assert not gt.allclose(out, q)
    layer = nn.MultiheadAttention(8, 2, dropout=0.5)
    x = gt.ones(4, 1, 8)
    assert not gt.equal(layer(x, x, x)[0], layer(x, x, x)[0])
    layer.eval()
    assert gt.equal(layer(x, x, x)[0], layer(x, x, x)[0])


def test_random_slopes():
    x = gt.full((1000,), -1.0)
    slopes = -F.rrelu(x, 0.1, 0.4, training=True)
    assert 0.1 <= slopes.min().item() and slopes.max().item() <= 0.4 and slopes.std().item() > 0.05


def test_gumbel_softmax():
    logits = gt.tensor([0.0, 1.0, 2.0]).expand(20_000, 3)
    hard = F.gumbel_softmax(logits, hard=True)
    assert hard.sum(1).min().item() == pytest.approx(1) and ((hard - hard.round()).abs() < 1e-6).all().item()
    assert gt.allclose(hard.mean(0), gt.tensor([0.0, 1.0, 2.0]).softmax(0), atol=0.02)
    soft = F.gumbel_softmax(logits[:5], tau=0.5)
    assert gt.allclose(soft.sum(1), gt.ones(5))
    x = gt.randn(4, 3, requires_grad=True)
    (F.gumbel_softmax(x, hard=True) * gt.randn(4, 3)).sum().backward()
    assert x.grad.abs().sum().item() > 0
