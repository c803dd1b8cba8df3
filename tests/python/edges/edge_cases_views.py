"""Views of leaves that are views, views that are looked at with tracking off, and what indices and masks write."""

CASES = r"""
a = T.arange(12.).view(4, 3).requires_grad_(); v = a[0]; v.add_(1)
a = T.arange(12.).view(4, 3).requires_grad_(); a.add_(1)
a = T.arange(12.).view(4, 3).requires_grad_(); v = a[0]; a.data.mul_(3); r = v.requires_grad, v
a = T.arange(12.).view(4, 3).t().requires_grad_(); v = a[1:][0]\nwith T.no_grad():\n    a.mul_(2)\nr = v, v.requires_grad
a = T.arange(12.).view(4, 3).t().requires_grad_(); v = a[1:][0]\nwith T.no_grad():\n    v.zero_()\nr = a, v, T.autograd.grad((a * a).sum(), a)[0]
a = T.arange(12.).view(4, 3).requires_grad_(); v = a[1:][0]; d = v.detach(); d.add_(1); r = a, v, d
p = T.nn.Parameter(T.ones(5, 3)[1:]); v = p[0]\nwith T.no_grad():\n    p.add_(1)\n(v * v).sum().backward(); r = p.grad, v, v.detach(), p.detach()[1]
a = T.ones(4, 3, requires_grad=True); v = a[0]\nwith T.no_grad():\n    a.add_(1); s = v.sum().item()\n(v * v).sum().backward(); r = s, v.requires_grad, a.grad
w = T.ones(3, requires_grad=True); x = T.zeros(4, 3); v = x[0]; x.add_(w)\nwith T.no_grad():\n    s = v.sum().item()\nv.sum().backward(); r = s, w.grad
a = T.ones(4, 3, requires_grad=True)\nwith T.no_grad():\n    v = a[0]; a.add_(1)\nr = v * 2
a = T.ones(4, 3, requires_grad=True); x = a * 1\nwith T.no_grad():\n    v = x[0]\nx.add_(1); r = v * 2
a = T.ones(4, 3, requires_grad=True); x = a * 1\nwith T.no_grad():\n    v = x[0]\nv.add_(1)
a = T.ones(4, 3, requires_grad=True)\nwith T.no_grad():\n    v = a[0]; a.add_(1); w = v * 2\nr = w
a = T.ones(4, 3, requires_grad=True)\nwith T.no_grad():\n    v = a[0]; v.add_(1)\nr = a, a.is_leaf
x = T.zeros(4, 3)\nwith T.no_grad():\n    v = x[0]\nv.add_(1); x.mul_(2); r = v, x
x = T.zeros(4); x[x == 0] = T.ones(3); r = x
x = T.zeros(4); x[x == 1] = T.ones(3); r = x
x = T.zeros(4); x[x == 0] = T.arange(4.); r = x
x = T.zeros(4, 2); x[T.tensor([True, False, True, False])] = T.arange(6.).view(3, 2); r = x
x = T.zeros(4, 2); x[T.tensor([True, False, True, False])] = T.arange(4.).view(2, 2); r = x
x = T.zeros(4); x[x == 1] = T.ones(0); r = x
x = T.zeros(3); x[T.tensor([0, 1])] = T.tensor([2, 3])
x = T.zeros(3); x[T.tensor([0, 1])] = T.tensor(2.5, dtype=T.float64)
x = T.zeros(3); x[x == 0] = T.tensor([1, 2, 3])
x = T.zeros(3); x[x == 0] = T.tensor(2); x[0:2] = T.tensor([5, 6]); x[T.tensor(2)] = T.tensor(7); r = x
x = T.zeros(3, dtype=T.float16); x.masked_scatter_(x == 0, T.ones(3))
x = T.zeros(3); x.masked_scatter_(T.ones(3, dtype=T.uint8), T.ones(3))
r = T.arange(3)[range(2)], T.arange(6).view(2, 3)[:, range(1, 3)]
x = T.zeros(3); x[range(2)] = 1; r = x
r = T.arange(3)[::0]
r = T.zeros(3).index_add(0, T.tensor([0]), T.ones(1, dtype=T.float64))
r = T.zeros(3).index_copy(0, T.tensor([0]), T.ones(1, dtype=T.int64))
r = T.zeros(3, dtype=T.int64).index_add(0, T.tensor([0]), T.ones(1, dtype=T.int64), alpha=2)
x = T.arange(24).view(2, 3, 4); r = x[T.tensor(1), :, T.tensor([0, 2])], x[:, T.tensor(0), None, T.tensor([1, 1, 3])], x[T.tensor([0, 1]), :, T.tensor(-1)]
x = T.arange(24).view(2, 3, 4); r = x[T.tensor(1), :, T.tensor([True, False, True, False])], x[T.tensor(0), T.tensor([2, 0]), T.tensor(3)]
x = T.zeros(2, 3, 4); x[T.tensor(1), :, T.tensor([0, 2])] = T.arange(6.).view(3, 2); r = x
x = T.zeros(2, 3, 4); x[T.tensor(1), :, T.tensor([True, False, True, False])] = T.arange(6.).view(3, 2); r = x
x = T.ones(2, 3, 4, requires_grad=True); y = x * 1; y[T.tensor(1), 1:, T.tensor([0, 2])] = 5.; y.pow(2).sum().backward(); r = y, x.grad
x = T.arange(24.).view(2, 3, 4).requires_grad_(); y = x[T.tensor(1), 1:, T.tensor([0, 2])]; y.pow(2).sum().backward(); r = y, x.grad
r = T.ones(2, 3).scatter_reduce(0, T.tensor(0), T.ones(2, 3), "amax")
r = T.ones(2, 3).scatter_reduce(2, T.tensor([[0]]), T.ones(2, 3), "amax")
r = T.ones(2, 3).scatter_reduce(0, T.tensor([[0.]]), T.ones(2, 3), "sum")
r = T.ones(2, 3).index_fill(2, T.tensor([0]), 1)
r = T.ones(2, 3).index_fill(0, T.tensor([[0]]), 1)
r = T.ones(2, 3).index_fill(0, T.tensor([0], dtype=T.int32), 1)
r = T.ones(2, 3).take(T.tensor([0], dtype=T.int32))
r = T.zeros(3).index_add(0, T.tensor([0.]), T.ones(1))
a = T.arange(12.).view(4, 3).requires_grad_()\nwith T.no_grad():\n    v = a[0]; v.add_(1)\nr = v, v.requires_grad, v * 2
v = T.tensor(2., requires_grad=True); y = T.zeros(2, 3).index_fill(1, T.tensor([0, 0, 2]), v); (y * T.arange(6.).view(2, 3)).sum().backward(); r = y, v.grad
"""
