"""Numbers that a dtype does not hold, limits of clamps, promotion of composed functions, halves that would overflow."""

CASES = r"""
r = T.tensor([0, 5, 250], dtype=T.uint8).clamp(-2), T.tensor([0, 5, 250], dtype=T.uint8).clamp(-5, 300), T.tensor([-5, 5], dtype=T.int8).clamp(max=300)
r = T.tensor([-5, 5], dtype=T.int8).clamp(min=300)
r = T.tensor([0, 5], dtype=T.uint8).clamp(max=-1)
x = T.tensor([0, 5], dtype=T.uint8); x.clamp_(-2, 3); r = x, x.clamp(-2, .5)
r = T.zeros(2, dtype=T.float16).clamp(max=1e10)
r = T.zeros(2, dtype=T.float16).masked_fill(T.tensor([True, False]), -1e9)
r = T.zeros(2, dtype=T.float16).masked_fill(T.tensor([True, False]), -inf)
r = T.zeros(2, dtype=T.bfloat16).masked_fill(T.tensor([True, False]), -1e9)
r = T.zeros(2).masked_fill(T.tensor([True, False]), 1e39)
r = T.zeros(2, dtype=T.float16).fill_(1e10)
r = T.zeros(2).fill_(1e39)
r = T.zeros(2, dtype=T.int64).fill_(nan)
r = T.zeros(2, dtype=T.int64).fill_(2.7)
r = T.full((2,), 1e39)
r = T.full((2,), 1e10, dtype=T.float16)
r = T.full((2,), inf, dtype=T.float16)
x = T.zeros(2, dtype=T.int8); x[0] = 300
x = T.zeros(2, dtype=T.int8); x[T.tensor([0])] = 300
x = T.zeros(2, dtype=T.uint8); x[0] = -1; r = x
r = T.zeros(2, dtype=T.uint8).new_full((2,), 300)
r = T.where(T.tensor([True, False]), T.zeros(2, dtype=T.int8), 300)
r = T.zeros(2, dtype=T.uint8).scatter(0, T.tensor([0]), 300)
r = T.zeros(2, dtype=T.uint8).index_fill(0, T.tensor([0]), 300)
r = T.tensor([nan], dtype=T.int64)
r = T.tensor([1e40], dtype=T.int64)
r = T.tensor([1e10], dtype=T.float16)
r = T.tensor([-5, 5]) >> -1, T.tensor([-5, 5]) >> 70, T.tensor([-5, 5], dtype=T.int8) >> T.tensor([-3, 1], dtype=T.int8)
r = T.ones(2, dtype=T.bool).add(T.ones(2, dtype=T.bool), alpha=2)
r = T.ones(2).add(T.ones(2), alpha=True)
r = T.ones(2, dtype=T.int8).add(T.ones(2, dtype=T.int8), alpha=300)
r = T.tensor([True, False]).div(T.tensor([2, -3]), rounding_mode="trunc"), T.tensor([True, False]).div(2, rounding_mode="trunc")
r = T.hypot(T.tensor([nan, inf, 3.]), T.tensor([inf, nan, 4.]))
r = T.hypot(T.ones(2), T.tensor([True, False]))
r = T.hypot(T.ones(2, dtype=T.int64), T.ones(2, dtype=T.int64))
r = T.gcd(T.tensor([12, 7]), T.tensor([True, True])), T.lcm(T.tensor([4]), T.tensor([6], dtype=T.int8))
r = T.gcd(T.ones(2), T.ones(2))
r = T.xlogy(T.ones(2), T.tensor(2., dtype=T.float64)), T.logaddexp(T.ones(2, dtype=T.float16), T.tensor(2.)), T.ldexp(T.ones(2, dtype=T.float16), T.tensor([1, 2]))
r = T.logaddexp(T.ones(2, dtype=T.int64), T.ones(2, dtype=T.int64))
r = T.heaviside(T.ones(2), T.ones(2, dtype=T.float64))
r = T.ones(2, dtype=T.int64).frac()
r = T.logit(T.tensor([0., .5, 1.]), .6), T.logit(T.tensor([0., .5, 1.]), .1)
r = T.tensor([-5., 1.], dtype=T.float16).sinc(), T.tensor([-5., 1.], dtype=T.bfloat16).sinc()
r = T.tensor([300., 400.], dtype=T.float16).norm(), T.tensor([30., 40.], dtype=T.float16).norm(6), T.tensor([300., -300.], dtype=T.float16).std()
x = T.zeros(3, requires_grad=True); x.norm(3).backward(); r = x.grad
r = T.ones(2, 3).any(dim=()), T.zeros(2, dtype=T.uint8).all(dim=[]), T.ones(2, 3).any(dim=None)
r = T.tensor(1.).sum(dim=(0, -1))
r = T.tensor(1.).median(2)
r = T.tensor(1.).mode(-3)
r = T.tensor(1.).logcumsumexp(2)
r = T.tensor(1.).cummax(1)
r = T.ones(2, dtype=T.int64).logcumsumexp(0)
r = T.ones(2, dtype=T.int64).nanmean()
x = T.tensor([1., 1., 0., 2.], requires_grad=True); x.median().backward(); r = x.grad
r = T.diag(T.tensor([True, True])), T.diag_embed(T.tensor([True])), T.diagflat(T.tensor([True, False]))
r = T.diag_embed(T.ones(2, 2), dim2=9)
r = T.unravel_index(T.tensor([3], dtype=T.int32), (2, 2)), T.tensordot(T.ones(1, 1, dtype=T.uint8), T.ones(2, 1, dtype=T.uint8), ([0], [0]))
r = T.addbmm(T.ones(1, 1, dtype=T.uint8), T.ones(2, 1, 2, dtype=T.uint8), T.ones(2, 2, 1, dtype=T.uint8))
r = T.ones(3, dtype=T.uint8).scatter_reduce(0, T.tensor([0, 0]), T.tensor([2, 3], dtype=T.uint8), "prod")
a = T.tensor([1., 2.]); b = a; a @= T.tensor([3., 4.]); r = a, b
x = T.ones(2); x.note = "kept"; r = x.note
r = repr(T.ones(2).max(0)).split("(")[0].rpartition(".")[2], len(repr(T.ones(2).max(0)).splitlines()), isinstance(T.ones(2).sort(), T.return_types.sort)
x = T.ones(2, requires_grad=True); x.sum().backward(inputs=[])
o = T.zeros(6); q = T.cat([T.ones(2), T.zeros(4)], out=o); r = o, q is o
o = T.empty(0); q = T.stack([T.ones(2), T.zeros(2)], out=o); r = o, q is o
o = T.zeros(2); T.where(T.tensor([True, False]), T.ones(2), T.tensor([5., 6.]), out=o); r = o
r = T.masked_select(T.arange(3), T.tensor([1, 0, 1]))
x = T.tensor([0, 5], dtype=T.uint8); y = x.clamp(-2); y.add_(1); r = x, y
r = T.xlogy(T.tensor([0, 2], dtype=T.uint8), T.tensor(-4, dtype=T.int8)), T.xlogy(T.tensor([0, 2]), 3), T.xlogy(T.ones(2, dtype=T.float16), 2)
"""
