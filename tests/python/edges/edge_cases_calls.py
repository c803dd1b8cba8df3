"""Arguments in their odd forms, and calls that PyTorch refuses."""

# Programs are one line each, however long.
CASES = r"""
r = T.nn.functional.grid_sample(T.arange(8.).view(1, 1, 2, 2, 2), T.linspace(-1.2, 1.1, 18).view(1, 1, 2, 3, 3))
r = T.nn.functional.grid_sample(T.arange(16.).view(2, 1, 2, 2, 2), T.linspace(-1.2, 1.1, 36).view(2, 1, 2, 3, 3), mode="nearest", padding_mode="border")
r = T.nn.functional.grid_sample(T.arange(12.).view(1, 1, 2, 3, 2), T.linspace(-1.9, 1.8, 18).view(1, 1, 2, 3, 3), padding_mode="reflection", align_corners=True)
x = T.arange(12.).view(1, 1, 2, 3, 2).requires_grad_(); g = T.linspace(-.9, .8, 18).view(1, 1, 2, 3, 3).requires_grad_(); T.nn.functional.grid_sample(x, g).square().sum().backward(); r = x.grad, g.grad
x = T.arange(16.).view(1, 1, 4, 4).requires_grad_(); g = T.linspace(-.9, .8, 18).view(1, 3, 3, 2).requires_grad_(); T.nn.functional.grid_sample(x, g).square().sum().backward(); r = x.grad, g.grad
r = T.nn.functional.grid_sample(T.ones(1, 1, 2, 2), T.zeros(1, 1, 1, 3))
r = T.nn.functional.affine_grid(T.eye(3, 4)[None] * 2, (1, 1, 2, 2, 3)), T.nn.functional.affine_grid(T.eye(3, 4)[None] * 2, (1, 1, 2, 2, 3), align_corners=True)
r = T.nn.functional.affine_grid(T.eye(2, 3)[None], (1, 1, 2, 2, 3))
r = T.tensor([T.tensor([1]), T.tensor([2])]), T.tensor([T.tensor(1.5), 2])
x = T.zeros(2); x.index_put_((T.tensor([0]),), T.ones(1, dtype=T.float64)); r = x
x = T.arange(6).view(2, 3); r = x[[[0, 1], [1, 0]]], x[[0, 1]], x[[slice(0, 1), 0]], x[[T.tensor([0]), T.tensor([1])]], x[[None, 0]]
x = T.arange(6).view(2, 3); x[[[0, 1], [1, 0]]] = 9; r = x
x = T.ones(3); x.scatter_(0, T.tensor([0, 1]), 3., reduce="multiply"); r = x
x = T.ones(3) * 2; r = x.scatter(0, T.tensor([0, 0]), T.tensor([3., 4.]), reduce="multiply")
r = T.ones(3).scatter(0, T.tensor([0]), 1., reduce="foo")
r = T.tensor("a")
r = T.tensor(["a"])
r = T.tensor(None)
r = T.tensor([None])
r = T.tensor(object())
r = T.full(2, 1)
r = T.tensor_split(T.tensor(1), 2)
r = T.histc(T.tensor([1, 2]))
r = T.histc(T.tensor([1., 2]), min=3, max=1)
r = T.cdist(T.ones(3), T.ones(2, 3))
r = T.cdist(T.ones(2, 3), T.ones(2, 3), p=-1)
r = T.lerp(T.tensor([0]), T.tensor([10]), .3)
r = T.addcdiv(T.tensor([1]), T.tensor([1]), T.tensor([1]))
r = T.nn.functional.pad(T.ones(1, 4), (1, 1), mode="reflect", value=1.)
r = T.nn.functional.softshrink(T.tensor([nan, 1., .2]))
x = T.zeros(3); r = x["a"]
x = T.zeros(3); x["a"] = 1
"""
