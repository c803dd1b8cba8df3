"""Wrong use: the exception class PyTorch users expect, both shapes in the message, and the line that caused it."""

import inspect
import re

import pytest

import gt

pytestmark = pytest.mark.transport


def here(offset: int = 0) -> str:
    """`file:line` of the caller, as a message should name it."""
    frame = inspect.currentframe().f_back
    return f"test_errors.py:{frame.f_lineno + offset}"


# --- shapes that do not fit ------------------------------------------------------------------------------------------

MISMATCHES = [
    ("add", lambda a, b: a + b, (2, 3), (4,)),
    ("sub", lambda a, b: a - b, (2, 3), (4, 3)),
    ("mul", lambda a, b: a * b, (5,), (2,)),
    ("div", lambda a, b: a / b, (2, 3, 4), (2, 3, 5)),
    ("eq", lambda a, b: a == b, (2, 3), (4,)),
    ("maximum", lambda a, b: gt.maximum(a, b), (2, 3), (4,)),
    ("matmul", lambda a, b: a @ b, (2, 3), (4, 5)),
    ("mm", lambda a, b: gt.mm(a, b), (2, 3), (4, 5)),
    ("bmm", lambda a, b: gt.bmm(a, b), (2, 3, 4), (2, 5, 6)),
    ("dot", lambda a, b: gt.dot(a, b), (3,), (4,)),
    ("where", lambda a, b: gt.where(a > 0, a, b), (2, 3), (4,)),
    ("lerp", lambda a, b: gt.lerp(a, b, 0.5), (2, 3), (4,)),
]


@pytest.mark.parametrize("name, function, left, right", MISMATCHES, ids=[m[0] for m in MISMATCHES])
def test_messages_name_both_sides(name, function, left, right):
    with pytest.raises(RuntimeError) as error:
        function(gt.zeros(left), gt.zeros(right))
    numbers = set(re.findall(r"\d+", str(error.value)))
    differing = {str(n) for n in set(left) ^ set(right)}
    assert differing & numbers and numbers & {str(n) for n in left} and numbers & {str(n) for n in right}, str(
        error.value
    )


@pytest.mark.parametrize("name, function, left, right", MISMATCHES, ids=[m[0] for m in MISMATCHES])
def test_shape_errors_rise_in_the_callers_frame(name, function, left, right):
    a, b = gt.zeros(left), gt.zeros(right)
    with pytest.raises(RuntimeError) as error:
        function(a, b)
    assert any(entry.path.name == "test_errors.py" for entry in error.traceback)
    assert (gt.ones(2) + 1).tolist() == [2, 2], "and nothing is left broken"


def test_in_place_mismatch_leaves_the_target():
    target = gt.ones(3)
    with pytest.raises(RuntimeError):
        target.add_(gt.ones(4))
    with pytest.raises(RuntimeError):
        target[:2] = gt.zeros(3)
    assert target.tolist() == [1, 1, 1]


# --- dims and indices ------------------------------------------------------------------------------------------------

DIM_ERRORS = [
    lambda x: x.sum(2), lambda x: x.sum(-3), lambda x: x.mean(5), lambda x: x.softmax(2), lambda x: x.argmax(2), lambda x: x.cumsum(2),
    lambda x: x.max(2), lambda x: x.sort(2), lambda x: x.topk(1, 2), lambda x: x.unsqueeze(4), lambda x: x.squeeze(2),
    lambda x: x.transpose(0, 2), lambda x: x.select(2, 0), lambda x: x.narrow(2, 0, 1), lambda x: x.unbind(2), lambda x: x.chunk(2, 2),
    lambda x: x.split(1, 2), lambda x: gt.cat([x, x], 2), lambda x: gt.stack([x, x], 3), lambda x: x.flip(2), lambda x: x.size(2),
    lambda x: x.index_select(2, gt.tensor([0])), lambda x: x.gather(2, gt.tensor([[0]])), lambda x: x.flatten(0, 2),
    lambda x: x.movedim(0, 2), lambda x: x.permute(0, 2), lambda x: x.stride(2), lambda x: x.logsumexp(2), lambda x: x.var(2),
    lambda x: x.any(2), lambda x: x.amax(2), lambda x: x.prod(2), lambda x: x.repeat_interleave(2, dim=2), lambda x: x.roll(1, 2),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(DIM_ERRORS)))
def test_dims_out_of_range_are_index_errors(case):
    with pytest.raises(IndexError):
        DIM_ERRORS[case](gt.zeros(2, 3))


@pytest.mark.parametrize("index", [2, -3, (0, 3), (0, 0, 0), (slice(None), 3)])
def test_integer_index_out_of_range(index):
    with pytest.raises(IndexError):
        gt.zeros(2, 3)[index]


def test_iteration_ends():
    assert len(list(gt.zeros(3, 2))) == 3 and list(gt.zeros(0, 2)) == []


# --- reads that need one element -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2,), (0,), (2, 2)], ids=str)
def test_item_of_many_elements(shape):
    with pytest.raises(RuntimeError):
        gt.zeros(shape).item()


def test_truth_of_many_elements():
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(gt.zeros(2))
    with pytest.raises(RuntimeError):
        if gt.zeros(2) > 1:
            pass


# --- arguments -------------------------------------------------------------------------------------------------------

UNKNOWN_KEYWORDS = [
    lambda: gt.zeros(2, colour=1), lambda: gt.tensor([1], shape=2), lambda: gt.ones(2).sum(dims=0), lambda: gt.rand(2, kind="x"),
    lambda: gt.ones(2).add(1, beta=2), lambda: gt.cat([gt.ones(2)], dimension=0), lambda: gt.ones(2).backward(keep=True),
    lambda: gt.arange(3, stop=4), lambda: gt.ones(2).reshape(2, order="F"), lambda: gt.softmax(gt.ones(2), dim=0, axis_name=1),
    lambda: gt.matmul(gt.ones(2), gt.ones(2), transpose=True), lambda: gt.ones(2).to(dtipe=gt.float64), lambda: gt.ones(2).clone(deep=True),
    lambda: gt.ones(2).max(0, keep=True), lambda: gt.where(gt.ones(2) > 0, x=1, z=2), lambda: gt.Generator(seed=1),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(UNKNOWN_KEYWORDS)))
def test_unknown_keywords_are_type_errors(case):
    with pytest.raises(TypeError):
        UNKNOWN_KEYWORDS[case]()


TYPE_ERRORS = [
    lambda: gt.zeros("a"), lambda: gt.zeros(1.5), lambda: gt.ones(2) + "a", lambda: gt.ones(2) @ [1, 2], lambda: gt.sum([1, 2]),
    lambda: gt.cat(3), lambda: gt.stack([1, 2]), lambda: gt.ones(2).view("a"), lambda: gt.exp(2.0),
    lambda: gt.matmul(gt.ones(2), 3), lambda: gt.reshape(gt.ones(2)), lambda: gt.ones(2).sum("x"), lambda: gt.from_numpy([1]),
    lambda: gt.ones(2).fill_("a"), lambda: gt.ones(2).unsqueeze(), lambda: gt.ones(2).transpose(0), lambda: len(gt.tensor(1)),
    lambda: gt.ones(2).masked_fill(gt.ones(2) > 0), lambda: gt.ones(2).repeat(1.5),
    lambda: gt.zeros(2, dtype="float33"), lambda: gt.tensor(), lambda: gt.linspace(0),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(TYPE_ERRORS)))
def test_wrong_types_are_type_errors(case):
    with pytest.raises((TypeError, ValueError)):
        TYPE_ERRORS[case]()


RUNTIME_ERRORS = [
    lambda: gt.ones(2, 3).view(4), lambda: gt.ones(2, 3).reshape(4), lambda: gt.ones(2, 3).expand(4, 3), lambda: gt.ones(2).expand(2, 3),
    lambda: gt.cat([gt.ones(2), gt.ones(2, 2)]), lambda: gt.stack([gt.ones(2), gt.ones(3)]), lambda: gt.ones(2, 3).narrow(0, 1, 5),
    lambda: gt.ones(2, 3).permute(0), lambda: gt.ones(2, 2, 2).t(), lambda: gt.ones(2, 3).repeat(2), lambda: gt.tensor([True]) - gt.tensor([True]),
    lambda: -gt.tensor([True]), lambda: gt.tensor([1]).mean(), lambda: gt.tensor([1]) @ gt.tensor([1.0]),
    lambda: gt.ones(2).topk(3), lambda: gt.ones(2, requires_grad=True).numpy(), lambda: gt.ones(2).requires_grad_().add_(1),
    lambda: gt.ones(2, requires_grad=True).backward(), lambda: gt.ones(()).backward(), lambda: gt.tensor([1], requires_grad=True),
    lambda: gt.einsum("ij,jk->ik", gt.ones(2, 3), gt.ones(4, 5)), lambda: gt.zeros(0).max(), lambda: gt.ones(2).unflatten(0, (3,)),
    lambda: gt.ones(2, 2).diagonal(0, 0, 0), lambda: gt.arange(0, 5, 0), lambda: gt.ones(2).masked_fill(gt.ones(2), 1),
    lambda: gt.ones(2).index_add(0, gt.tensor([0, 1]), gt.ones(3)), lambda: gt.outer(gt.ones(2, 2), gt.ones(2)), lambda: gt.ones(3).split(0),
    lambda: gt.empty(-1), lambda: gt.randint(5, 5, (2,)), lambda: gt.multinomial(gt.ones(3), 4),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(RUNTIME_ERRORS)))
def test_wrong_values_are_runtime_errors(case):
    with pytest.raises((RuntimeError, ValueError)):
        RUNTIME_ERRORS[case]()


def test_leaf_in_place_message():
    weight = gt.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        weight += 1


def test_backward_messages():
    weight = gt.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (weight * 2).backward()
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        gt.ones(()).backward()
    out = (weight * weight).sum()
    out.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        out.backward()
    b = weight * 2
    out = (b * b).sum()
    b.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_attribute_errors():
    with pytest.raises(AttributeError):
        gt.ones(2).no_such_method()
    with pytest.raises(AttributeError):
        gt.no_such_function


# --- errors that only the data reveals -------------------------------------------------------------------------------


def test_asynchronous_index_error_names_this_line():
    x = gt.arange(3.0)
    with pytest.raises(IndexError) as error:
        line = here(1)
        y = x[gt.tensor([7])]
        (y + 1).tolist()
    assert line in str(error.value), str(error.value)
    assert "7" in str(error.value)


def test_the_error_survives_many_dependents():
    x = gt.arange(3.0)
    with pytest.raises(IndexError) as error:
        line = here(1)
        y = x[gt.tensor([0, -9])]
        for _ in range(50):
            y = (y * 2 + 1).relu()
        y.sum().item()
    assert line in str(error.value)


def test_every_read_of_a_poisoned_tensor_raises():
    with pytest.raises(IndexError):
        y = gt.arange(3.0)[gt.tensor([7])]
        y.tolist()
    reads = [
        lambda: y.item(),
        lambda: y.numpy(),
        lambda: repr(y),
        lambda: bool(y),
        lambda: float(y),
        lambda: (y + 1).tolist(),
    ]
    for read in reads:
        with pytest.raises(IndexError):
            read()


def test_independent_work_is_not_poisoned():
    x = gt.arange(3.0)
    bad = x[gt.tensor([7])]
    good = x * 2
    assert good.tolist() == [0, 2, 4]
    with pytest.raises(IndexError):
        bad.tolist()
    assert (x + 1).tolist() == [1, 2, 3]


def test_a_write_with_a_poisoned_operand_is_skipped():
    """The failure is raised once, whichever of the two came first: the read of its value or the skipped write."""
    for _ in range(100):
        x, target = gt.arange(3.0), gt.ones(1)
        bad = x[gt.tensor([7])]
        target += bad
        with pytest.raises(IndexError):
            bad.tolist()
        assert target.tolist() == [1]
        target += 1
        assert target.tolist() == [2]


def test_synchronize_raises_once():
    x, target = gt.arange(3.0), gt.ones(1)
    target.add_(x[gt.tensor([7])])
    with pytest.raises(IndexError):
        gt.synchronize()
    gt.synchronize()
    assert target.tolist() == [1]


@pytest.mark.parametrize(
    "name, make",
    [
        ("getitem", lambda x, i: x[i]),
        ("getitem-column", lambda x, i: x[:, i]),
        ("index_select", lambda x, i: x.index_select(0, i)),
        ("gather", lambda x, i: x.gather(0, i.reshape(1, 1))),
        ("scatter", lambda x, i: x.scatter(0, i.reshape(1, 1), 1.0)),
        ("scatter_add", lambda x, i: x.scatter_add(0, i.reshape(1, 1), gt.ones(1, 1))),
        ("index_add", lambda x, i: x.index_add(0, i, gt.ones(1, 4))),
    ],
)
@pytest.mark.parametrize("position", [4, 9, -5])
def test_indices_out_of_range(name, make, position):
    if position == -5 and name in ("gather", "scatter"):
        position = -1
    x = gt.zeros(4, 4)
    with pytest.raises((IndexError, RuntimeError)):
        make(x, gt.tensor([position])).tolist()
    assert x.sum().item() == 0


def test_out_of_range_assignment_leaves_the_target():
    target = gt.zeros(3)
    with pytest.raises(IndexError):
        target[gt.tensor([0, 7])] = 5.0
        gt.synchronize()
    assert target.tolist() == [0, 0, 0]


@pytest.mark.parametrize("divide", [lambda a, b: a // b, lambda a, b: a % b, lambda a, b: gt.fmod(a, b)])
def test_integer_division_by_zero_raises_or_gives_zero(divide):
    """PyTorch raises on the CPU; NumPy gives 0. Nothing else will do."""
    try:
        assert divide(gt.tensor([1]), gt.tensor([0])).tolist() == [0]
    except (RuntimeError, ZeroDivisionError):
        pass
    assert divide(gt.tensor([7]), gt.tensor([7])).tolist() in ([0], [1])


def test_errors_of_this_kind_are_python_exceptions():
    assert issubclass(gt.OutOfMemoryError, RuntimeError)
