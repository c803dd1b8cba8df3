"""Layers that are seldom used: adaptive softmax, fractional pooling."""

# Programs are one line each, however long.
CASES = r"""
m = T.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7])\nfor p in m.parameters():\n    T.nn.init.ones_(p); p.data.mul_(T.arange(p.numel()).view(p.shape) * .01)\nx = T.arange(24.).view(3, 8) * .1; o = m(x, T.tensor([1, 5, 11])); r = o.output, o.loss, m.log_prob(x), m.predict(x), list(m.state_dict()), repr(m)
m = T.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], head_bias=True)\nfor p in m.parameters():\n    T.nn.init.ones_(p); p.data.mul_(T.arange(p.numel()).view(p.shape) * .01)\nx = (T.arange(24.).view(3, 8) * .1).requires_grad_(); m(x, T.tensor([1, 5, 2])).loss.backward(); r = x.grad, m.head.weight.grad
m = T.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7]); m(T.ones(2, 8), T.tensor([1, 12])).loss.item()
m = T.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7]); r = m(T.ones(8), T.tensor(1)).output.shape
m = T.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7]); m(T.ones(2, 8), T.tensor([1]))
m = T.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 12])
m = T.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [])
r = T.nn.functional.fractional_max_pool2d(T.arange(49.).view(1, 1, 7, 7), 2, output_size=3, _random_samples=T.tensor([[[.3, .7]]]), return_indices=True)
r = T.nn.functional.fractional_max_pool2d(T.arange(56.).sin().view(1, 1, 7, 8), (2, 3), output_ratio=(.5, .6), _random_samples=T.tensor([[[.3, .7]]]), return_indices=True)
r = T.nn.functional.fractional_max_pool3d(T.arange(7. * 6 * 5).sin().view(1, 1, 7, 6, 5), 2, output_size=(3, 2, 4), _random_samples=T.tensor([[[.3, .7, .1]]]), return_indices=True)
r = T.nn.FractionalMaxPool2d(3, output_size=(2, 3))(T.ones(2, 3, 8, 8)).shape, repr(T.nn.FractionalMaxPool2d(3, output_ratio=.5))
r = T.nn.FractionalMaxPool2d(3)
r = T.nn.FractionalMaxPool2d(3, output_size=2, output_ratio=.5)
r = T.nn.FractionalMaxPool2d(3, output_ratio=1.5)
r = T.nn.functional.fractional_max_pool2d(T.ones(1, 1, 4, 4), 4, output_size=3)
x = T.arange(49.).sin().view(1, 1, 7, 7).requires_grad_(); T.nn.functional.fractional_max_pool2d(x, 2, output_size=3, _random_samples=T.tensor([[[.3, .7]]])).sum().backward(); r = x.grad
x = T.arange(12.).view(4, 1, 3).log_softmax(2).requires_grad_(); T.nn.functional.ctc_loss(x, T.tensor([[1, 2]]), [3], [2]).backward(); r = x.grad
x = T.arange(12.).view(4, 1, 3).requires_grad_(); T.nn.functional.ctc_loss(x.log_softmax(2), T.tensor([[1, 2]]), [4], [2]).backward(); r = x.grad
x = T.zeros(2, 1, 3).log_softmax(2).requires_grad_(); T.nn.functional.ctc_loss(x, T.tensor([[1, 2, 1]]), [2], [3], zero_infinity=True).backward(); r = x.grad
r = T.nn.functional.gaussian_nll_loss(T.zeros(4, 3), T.ones(4, 3), T.tensor([[1., 2., 3.]])), T.nn.functional.gaussian_nll_loss(T.zeros(4, 3), T.ones(4, 3), T.ones(4, 1))
r = T.nn.functional.gaussian_nll_loss(T.zeros(4, 3), T.ones(4, 3), T.ones(2, 3))
r = T.nn.functional.interpolate(T.arange(16, dtype=T.uint8).view(1, 1, 4, 4) * 16, size=(2, 2), mode="bilinear")
r = T.nn.functional.interpolate(T.arange(16).view(1, 1, 4, 4), size=(2, 2), mode="bilinear")
r = T.nn.functional.multi_margin_loss(T.tensor(.5), T.tensor(0)), T.nn.functional.multilabel_margin_loss(T.tensor(.5), T.tensor(0))
r = T.nn.functional.rrelu(T.ones(2), .3, .1)
r = T.nn.BatchNorm1d(3, eps=0.)(T.ones(2, 3))
r = T.nn.RNN(0, 3)
r = T.nn.LSTM(3, 3, bias=1)
r = T.nn.GRU(3, 3)(T.ones(2, 1, 3, dtype=T.float64))
r = T.nn.RNNCell(3, 3)(T.ones(2, 3), T.ones(2, 1, 3))
r = T.nn.Softmax(dim=1.)
r = repr(T.nn.LazyConv2d(5, 3, padding=1)), repr(T.nn.LazyConvTranspose1d(5, 3, bias=False))
"""
