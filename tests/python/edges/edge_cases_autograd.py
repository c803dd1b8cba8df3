"""Indexing, in-place writes and gradients where several rules meet."""

# Programs are one line each, however long.
CASES = r"""
r = T.nn.functional.interpolate(T.arange(4.).view(1, 1, 4), scale_factor=2), T.nn.functional.interpolate(T.arange(4.).view(1, 1, 4), size=3, mode="linear"), T.nn.functional.interpolate(T.arange(4.).view(1, 1, 4), size=7, mode="linear", align_corners=True), T.nn.functional.interpolate(T.arange(4.).view(1, 1, 2, 2), scale_factor=(2, 1.5), mode="bilinear"), T.nn.functional.interpolate(T.arange(16.).view(1, 1, 4, 4), size=2, mode="area"), T.nn.functional.interpolate(T.arange(16.).view(1, 1, 4, 4), size=(5, 3), mode="bicubic"), T.nn.functional.interpolate(T.arange(4.).view(1, 1, 4), size=3, mode="nearest-exact")
r = T.nn.functional.interpolate(T.arange(8.).view(1, 1, 2, 2, 2), size=(3, 3, 3), mode="trilinear"), T.nn.functional.interpolate(T.arange(16.).view(1, 1, 4, 4), size=2, mode="bilinear", antialias=True)
r = T.nn.functional.interpolate(T.ones(1, 1, 4))
r = T.nn.functional.interpolate(T.ones(1, 1, 4), size=2, scale_factor=2)
r = T.nn.functional.interpolate(T.ones(1, 1, 4), size=2, mode="bilinear")
r = T.nn.functional.interpolate(T.ones(1, 1, 4), size=2, mode="foo")
r = T.nn.functional.interpolate(T.ones(1, 1, 4), size=2, align_corners=True)
r = T.nn.functional.interpolate(T.ones(4), size=2)
r = T.nn.functional.interpolate(T.arange(5.).view(1, 1, 5), scale_factor=.7, recompute_scale_factor=True, mode="linear"), T.nn.functional.interpolate(T.arange(5.).view(1, 1, 5), scale_factor=.7, mode="linear")
r = T.nn.functional.upsample(T.arange(4.).view(1, 1, 4), scale_factor=2)
r = T.nn.functional.pad(T.arange(4.), (1, 2)), T.nn.functional.pad(T.arange(4.), (1, 2), value=9.), T.nn.functional.pad(T.arange(4.), (-1, 1)), T.nn.functional.pad(T.arange(4.).view(1, 4), (1, 1), mode="reflect"), T.nn.functional.pad(T.arange(4.).view(1, 4), (1, 1), mode="replicate"), T.nn.functional.pad(T.arange(4.).view(1, 4), (2, 1), mode="circular"), T.nn.functional.pad(T.arange(4).view(2, 2), (1, 0, 0, 1))
r = T.nn.functional.pad(T.arange(8.).view(1, 2, 2, 2), (1, 1, 1, 1), mode="reflect"), T.nn.functional.pad(T.arange(8.).view(1, 2, 2, 2), (1, 1, 1, 1), mode="circular"), T.nn.functional.pad(T.arange(8.).view(1, 1, 2, 2, 2), (1, 1, 1, 1, 1, 1), mode="replicate")
r = T.nn.functional.pad(T.ones(4), (1,))
r = T.nn.functional.pad(T.ones(4), (1, 1, 1, 1))
r = T.nn.functional.pad(T.ones(1, 4), (5, 5), mode="reflect")
r = T.nn.functional.pad(T.ones(1, 4), (5, 5), mode="circular")
r = T.nn.functional.pad(T.ones(4), (1, 1), mode="reflect")
r = T.nn.functional.pad(T.ones(1, 4), (1, 1), mode="foo")
r = T.nn.functional.pad(T.ones(1, 4), (1, 1), mode="reflect", value=1.)
x = T.arange(6.).view(2, 3); x.index_put_((T.tensor([0, 1]), T.tensor([1, 2])), T.tensor([10., 20.])); r = x
x = T.zeros(3); x.index_put_((T.tensor([0, 0, 1]),), T.tensor([1., 2., 3.]), accumulate=True); r = x
x = T.zeros(2, 3); x.index_put_((T.tensor([True, False]),), T.tensor(5.)); r = x
x = T.zeros(2, 3); x.index_put_((None, T.tensor([0, 1])), T.tensor(1.)); r = x
x = T.zeros(2, 3); x.index_put_([T.tensor([0])], T.ones(3)); r = x
x = T.zeros(2); x.index_put_((T.tensor([0]),), T.ones(1, dtype=T.float64)); r = x
x = T.zeros(3); x[T.tensor([0, 1])] = T.ones(3); r = x
x = T.zeros(3); x[[0, 2]] = T.tensor([1., 2.]); r = x
x = T.zeros(3, 3); x[T.tensor([0, 1]), :] = 1; x[..., 0] = 5; x[x > 4] = -1; x[None, 0] = 2; r = x
x = T.zeros(3, 3); x[:, [0, 2]] = T.arange(6.).view(3, 2); r = x
x = T.zeros(3, 3); x[T.tensor([0, 1])[:, None], T.tensor([0, 2])] = 7; r = x
x = T.zeros(3, 3); x[0:2, 1:] = T.ones(2); r = x
x = T.zeros(3); x[5] = 1
x = T.zeros(3); x[1:2] = T.ones(2)
x = T.zeros(3, 3); x[0, 0, 0] = 1
x = T.zeros(3); x["a"] = 1
x = T.zeros(3); r = x["a"]
x = T.zeros(3); r = x[1.0]
x = T.zeros(3); r = x[T.tensor([1.])]
x = T.arange(3); r = x[T.tensor([1, 2], dtype=T.uint8)], x[T.tensor([1, 0], dtype=T.int32)]
x = T.arange(3); r = x[T.tensor([True, False])]
x = T.arange(6).view(2, 3); r = x[T.tensor([True, False])], x[True], x[False].shape, x[T.tensor(True)], x[[True, False]], x[:, [True, False, True]]
x = T.arange(6).view(2, 3); r = x[T.tensor(1)], x[T.tensor([0]), T.tensor([1])], x[[0, 1], [1, 2]], x[[[0, 1], [1, 0]]], x[(0, 1)], x[0][1], x[-1, -1], x[::2], x[1:0]
x = T.arange(6).view(2, 3); r = x[2]
x = T.arange(6).view(2, 3); r = x[..., ..., 0]
x = T.arange(24).view(2, 3, 4); r = x[:, T.tensor([0, 1]), 0], x[0, :, T.tensor([0, 1])], x[T.tensor([0, 1]), :, T.tensor([0, 1])], x[..., T.tensor([0])], x[T.tensor([[0, 1]])].shape, x[:, :, None].shape, x[None, ..., None].shape
x = T.tensor(5); r = x[None], x[...], x[()]
x = T.tensor(5); r = x[0]
x = T.arange(3.); x += 1; x *= 2; x -= T.tensor(1.); x /= 2; x **= 2; r = x
x = T.arange(3); x += 1.5
x = T.arange(3); x /= 2
x = T.arange(3); x //= 2; x %= 2; r = x
x = T.zeros(2); x += T.ones(2, 2)
x = T.ones(2, requires_grad=True); x += 1
x = T.ones(2); x.add_(1, alpha=3); x.sub_(T.ones(2), alpha=2); x.mul_(T.tensor([1., 2.])); x.clamp_(min=1.5); x.copy_(T.tensor([1, 2])); r = x
x = T.ones(2, 2); x.fill_diagonal_(5); x.tril_(); x.masked_fill_(x == 0, -1); r = x
x = T.zeros(2, 3); x.scatter_(1, T.tensor([[0], [2]]), 1.); x.scatter_add_(1, T.tensor([[0], [2]]), T.ones(2, 1)); x.index_fill_(1, T.tensor([1]), 9); x.index_copy_(0, T.tensor([0]), T.zeros(1, 3)); r = x
x = T.zeros(3); x.scatter_(0, T.tensor([0, 1]), T.tensor([2., 3.]), reduce="add"); r = x
x = T.ones(3); x.scatter_(0, T.tensor([0, 1]), 3., reduce="multiply"); r = x
x = T.arange(3.); x.put_(T.tensor([0, 2]), T.tensor([9., 8.])); x.masked_scatter_(T.tensor([False, True, False]), T.tensor([5.])); r = x
x = T.ones(3); x.exponential_(); x.zero_(); r = x
x = T.ones(2, dtype=T.int64); x.copy_(T.tensor([1.7, 2.7])); r = x
x = T.ones(2); x.copy_(T.ones(3))
x = T.arange(4.); y = x.view(2, 2); y.t_(); y[0, 1] = 100; r = x, y
x = T.arange(4.); x.requires_grad_(); y = x.clone(); y[0] = 5; y.sum().backward(); r = x.grad
x = T.arange(4.).requires_grad_(); y = x * 2; y[1:3] *= 3; y.sum().backward(); r = x.grad
x = T.arange(4.).requires_grad_(); y = x.exp(); y += 1; y.sum().backward(); r = x.grad
x = T.arange(4.).requires_grad_(); x.sum().backward(); x.sum().backward(); r = x.grad
x = T.arange(4.).requires_grad_(); (x * x).sum().backward(retain_graph=True); r = x.grad
x = T.arange(4.).requires_grad_(); y = (x * x).sum(); y.backward(retain_graph=True); y.backward(); r = x.grad
x = T.arange(4.).requires_grad_(); (x * 2).backward()
x = T.arange(4.).requires_grad_(); (x * 2).backward(T.ones(3))
x = T.arange(4.).requires_grad_(); (x * 2).backward(T.ones(4)); r = x.grad
x = T.arange(4.); x.sum().backward()
x = T.arange(4.).requires_grad_(); r = T.autograd.grad((x ** 3).sum(), x)[0], T.autograd.grad((x ** 3).sum(), [x], create_graph=True)[0].requires_grad
x = T.ones(2, requires_grad=True); z = T.ones(2, requires_grad=True); r = T.autograd.grad(x.sum(), z)
x = T.ones(2, requires_grad=True); z = T.ones(2, requires_grad=True); r = T.autograd.grad(x.sum(), [x, z], allow_unused=True)
x = T.ones(2, requires_grad=True); z = T.ones(2, requires_grad=True); r = T.autograd.grad(x.sum(), [x, z], materialize_grads=True)
x = T.ones(2, requires_grad=True); r = T.autograd.functional.jacobian(lambda t: t * t, x), T.autograd.functional.hessian(lambda t: (t ** 3).sum(), x)
x = T.ones(2, requires_grad=True); h = x.register_hook(lambda g: g * 2); x.sum().backward(); h.remove(); x.sum().backward(); r = x.grad
x = T.ones(2, requires_grad=True); y = x * 2; y.retain_grad(); y.sum().backward(); r = y.grad, y.is_leaf, y.requires_grad, y.grad_fn is not None, x.grad_fn is None
x = T.ones(2, requires_grad=True)\nwith T.no_grad():\n    y = x * 2\nr = y.requires_grad
x = T.ones(2, requires_grad=True)\n@T.no_grad()\ndef f(t):\n    return t * 2\nr = f(x).requires_grad, T.is_grad_enabled()
x = T.ones(2, requires_grad=True)\nwith T.set_grad_enabled(False):\n    y = x * 2\nr = y.requires_grad
x = T.ones(2, requires_grad=True); r = x.numpy()
x = T.ones(2, requires_grad=True); r = x.detach().numpy().tolist(), x.tolist(), (x.sum()).item()
x = T.ones(2, dtype=T.int64, requires_grad=True)
x = T.ones(2).requires_grad_(); x.requires_grad = False; r = x.requires_grad
x = T.ones(2, requires_grad=True); y = x * 2; y.requires_grad = False
x = T.ones(2, requires_grad=True); y = x[0]; y += 1
x = T.ones(2, requires_grad=True); x.grad = T.ones(3)
x = T.ones(2, requires_grad=True); x.grad = T.ones(2, dtype=T.float64)
x = T.ones(2, requires_grad=True); x.grad = 3
x = T.ones(2, requires_grad=True); x.grad = T.full((2,), 4.); (x * 2).sum().backward(); r = x.grad
x = T.tensor([1., -1., 0.], requires_grad=True); x.abs().sum().backward(); r = x.grad
x = T.tensor([1., -1., 0.], requires_grad=True); x.relu().sum().backward(); r = x.grad
x = T.tensor([1., 1., 0.], requires_grad=True); x.max().backward(); r = x.grad
x = T.tensor([1., 1., 0.], requires_grad=True); x.max(0)[0].backward(); r = x.grad
x = T.tensor([4., 0.], requires_grad=True); x.sqrt().sum().backward(); r = x.grad
x = T.tensor([0., 0.], requires_grad=True); x.norm().backward(); r = x.grad
x = T.tensor([2., 0.], requires_grad=True); x.prod().backward(); r = x.grad
x = T.tensor([2., 0., 0.], requires_grad=True); x.prod().backward(); r = x.grad
x = T.tensor([2., 0.], requires_grad=True); (x ** 0).sum().backward(); r = x.grad
x = T.tensor([2., 0.], requires_grad=True); x.cumprod(0).sum().backward(); r = x.grad
x = T.tensor([2., 3.], requires_grad=True); x.std().backward(); r = x.grad
x = T.tensor([2., 3., 1.], requires_grad=True); x.median().backward(); r = x.grad
x = T.tensor([2., 3., 1.], requires_grad=True); x.sort()[0][0].backward(); r = x.grad
x = T.tensor([2., 3., 1.], requires_grad=True); x.topk(2)[0].sum().backward(); r = x.grad
x = T.tensor([2., 3., 1.], requires_grad=True); T.where(x > 1.5, x, x * 2).sum().backward(); r = x.grad
x = T.tensor([2., 3., 1.], requires_grad=True); x.clamp(1.5, 2.5).sum().backward(); r = x.grad
x = T.tensor([1.5, 2.5, 1.], requires_grad=True); x.clamp(1.5, 2.5).sum().backward(); r = x.grad
x = T.tensor([2., 3.], requires_grad=True); y = T.tensor([2., 1.], requires_grad=True); T.maximum(x, y).sum().backward(); r = x.grad, y.grad
x = T.tensor([-2., 3.], requires_grad=True); T.nn.functional.leaky_relu(x, .1).sum().backward(); r = x.grad
x = T.tensor([[1., 2.], [3., 4.]], requires_grad=True); x[T.tensor([0, 0])].sum().backward(); r = x.grad
x = T.tensor([[1., 2.], [3., 4.]], requires_grad=True); x.unfold(1, 2, 1).sum().backward(); r = x.grad
x = T.tensor([1., 2.], requires_grad=True); T.stack([x, x]).prod().backward(); r = x.grad
x = T.tensor([1., 2.], requires_grad=True); (x.double() * 2).sum().backward(); r = x.grad
x = T.tensor([1., 2.], requires_grad=True); (x.half() * 2).sum().backward(); r = x.grad
x = T.tensor([1., 2.], requires_grad=True); x.expand(3, 2).sum().backward(); r = x.grad
x = T.tensor([1., 2.], requires_grad=True); x.repeat_interleave(2).sum().backward(); r = x.grad
x = T.tensor([1., 2.], requires_grad=True); x.softmax(0)[0].backward(); r = x.grad
x = T.tensor([1., 2.], requires_grad=True); T.logsumexp(x, 0).backward(); r = x.grad
x = T.tensor([1., 2.], requires_grad=True); T.linalg.norm(x).backward(); r = x.grad
x = T.tensor([1., 2.], requires_grad=True); T.einsum("i,i->", x, x).backward(); r = x.grad
"""
