"""Shapes: every function that moves elements without computing, against NumPy, with gradients."""

import numpy as np
import pytest
from parity import array, check, check_gradient, data

import gt


def cube():
    values = np.arange(24.0).reshape(2, 3, 4)
    return gt.tensor(values), values


# (id, on a tensor of shape (2, 3, 4), on the array)
CASES = [
    ("reshape", lambda x: x.reshape(4, 6), lambda a: a.reshape(4, 6)),
    ("reshape-tuple", lambda x: x.reshape((6, 4)), lambda a: a.reshape(6, 4)),
    ("reshape-infer", lambda x: x.reshape(-1, 8), lambda a: a.reshape(-1, 8)),
    ("reshape-flat", lambda x: x.reshape(-1), lambda a: a.reshape(-1)),
    ("reshape-function", lambda x: gt.reshape(x, (3, 8)), lambda a: a.reshape(3, 8)),
    ("reshape-of-transpose", lambda x: x.transpose(0, 2).reshape(4, 6), lambda a: a.swapaxes(0, 2).reshape(4, 6)),
    ("reshape_as", lambda x: x.reshape_as(gt.zeros(6, 4)), lambda a: a.reshape(6, 4)),
    ("view", lambda x: x.view(4, 6), lambda a: a.reshape(4, 6)),
    ("view-infer", lambda x: x.view(2, -1), lambda a: a.reshape(2, -1)),
    ("view-ones", lambda x: x.view(2, 1, 12), lambda a: a.reshape(2, 1, 12)),
    ("view-size", lambda x: x.view(gt.Size([24])), lambda a: a.reshape(24)),
    ("view_as", lambda x: x.view_as(gt.zeros(24)), lambda a: a.reshape(24)),
    (
        "view-of-unsqueezed-transpose",
        lambda x: x.transpose(0, 1).view(3, 2, 2, 2),
        lambda a: a.swapaxes(0, 1).reshape(3, 2, 2, 2),
    ),
    ("flatten", lambda x: x.flatten(), lambda a: a.reshape(-1)),
    ("flatten-from", lambda x: x.flatten(1), lambda a: a.reshape(2, 12)),
    ("flatten-range", lambda x: gt.flatten(x, 0, 1), lambda a: a.reshape(6, 4)),
    ("flatten-keywords", lambda x: x.flatten(start_dim=1, end_dim=-1), lambda a: a.reshape(2, 12)),
    ("ravel", lambda x: x.ravel(), lambda a: a.ravel()),
    ("unflatten", lambda x: x.unflatten(2, (2, 2)), lambda a: a.reshape(2, 3, 2, 2)),
    ("unflatten-infer", lambda x: gt.unflatten(x, -1, (-1, 2)), lambda a: a.reshape(2, 3, 2, 2)),
    ("permute", lambda x: x.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    ("permute-tuple", lambda x: x.permute((1, 0, 2)), lambda a: a.transpose(1, 0, 2)),
    ("permute-negative", lambda x: x.permute(-1, 0, 1), lambda a: a.transpose(2, 0, 1)),
    ("permute-function", lambda x: gt.permute(x, (2, 1, 0)), lambda a: a.transpose(2, 1, 0)),
    ("transpose", lambda x: x.transpose(0, 1), lambda a: a.swapaxes(0, 1)),
    ("transpose-negative", lambda x: gt.transpose(x, -1, -2), lambda a: a.swapaxes(1, 2)),
    ("transpose-keywords", lambda x: x.transpose(dim0=0, dim1=2), lambda a: a.swapaxes(0, 2)),
    ("swapaxes", lambda x: x.swapaxes(0, 2), lambda a: a.swapaxes(0, 2)),
    ("swapdims", lambda x: gt.swapaxes(x, 1, 2), lambda a: a.swapaxes(1, 2)),
    ("T-of-matrix", lambda x: x[0].T, lambda a: a[0].T),
    ("t", lambda x: x[0].t(), lambda a: a[0].T),
    ("mT", lambda x: x.mT, lambda a: a.swapaxes(1, 2)),
    ("movedim", lambda x: x.movedim(0, 2), lambda a: np.moveaxis(a, 0, 2)),
    ("movedim-tuple", lambda x: gt.movedim(x, (0, 1), (2, 0)), lambda a: np.moveaxis(a, (0, 1), (2, 0))),
    ("movedim-negative", lambda x: gt.movedim(x, -1, 0), lambda a: np.moveaxis(a, -1, 0)),
    ("unsqueeze-0", lambda x: x.unsqueeze(0), lambda a: a[None]),
    ("unsqueeze-end", lambda x: x.unsqueeze(-1), lambda a: a[..., None]),
    ("unsqueeze-middle", lambda x: gt.unsqueeze(x, 2), lambda a: a[:, :, None]),
    ("unsqueeze-negative", lambda x: x.unsqueeze(-4), lambda a: a[None]),
    ("squeeze-all", lambda x: x.reshape(1, 6, 1, 4).squeeze(), lambda a: a.reshape(6, 4)),
    ("squeeze-dim", lambda x: x.reshape(1, 6, 1, 4).squeeze(0), lambda a: a.reshape(6, 1, 4)),
    ("squeeze-negative", lambda x: x.reshape(1, 6, 1, 4).squeeze(-2), lambda a: a.reshape(1, 6, 4)),
    ("squeeze-tuple", lambda x: gt.squeeze(x.reshape(1, 6, 1, 4), (0, 2)), lambda a: a.reshape(6, 4)),
    ("squeeze-of-wide-dim", lambda x: x.squeeze(1), lambda a: a),
    ("expand", lambda x: x[:1].expand(5, 3, 4), lambda a: np.broadcast_to(a[:1], (5, 3, 4))),
    ("expand-keep", lambda x: x[:1].expand(5, -1, -1), lambda a: np.broadcast_to(a[:1], (5, 3, 4))),
    ("expand-new-dims", lambda x: x.expand(5, 2, 3, 4), lambda a: np.broadcast_to(a, (5, 2, 3, 4))),
    ("expand-tuple", lambda x: x[:, :1].expand((2, 7, 4)), lambda a: np.broadcast_to(a[:, :1], (2, 7, 4))),
    ("expand-to-zero", lambda x: x[:1].expand(0, 3, 4), lambda a: np.broadcast_to(a[:1], (0, 3, 4))),
    ("expand_as", lambda x: x[:1].expand_as(x), lambda a: np.broadcast_to(a[:1], (2, 3, 4))),
    ("broadcast_to", lambda x: gt.broadcast_to(x[0], (5, 3, 4)), lambda a: np.broadcast_to(a[0], (5, 3, 4))),
    ("broadcast_to-method", lambda x: x[0].broadcast_to((5, 3, 4)), lambda a: np.broadcast_to(a[0], (5, 3, 4))),
    ("repeat", lambda x: x.repeat(1, 2, 3), lambda a: np.tile(a, (1, 2, 3))),
    ("repeat-new-dims", lambda x: x.repeat(2, 1, 1, 2), lambda a: np.tile(a, (2, 1, 1, 2))),
    ("repeat-tuple", lambda x: x.repeat((2, 1, 1)), lambda a: np.tile(a, (2, 1, 1))),
    ("repeat-zero", lambda x: x.repeat(1, 0, 1), lambda a: np.tile(a, (1, 0, 1))),
    ("tile", lambda x: gt.tile(x, (2,)), lambda a: np.tile(a, (2,))),
    ("tile-more", lambda x: x.tile(2, 1, 3), lambda a: np.tile(a, (2, 1, 3))),
    ("tile-new-dims", lambda x: gt.tile(x, (2, 1, 1, 2)), lambda a: np.tile(a, (2, 1, 1, 2))),
    ("repeat_interleave", lambda x: x.repeat_interleave(2, dim=1), lambda a: np.repeat(a, 2, axis=1)),
    ("repeat_interleave-flat", lambda x: gt.repeat_interleave(x, 3), lambda a: np.repeat(a, 3)),
    ("repeat_interleave-negative", lambda x: gt.repeat_interleave(x, 2, dim=-1), lambda a: np.repeat(a, 2, axis=-1)),
    ("flip", lambda x: x.flip(0), lambda a: np.flip(a, 0)),
    ("flip-tuple", lambda x: gt.flip(x, (0, 2)), lambda a: np.flip(a, (0, 2))),
    ("flip-list", lambda x: x.flip([1]), lambda a: np.flip(a, 1)),
    ("flip-args", lambda x: x.flip(0, -1), lambda a: np.flip(a, (0, -1))),
    ("roll", lambda x: x.roll(1, 0), lambda a: np.roll(a, 1, 0)),
    ("roll-negative", lambda x: gt.roll(x, -5, 2), lambda a: np.roll(a, -5, 2)),
    ("roll-tuple", lambda x: gt.roll(x, (1, 2), (0, 1)), lambda a: np.roll(a, (1, 2), (0, 1))),
    ("roll-flat", lambda x: gt.roll(x, 5), lambda a: np.roll(a, 5)),
    ("roll-keywords", lambda x: x.roll(shifts=1, dims=1), lambda a: np.roll(a, 1, 1)),
    ("narrow", lambda x: x.narrow(1, 1, 2), lambda a: a[:, 1:3]),
    ("narrow-negative", lambda x: gt.narrow(x, -1, 0, 3), lambda a: a[..., 0:3]),
    ("narrow-empty", lambda x: x.narrow(1, 3, 0), lambda a: a[:, 3:3]),
    ("select", lambda x: x.select(1, 2), lambda a: a[:, 2]),
    ("select-negative", lambda x: gt.select(x, -1, -1), lambda a: a[..., -1]),
    ("tril", lambda x: x.tril(), lambda a: np.tril(a)),
    ("tril-up", lambda x: gt.tril(x, 1), lambda a: np.tril(a, 1)),
    ("tril-down", lambda x: x.tril(diagonal=-1), lambda a: np.tril(a, -1)),
    ("triu", lambda x: x.triu(), lambda a: np.triu(a)),
    ("triu-up", lambda x: gt.triu(x, diagonal=2), lambda a: np.triu(a, 2)),
    ("triu-down", lambda x: x.triu(-1), lambda a: np.triu(a, -1)),
    ("diagonal", lambda x: x.diagonal(), lambda a: np.diagonal(a)),
    ("diagonal-offset", lambda x: gt.diagonal(x, 1, 1, 2), lambda a: np.diagonal(a, 1, 1, 2)),
    ("diagonal-below", lambda x: x.diagonal(offset=-1, dim1=1, dim2=2), lambda a: np.diagonal(a, -1, 1, 2)),
    ("diagonal-negative", lambda x: x.diagonal(dim1=-2, dim2=-1), lambda a: np.diagonal(a, 0, -2, -1)),
    ("diagonal-far", lambda x: x.diagonal(7, 1, 2), lambda a: np.diagonal(a, 7, 1, 2)),
    ("contiguous", lambda x: x.transpose(0, 2).contiguous(), lambda a: a.swapaxes(0, 2)),
    ("cat", lambda x: gt.cat([x, x]), lambda a: np.concatenate([a, a])),
    ("cat-dim", lambda x: gt.cat((x, x[:, :1]), dim=1), lambda a: np.concatenate([a, a[:, :1]], 1)),
    ("cat-negative", lambda x: gt.cat([x, x, x], -1), lambda a: np.concatenate([a, a, a], -1)),
    ("cat-one", lambda x: gt.cat([x], 1), lambda a: a),
    ("cat-with-empty", lambda x: gt.cat([x, x[:, :0]], 1), lambda a: a),
    ("cat-axis", lambda x: gt.cat([x, x], axis=2), lambda a: np.concatenate([a, a], 2)),
    ("concat", lambda x: gt.concat([x, x], dim=0), lambda a: np.concatenate([a, a])),
    ("stack", lambda x: gt.stack([x, x.flip(0)]), lambda a: np.stack([a, a[::-1]])),
    ("stack-dim", lambda x: gt.stack((x, x), dim=1), lambda a: np.stack([a, a], 1)),
    ("stack-end", lambda x: gt.stack([x, x], -1), lambda a: np.stack([a, a], -1)),
    ("stack-one", lambda x: gt.stack([x]), lambda a: a[None]),
    (
        "chain",
        lambda x: x.permute(2, 0, 1)[1:, :, ::2].transpose(0, 1).reshape(-1),
        lambda a: a.transpose(2, 0, 1)[1:, :, ::2].swapaxes(0, 1).reshape(-1),
    ),
]


@pytest.mark.parametrize("name, function, reference", CASES, ids=[c[0] for c in CASES])
def test_values(name, function, reference):
    source, values = cube()
    check(function(source), reference(values))
    assert array(source).tolist() == values.tolist()


@pytest.mark.parametrize("name, function, reference", CASES, ids=[c[0] for c in CASES])
@pytest.mark.parametrize("dtype", ["int64", "bool", "uint8", "float16"])
def test_values_of_other_dtypes(name, function, reference, dtype):
    values = (np.arange(24) % 2 if dtype == "bool" else np.arange(24)).reshape(2, 3, 4).astype(dtype)
    check(function(gt.tensor(values)), reference(values), dtype=dtype)


@pytest.mark.parametrize(
    "name, function, reference",
    [c for c in CASES if c[0] != "expand-to-zero"],
    ids=[c[0] for c in CASES if c[0] != "expand-to-zero"],
)
def test_gradients(name, function, reference):
    check_gradient(function, data(2, 3, 4))


@pytest.mark.parametrize("name, function, reference", CASES, ids=[c[0] for c in CASES])
def test_of_a_strided_source(name, function, reference):
    values = np.arange(96.0).reshape(4, 4, 6)
    source = gt.tensor(values).permute(1, 2, 0)[::2, ::2]
    if name.startswith(("view", "T-of")):
        source = source.contiguous()
    check(function(source), reference(values.transpose(1, 2, 0)[::2, ::2]))


# --- sequences of tensors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size, dim", [(1, 0), (2, 0), (3, 0), (5, 0), (7, 0), (2, 1), (3, -1)])
def test_split_by_size(size, dim):
    values = data(5, 4)
    parts = gt.split(gt.tensor(values), size, dim)
    expected = np.split(values, range(size, values.shape[dim], size), axis=dim)
    check(parts, expected)
    check(gt.tensor(values).split(size, dim=dim), expected)
    assert isinstance(parts, tuple)


def test_split_by_sections():
    values = data(5, 4)
    check(gt.split(gt.tensor(values), [1, 3, 1]), [values[:1], values[1:4], values[4:]])
    check(gt.tensor(values).split([4, 0], dim=1), [values, values[:, :0]])
    with pytest.raises(RuntimeError):
        gt.split(gt.tensor(values), [1, 2])
    with pytest.raises(RuntimeError):
        gt.split(gt.tensor(values), -1)


@pytest.mark.parametrize(
    "chunks, sizes", [(1, [5]), (2, [3, 2]), (3, [2, 2, 1]), (4, [2, 2, 1]), (5, [1] * 5), (9, [1] * 5)]
)
def test_chunk(chunks, sizes):
    values = data(5, 4)
    parts = gt.chunk(gt.tensor(values), chunks)
    assert [p.shape[0] for p in parts] == sizes
    check(gt.cat(parts), values)
    assert len(gt.tensor(values).chunk(2, dim=1)) == 2
    with pytest.raises((RuntimeError, ValueError)):
        gt.chunk(gt.tensor(values), 0)


def test_tensor_split_makes_empty_parts_beyond_the_end():
    assert [p.tolist() for p in gt.arange(3).tensor_split(5)] == [[0], [1], [2], [], []]
    assert [p.shape for p in gt.zeros(0, 2).tensor_split(3)] == [(0, 2)] * 3
    assert [p.shape for p in gt.zeros(0, 2).chunk(3)] == [(0, 2)] * 3


@pytest.mark.timeout(60)
@pytest.mark.parametrize("count", [2**40, 2**63 - 1])
@pytest.mark.parametrize(
    "split",
    [
        lambda count: gt.arange(3).tensor_split(count),
        lambda count: gt.tensor_split(gt.zeros(2, 0), gt.tensor(count), dim=1),
        lambda count: gt.zeros(0).hsplit(count),
        lambda count: gt.zeros(0).chunk(count),
    ],
)
def test_splits_into_more_parts_than_there_can_be_never_ended(split, count):
    with pytest.raises(RuntimeError, match=f"into at most 10485.. parts, got {count}"):
        split(count)


def test_unbind_and_iteration():
    values = data(3, 4)
    source = gt.tensor(values)
    check(gt.unbind(source), list(values))
    check(source.unbind(1), list(values.T))
    check(source.unbind(dim=-1), list(values.T))
    check(list(source), list(values))
    rows = [row.tolist() for row in source]
    assert rows == values.tolist()
    a, b, c = source
    check(b, values[1])
    with pytest.raises(TypeError):
        iter(gt.tensor(1.0)).__next__()


def test_split_gradients():
    check_gradient(lambda x: gt.split(x, 2)[1] * 3, data(5, 2))
    check_gradient(lambda x: gt.cat([p * (i + 1) for i, p in enumerate(x.unbind(1))]), data(3, 4))
    check_gradient(lambda x: x.chunk(2, 1)[0] * x.chunk(2, 1)[1], data(3, 4))


def test_cat_promotes_and_checks():
    made = gt.cat([gt.tensor([1, 2]), gt.tensor([1.5])])
    assert made.dtype == gt.float32 and made.tolist() == [1, 2, 1.5]
    assert gt.cat([gt.zeros(0), gt.ones(2, 3)]).shape == (2, 3)
    with pytest.raises(RuntimeError) as error:
        gt.cat([gt.zeros(2, 3), gt.zeros(2, 4)])
    assert "3" in str(error.value) and "4" in str(error.value)
    with pytest.raises((RuntimeError, ValueError)):
        gt.cat([])
    with pytest.raises(IndexError):
        gt.cat([gt.zeros(2)], 1)
    with pytest.raises((RuntimeError, ValueError)):
        gt.cat([gt.tensor(1.0), gt.tensor(2.0)])


def test_stack_checks():
    check(gt.stack([gt.tensor(1.0), gt.tensor(2.0)]), [1, 2])
    with pytest.raises(RuntimeError):
        gt.stack([gt.zeros(2), gt.zeros(3)])
    with pytest.raises((RuntimeError, ValueError)):
        gt.stack([])


def test_many_parts():
    parts = [gt.full((2,), float(i)) for i in range(200)]
    check(gt.cat(parts), np.repeat(np.arange(200.0), 2))
    check(gt.stack(parts, 1), np.tile(np.arange(200.0), (2, 1)))


def test_repeat_interleave_with_counts():
    values = data(3, 2)
    counts = np.array([2, 0, 1])
    check(gt.repeat_interleave(gt.tensor(values), gt.tensor(counts), dim=0), np.repeat(values, counts, axis=0))
    check(gt.tensor([1, 2, 3]).repeat_interleave(gt.tensor(counts)), np.repeat([1, 2, 3], counts))


def test_zero_dimensions():
    source = gt.tensor(5.0)
    assert source.reshape(1).tolist() == [5] and source.view(1, 1).tolist() == [[5]]
    assert source.flatten().shape == (1,) and source.unsqueeze(0).shape == (1,)
    assert source.squeeze().shape == () and source.expand(3).tolist() == [5, 5, 5]
    assert source.repeat(2).tolist() == [5, 5] and source.permute(()).shape == ()
    assert gt.tensor([[5.0]]).reshape(()).item() == 5 and source.contiguous().item() == 5
    assert source.transpose(0, 0).item() == 5 and source.flip(0).item() == 5


def test_empty_tensors():
    empty = gt.zeros(0, 3)
    assert empty.reshape(3, 0).shape == (3, 0) and empty.view(0).shape == (0,)
    assert empty.T.shape == (3, 0) and empty.flatten().shape == (0,)
    assert gt.cat([empty, empty]).shape == (0, 3) and gt.stack([empty, empty]).shape == (2, 0, 3)
    assert empty.repeat(2, 2).shape == (0, 6) and empty.flip(0).shape == (0, 3)
    assert empty.split(1)[0].shape == (0, 3)
    with pytest.raises(RuntimeError):
        empty.reshape(-1, 0)


# --- strides and contiguity ------------------------------------------------------------------------------------------

STRIDES = [
    ("fresh", lambda x: x, (12, 4, 1), True, 0),
    ("transpose", lambda x: x.transpose(0, 1), (4, 12, 1), False, 0),
    ("permute", lambda x: x.permute(2, 0, 1), (1, 12, 4), False, 0),
    ("slice", lambda x: x[:, 1:], (12, 4, 1), False, 4),
    ("step", lambda x: x[:, :, ::2], (12, 4, 2), False, 0),
    ("select", lambda x: x[1], (4, 1), True, 12),
    ("expand", lambda x: x[:1].expand(3, 3, 4), (0, 4, 1), False, 0),
    ("unsqueeze", lambda x: x.unsqueeze(1), (12, 12, 4, 1), True, 0),
    ("contiguous", lambda x: x.transpose(0, 1).contiguous(), (8, 4, 1), True, 0),
    ("one-element-dim", lambda x: x[:, :1, :1], (12, 4, 1), False, 0),
    ("view", lambda x: x.view(6, 4), (4, 1), True, 0),
    ("diagonal", lambda x: x.diagonal(), (1, 16), False, 0),
    ("narrow", lambda x: x.narrow(0, 1, 1), (12, 4, 1), True, 12),
    ("clone", lambda x: x[:, 1:].clone(), (8, 4, 1), True, 0),
]


@pytest.mark.parametrize("name, function, stride, contiguous, offset", STRIDES, ids=[s[0] for s in STRIDES])
def test_stride_contiguity_and_offset(name, function, stride, contiguous, offset):
    view = function(gt.zeros(2, 3, 4))
    assert view.stride() == stride
    assert view.is_contiguous() is contiguous
    assert view.storage_offset() == offset
    assert view.stride(0) == stride[0] and view.stride(-1) == stride[-1]
    assert view.contiguous().is_contiguous()


def test_contiguous_of_a_contiguous_tensor_is_itself():
    source = gt.zeros(2, 3)
    alias = source.contiguous()
    alias.add_(1)
    assert source.sum().item() == 6


# --- wrong shapes ----------------------------------------------------------------------------------------------------

WRONG = [
    ("reshape", lambda x: x.reshape(5, 5), RuntimeError),
    ("reshape-infer", lambda x: x.reshape(-1, 5), RuntimeError),
    ("reshape-two-infer", lambda x: x.reshape(-1, -1), RuntimeError),
    ("reshape-negative", lambda x: x.reshape(-2, 12), RuntimeError),
    ("view", lambda x: x.view(5, 5), RuntimeError),
    ("view-of-transpose", lambda x: x.transpose(0, 1).view(-1), RuntimeError),
    ("view-of-step", lambda x: x[:, ::2].view(-1), RuntimeError),
    ("permute-short", lambda x: x.permute(0, 1), RuntimeError),
    ("permute-repeated", lambda x: x.permute(0, 0, 1), RuntimeError),
    ("permute-range", lambda x: x.permute(0, 1, 3), IndexError),
    ("transpose", lambda x: x.transpose(0, 3), IndexError),
    ("t-of-cube", lambda x: x.t(), RuntimeError),
    ("mT-of-vector", lambda x: x[0, 0].mT, RuntimeError),
    ("squeeze", lambda x: x.squeeze(3), IndexError),
    ("unsqueeze", lambda x: x.unsqueeze(4), IndexError),
    ("unsqueeze-negative", lambda x: x.unsqueeze(-5), IndexError),
    ("expand", lambda x: x.expand(2, 5, 4), RuntimeError),
    ("expand-short", lambda x: x.expand(3, 4), RuntimeError),
    ("expand-leading-infer", lambda x: x.expand(-1, 2, 3, 4), RuntimeError),
    ("repeat-short", lambda x: x.repeat(2, 2), RuntimeError),
    ("flip", lambda x: x.flip(3), IndexError),
    ("flip-repeated", lambda x: x.flip(0, 0), RuntimeError),
    ("narrow", lambda x: x.narrow(0, 1, 2), RuntimeError),
    ("select", lambda x: x.select(0, 2), IndexError),
    ("unflatten", lambda x: x.unflatten(2, (3, 2)), RuntimeError),
    ("flatten", lambda x: x.flatten(2, 1), RuntimeError),
    ("diagonal", lambda x: x.diagonal(0, 1, 1), RuntimeError),
    ("tril-of-vector", lambda x: x[0, 0].tril(), RuntimeError),
    ("movedim", lambda x: x.movedim(0, 3), IndexError),
    ("broadcast_to", lambda x: gt.broadcast_to(x, (2, 3)), RuntimeError),
    ("chunk-dim", lambda x: x.chunk(2, 3), IndexError),
    ("unbind-dim", lambda x: x.unbind(3), IndexError),
    ("stack-dim", lambda x: gt.stack([x], 5), IndexError),
]


@pytest.mark.parametrize("name, function, error", WRONG, ids=[w[0] for w in WRONG])
def test_wrong_shapes_raise_at_once(name, function, error):
    with pytest.raises(error):
        function(gt.zeros(2, 3, 4))


@pytest.mark.parametrize("rank", [9, 10, 11, 12, 16])
def test_more_than_eight_dimensions(rank):
    shape = [2, 1, 3, 1, 2, 1, 2, 1, 2, 2, 1, 2, 1, 1, 2, 1][:rank]
    turned = list(range(0, rank, 2)) + list(range(rank - 1 - rank % 2, 0, -2))
    values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    x = gt.tensor(values, requires_grad=True)
    check(x, values)
    check(x.permute(turned), values.transpose(turned))
    check(x.permute(turned).contiguous(), values.transpose(turned))
    check(x.permute(turned).reshape(-1, 2), values.transpose(turned).reshape(-1, 2))
    check(x.permute(turned) * 2 + x.permute(turned), values.transpose(turned) * 3)
    check(x.reshape(-1).reshape(shape[::-1]), values.reshape(shape[::-1]))
    check(x.sum((0, rank - 1)), values.sum((0, rank - 1)))
    check(x.sum(tuple(range(1, rank)), keepdim=True), values.sum(tuple(range(1, rank)), keepdims=True))
    check(x.permute(turned).amax(8), values.transpose(turned).max(8))
    check(x + x.sum(2, keepdim=True), values + values.sum(2, keepdims=True))
    check(x[..., 0], values[..., 0])
    check(x.flip(0, rank - 1), np.flip(values, (0, rank - 1)))
    check(
        x.expand(shape[:1] + [4] + shape[2:]).cumsum(1), np.broadcast_to(values, shape[:1] + [4] + shape[2:]).cumsum(1)
    )
    (x.permute(turned).sum(8) ** 2).sum().backward()
    sums = np.expand_dims(values.sum(turned[8]), turned[8])
    check(x.grad, np.broadcast_to(2 * sums, shape))


def test_too_many_dimensions_are_refused():
    with pytest.raises(RuntimeError, match="at most 16 dimensions"):
        gt.zeros([1] * 17)
    with pytest.raises(RuntimeError, match="at most 16 dimensions"):
        gt.zeros([1] * 16).unsqueeze(0)
    with pytest.raises(RuntimeError, match="at most 16 dimensions"):
        gt.zeros(1).expand([1] * 17)


@pytest.mark.parametrize("shape", [(2**40, 2**40), (2**62,), (2**40, 2**40, 0), (0, 2**40, 2**40)])
def test_shapes_that_cannot_exist_are_refused(shape):
    with pytest.raises(RuntimeError, match="too large"):
        gt.zeros(shape)
    with pytest.raises(RuntimeError, match="too large"):
        gt.rand(*shape)
    with pytest.raises(RuntimeError, match="too large"):
        gt.zeros([1] * len(shape)).expand(shape)
