"""Groups, state, hooks, copies and errors of optimizers, and that steps do not wait."""

import copy
import pickle

import pytest

import gt
import gt.optim

ALL = ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop"]


def leaf(*values):
    return gt.tensor(list(values), requires_grad=True)


def stepped(kind, steps=3, **options):
    x, y = leaf(1.0, -2.0), leaf(3.0)
    opt = getattr(gt.optim, kind)([x, y], **options)
    for _ in range(steps):
        opt.zero_grad()
        ((x - 0.5) ** 2).sum().backward()
        (y**2).sum().backward()
        opt.step()
    return opt, x, y


def reads():
    return sum(worker["round_trips"] for worker in gt.debug.get_worker_stats().values())


@pytest.mark.parametrize("kind", ALL)
def test_steps_do_not_wait(kind):
    x = leaf(1.0, 2.0)
    for lr in (0.1, gt.tensor(0.1)):
        opt = getattr(gt.optim, kind)([x], lr=lr)
        before = reads()
        for _ in range(3):
            opt.zero_grad()
            (x * x).sum().backward()
            opt.step()
        opt.state_dict()
        assert reads() == before


def test_options_that_choose_an_implementation_are_accepted():
    x = leaf(1.0)
    gt.optim.SGD([x], foreach=True, fused=False, differentiable=False)
    gt.optim.Adam([x], foreach=True, capturable=True)
    gt.optim.AdamW([x], fused=True)
    gt.optim.Adagrad([x], foreach=False, fused=None)
    gt.optim.RMSprop([x], foreach=False, capturable=True)


def test_groups_take_defaults_and_keep_their_own():
    x, y = leaf(1.0), leaf(2.0)
    opt = gt.optim.SGD([{"params": [x]}, {"params": y, "lr": 0.5, "extra": "kept"}], lr=0.1, momentum=0.9)
    assert [group["lr"] for group in opt.param_groups] == [0.1, 0.5]
    assert opt.param_groups[1]["momentum"] == 0.9 and opt.param_groups[1]["extra"] == "kept"
    opt.add_param_group({"params": (p for p in [leaf(3.0)])})
    assert len(opt.param_groups) == 3
    assert opt.state_dict()["param_groups"][1]["extra"] == "kept"


def test_named_parameters():
    x, y = leaf(1.0), leaf(2.0)
    opt = gt.optim.SGD([("x", x), ("y", y)], lr=1.0)
    assert opt.param_groups[0]["param_names"] == ["x", "y"] and opt.param_groups[0]["params"] == [x, y]
    with pytest.raises(ValueError, match="Some param names are missing"):
        gt.optim.SGD([("x", x), y])
    with pytest.raises(ValueError, match="without names"):
        opt.add_param_group({"params": [leaf(1.0)]})
    other = gt.optim.SGD([x, y])
    other.load_state_dict(opt.state_dict())
    assert other.param_groups[0]["param_names"] == ["x", "y"]


def test_parameters_may_come_from_a_generator():
    params = [leaf(1.0), leaf(2.0)]
    assert gt.optim.SGD(p for p in params).param_groups[0]["params"] == params


WRONG_PARAMS = [
    (lambda: gt.ones(1), TypeError, "iterable of Tensors"),
    (list, ValueError, "empty parameter list"),
    (lambda: [1.0], TypeError, "can only optimize Tensors, but one of the params is builtins.float"),
    (lambda: [leaf(1.0) * 2], ValueError, "can't optimize a non-leaf Tensor"),
    (lambda: {leaf(1.0)}, TypeError, "ordered collections"),
    (lambda: [{"params": {leaf(1.0)}}], TypeError, "ordered collections"),
    (lambda: [{"params": []}, 3], TypeError, "must be a dict"),
]


@pytest.mark.parametrize("make, error, message", WRONG_PARAMS, ids=[row[2] for row in WRONG_PARAMS])
def test_wrong_parameters(make, error, message):
    with pytest.raises(error, match=message):
        gt.optim.SGD(make())


def test_a_parameter_belongs_to_one_group():
    x = leaf(1.0)
    with pytest.raises(ValueError, match="more than one parameter group"):
        gt.optim.SGD([{"params": x}, {"params": [x]}])
    with pytest.warns(UserWarning, match="duplicate"):
        gt.optim.SGD([x, x])


WRONG_OPTIONS = [
    ("SGD", {"lr": -1.0}, "Invalid learning rate: -1.0"),
    ("SGD", {"momentum": -0.1}, "Invalid momentum value: -0.1"),
    ("SGD", {"weight_decay": -1}, "Invalid weight_decay value: -1"),
    ("SGD", {"nesterov": True}, "Nesterov momentum requires a momentum and zero dampening"),
    ("SGD", {"nesterov": True, "momentum": 0.9, "dampening": 0.1}, "Nesterov"),
    ("SGD", {"lr": gt.ones(2)}, "Tensor lr must be 1-element"),
    ("Adam", {"lr": -1.0}, "Invalid learning rate"),
    ("Adam", {"eps": -1.0}, "Invalid epsilon value"),
    ("Adam", {"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
    ("Adam", {"betas": (0.9, -0.1)}, "Invalid beta parameter at index 1: -0.1"),
    ("AdamW", {"weight_decay": -1.0}, "Invalid weight_decay value"),
    ("Adagrad", {"lr_decay": -1.0}, "Invalid lr_decay value"),
    ("Adagrad", {"initial_accumulator_value": -1.0}, "Invalid initial_accumulator_value value"),
    ("RMSprop", {"alpha": -1.0}, "Invalid alpha value"),
    ("RMSprop", {"momentum": -1.0}, "Invalid momentum value"),
    ("Adadelta", {"rho": 1.5}, "Invalid rho value"),
    ("Adamax", {"betas": (2.0, 0.9)}, "Invalid beta parameter at index 0"),
    ("NAdam", {"momentum_decay": -1.0}, "Invalid momentum_decay value"),
    ("RAdam", {"eps": -1.0}, "Invalid epsilon value"),
    ("ASGD", {"weight_decay": -1.0}, "Invalid weight_decay value"),
    ("Rprop", {"etas": (1.5, 1.2)}, "Invalid eta values: 1.5, 1.2"),
    ("LBFGS", {"lr": -1}, "Invalid learning rate"),
]


@pytest.mark.parametrize("kind, options, message", WRONG_OPTIONS, ids=[f"{row[0]}-{row[2]}" for row in WRONG_OPTIONS])
def test_wrong_options(kind, options, message):
    with pytest.raises(ValueError, match=message):
        getattr(gt.optim, kind)([leaf(1.0)], **options)


def test_lbfgs_has_one_group():
    with pytest.raises(ValueError, match="per-parameter options"):
        gt.optim.LBFGS([{"params": leaf(1.0)}, {"params": leaf(2.0)}])


def test_zero_grad():
    opt, x, _ = stepped("SGD")
    grad = x.grad
    opt.zero_grad(set_to_none=False)
    assert x.grad is grad and grad.tolist() == [0, 0]
    opt.zero_grad()
    assert x.grad is None


def test_zero_grad_forgets_the_graph_of_a_gradient():
    x = leaf(1.0)
    (x**3).sum().backward(create_graph=True)
    assert x.grad.grad_fn is not None
    gt.optim.SGD([x]).zero_grad(set_to_none=False)
    assert x.grad.grad_fn is None and not x.grad.requires_grad and x.grad.tolist() == [0]


def test_parameters_without_gradients_stay():
    x, y = leaf(1.0), leaf(2.0)
    opt = gt.optim.Adam([x, y], lr=0.1)
    x.sum().backward()
    opt.step()
    assert y.tolist() == [2.0] and list(opt.state_dict()["state"]) == [0]


def test_the_loss_of_a_closure_comes_back():
    x = leaf(2.0)
    opt = gt.optim.SGD([x], lr=0.1)

    def closure():
        assert gt.is_grad_enabled()
        loss = (x * 3).sum()
        loss.backward()
        return loss

    with gt.no_grad():
        assert opt.step(closure).item() == 6.0
        assert not gt.is_grad_enabled()
    assert opt.step() is None


def test_grad_mode_is_back_after_a_closure_that_raises():
    opt = gt.optim.SGD([leaf(1.0)])

    def closure():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"), gt.no_grad():
        opt.step(closure)
    assert gt.is_grad_enabled()


@pytest.mark.parametrize("kind", ALL)
def test_steps_are_not_tracked(kind):
    opt, x, _ = stepped(kind)
    assert x.is_leaf and x.requires_grad and x.grad_fn is None
    for state in opt.state.values():
        assert not any(isinstance(v, gt.Tensor) and v.requires_grad for v in state.values())


def test_differentiable_steps():
    start = leaf(1.0, 2.0)
    lr = gt.tensor(0.1, requires_grad=True)
    x = start.clone()
    x.retain_grad()
    opt = gt.optim.SGD([x], lr=lr, differentiable=True)
    (x**2).sum().backward(retain_graph=True)
    x.grad = x.grad.detach()
    opt.step()
    (x**2).sum().backward()
    # x1 = x0 - lr * g with g = 2 * x0: d(x1²)/d lr = -2 * x1 * g.
    assert lr.grad.item() == pytest.approx(-2 * (0.8 * 2 + 1.6 * 4))


@pytest.mark.parametrize("kind", ALL)
def test_a_state_dict_goes_on_where_it_stopped(kind):
    opt, x, y = stepped(kind)
    a, b = x.detach().clone().requires_grad_(), y.detach().clone().requires_grad_()
    other = getattr(gt.optim, kind)([a, b], lr=7.0)
    other.load_state_dict(opt.state_dict())
    for _ in range(3):
        for params, optimizer in (((x, y), opt), ((a, b), other)):
            optimizer.zero_grad()
            sum((p**2).sum() for p in params).backward()
            optimizer.step()
    assert a.tolist() == x.tolist() and b.tolist() == y.tolist()
    assert repr(other.state_dict()) == repr(opt.state_dict())


def test_loaded_state_is_a_copy():
    opt, _, _ = stepped("Adam")
    stored = opt.state_dict()
    before = stored["state"][0]["exp_avg"].tolist()
    x, y = leaf(1.0, 1.0), leaf(1.0)
    other = gt.optim.Adam([x, y])
    other.load_state_dict(stored)
    (x.sum() + y.sum()).backward()
    other.step()
    other.param_groups[0]["betas"] = (0.0, 0.0)
    assert stored["state"][0]["exp_avg"].tolist() == before
    assert stored["param_groups"][0]["betas"] == (0.9, 0.999)


def test_state_takes_the_dtype_of_its_parameter():
    opt, _, _ = stepped("Adam")
    x, y = gt.ones(2, dtype=gt.float64, requires_grad=True), gt.ones(1, dtype=gt.float64, requires_grad=True)
    other = gt.optim.Adam([x, y])
    other.load_state_dict(opt.state_dict())
    assert other.state[x]["exp_avg"].dtype == gt.float64
    assert other.state[x]["step"] == 3
    assert other.state_dict()["state"][0]["step"].dtype == gt.float32


def test_counters_may_be_plain_numbers():
    opt, _, _ = stepped("Adam")
    stored = opt.state_dict()
    stored["state"][0]["step"] = 3
    x, y = leaf(1.0, 1.0), leaf(1.0)
    other = gt.optim.Adam([x, y])
    other.load_state_dict(stored)
    assert other.state[x]["step"] == 3 and other.state[y]["step"] == 3


def test_state_that_does_not_fit():
    opt, _, _ = stepped("Adam")
    with pytest.raises(ValueError, match="different number of parameter groups: it has 1, the optimizer 2"):
        gt.optim.Adam([{"params": leaf(1.0)}, {"params": leaf(1.0)}]).load_state_dict(opt.state_dict())
    with pytest.raises(ValueError, match=r"doesn't match the size .* have \[2\] parameters, the optimizer's \[1\]"):
        gt.optim.Adam([leaf(1.0)]).load_state_dict(opt.state_dict())


def test_adamw_stays_adamw_with_the_state_of_adam():
    opt, _, _ = stepped("Adam")
    other = gt.optim.AdamW([leaf(1.0, 1.0), leaf(1.0)])
    other.load_state_dict(opt.state_dict())
    assert other.param_groups[0]["decoupled_weight_decay"] is True


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    "twin_of", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))], ids=["deepcopy", "pickle"]
)
def test_copies(kind, twin_of):
    opt, x, y = stepped(kind)
    opt.zero_grad()
    twin, a, b = twin_of((opt, x, y))
    assert twin.param_groups[0]["params"][0] is a
    for params, optimizer in (((x, y), opt), ((a, b), twin)):
        sum((p**2).sum() for p in params).backward()
        optimizer.step()
    assert a.tolist() == x.tolist() and repr(twin.state_dict()) == repr(opt.state_dict())


def test_repr():
    lines = repr(gt.optim.SGD([leaf(1.0)], lr=0.5)).splitlines()
    assert lines[:2] == ["SGD (", "Parameter Group 0"] and "    lr: 0.5" in lines and lines[-1] == ")"
    assert lines[2:-1] == sorted(lines[2:-1])


def test_step_hooks():
    opt = gt.optim.SGD([leaf(1.0)])
    calls = []
    first = opt.register_step_pre_hook(lambda o, args, kwargs: calls.append(("pre", o is opt, args[0] is opt)))
    opt.register_step_post_hook(lambda o, args, kwargs: calls.append(("post", o is opt)))
    opt.step()
    assert calls == [("pre", True, True), ("post", True)]
    first.remove()
    first.remove()
    opt.step()
    assert calls[2:] == [("post", True)]


def test_a_pre_hook_may_change_the_arguments():
    opt = gt.optim.SGD([leaf(1.0)])
    handle = opt.register_step_pre_hook(lambda o, args, kwargs: (args, {"closure": lambda: "mine"}))
    assert opt.step() == "mine"
    handle.remove()
    opt.register_step_pre_hook(lambda o, args, kwargs: "wrong")
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        opt.step()


def test_state_dict_hooks():
    opt = gt.optim.SGD([leaf(1.0)], lr=1.0)
    order = []
    opt.register_state_dict_pre_hook(lambda o: order.append("second"))
    opt.register_state_dict_pre_hook(lambda o: order.append("first"), prepend=True)
    opt.register_state_dict_post_hook(lambda o, d: {**d, "more": 1})
    opt.register_load_state_dict_pre_hook(lambda o, d: order.append(d["more"]))
    opt.register_load_state_dict_post_hook(lambda o: order.append("loaded"))
    opt.load_state_dict(opt.state_dict())
    assert order == ["first", "second", 1, "loaded"]


def test_hooks_of_a_subclass_with_its_own_step():
    calls = []

    class Mine(gt.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 1.0})

        def step(self, closure=None):
            calls.append("step")
            return 5

    opt = Mine([leaf(1.0)])
    opt.register_step_post_hook(lambda *_: calls.append("hook"))
    assert opt.step() == 5 and calls == ["step", "hook"]

    class Less(gt.optim.Optimizer):
        pass

    with pytest.raises(NotImplementedError, match="does not define step"):
        Less([leaf(1.0)], {}).step()


def test_required_options():
    from gt.optim.optimizer import required

    class Mine(gt.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"rate": required})

    with pytest.raises(ValueError, match="required optimization parameter rate"):
        Mine([leaf(1.0)])
    assert Mine([{"params": leaf(1.0), "rate": 2}]).param_groups[0]["rate"] == 2


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_half_precision_parameters_keep_their_dtype(kind):
    x = gt.ones(4, dtype=gt.bfloat16, requires_grad=True)
    opt = getattr(gt.optim, kind)([x], lr=0.1)
    (x.float() ** 2).sum().backward()
    opt.step()
    assert x.dtype == gt.bfloat16 and (x < 1).all().item()


def test_training_finds_the_minimum():
    for kind, lr in (("SGD", 0.1), ("Adam", 0.1), ("AdamW", 0.1), ("Adagrad", 0.5), ("RMSprop", 0.05)):
        x = leaf(3.0, -4.0)
        opt = getattr(gt.optim, kind)([x], lr=lr)
        for _ in range(200):
            opt.zero_grad()
            loss = ((x - gt.tensor([1.0, 2.0])) ** 2).sum()
            loss.backward()
            opt.step()
        assert loss.item() < 0.1, kind


def test_only_the_rate_may_be_a_tensor():
    for kind, options in (("Adam", {"betas": (gt.tensor(0.9), 0.99)}), ("SGD", {"weight_decay": gt.tensor(0.1)})):
        with pytest.raises(ValueError, match="only lr may be a tensor"):
            getattr(gt.optim, kind)([leaf(1.0)], **options)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop"])
def test_a_step_with_a_failed_gradient_changes_nothing(kind):
    options = {"momentum": 0.9} if kind in ("SGD", "RMSprop") else {}
    x, y = leaf(1.0, 2.0), leaf(3.0)
    opt = getattr(gt.optim, kind)([x, y], lr=0.1, **options)
    (x.sum() + y.sum()).backward()
    opt.step()
    # The step was counted all the same.
    names = [name for name in opt.state[x] if name != "step"]
    before = [x.tolist(), y.tolist(), *(opt.state[p][name].tolist() for p in (x, y) for name in names)]
    # Only found out on the device.
    y.grad = gt.arange(3.0)[gt.tensor([9])]
    opt.step()
    with pytest.raises(IndexError):
        gt.synchronize()
    after = [x.tolist(), y.tolist(), *(opt.state[p][name].tolist() for p in (x, y) for name in names)]
    assert after == before


@pytest.mark.parametrize("kind", ALL)
def test_parameters_and_gradients_that_are_views(kind):
    base = gt.arange(6.0).reshape(2, 3) + 1
    row, plain = base[1].detach().requires_grad_(), (base[1] + 0).requires_grad_()
    for param in (row, plain):
        opt = getattr(gt.optim, kind)([param], lr=0.1)
        for _ in range(2):
            param.grad = gt.ones(1).expand(3)
            opt.step()
    assert row.tolist() == pytest.approx(plain.tolist()) and base[1].tolist() == row.tolist()
    assert base[0].tolist() == [1, 2, 3]


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop"])
def test_a_step_is_few_instructions(kind):
    params = [leaf(float(i)) for i in range(1, 41)]
    opt = getattr(gt.optim, kind)(params, lr=0.1)

    def step():
        for param in params:
            param.grad = gt.ones(1)
        gt.synchronize()
        before = total()
        opt.step()
        gt.synchronize()
        return total() - before

    def total():
        return sum(worker["total_instructions"] for worker in gt.debug.get_worker_stats().values())

    step()
    assert step() < 10
