"""Every schedule gives PyTorch's rates, and goes on from its state dict."""

import copy
import json
import pathlib
import pickle
import warnings

import optim_cases as cases
import pytest

import gt
import gt.optim
from gt.optim import lr_scheduler

# A chain inside of a sequence is started again by it, as in PyTorch: before the optimizer's first step.
pytestmark = pytest.mark.filterwarnings("ignore:Detected call of")

RECORDED = json.loads((pathlib.Path(__file__).parent / "optim.json").read_text())


def optimizer(lr=1.0, **options):
    return gt.optim.SGD([gt.ones(1, requires_grad=True)], lr=lr, **options)


@pytest.mark.parametrize("name", cases.SCHEDULES)
def test_fifty_epochs_to_the_last_bit(name):
    rows, _ = cases.run_schedule(gt, lr_scheduler, name)
    expected = RECORDED["schedules"][name]
    for epoch, (ours, theirs) in enumerate(zip(rows, expected, strict=True)):
        assert ours == pytest.approx(theirs, rel=1e-14, abs=1e-17), f"epoch {epoch}"


@pytest.mark.parametrize("name", cases.JUMPS)
@pytest.mark.filterwarnings("ignore:The epoch parameter")
def test_jumps(name):
    rows = cases.run_jumps(gt, lr_scheduler, name)
    for ours, theirs in zip(rows, RECORDED["jumps"][name], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-14, abs=1e-17)


@pytest.mark.parametrize("name", cases.SCHEDULES)
def test_a_state_dict_goes_on_where_it_stopped(name):
    first, schedule = cases.make_schedule(gt, lr_scheduler, name)
    for epoch in range(23):
        cases.step_once(first, schedule, epoch)
    stored = copy.deepcopy((first.state_dict(), schedule.state_dict()))
    second, resumed = cases.make_schedule(gt, lr_scheduler, name)
    second.load_state_dict(stored[0])
    resumed.load_state_dict(stored[1])
    assert stored[1] == schedule.state_dict(), "loading leaves the dict as it was"
    for epoch in range(23, cases.EPOCHS):
        cases.step_once(first, schedule, epoch)
        cases.step_once(second, resumed, epoch)
        assert resumed.get_last_lr() == schedule.get_last_lr()


@pytest.mark.parametrize("name", [n for n in cases.SCHEDULES if "Lambda" not in n and "Multiplicative" not in n])
def test_state_dicts_are_plain_data(name):
    opt, schedule = cases.make_schedule(gt, lr_scheduler, name)
    cases.step_once(opt, schedule, 0)
    assert pickle.loads(pickle.dumps(schedule.state_dict())) == schedule.state_dict()


def test_the_state_of_a_callable_is_kept():
    opt = optimizer()
    warm = cases.Warm()
    schedule = lr_scheduler.LambdaLR(opt, warm)
    opt.step()
    schedule.step()
    state = schedule.state_dict()
    assert state["lr_lambdas"] == [{"calls": 2}]
    other = cases.Warm()
    lr_scheduler.LambdaLR(optimizer(), other).load_state_dict(state)
    assert other.calls == 2


@pytest.mark.parametrize("name", cases.SCHEDULES)
def test_a_rate_in_a_tensor_stays_that_tensor(name):
    if name.startswith("Plateau") or name == "LambdaLR-two":
        pytest.skip("covered below, or needs two groups")
    expected = RECORDED["schedules"][name]
    kind, options, make = cases.SCHEDULES[name]
    rates = [gt.tensor(0.4, dtype=gt.float64), gt.tensor(0.2, dtype=gt.float64)]
    groups = [{"params": [gt.ones(1, requires_grad=True)], "lr": lr} for lr in rates]
    opt = getattr(gt.optim, kind)(groups, lr=1.0, **options)
    schedule = make(lr_scheduler, opt)
    for epoch in range(15):
        cases.step_once(opt, schedule, epoch)
        assert all(group["lr"] is lr for group, lr in zip(opt.param_groups, rates))
        assert [float(lr) for lr in schedule.get_last_lr()] == pytest.approx(
            expected[epoch + 1][:2], rel=1e-9, abs=1e-12
        )


def test_plateau_with_a_rate_in_a_tensor():
    lr = gt.tensor(1.0)
    opt = gt.optim.SGD([gt.ones(1, requires_grad=True)], lr=lr)
    schedule = lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=0)
    for loss in (gt.tensor(1.0), gt.tensor(2.0), gt.tensor(2.0)):
        schedule.step(loss)
    assert opt.param_groups[0]["lr"] is lr and lr.item() == 0.25


def test_wrong_order_of_calls_warns_once():
    opt = optimizer()
    schedule = lr_scheduler.StepLR(opt, 2)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        schedule.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule.step()


def test_right_order_of_calls_does_not_warn():
    opt = optimizer()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule = lr_scheduler.StepLR(opt, 2)
        for _ in range(3):
            opt.step()
            schedule.step()


def test_a_replaced_step_warns():
    opt = optimizer()
    schedule = lr_scheduler.StepLR(opt, 2)
    opt.step = lambda: None
    with pytest.warns(UserWarning, match="overridden"):
        schedule.step()


def test_get_lr_outside_of_a_step_warns():
    schedule = lr_scheduler.StepLR(optimizer(), 2)
    with pytest.warns(UserWarning, match="get_last_lr"):
        schedule.get_lr()


def test_epoch_argument_warns():
    opt = optimizer()
    schedule = lr_scheduler.StepLR(opt, 2)
    opt.step()
    with pytest.warns(UserWarning, match="epoch parameter"):
        schedule.step(4)


def test_resuming_needs_initial_lr():
    with pytest.raises(KeyError, match="initial_lr"):
        lr_scheduler.StepLR(optimizer(), 2, last_epoch=3)


def test_one_cycle_ends():
    opt = optimizer(momentum=0.9)
    schedule = lr_scheduler.OneCycleLR(opt, 0.1, total_steps=3)
    with pytest.raises(ValueError, match="Tried to step 4 times"):
        for _ in range(9):
            opt.step()
            schedule.step()


def test_plateau_after_a_group_was_added():
    opt = optimizer()
    schedule = lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=0)
    opt.add_param_group({"params": gt.ones(1, requires_grad=True)})
    schedule.step(1.0)
    schedule.step(2.0)
    assert schedule.get_last_lr() == [0.5, 0.5]
    listed = lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=0, min_lr=[0.1, 0.1])
    opt.add_param_group({"params": gt.ones(1, requires_grad=True)})
    listed.step(1.0)
    with pytest.raises(RuntimeError, match="min_lrs"):
        listed.step(2.0)


WRONG = [
    (lambda o: lr_scheduler.StepLR("no optimizer", 1), TypeError, "str is not an Optimizer"),
    (lambda o: lr_scheduler.ConstantLR(o, factor=1.5), ValueError, "between 0 and 1"),
    (lambda o: lr_scheduler.LinearLR(o, start_factor=0), ValueError, "Starting"),
    (lambda o: lr_scheduler.LinearLR(o, end_factor=2), ValueError, "Ending"),
    (lambda o: lr_scheduler.LambdaLR(o, [lambda e: e] * 3), ValueError, "Expected 1 lr_lambdas, but got 3"),
    (lambda o: lr_scheduler.MultiplicativeLR(o, 0.5), TypeError, "should be a function"),
    (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 0), ValueError, "T_0"),
    (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 0), ValueError, "T_mult"),
    (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2, eta_min="0"), ValueError, "eta_min"),
    (lambda o: lr_scheduler.OneCycleLR(o, 0.1), ValueError, "total_steps OR"),
    (lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=0), ValueError, "total_steps"),
    (lambda o: lr_scheduler.OneCycleLR(o, 0.1, epochs=-1, steps_per_epoch=1), ValueError, "epochs"),
    (lambda o: lr_scheduler.OneCycleLR(o, 0.1, 10, pct_start=1.5), ValueError, "pct_start"),
    (lambda o: lr_scheduler.OneCycleLR(o, 0.1, 10, anneal_strategy="up"), ValueError, "anneal_strategy"),
    (lambda o: lr_scheduler.OneCycleLR(o, [0.1, 0.2], 10), ValueError, "max_lr has 2 values, param_groups has 1"),
    (lambda o: lr_scheduler.CyclicLR(o, 0.1, 1.0, mode="square"), ValueError, "mode is invalid"),
    (lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=1.0), ValueError, "Factor"),
    (lambda o: lr_scheduler.ReduceLROnPlateau(o, "least"), ValueError, "mode least is unknown"),
    (lambda o: lr_scheduler.ReduceLROnPlateau(o, threshold_mode="x"), ValueError, "threshold mode x"),
    (lambda o: lr_scheduler.ReduceLROnPlateau(o, min_lr=[0, 0]), ValueError, "expected 1 min_lrs, got 2"),
    (lambda o: lr_scheduler.SequentialLR(o, [], []), ValueError, "at least one"),
    (lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.StepLR(o, 1)], [3]), ValueError, "one more than"),
    (lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.StepLR(optimizer(), 1)], []), ValueError, "same optimizer"),
    (lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.ReduceLROnPlateau(o)]), ValueError, "ReduceLROnPlateau"),
    (lambda o: lr_scheduler.ChainedScheduler([]), ValueError, "at least one"),
]


@pytest.mark.parametrize("make, error, message", WRONG, ids=[f"{i}-{row[2]}" for i, row in enumerate(WRONG)])
def test_wrong_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make(optimizer())


def test_momentum_must_be_there_to_be_cycled():
    opt = gt.optim.Adagrad([gt.ones(1, requires_grad=True)])
    with pytest.raises(ValueError, match="must support momentum or beta1"):
        lr_scheduler.OneCycleLR(opt, 0.1, 10)
