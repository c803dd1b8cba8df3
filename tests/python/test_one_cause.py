"""Failures because of one bad value are raised once, whichever instructions they stop."""

import gc

import pytest

import gt
import gt.nn.functional as F


def raised(count, read):
    """What so many reads raise."""
    seen = []
    for _ in range(count):
        try:
            read()
        except (IndexError, RuntimeError) as error:
            seen.append(str(error))
    return seen


def embedding(bad):
    table = gt.ones(10, 4, requires_grad=True)
    return table, F.embedding(gt.tensor([1, 99 if bad else 2, 3]), table).sum()


def indexing(bad):
    table = gt.ones(10, 4, requires_grad=True)
    return table, (table[gt.tensor([1, 99 if bad else 2])] * 2).sum()


def gathering(bad):
    table = gt.ones(3, 4, requires_grad=True)
    return table, table.gather(1, gt.tensor([[0, 9 if bad else 1]])).sum()


def cross_entropy(bad):
    logits = gt.ones(2, 4, requires_grad=True)
    return logits, F.cross_entropy(logits, gt.tensor([0, 7 if bad else 1]))


def cross_entropy_in_double(bad):
    logits = gt.ones(2, 4, dtype=gt.float64, requires_grad=True)
    return logits, F.cross_entropy(logits, gt.tensor([0, 7 if bad else 1]))


def negative_log_likelihood(bad):
    logits = gt.ones(2, 4, requires_grad=True)
    return logits, F.nll_loss(logits.log_softmax(1), gt.tensor([0, 7 if bad else 1]))


def probability(bad):
    x = gt.full((3,), 2.0 if bad else 0.5).requires_grad_()
    return x, F.binary_cross_entropy(x, gt.ones(3))


@pytest.mark.parametrize(
    "model",
    [
        embedding,
        indexing,
        gathering,
        cross_entropy,
        cross_entropy_in_double,
        negative_log_likelihood,
        probability,
    ],
)
@pytest.mark.parametrize("cut", [False, True], ids=["one window", "several windows"])
def test_the_gradient_of_what_failed_is_not_raised_again(model, cut):
    gt.synchronize()
    weight, loss = model(bad=True)
    if cut:
        gt._core.cut()
    loss.backward()
    if cut:
        gt._core.cut()
    with gt.no_grad():
        weight -= 0.1 * weight.grad
    good = gt.ones(3)
    assert len(raised(1, loss.item)) == 1
    assert raised(4, lambda: good.sum().item()) == []
    gt.synchronize()


def test_the_gradient_is_not_raised_after_a_loss_that_was_read_before_it():
    gt.synchronize()
    weight, loss = embedding(bad=True)
    assert len(raised(1, loss.item)) == 1
    loss.backward()
    with gt.no_grad():
        weight -= 0.1 * weight.grad
    assert raised(3, lambda: gt.ones(3).sum().item()) == []
    gt.synchronize()


def test_the_next_step_that_fails_is_raised():
    gt.synchronize()
    for _ in range(3):
        weight, loss = embedding(bad=True)
        loss.backward()
        with gt.no_grad():
            weight -= 0.1 * weight.grad
        assert len(raised(1, loss.item)) == 1
        assert raised(2, lambda: gt.ones(3).sum().item()) == []


def test_two_bad_values_are_two_failures():
    gt.synchronize()
    one, other = gt.zeros(4), gt.zeros(4)
    one += gt.ones(3)[gt.tensor([9, 0, 0, 0])]
    other += gt.ones(3)[gt.tensor([8, 0, 0, 0])]
    seen = raised(4, lambda: gt.ones(3).sum().item())
    assert len(seen) == 2 and "index 9" in seen[0] and "index 8" in seen[1]


def test_a_failed_update_says_what_was_skipped():
    gt.synchronize()
    layer = gt.nn.Linear(4, 2)
    optimizer = gt.optim.SGD(layer.parameters(), lr=0.1)
    rows = gt.ones(3, 4)[gt.tensor([0, 9])]
    layer(rows).sum().backward()
    optimizer.step()
    with pytest.raises(IndexError) as error:
        gt.synchronize()
    said = str(error.value)
    assert "test_one_cause.py" in said.splitlines()[-2], said
    assert "was skipped; " in said and "kept their values: f32[2, 4]" in said, said


def test_synchronize_raises_what_nobody_read():
    gt.synchronize()
    lost = gt.ones(3)[gt.tensor([9])]
    with pytest.raises(IndexError, match="index 9"):
        gt.synchronize()
    gt.synchronize()
    with pytest.raises(IndexError, match="index 9"):
        lost.tolist()


def test_the_same_bad_index_in_every_step_was_raised_in_the_first_only():
    gt.synchronize()
    weight, index = gt.zeros(2), gt.tensor([0, 9])
    for step in range(4):
        weight += gt.ones(3)[index]
        with pytest.raises(IndexError, match="index 9"):
            gt.synchronize()
        assert weight.tolist() == [0.0, 0.0], step


def test_a_gradient_that_is_read_first_raises_what_failed_first():
    gt.synchronize()
    table, loss = embedding(bad=True)
    loss.backward()
    with pytest.raises(IndexError, match="index 99"):
        table.grad.sum().item()
    with pytest.raises(IndexError, match="index 99"):
        loss.item()
    gt.synchronize()


def test_a_failure_that_is_read_leaves_the_other_for_synchronize():
    gt.synchronize()
    one = gt.ones(3)[gt.tensor([9])]
    other = gt.ones(3)[gt.tensor([8])]
    with pytest.raises(IndexError, match="index 9"):
        one.tolist()
    with pytest.raises(IndexError, match="index 8"):
        gt.synchronize()
    gt.synchronize()
    del other


def test_the_read_of_a_loss_names_the_update_that_was_skipped():
    gt.synchronize()
    layer = gt.nn.Embedding(10, 4)
    optimizer = gt.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(2):
        loss = layer(gt.tensor([3, 99])).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with pytest.raises(IndexError) as error:
            loss.item()
        said = str(error.value)
        assert "was skipped; one tensor kept its value: f32[10, 4]" in said, said
    gt.synchronize()


def kept(optimizer, layers, rows=(0, 9)):
    """The last line of what an update says that failed."""
    # Optimizers that nobody has any more would fit as well.
    gc.collect()
    gt.synchronize()
    layers(gt.ones(3, 4)[gt.tensor(rows)]).sum().backward()
    optimizer.step()
    with pytest.raises(IndexError) as error:
        gt.synchronize()
    optimizer.zero_grad()
    return str(error.value).splitlines()[-1].strip()


def layers():
    return gt.nn.Sequential(gt.nn.Linear(4, 3), gt.nn.Linear(3, 2))


@pytest.mark.parametrize("kind", [gt.optim.SGD, gt.optim.Adam, gt.optim.RMSprop])
def test_a_failed_update_names_the_parameters_that_kept_their_values(kind):
    model = layers()
    name = kind.__name__
    assert kept(kind(model.parameters(), lr=0.1), model) == f"not updated: parameters 0-3 of {name}"
    groups = [{"params": model[0].parameters()}, {"params": model[1].parameters()}]
    assert kept(kind(groups, lr=0.1), model) == f"not updated: parameters 0-1 of group 0; 0-1 of group 1 of {name}"
    named = kind(model.named_parameters(), lr=0.1)
    assert kept(named, model) == f"not updated: parameters 0.weight, 0.bias, 1.weight, 1.bias of {name}"
    model[0].bias.requires_grad_(False)
    assert kept(kind(model.parameters(), lr=0.1), model) == f"not updated: parameters 0, 2-3 of {name}"


def test_parameters_of_two_optimizers_are_told_apart_by_the_line_of_the_step():
    gt.synchronize()
    one, other = layers(), layers()
    first, second = gt.optim.SGD(one.parameters(), lr=0.1), gt.optim.Adagrad(other.parameters())
    third = gt.optim.SGD(list(layers().parameters()), lr=0.1)
    for optimizer in (third, second):
        for parameter in optimizer.param_groups[0]["params"]:
            parameter.grad = gt.ones_like(parameter)
    third.step()
    second.step()
    gt.synchronize()
    assert kept(first, one) == "not updated: parameters 0-3 of SGD"


def test_an_update_of_no_optimizer_names_no_parameters():
    gt.synchronize()
    weight = gt.zeros(7)
    weight += gt.ones(3)[gt.tensor([0] * 6 + [9])]
    with pytest.raises(IndexError) as error:
        gt.synchronize()
    assert str(error.value).endswith("one tensor kept its value: f32[7]")
