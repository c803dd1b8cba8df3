"""Hooks around the forward and the backward pass."""

import pytest

import gt
import gt.nn as nn


def test_forward_hooks_see_and_replace():
    layer = nn.Linear(2, 1)
    seen = []
    first = layer.register_forward_hook(lambda m, args, out: seen.append((m is layer, args[0].shape, out.shape)))
    second = layer.register_forward_hook(lambda m, args, out: out * 0 + 5)
    assert layer(gt.ones(3, 2)).tolist() == [[5], [5], [5]]
    assert seen == [(True, (3, 2), (3, 1))]
    first.remove()
    second.remove()
    second.remove()
    layer(gt.ones(3, 2))
    assert len(seen) == 1


def test_forward_pre_hooks_replace_arguments():
    layer = nn.Identity()
    with layer.register_forward_pre_hook(lambda m, args: (args[0] + 1,)):
        with layer.register_forward_pre_hook(lambda m, args: args[0] * 10):
            assert layer(gt.ones(1)).tolist() == [20]
    assert layer(gt.ones(1)).tolist() == [1]


def test_order_and_prepend():
    layer = nn.Identity()
    order = []
    layer.register_forward_hook(lambda *a: order.append("b"))
    layer.register_forward_hook(lambda *a: order.append("c"))
    layer.register_forward_hook(lambda *a: order.append("a"), prepend=True)
    layer.register_forward_pre_hook(lambda *a: order.append("2"))
    layer.register_forward_pre_hook(lambda *a: order.append("1"), prepend=True)
    layer(gt.ones(1))
    assert order == ["1", "2", "a", "b", "c"]


def test_keywords():
    class Scale(nn.Module):
        def forward(self, x, by=1):
            return x * by

    layer = Scale()
    layer.register_forward_pre_hook(lambda m, args, kwargs: (args, {"by": kwargs["by"] + 1}), with_kwargs=True)
    seen = []
    layer.register_forward_hook(lambda m, args, kwargs, out: seen.append(kwargs), with_kwargs=True)
    assert layer(gt.ones(1), by=2).tolist() == [3] and seen == [{"by": 3}]
    layer.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True)
    with pytest.raises(RuntimeError, match="tuple"):
        layer(gt.ones(1), by=2)


def test_hooks_that_always_run():
    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("broken")

    layer, seen = Broken(), []
    layer.register_forward_hook(lambda m, args, out: seen.append("usual"))
    layer.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    with pytest.raises(ValueError, match="broken"):
        layer(gt.ones(1))
    assert seen == [None]


def test_backward_hooks_see_gradients():
    layer = nn.Linear(2, 1, bias=False)
    with gt.no_grad():
        layer.weight.copy_(gt.tensor([[2.0, 3.0]]))
    seen = []
    layer.register_full_backward_hook(lambda m, gi, go: seen.append((gi[0].tolist(), go[0].tolist())))
    x = gt.ones(1, 2, requires_grad=True)
    (layer(x) * 4).sum().backward()
    assert seen == [([[8, 12]], [[4]])]
    assert x.grad.tolist() == [[8, 12]] and layer.weight.grad.tolist() == [[4, 4]]


def test_backward_hooks_replace_gradients():
    layer = nn.Identity()
    x = gt.ones(2, requires_grad=True)
    layer.register_full_backward_hook(lambda m, gi, go: (gi[0] * 100,))
    pre = layer.register_full_backward_pre_hook(lambda m, go: (go[0] + 1,))
    layer(x).sum().backward()
    assert x.grad.tolist() == [200, 200]
    pre.remove()
    x.grad = None
    layer(x).sum().backward()
    assert x.grad.tolist() == [100, 100]


def test_backward_hooks_of_modules_without_inputs_that_need_gradients():
    layer, seen = nn.Linear(2, 1), []
    layer.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go[0].tolist())))
    layer(gt.ones(1, 2)).sum().backward()
    assert seen == [((None,), [[1]])]


def test_backward_hooks_with_several_inputs_and_outputs():
    class Two(nn.Module):
        def forward(self, a, b, flag):
            return a * b, a + b

    layer, seen = Two(), []
    layer.register_full_backward_hook(
        lambda m, gi, go: seen.append((len(gi), gi[2], [None if g is None else g.item() for g in go]))
    )
    a, b = gt.tensor(2.0, requires_grad=True), gt.tensor(3.0, requires_grad=True)
    product, total = layer(a, b, True)
    (product + 2 * total).backward()
    assert seen == [(3, None, [1, 2])]
    assert a.grad.item() == 5 and b.grad.item() == 4
    seen.clear()
    layer(a, b, True)[0].backward()
    assert seen == [(3, None, [1, None])]


def test_wrong_answers_of_backward_hooks():
    layer = nn.Identity()
    layer.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0]))
    with pytest.raises(RuntimeError, match="2 gradients where the module has 1"):
        layer(gt.ones(1, requires_grad=True)).sum().backward()


def test_hooks_are_copied_with_the_module():
    import copy

    layer = nn.Identity()
    handle = layer.register_forward_hook(lambda m, a, o: o + 1)
    twin = copy.deepcopy(layer)
    handle.remove()
    assert layer(gt.zeros(1)).tolist() == [0] and twin(gt.zeros(1)).tolist() == [1]


def test_inner_modules_hooks_run():
    net, seen = nn.Sequential(nn.Linear(1, 1), nn.ReLU()), []
    for name, module in net.named_modules():
        module.register_forward_hook(lambda m, a, o, name=name: seen.append(name))
    net(gt.ones(1, 1))
    assert seen == ["0", "1", ""]
