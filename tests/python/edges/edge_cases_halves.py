"""float16 and bfloat16: totals too large for the dtype, of which the result is not."""

CASES = r"""
r = T.ones(70000).half().mean(), T.ones(70000).half().mean(0, keepdim=True), T.ones(70000, dtype=T.bfloat16).mean()
r = T.ones(70000).mean(dtype=T.float16), T.full((10,), 1.001).mean(dtype=T.bfloat16), T.ones(2, 3).half().mean((0, 1))
r = T.ones(70000).half().softmax(0)[:2], T.ones(20).half().log_softmax(0)[:1], T.ones(20).half().logsumexp(0)
r = T.var_mean(T.ones(70000).half()), T.std_mean(T.ones(70000).half())
r = [getattr(T.nn.functional, name)(T.ones(70000).half(), T.zeros(70000).half()) for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits")]
r = T.nn.functional.triplet_margin_loss(T.ones(70000, 1).half(), T.ones(70000, 1).half(), T.ones(70000, 1).half())
r = T.nn.functional.avg_pool1d(T.ones(1, 1, 70000).half(), 70000), T.nn.functional.avg_pool2d(T.ones(1, 1, 300, 300).half(), 300), T.nn.functional.avg_pool2d(T.ones(1, 1, 300, 300).half(), 299, stride=1)
r = T.nn.functional.avg_pool2d(T.ones(1, 2, 2).half(), 2, divisor_override=3), T.nn.functional.avg_pool2d(T.ones(1, 3, 2).bfloat16(), 2, padding=1, count_include_pad=False)
r = T.nn.functional.adaptive_avg_pool2d(T.ones(1, 1, 300, 300).half(), 1), T.nn.functional.adaptive_avg_pool2d(T.ones(1, 1, 301, 500).half(), (1, 2)), T.nn.functional.interpolate(T.ones(1, 1, 300, 300).half(), size=(1, 1), mode="area")
x = T.ones(70000).half().requires_grad_(); x.mean().backward(); r = x.grad[:2]
x = T.ones(3).half().requires_grad_(); r = x.mean().grad_fn.name(), x.mean(0).grad_fn.name(), x.softmax(0).grad_fn.name(), x.log_softmax(0).grad_fn.name(), x.logsumexp(0).grad_fn.name()
r = T.nn.functional.softplus(T.tensor([12., 20., -20., 3.]).half()), T.nn.functional.softplus(T.tensor([12., 3.]).bfloat16(), beta=2.)
r = T.nn.functional.mish(T.tensor([12., 20., -8., 3.]).half()), T.nn.functional.mish(T.tensor([12.]).half(), inplace=True)
x = T.tensor([12., 20., -20., 20.5, 1.]).half().requires_grad_(); T.nn.functional.softplus(x).sum().backward(); r = x.grad
x = T.tensor([12., 20., -20., 20.5, 1.]).half().requires_grad_(); T.nn.functional.mish(x).sum().backward(); r = x.grad
x = T.tensor([-20., -2., 0., 1., -1.]).half().requires_grad_(); y = T.nn.functional.elu(x); y.sum().backward(); r = x.grad, y
x = T.tensor([-2., 0., 1.]).half(); r = T.nn.functional.selu(x), T.nn.functional.celu(x, 2.), T.nn.functional.elu_(x), x
"""
