"""Modules: what assignment registers, how members are walked, changed, copied and stored."""

import copy
import pickle

import pytest

import gt
import gt.nn as nn
from gt.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.scale = nn.Parameter(gt.ones(3))
        self.register_buffer("seen", gt.zeros(1))
        self.register_buffer("scratch", gt.zeros(2), persistent=False)
        self.register_parameter("absent", None)
        self.body = nn.Sequential(nn.ReLU(), nn.Linear(3, 1))
        self.plain = 7

    def forward(self, x):
        return self.body(self.first(x) * self.scale)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(self.embed(x))


# --- parameters ------------------------------------------------------------------------------------------------------


def test_a_parameter_is_a_tensor():
    p = nn.Parameter(gt.ones(2, dtype=gt.float64))
    assert isinstance(p, nn.Parameter) and isinstance(p, gt.Tensor) and p.requires_grad and p.is_leaf
    assert p.dtype == gt.float64
    assert type(p + 1) is gt.Tensor and type(p.data) is gt.Tensor and type(p.detach()) is gt.Tensor
    (p * 3).sum().backward()
    assert p.grad.tolist() == [3, 3]


def test_a_parameter_shares_its_data():
    data = gt.zeros(2)
    p = nn.Parameter(data)
    with gt.no_grad():
        p.add_(1)
    assert data.tolist() == [1, 1]


def test_in_place_on_a_parameter():
    p = nn.Parameter(gt.ones(2))
    with pytest.raises(RuntimeError):
        p.add_(1)
    with gt.no_grad():
        assert p.add_(1) is p
        p.mul_(2).sub_(1)
        p[0] = 9
    p.data.add_(1)
    assert p.tolist() == [10, 4] and p.requires_grad
    p.data = gt.tensor([5.0, 6.0])
    assert p.tolist() == [5, 6] and isinstance(p, nn.Parameter)


def test_parameter_constructor():
    assert nn.Parameter().shape == (0,)
    assert not nn.Parameter(gt.ones(1), requires_grad=False).requires_grad
    assert not nn.Parameter(gt.ones(1, dtype=gt.int64), requires_grad=False).requires_grad
    with pytest.raises(RuntimeError):
        nn.Parameter(gt.ones(1, dtype=gt.int64))


def test_parameters_take_attributes_and_hash_by_identity():
    p, q = nn.Parameter(gt.ones(1)), nn.Parameter(gt.ones(1))
    p.no_decay = True
    assert p.no_decay and len({p, q, p}) == 2


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))], ids=["deepcopy", "pickle"])
def test_copies_of_parameters(twin):
    p = nn.Parameter(gt.tensor([1.0, 2.0]))
    p.tag = "x"
    q = twin(p)
    assert type(q) is nn.Parameter and q.requires_grad and q.tolist() == [1, 2] and q.tag == "x"
    with gt.no_grad():
        q.zero_()
    assert p.tolist() == [1, 2]
    frozen = twin(nn.Parameter(gt.ones(1), requires_grad=False))
    assert type(frozen) is nn.Parameter and not frozen.requires_grad
    buffer = twin(nn.Buffer(gt.ones(1), persistent=False))
    assert type(buffer) is nn.Buffer and buffer.persistent is False


# --- registration ----------------------------------------------------------------------------------------------------


def test_assignment_registers():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == [
        "scale",
        "first.weight",
        "first.bias",
        "body.1.weight",
        "body.1.bias",
    ]
    assert [n for n, _ in net.named_buffers()] == ["seen", "scratch"]
    assert [n for n, _ in net.named_children()] == ["first", "body"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "body", "body.0", "body.1"]
    assert net.plain == 7 and net.absent is None
    assert list(net._parameters) == ["scale", "absent"] and net._parameters["scale"] is net.scale
    assert list(net._modules) == ["first", "body"] and len(net._buffers) == 2


def test_prefix_and_recursion():
    net = Net()
    assert [n for n, _ in net.named_parameters(prefix="net", recurse=False)] == ["net.scale"]
    assert [n for n, _ in net.named_modules(prefix="net")][:2] == ["net", "net.first"]
    assert len(list(net.parameters(recurse=False))) == 1 and len(list(net.buffers(recurse=False))) == 2


def test_reassignment_changes_the_kind():
    net = Net()
    net.plain = nn.Parameter(gt.ones(1))
    assert "plain" in dict(net.named_parameters())
    net.plain = None
    assert net.plain is None and "plain" not in dict(net.named_parameters()) and "plain" in net._parameters
    net.first = nn.ReLU()
    assert isinstance(net.first, nn.ReLU) and list(net._modules) == ["first", "body"]
    net.seen = gt.ones(2)
    assert dict(net.named_buffers())["seen"].tolist() == [1, 1]
    net.scale = nn.Linear(1, 1)
    assert "scale" in net._modules and "scale" not in net._parameters
    del net.scale
    assert not hasattr(net, "scale") and "scale" not in net._modules
    net.first = None
    assert net.first is None and [n for n, _ in net.named_children()] == ["body"]


def test_tensors_are_not_parameters():
    net = nn.Module()
    net.x = gt.ones(2)
    assert list(net.named_parameters()) == [] and list(net.named_buffers()) == []
    net.w = nn.Parameter(gt.ones(1))
    with pytest.raises(TypeError, match="'Tensor' as parameter 'w'"):
        net.w = gt.ones(1)


def test_buffer_class_registers():
    net = nn.Module()
    net.kept = nn.Buffer(gt.ones(1))
    net.temporary = nn.Buffer(gt.ones(1), persistent=False)
    assert [n for n, _ in net.named_buffers()] == ["kept", "temporary"] and list(net.state_dict()) == ["kept"]
    net.kept = gt.zeros(1)
    assert dict(net.named_buffers())["kept"].tolist() == [0]


def test_registering_before_init():
    class Late(nn.Module):
        def __init__(self):
            self.w = nn.Parameter(gt.ones(1))

    class LateModule(nn.Module):
        def __init__(self):
            self.w = nn.ReLU()

    class Early(nn.Module):
        def __init__(self):
            self.number = 3
            super().__init__()

    for late in (Late, LateModule):
        with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
            late()
    assert Early().number == 3


def test_wrapping_another_module_with_getattr():
    """A common way to write wrappers: what this module does not have, the inner one may."""

    class Wrapper(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.__dict__["inner"], name)

    wrapped = Wrapper(nn.Linear(2, 3))
    assert wrapped.in_features == 2 and wrapped.inner.out_features == 3


def test_the_registries_are_live():
    net = Net()
    net._parameters["scale"] = nn.Parameter(gt.zeros(3))
    assert net.scale.tolist() == [0, 0, 0]
    net._modules["extra"] = nn.ReLU()
    assert isinstance(net.extra, nn.ReLU)
    assert net._modules.pop("extra") is not None and not hasattr(net, "extra")
    with pytest.raises(KeyError):
        net._parameters["first"]


def test_get_by_path():
    net = Net()
    assert net.get_submodule("body.1") is net.body[1] and net.get_submodule("") is net
    assert net.get_parameter("body.1.bias") is net.body[1].bias and net.get_buffer("seen") is net.seen
    net.set_submodule("body.1", nn.Identity())
    assert isinstance(net.body[1], nn.Identity)
    for wrong in (
        lambda: net.get_submodule("body.9"),
        lambda: net.get_buffer("scale"),
        lambda: net.get_parameter("seen"),
    ):
        with pytest.raises(AttributeError):
            wrong()


# --- shared members --------------------------------------------------------------------------------------------------


def test_tied_weights_are_one():
    net = Tied()
    assert [n for n, _ in net.named_parameters()] == ["embed.weight"]
    assert [n for n, _ in net.named_parameters(remove_duplicate=False)] == ["embed.weight", "head.weight"]
    assert list(net.state_dict()) == ["embed.weight", "head.weight"]
    net(gt.tensor([1, 2])).sum().backward()
    assert net.head.weight.grad is not None and net.head.weight is net.embed.weight


@pytest.mark.parametrize(
    "change",
    [
        copy.deepcopy,
        lambda n: pickle.loads(pickle.dumps(n)),
        lambda n: n.double(),
        lambda n: n.to("cuda"),
        lambda n: n.to(gt.bfloat16),
    ],
    ids=["deepcopy", "pickle", "double", "device", "dtype"],
)
def test_tied_weights_stay_tied(change):
    net = change(Tied())
    assert net.head.weight is net.embed.weight and isinstance(net.head.weight, nn.Parameter)
    with gt.no_grad():
        net.embed.weight.zero_()
    assert net.head.weight.sum().item() == 0


def test_a_module_used_twice_is_walked_once():
    layer = nn.Linear(2, 2)
    net = nn.Sequential(layer, layer)
    assert [n for n, _ in net.named_modules()] == ["", "0"]
    assert [n for n, _ in net.named_modules(remove_duplicate=False)] == ["", "0", "1"]
    assert len(list(net.parameters())) == 2 and len(list(net.children())) == 1
    assert list(net.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]


# --- modes and conversions -------------------------------------------------------------------------------------------


def test_train_and_eval():
    net = Net()
    assert net.training and net.eval() is net
    assert not any(m.training for m in net.modules())
    net.train()
    assert all(m.training for m in net.modules())


def test_freezing():
    net = Net().requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    assert not net(gt.ones(1, 2)).requires_grad


def test_zero_grad():
    net = Net()
    net(gt.ones(1, 2)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert all(p.grad is not None and p.grad.abs().sum().item() == 0 for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


@pytest.mark.parametrize("name", ["float", "double", "half", "bfloat16"])
def test_casts(name):
    net = nn.BatchNorm1d(3)
    dtype = {"float": gt.float32, "double": gt.float64, "half": gt.float16, "bfloat16": gt.bfloat16}[name]
    assert getattr(net, name)() is net
    assert net.weight.dtype == net.running_mean.dtype == dtype and net.num_batches_tracked.dtype == gt.int64
    assert isinstance(net.weight, nn.Parameter) and net.weight.requires_grad and net.weight.is_leaf


def test_to():
    net = Net().to(gt.float64)
    assert net.scale.dtype == gt.float64
    net.to("cuda")
    assert net.scale.device == gt.device("cuda") and net.seen.device == gt.device("cuda")
    net.to("cpu", gt.float32)
    assert net.scale.dtype == gt.float32 and net.scale.device == gt.device("cpu")
    net.to(gt.ones(1, dtype=gt.float64))
    assert net.scale.dtype == gt.float64
    net.to(dtype=gt.float16)
    assert net.scale.dtype == gt.float16
    with pytest.raises(TypeError, match="floating point"):
        net.to(gt.int32)
    assert net.type(gt.float32).scale.dtype == gt.float32


def test_conversions_that_change_nothing_keep_the_objects():
    net = Net()
    held = list(net.parameters())
    net.float().cpu().to("cpu").to(gt.float32)
    assert all(a is b for a, b in zip(held, net.parameters()))


def test_conversions_carry_gradients():
    net = nn.Linear(2, 1)
    net(gt.ones(1, 2)).sum().backward()
    net.double()
    assert net.weight.grad.dtype == gt.float64 and net.weight.grad.tolist() == [[1, 1]]


def test_apply_visits_children_first():
    seen = []
    net = Net()
    assert net.apply(lambda m: seen.append(type(m).__name__)) is net
    assert seen == ["Linear", "ReLU", "Linear", "Sequential", "Net"]


# --- copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_copies_of_modules(twin):
    net = Net().eval()
    other = twin(net)
    x = gt.randn(4, 2)
    assert gt.equal(net(x), other(x)) and not other.training and other.plain == 7
    assert [n for n, _ in other.named_parameters()] == [n for n, _ in net.named_parameters()]
    assert all(type(p) is nn.Parameter and p.requires_grad for p in other.parameters())
    assert list(other.state_dict()) == list(net.state_dict())
    with gt.no_grad():
        for p in other.parameters():
            p.zero_()
    assert not gt.equal(net(x), other(x))


def test_trained_models_pickle():
    net = Net()
    net(gt.ones(1, 2)).sum().backward()
    other = pickle.loads(pickle.dumps(net))
    assert gt.equal(net(gt.ones(1, 2)), other(gt.ones(1, 2)))


# --- calls -----------------------------------------------------------------------------------------------------------


def test_calls_pass_everything_on():
    class Echo(nn.Module):
        def forward(self, *args, **kwargs):
            return args, kwargs

    assert Echo()(1, 2, a=3) == ((1, 2), {"a": 3})
    with pytest.raises(NotImplementedError, match="Echo2"):
        type("Echo2", (nn.Module,), {})()(1)


def test_forward_may_be_replaced_on_the_instance():
    net = nn.Linear(2, 2)
    net.forward = lambda x: x * 0
    assert net(gt.ones(1, 2)).tolist() == [[0, 0]]


def test_functional_and_module_agree():
    layer = nn.Linear(3, 2)
    x = gt.randn(4, 3)
    assert gt.equal(layer(x), F.linear(x, layer.weight, layer.bias))


def test_lazy_names():
    from gt.nn import binary_cross_entropy, cross_entropy_loss, mse_loss

    assert mse_loss is F.mse_loss and cross_entropy_loss is F.cross_entropy
    assert binary_cross_entropy is F.binary_cross_entropy
    from gt.nn import SGD

    assert SGD is gt.optim.SGD
    with pytest.raises(AttributeError, match="gt.nn.Nothing is not in GT yet"):
        nn.Nothing
