"""Gradients that are zero and not absent, tiny and not zero, or NaN."""

CASES = r"""
x = T.ones(2, 2, requires_grad=True); a = T.ones(2, 2, requires_grad=True); T.addmm(x, a, a, beta=0).sum().backward(); r = x.grad, a.grad
x = T.tensor([nan, 1.], requires_grad=True); a = T.ones(2, 2); y = T.addmm(x, a, a, beta=0); y.sum().backward(); r = y, x.grad
x = T.ones(2, requires_grad=True); T.addmv(x, T.ones(2, 2), T.ones(2), beta=0).sum().backward(); r = x.grad
x = T.ones(2, 2, requires_grad=True); T.addr(x, T.ones(2), T.ones(2), beta=0).sum().backward(); r = x.grad
x = T.ones(2, 2, requires_grad=True); T.addbmm(x, T.ones(3, 2, 2), T.ones(3, 2, 2), beta=0).sum().backward(); r = x.grad
x = T.ones(3, 2, 2, requires_grad=True); a = T.ones(3, 2, 2, requires_grad=True); T.baddbmm(x, a, a, beta=0).sum().backward(); r = x.grad, a.grad
x = T.ones(0, requires_grad=True); T.median(x).backward(); r = x.grad
x = T.ones(0, requires_grad=True); T.nanmedian(x).backward(); r = x.grad
x = T.ones(2, requires_grad=True); r = T.heaviside(x, T.ones(2)).requires_grad
x = T.ones(2, requires_grad=True); w = T.ones(2, requires_grad=True); y = x * 2; y.copy_(w); y.sum().backward(); r = x.grad, w.grad
x = T.ones(2, requires_grad=True); w = T.ones(2, requires_grad=True); y = x * 2; y.copy_(w * 3); y.sum().backward(); r = x.grad, w.grad
x = T.ones(2, requires_grad=True); y = x * 2; y.copy_(T.ones(2)); y.sum().backward(); r = x.grad
x = T.ones(2, requires_grad=True); y = x * 2; w = T.ones(2); y.copy_(w); r = y.requires_grad, w.requires_grad
x = T.ones(2, requires_grad=True); w = T.ones(2, requires_grad=True); y = x * 2; y[:] = w; y.sum().backward(); r = x.grad, w.grad
x = T.ones(2, 2, requires_grad=True); w = T.ones(2, requires_grad=True); y = x * 2; y[0] = w; y.sum().backward(); r = x.grad, w.grad
x = T.ones(2, requires_grad=True); w = T.tensor(2., requires_grad=True); y = x * 2; y.fill_(w); y.sum().backward(); r = x.grad, w.grad
x = T.ones(2, requires_grad=True); w = T.ones(2, requires_grad=True); T.slice_scatter(x, w).sum().backward(); r = x.grad, w.grad
x = T.ones(3, requires_grad=True); w = T.ones(2, requires_grad=True); T.slice_scatter(x, w, 0, 1).sum().backward(); r = x.grad, w.grad
x = T.tensor(2., requires_grad=True); w = T.tensor(2., requires_grad=True); T.index_fill(x, 0, T.tensor(0), w).backward(); r = x.grad, w.grad
x = T.tensor(2., requires_grad=True); T.index_fill(x, 0, T.tensor(0), 5.).backward(); r = x.grad
x = T.tensor([nan, 1.], requires_grad=True); x.amax().backward(); r = x.grad
x = T.tensor([[nan, 1.], [2., 2.]], requires_grad=True); x.amin(1).sum().backward(); r = x.grad
x = T.tensor([nan, 1.], requires_grad=True); x.aminmax(dim=0)[0].backward(); r = x.grad
x = T.tensor([nan, 1.], requires_grad=True); x.max().backward(); r = x.grad
x = T.tensor([3., 1.], requires_grad=True); r = x.amax().grad_fn.name(), x.amin(0).grad_fn.name()
x = T.tensor([1., nan], requires_grad=True); x.prod().backward(); r = x.grad
x = T.tensor([[1., nan], [2., 3.]], requires_grad=True); x.prod(1).sum().backward(); r = x.grad
x = T.tensor([-20., -50., -80., 0., 1., -1., nan, -inf], requires_grad=True); T.nn.functional.elu(x, 2.).sum().backward(); r = x.grad, (x.grad * 1e20)[:3]
x = T.tensor([-20., -50., -80., 0., 1., -1., nan, -inf], requires_grad=True); T.nn.functional.celu(x, 2.).sum().backward(); r = x.grad, (x.grad * 1e4)[:1]
x = T.tensor([-20., -50., -80., 0., 1., -1., nan, -inf], requires_grad=True); T.nn.functional.selu(x).sum().backward(); r = x.grad, (x.grad * 1e10)[:1]
x = T.tensor([-1., 2.], requires_grad=True, dtype=T.float64); g, = T.autograd.grad(T.nn.functional.elu(x).sum(), x, create_graph=True); g.sum().backward(); r = x.grad
x = T.tensor([1e-3, 1e-4, 0., 1e-20, .1, 1.], requires_grad=True, dtype=T.float64); T.sinc(x).sum().backward(); r = x.grad, T.sinc(x)
x = T.tensor([2.], requires_grad=True); w = T.tensor([.75], requires_grad=True); e = T.tensor([5.], requires_grad=True); T.lerp(x, e, w).backward(); r = x.grad, e.grad, w.grad
x = T.tensor([2.], requires_grad=True); e = T.tensor([5.], requires_grad=True); T.lerp(x, e, .75).backward(); r = x.grad, e.grad
"""
