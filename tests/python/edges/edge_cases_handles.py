"""A tensor that becomes another one in its place: in-place changes of shape, and assignments to `.data`."""

CASES = r"""
x = T.arange(6.).reshape(2, 3); y = x.unsqueeze_(0); r = y is x, list(x.shape), x._version
x = T.arange(6.).reshape(2, 3); v = x[0]; x.unsqueeze_(0); x.add_(1); r = v, x
x = T.arange(6.).reshape(2, 3); v = x[0]; x.unsqueeze_(0); v.add_(1); r = x
x = T.arange(6.).reshape(2, 3); d = x.detach(); x.t_(); x[0] = 9; r = d, x, list(x.stride())
x = T.ones(1, 3, 1); x.squeeze_(); r = list(x.shape)
x = T.ones(1, 3, 1); x.squeeze_(0); r = list(x.shape)
x = T.ones(1, 3, 1); x.squeeze_(1); r = list(x.shape)
x = T.arange(6).reshape(2, 3); x.transpose_(0, 1); r = x, x.is_contiguous()
x = T.arange(6).reshape(2, 3); x.swapaxes_(0, 1); r = x
x = T.arange(6).reshape(2, 3); x.swapdims_(-1, 0); r = x
x = T.arange(3); x.t_(); r = x
x = T.ones(2, 2, 2); x.t_()
x = T.ones(2); x.unsqueeze_(3)
x = T.ones(2); x.transpose_(0, 1)
x = T.ones(2, requires_grad=True); x.unsqueeze_(0)
x = T.ones(2, requires_grad=True); x[:1].unsqueeze_(0)
x = T.ones(3, requires_grad=True); y = x * 2; y.unsqueeze_(1); y.mul_(3); y.sum().backward(); r = x.grad, list(y.shape)
x = T.arange(6.).reshape(2, 3).requires_grad_(); y = x * 2; y.t_(); (y @ x).sum().backward(); r = x.grad
x = T.arange(6.).reshape(2, 3).requires_grad_(); y = x * 2; z = y * y; y.t_(); z.sum().backward(); r = x.grad
x = T.ones(3, requires_grad=True)\nwith T.no_grad():\n    x.unsqueeze_(0)\nr = x.is_leaf, x.requires_grad, list(x.shape)
x = T.ones(3, requires_grad=True)\nwith T.no_grad():\n    x.unsqueeze_(0)\n(x * x).sum().backward(); r = x.grad
x = T.zeros(2, 3); v = x[1]; v.unsqueeze_(0); v.add_(1); r = x, v
x = T.zeros(2, 3)\nfor _ in range(4):\n    x.unsqueeze_(0)\nfor _ in range(4):\n    x.squeeze_(0)\nx.add_(1); r = x
x = T.ones(2); x.unsqueeze_(0).add_(1).squeeze_(); r = x
x = T.ones(2, 3); x.t_(); r = x @ T.ones(2, 2), T.cat([x, x]), 2 - x, x + x, x[0], x.sum(0)
x = T.arange(6); x.resize_(2, 2); r = x
x = T.arange(6); x.resize_(3, 2); r = x
x = T.arange(6); x.resize_((2, 3)); r = x
x = T.ones(2, requires_grad=True); x.resize_(1)
x = T.arange(4); x.resize_as_(T.ones(2, 2)); r = x
x = T.ones(2); y = T.zeros(3); x.set_(y); y.add_(1); r = x
x = T.ones(2); x.set_(); r = x
x = T.ones(2, requires_grad=True); old = x.data; x.data = T.zeros(2); r = old, x
x = T.ones(2); y = T.zeros(2); x.data = y; y.add_(1); r = x
x = T.ones(2); y = T.zeros(2); x.data = y; x.add_(1); r = y
x = T.ones(2, requires_grad=True); v = x.view(2, 1); x.data = T.zeros(2); r = v, x
x = T.ones(2, requires_grad=True); x.data = T.zeros(3); r = x, x.requires_grad, x.is_leaf
x = T.ones(2, requires_grad=True); x.data = T.zeros(2, dtype=T.float64); (x * 2).sum().backward(); r = x.grad
x = T.ones(2, requires_grad=True); x.data = T.zeros(2, dtype=T.int64)
x = T.ones(2); x.data = T.zeros(2, dtype=T.int64); r = x
x = T.ones(2, requires_grad=True); (x * 3).sum().backward(); x.grad.data = T.zeros(2); r = x.grad
x = T.ones(2, requires_grad=True); (x * 3).sum().backward(); g = x.grad; g.data = g.data * 2; o = T.optim.SGD([x], lr=1.); o.step(); r = x, x.grad is g
x = T.ones(2, requires_grad=True); (x * 3).sum().backward(); x.grad.data = x.grad.data.clamp(max=1); (x * 3).sum().backward(); r = x.grad
x = T.arange(3.)\nfor i in range(5):\n    x.data = x.data * 2\nr = x
p = T.nn.Parameter(T.ones(2)); backup = p.data; p.data = T.zeros(2); p.data = backup; r = p
m = T.nn.Linear(2, 2); w = m.weight; m.half(); r = w is m.weight, w.dtype, w.requires_grad, m.bias.dtype
m = T.nn.Linear(2, 2); w = m.weight; m.to(T.bfloat16); m.float(); r = w is m.weight, w.dtype
m = T.nn.Linear(2, 2); m(T.ones(1, 2)).sum().backward(); g = m.weight.grad; m.double(); r = m.weight.grad.dtype, m.weight.grad is g, m.weight.grad
m = T.nn.Linear(2, 2); T.nn.init.ones_(m.weight); T.nn.init.zeros_(m.bias); o = T.optim.SGD(m.parameters(), lr=1.); m.double(); m(T.ones(1, 2, dtype=T.float64)).sum().backward(); o.step(); r = m.weight, m.bias
m = T.nn.Sequential(T.nn.Linear(2, 2)); m.add_module("tied", m[0]); m.half(); r = m.tied.weight is m[0].weight, len(list(m.parameters()))
m = T.nn.BatchNorm1d(2); b = m.running_mean; m.double(); r = m.running_mean.dtype, m.num_batches_tracked.dtype
x = T.ones(2); x.data = 3
x = T.ones(2, 3); x.data = T.zeros(6); r = x.view(2, 3) + 1, len(x), x.numel(), x.dim()
"""
