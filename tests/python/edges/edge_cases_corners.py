"""NaN among sorted numbers, no elements at all, and what else a formula gets wrong at its ends."""

CASES = r"""
r = T.bucketize(T.tensor([nan, 1., 5.]), T.tensor([1., 2.])), T.bucketize(T.tensor([nan, 1., 5.]), T.tensor([1., 2.]), right=True)
r = T.searchsorted(T.tensor([1., 2., nan]), T.tensor([nan, 1., 5.])), T.searchsorted(T.tensor([1., 2., nan]), T.tensor([nan, 1., 5.]), right=True)
r = T.searchsorted(T.tensor([1, 2]), T.tensor([nan, 1., 5.])), T.bucketize(nan, T.tensor([1., 2.]))
r = T.searchsorted(T.tensor([[1., 2., 2.], [3., 4., 5.]]), T.tensor([[2., nan], [1., 9.]]), right=True)
r = T.lerp(T.tensor([1e8]), T.tensor([1.]), 1.), T.lerp(T.tensor([1e8]), T.tensor([1.]), T.tensor([1.])), T.lerp(T.tensor([1e8]), T.tensor([1.]), .75)
r = T.lerp(T.tensor([1e8, 1.]), T.tensor([1., 2.]), T.tensor([[0.], [.25], [.5], [.75], [1.], [2.], [nan]]))
r = T.tensor([-1e8, 1.]).quantile(1.), T.tensor([-1e8, 1.]).quantile(T.tensor([.25, .75]))
r = T.lerp(T.tensor([1., 2.]).half(), T.tensor([3., 4.]).half(), .3), T.lerp(T.tensor([1., 2.]).bfloat16(), T.tensor([3., 4.]).bfloat16(), .7)
r = [tuple(T.tensor(row).mode()) for row in ([nan, 1., 1.], [nan, nan, 1.], [nan, 1., nan, 2.], [nan, 2., 1.], [3., nan, 2.])]
r = tuple(T.tensor([[nan, 1., 1.], [nan, nan, 1.], [3., nan, 2.]]).mode(0)), tuple(T.tensor([[nan, 1., 1.], [nan, nan, 1.], [3., nan, 2.]]).mode(1, keepdim=True))
r = T.where(T.tensor(5)), T.where(T.tensor(0)), T.where(T.tensor([[0, 2]])), T.tensor(5).nonzero()
r = T.repeat_interleave(T.tensor([1, 2], dtype=T.int32)), T.repeat_interleave(T.tensor([1, 2])), T.repeat_interleave(T.tensor([1, 2], dtype=T.uint8))
r = T.nn.functional.mse_loss(T.ones(2), T.tensor([True, False])), T.nn.functional.smooth_l1_loss(T.ones(2), T.tensor([True, False])), T.nn.functional.huber_loss(T.ones(2), T.tensor([True, False])), T.nn.functional.mse_loss(T.tensor([True, False]), T.ones(2))
r = T.nn.functional.mse_loss(T.ones(2).half(), T.tensor([True, False]), reduction="none")
r = T.special.ndtri(T.tensor([1e-20, 1e-10, .5, 0., 1., 2., nan, 1e-38, .1, -1.])), T.special.ndtri(T.tensor([1e-20, 1e-300, 1e-16, .01, .1, .13, .3], dtype=T.float64))
x = T.tensor([1e-20, .01, .3], dtype=T.float64, requires_grad=True); T.special.ndtri(x).sum().backward(); r = x.grad[1:], (x.grad * 1e-20)[0]
r = T.gradient(T.tensor([1., nan, 2.])), T.gradient(T.tensor([1., nan, 2., 5.]), spacing=2.), T.gradient(T.tensor([1., inf, 2., 5.]), edge_order=2), T.gradient(T.tensor([1, 4, 9, 16]))
r = T.trapezoid(T.ones(3, 0)), T.trapezoid(T.ones(3, 0), T.ones(3, 0)), T.trapezoid(T.ones(0, 3)), T.trapezoid(T.ones(0, 3), dim=0), T.cumulative_trapezoid(T.ones(3, 0))
r = T.unique(T.ones(0, 3), dim=0), T.unique(T.ones(0, 3), True, True, True, dim=0), T.unique(T.ones(0), dim=0)
r = T.ones(0, dtype=T.bool).median()
r = T.ones(3).diff(9), T.ones(3).diff(3), T.ones(3).diff(2**62)
r = T.nn.functional.batch_norm(T.ones(0), T.ones(1), T.ones(1)), T.nn.functional.batch_norm(T.ones(0, 3), T.ones(3), T.ones(3))
"""
