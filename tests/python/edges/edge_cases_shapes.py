"""Conversions, printing, shapes and joins at their edges."""

# Programs are one line each, however long.
CASES = r"""
r = repr(T.arange(1001)), repr(T.arange(2000.).view(20, 100)), repr(T.ones(3, 3, 3)), repr(T.tensor([0.1 + 0.2])), repr(T.tensor([100000.5])), repr(T.tensor([123456789.])), repr(T.tensor([1e38])), repr(T.tensor([-0.]))
T.set_printoptions(precision=2); a = repr(T.tensor([1.23456])); T.set_printoptions(profile="default"); r = a, repr(T.tensor([1.23456]))
T.set_printoptions(threshold=3, edgeitems=1); a = repr(T.arange(10)); T.set_printoptions(profile="default"); r = a
T.set_printoptions(sci_mode=True); a = repr(T.tensor([1.5])); T.set_printoptions(profile="default"); T.set_printoptions(sci_mode=None); r = a
T.set_printoptions(linewidth=20); a = repr(T.arange(10)); T.set_printoptions(profile="default"); r = a
r = f"{T.tensor(1.234):.2f}", f"{T.tensor(3)}", f"{T.tensor([1])}", "%.3f" % T.tensor(1.5), format(T.tensor(2), "04d")
r = f"{T.tensor([1.]):.2f}"
r = int(T.tensor(3.7)), float(T.tensor(3)), bool(T.tensor(0)), complex(T.tensor(1.)) == 1, T.tensor(3).__index__(), [1, 2, 3][T.tensor(1)], round(T.tensor(2.6).item())
r = int(T.tensor([1, 2]))
r = bool(T.tensor([1, 2]))
r = bool(T.tensor([]))
r = T.tensor(1.5).__index__()
r = T.ones(3).item()
r = len(T.tensor(1))
r = [x.item() for x in T.arange(3)], list(T.ones(2, 2))[0], T.tensor([1, 2]).tolist(), 2 in T.tensor([1, 2]), T.tensor(2) in T.tensor([1, 2])
a, b = T.tensor([1, 2]); r = a, b
r = T.tensor([3, 1]).max().item(), max(T.tensor([3, 1])), sum(T.tensor([3, 1])), sorted(T.tensor([3, 1]).tolist()), min(T.tensor([3., 1.]))
r = T.ones(2).dtype, T.ones(2).to(T.int64).dtype, T.ones(2).long().dtype, T.ones(2).int().dtype, T.ones(2).half().dtype, T.ones(2).bool().dtype, T.ones(2).byte().dtype, T.ones(2).char().dtype, T.ones(2).double().dtype, T.ones(2).bfloat16().dtype
r = T.tensor([1.9, -1.9, 300.]).to(T.int64), T.tensor([1.9]).int(), T.tensor([0., .5]).bool(), T.tensor([256]).to(T.uint8), T.tensor([-1]).to(T.uint8), T.tensor([True]).float(), T.tensor([128]).to(T.int8)
r = T.ones(2).to("cpu").dtype, T.ones(2).to(T.ones(1).double()).dtype, T.ones(2).to("cpu", T.float64).dtype, T.ones(2).to(dtype=T.float16, copy=True).dtype, T.ones(2).type(T.int64).dtype, T.ones(2).type_as(T.ones(1, dtype=T.int8)).dtype
r = T.ones(2).to("foo")
r = T.ones(2).to(3)
r = T.ones(2).device.type, T.ones(2).is_cuda, T.ones(2).cpu().device.type, T.ones(2).get_device()
r = T.device("foo")
r = T.finfo(T.float32).eps, T.finfo(T.float16).max, T.iinfo(T.int64).max, T.finfo(T.bfloat16).tiny, T.iinfo(T.uint8).min, T.finfo(T.float32).bits, T.finfo(T.float64).min
r = T.iinfo(T.float32)
r = T.finfo(T.int64)
r = T.promote_types(T.int8, T.float16), T.result_type(T.tensor([1]), 1.5), T.can_cast(T.float32, T.int64), T.result_type(T.tensor(1), T.tensor([1], dtype=T.int8)), T.promote_types(T.bool, T.uint8), T.promote_types(T.float16, T.bfloat16)
T.set_default_dtype(T.float64); a = T.ones(1).dtype, T.tensor([1.]).dtype, (T.tensor([1]) / 2).dtype; T.set_default_dtype(T.float32); r = a
T.set_default_dtype(T.int64)
r = T.get_default_dtype(), T.is_tensor(T.ones(1)), T.is_tensor(3), T.is_floating_point(T.ones(1)), T.is_complex(T.ones(1)), T.numel(T.ones(2, 3))
r = T.ones(2, 3).size(), T.ones(2, 3).size(1), T.ones(2, 3).shape[0], T.ones(2, 3).stride(), T.ones(2, 3).t().stride(), T.ones(2, 3).storage_offset(), T.ones(4)[1:].storage_offset(), T.ones(2, 3).t().is_contiguous(), T.ones(2, 3).element_size(), T.ones(2, 3).nelement(), T.ones(2, 3).ndim
r = T.Size([1, 2]) + (3,), T.Size((2, 3)).numel(), list(T.Size([1, 2])), T.Size([1, 2]) == (1, 2), T.Size([1, 2, 3])[1:]
r = T.ones(2, 3).view(-1).shape, T.ones(2, 3).view(3, -1).shape, T.ones(6).view(2, 3).shape, T.ones(2, 3).reshape((6,)).shape, T.ones(2, 3).flatten(0, 1).shape, T.ones(2, 3, 4).flatten(1).shape, T.tensor(1).flatten().shape, T.tensor(1).reshape(1, 1).shape, T.ones(0).reshape(0, 5).shape
r = T.ones(2, 3).view(4, -1)
r = T.ones(2, 3).view(-1, -1)
r = T.ones(0).reshape(-1, 0)
r = T.ones(2, 3).view(7)
r = T.ones(2, 3).permute(1, 0).shape, T.ones(2, 3, 4).permute(-1, 0, 1).shape, T.ones(2, 3, 4).transpose(0, -1).shape, T.ones(2, 3, 4).movedim(0, 2).shape, T.ones(2, 3, 4).movedim((0, 1), (1, 2)).shape, T.ones(2, 3).T.shape, T.ones(2, 3, 4).mT.shape, T.ones(2, 3, 4).swapaxes(0, 1).shape, T.ones(3).t().shape
r = T.ones(2, 3).permute(0, 0)
r = T.ones(2, 3).permute(0)
r = T.ones(2, 3, 4).T.shape
r = T.ones(2, 3, 4).t()
r = T.ones(3).mT
r = T.ones(1, 2, 1).squeeze().shape, T.ones(1, 2, 1).squeeze(0).shape, T.ones(1, 2, 1).squeeze(1).shape, T.ones(1, 2, 1).squeeze((0, 2)).shape, T.ones(2).unsqueeze(0).shape, T.ones(2).unsqueeze(-1).shape, T.tensor(1).unsqueeze(0).shape
r = T.ones(2).unsqueeze(2)
r = T.ones(2).squeeze(1)
r = T.ones(2, 1).expand(2, 3).shape, T.ones(2, 1).expand(-1, 3).shape, T.ones(3).expand(2, -1).shape, T.ones(3).expand((2, 3)).stride(), T.ones(1).expand_as(T.ones(3)).shape, T.broadcast_to(T.ones(3), (2, 3)).shape
r = T.ones(2, 3).expand(2, 4)
r = T.ones(2, 3).expand(3)
r = T.ones(3).expand(-1, 3)
r = T.arange(3).repeat(2), T.arange(3).repeat(2, 1), T.arange(3).tile(2), T.arange(3).tile((2, 2)), T.arange(3).repeat_interleave(2), T.arange(3).repeat_interleave(T.tensor([1, 0, 2])), T.arange(4).view(2, 2).repeat_interleave(2, dim=1), T.arange(4).view(2, 2).repeat_interleave(2), T.repeat_interleave(T.tensor([1, 2]))
r = T.ones(2, 2).repeat(2)
r = T.arange(3).flip(0), T.arange(4).view(2, 2).flip((0, 1)), T.arange(4).view(2, 2).flip([1]), T.arange(5).roll(2), T.arange(4).view(2, 2).roll(1), T.arange(4).view(2, 2).roll((1, 1), (0, 1)), T.arange(4).view(2, 2).rot90(), T.fliplr(T.arange(4).view(2, 2))
r = T.arange(3).flip(1)
r = T.arange(3).flip((0, 0))
r = T.arange(9).view(3, 3).tril(), T.arange(9).view(3, 3).triu(1), T.arange(9).view(3, 3).tril(-1), T.arange(9).view(3, 3).diagonal(1), T.diag(T.arange(3)), T.diag(T.arange(9).view(3, 3), -1), T.diag_embed(T.arange(2)), T.diagflat(T.arange(2), 1), T.ones(2, 3, 3).diagonal(dim1=1, dim2=2).shape
r = T.tril(T.ones(3))
r = T.cat([T.ones(1, 2), T.zeros(2, 2)]), T.cat([T.ones(1), T.tensor([1])]), T.cat((T.ones(1, 2), T.zeros(1, 1)), dim=-1), T.stack([T.ones(2), T.zeros(2)], -1), T.hstack([T.ones(2), T.zeros(1)]), T.vstack([T.ones(2), T.zeros(2)]), T.dstack([T.ones(2), T.zeros(2)]), T.column_stack([T.ones(2), T.zeros(2)]), T.concat([T.ones(1)]), T.concatenate([T.ones(1)], axis=0)
r = T.ones(4, 4).narrow(0, 1, 2).shape, T.ones(4, 4).select(0, 1).shape, T.ones(4, 4).unbind(1)[0].shape, T.arange(6).view(2, 3).index_select(1, T.tensor([0, 2])), T.arange(6).view(2, 3).masked_select(T.tensor([True, False, True])), T.take(T.arange(6).view(2, 3), T.tensor([0, 5]))
r = T.ones(4).narrow(0, 3, 2)
r = T.ones(4).select(0, 4)
r = T.ones(4).index_select(0, T.tensor([[0]]))
r = T.ones(4).index_select(0, T.tensor([0.]))
r = T.ones(4).masked_fill(T.tensor([True, False, True, False]), 5), T.ones(2, dtype=T.int64).masked_fill(T.tensor([True, False]), 5)
r = T.ones(2, dtype=T.int64).masked_fill(T.tensor([True, False]), 5.5)
r = T.ones(4).masked_fill(T.tensor([1, 0, 1, 0]), 5)
r = T.arange(6).view(2, 3).gather(1, T.tensor([[0], [2]])), T.zeros(2, 3).scatter(1, T.tensor([[0], [2]]), 5.), T.zeros(3).scatter_add(0, T.tensor([0, 0, 1]), T.ones(3)), T.zeros(3).index_add(0, T.tensor([0, 0]), T.ones(2), alpha=2), T.zeros(2, 2).index_fill(0, T.tensor([1]), 3), T.zeros(3).scatter_reduce(0, T.tensor([0, 0, 1]), T.tensor([3., 4, 5]), "mean")
r = T.ones(2, 3).gather(0, T.tensor([0]))
r = T.ones(2, 3).gather(2, T.zeros(1, 1, dtype=T.int64))
r = T.ones(2, 3).gather(0, T.zeros(1, 1))
r = T.zeros(3).scatter(0, T.tensor([0]), T.ones(1, dtype=T.float64))
r = T.tensor([1., 2.]).apply_(lambda v: v * 2)
r = T.ones(2).unflatten(0, (1, 2)).shape, T.ones(4, 3).unflatten(0, (2, -1)).shape
r = T.ones(4).unflatten(0, (3, 2))
r = T.ones(2, 2).sum(dim=0, keepdim=True).shape, T.ones(2, 2).sum(axis=1).shape, T.ones(2, 2).mean(axis=0, keepdims=True).shape
r = T.ones(2).sum(0, 1, 2)
r = T.ones(2, foo=3)
r = T.zeros()
r = T.ones("a")
r = T.relu(3)
r = T.add(1, 2)
r = T.add(T.ones(1), 2, alpha=3), T.sub(T.ones(1), T.ones(1), alpha=.5), T.mul(2, T.ones(1)), T.true_divide(T.tensor([1]), 2), T.rsub(T.ones(1), 3), T.square(T.tensor([2])), T.float_power(T.tensor([2]), 2), T.exp2(T.tensor([3])), T.sign(T.tensor([-2., 0.])), T.sgn(T.tensor([-2.])), T.copysign(T.tensor([1.]), -0.), T.hypot(T.tensor([3.]), T.tensor([4.])), T.logaddexp(T.zeros(1), T.zeros(1)), T.gcd(T.tensor([4]), T.tensor([6])), T.heaviside(T.tensor([0.]), T.tensor([.5])), T.frac(T.tensor([-1.5])), T.trunc(T.tensor([-1.5])), T.round(T.tensor([.5, 1.5, 2.345]), decimals=2), T.rad2deg(T.tensor([1.])), T.sinc(T.tensor([0., .5])), T.logit(T.tensor([.3])), T.erfinv(T.tensor([.5])), T.lgamma(T.tensor([3.5])), T.digamma(T.tensor([1.])), T.xlogy(T.tensor([0.]), T.tensor([0.])), T.signbit(T.tensor([-1.])), T.isreal(T.tensor([1.])), T.ldexp(T.tensor([1.]), T.tensor([2]))
r = T.round(T.tensor([1, 2])), T.floor(T.tensor([1])), T.ceil(T.tensor([1, 2])), T.abs(T.tensor([-1], dtype=T.int8)), T.abs(T.tensor([-128], dtype=T.int8)), T.neg(T.tensor([1], dtype=T.uint8)), T.sqrt(T.tensor([4])), T.exp(T.tensor([True])), T.sigmoid(T.tensor([1])), T.rsqrt(T.tensor([0.])), T.log(T.tensor([-1., 0.])), T.reciprocal(T.tensor([0, 2]))
r = T.abs(T.tensor([True]))
r = T.floor(T.tensor([True]))
r = T.trapezoid(T.tensor([1., 2, 3])), T.cumulative_trapezoid(T.tensor([1., 2, 3])), T.gradient(T.tensor([1., 4, 9]))[0], T.vander(T.tensor([1, 2, 3])), T.cov(T.tensor([[0., 1, 2], [2, 1, 0]])), T.corrcoef(T.tensor([[0., 1, 2], [2, 1, 0]])), T.renorm(T.ones(2, 2), 2, 0, 1.), T.dist(T.ones(2), T.zeros(2)), T.block_diag(T.ones(1, 1), T.ones(1, 2)), T.broadcast_tensors(T.ones(2, 1), T.ones(1, 2))[0].shape, T.broadcast_shapes((2, 1), (1, 3)), T.atleast_2d(T.tensor(1)).shape
r = T.broadcast_shapes((2,), (3,))
r = T.isin(T.tensor([1, 2]), T.tensor([2])), T.aminmax(T.tensor([1., 2])), T.nansum(T.tensor([nan, 1.])), T.nanmean(T.tensor([nan, 1.])), T.argwhere(T.tensor([0, 1])), T.bitwise_left_shift(T.tensor([1]), 2), T.logical_xor(T.tensor([1]), T.tensor([0])), T.logical_not(T.tensor([0, 2])), T.narrow_copy(T.arange(3), 0, 0, 1), T.select_scatter(T.zeros(2, 2), T.ones(2), 0, 0), T.slice_scatter(T.zeros(3), T.ones(1), start=1, end=2), T.masked_select(T.arange(2), T.tensor([True, False])), T.unravel_index(T.tensor([5]), (2, 3))
"""
