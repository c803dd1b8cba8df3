"""Dtypes of results, numbers in place of the first tensor, and results that require gradients although their slope is zero."""

CASES = r"""
r = T.gradient(T.arange(4, dtype=T.bfloat16), spacing=2.0), T.gradient(T.arange(4, dtype=T.float16), spacing=T.tensor(2.0)), T.gradient(T.arange(4, dtype=T.float64), spacing=.1), T.gradient(T.arange(4) ** 2, spacing=2)
r = T.cov(T.tensor([[0., 2., 1.], [2., 0., 1.]], dtype=T.bfloat16), aweights=T.tensor([1., 2., .5]))
r = T.cov(T.tensor([[0., 2., 1.], [2., 0., 1.]]), aweights=T.tensor([1., 2., .5], dtype=T.float64)), T.cov(T.tensor([[0., 2., 1.], [2., 0., 1.]], dtype=T.float64), fweights=T.tensor([1, 2, 3]), aweights=T.tensor([1., 2., .5]))
r = [T.nn.functional.bilinear(T.ones(2, 3, dtype=d), T.ones(2, 4, dtype=d), T.ones(5, 3, 4, dtype=d), T.ones(5, dtype=d)) for d in (T.int64, T.int32, T.uint8)]
r = T.nn.functional.avg_pool1d(T.arange(4).reshape(1, 1, 4), 2), T.nn.functional.avg_pool2d(-T.arange(16).reshape(1, 1, 4, 4), 3, 2, 1, True, False), T.nn.functional.avg_pool3d(T.arange(8).reshape(1, 1, 2, 2, 2), 2), T.nn.functional.avg_pool2d(-T.arange(16).reshape(1, 1, 4, 4), 3, 1, divisor_override=2)
r = T.nn.functional.avg_pool2d(T.ones(1, 1, 4, 4, dtype=T.int32), 2)
r = T.nn.functional.avg_pool1d(T.ones(1, 1, 4, dtype=T.bool), 2)
r = T.nn.functional.adaptive_avg_pool2d(T.ones(1, 1, 4, 4, dtype=T.int64), 2)
x = T.tensor([[True, False], [False, False]]); a, b = T.tensor([True, False]), T.tensor([False, True]); r = T.addr(x, a, b), T.addr(x, a, b, beta=False, alpha=True), T.addr(x, a, b, beta=3, alpha=0), x.clone().addr_(a, b)
r = T.addr(T.ones(2, 2), T.tensor([1, 0]), T.tensor([1, 1]), beta=.5), T.addr(T.ones(2, 2, dtype=T.int64), T.tensor([1., 0.]), T.tensor([1, 1]))
x = T.tensor([True, False, True]); i = T.tensor([0, 0, 1]); s = T.tensor([False, False, True]); r = [x.scatter_reduce(0, i, s, how, include_self=own) for how in ("sum", "prod", "amax", "amin") for own in (True, False)]
r = T.ones(3, dtype=T.bool).scatter_reduce(0, T.tensor([0]), T.ones(1, dtype=T.bool), "mean")
x = T.ones(3, dtype=T.bool); i = T.tensor([0, 0, 1]); s = T.tensor([True, True, False]); r = [y.long() for y in (x.scatter_add(0, i, s), x.scatter(0, i, s, reduce="add"), x.index_add(0, i, s), x.index_add(0, i, s, alpha=False), x.index_put((i,), s, accumulate=True))]
r = T.tensor(5, dtype=T.int32).sum_to_size(()), T.tensor(True).sum_to_size(()), T.ones(2, dtype=T.int32).sum_to_size(()), T.ones(2, dtype=T.int32).sum_to_size(1), T.ones(2, dtype=T.int32).sum_to_size(2)
r = T.float_power(2., T.tensor([1., 2.])), T.float_power(2, T.tensor([1, 2])), T.xlogy(2., T.tensor([1., 2.])), T.xlogy(2, T.tensor([1, 2])), T.special.xlogy(2., T.tensor([1., 2.], dtype=T.float16)), T.special.xlog1py(2., T.tensor([1., 2.])), T.special.xlog1py(T.tensor([1, 2]), 2)
r = T.div(7, T.tensor([3]), rounding_mode="floor"), T.div(7., T.tensor([3.], dtype=T.float64), rounding_mode="trunc"), T.add(7, T.tensor([3]), alpha=2), T.sub(.5, T.tensor([3]), alpha=2), T.sub(.1, T.tensor([3.], dtype=T.float64), alpha=2)
r = T.ones(3).float_power_(2)
r = T.full((2,), 3., dtype=T.float64).float_power_(2)
r = [T.nn.functional.fractional_max_pool3d(T.ones(0, 2, 6, 6, 6), 2, output_size=3), T.nn.functional.fractional_max_pool2d(T.ones(0, 2, 6, 6), 2, output_size=3)], T.nn.functional.fractional_max_pool3d(T.ones(0, 2, 6, 6, 6), 2, output_ratio=.5, return_indices=True)
r = T.gather(T.ones(3), 0, T.empty(0, dtype=T.uint8)), T.gather(T.ones(2, 2), 1, T.empty(0))
x = T.ones(2, requires_grad=True); y = x.norm(0); r = y.requires_grad, y, T.linalg.vector_norm(x, 0).requires_grad, T.dist(x, T.zeros(2), 0).requires_grad, T.cdist(x.view(1, 2), T.zeros(1, 2), 0).requires_grad
x = T.ones(2, 2, requires_grad=True); y = T.matrix_power(x, 0); y.sum().backward(); r = y, x.grad
x = T.full((2,), 1., requires_grad=True); y = T.bernoulli(x); y.sum().backward(); r = y, x.grad
x = T.ones(2, requires_grad=True); y = T.normal(x, 0.); y.sum().backward(); r = y, x.grad, T.normal(0., T.ones(2, requires_grad=True)).requires_grad, T.normal(x, T.ones(2)).requires_grad
x = T.tensor([7., -7.], requires_grad=True); y = T.div(x, 2, rounding_mode="trunc"); y.sum().backward(); r = y, x.grad
x = T.eye(2).requires_grad_(); r = T.linalg.slogdet(x)[0].requires_grad, T.combinations(T.ones(1, requires_grad=True)).requires_grad
r = T.normal(1., 2., (2,), dtype=T.float64, layout=T.strided, device="cpu").dtype
r = T.tensor([1., inf, 2.]).median(), T.tensor([1., inf, 2.], requires_grad=True).median(), T.tensor([inf, inf], requires_grad=True).nanmedian()
"""
