"""Mixed precision: which dtypes come out, that gradients stay float32, and how the scaler steps."""

import threading
import warnings

import pytest

import gt
import gt.amp
import gt.nn
import gt.nn.functional as F
import gt.optim
from gt.amp import GradScaler, autocast

A, B = (2, 3), (3, 4)


def operands():
    return gt.randn(2, 3), gt.randn(3, 4)


LOWER = {
    "@": lambda: gt.randn(*A) @ gt.randn(*B),
    "matmul method": lambda: gt.randn(*A).matmul(gt.randn(*B)),
    "matmul": lambda: gt.matmul(gt.randn(*A), gt.randn(*B)),
    "mixed operands": lambda: gt.randn(*A).bfloat16() @ gt.randn(*B),
    "mm": lambda: gt.mm(gt.randn(*A), gt.randn(*B)),
    "bmm": lambda: gt.bmm(gt.randn(2, *A), gt.randn(2, *B)),
    "mv": lambda: gt.mv(gt.randn(*A), gt.randn(3)),
    "addmm": lambda: gt.addmm(gt.randn(4), gt.randn(*A), gt.randn(*B)),
    "addmm method": lambda: gt.randn(2, 4).addmm(gt.randn(*A), gt.randn(*B)),
    "baddbmm": lambda: gt.baddbmm(gt.randn(2, 2, 4), gt.randn(2, *A), gt.randn(2, *B)),
    "einsum": lambda: gt.einsum("ij,jk->ik", gt.randn(*A), gt.randn(*B)),
    "einsum list": lambda: gt.einsum("ij,jk->ik", [gt.randn(*A), gt.randn(*B)]),
    "linear": lambda: F.linear(gt.randn(*A), gt.randn(4, 3), gt.randn(4)),
    "Linear": lambda: gt.nn.Linear(3, 4)(gt.randn(*A)),
    "conv1d": lambda: F.conv1d(gt.randn(1, 2, 8), gt.randn(3, 2, 3), gt.randn(3)),
    "conv2d": lambda: F.conv2d(gt.randn(1, 2, 8, 8), gt.randn(3, 2, 3, 3), padding=1),
    "Conv2d": lambda: gt.nn.Conv2d(2, 3, 3)(gt.randn(1, 2, 8, 8)),
    "conv_transpose2d": lambda: F.conv_transpose2d(gt.randn(1, 2, 4, 4), gt.randn(2, 3, 3, 3)),
    "attention": lambda: F.scaled_dot_product_attention(*(gt.randn(1, 2, 5, 4) for _ in range(3)), is_causal=True),
    "MultiheadAttention": lambda: gt.nn.MultiheadAttention(4, 2, batch_first=True)(*(gt.randn(1, 5, 4) for _ in range(3)))[0],
}  # fmt: skip


@pytest.mark.parametrize("dtype", [gt.bfloat16, gt.float16])
@pytest.mark.parametrize("name", LOWER)
def test_products_are_lower(name, dtype):
    with autocast("cuda", dtype=dtype):
        assert LOWER[name]().dtype == dtype
    if name != "mixed operands":
        assert LOWER[name]().dtype == gt.float32


NARROW = {
    "softmax": lambda x: x.softmax(-1),
    "gt.softmax": lambda x: gt.softmax(x, -1),
    "F.softmax": lambda x: F.softmax(x, dim=-1),
    "log_softmax": lambda x: F.log_softmax(x, dim=-1),
    "exp": lambda x: x.exp(),
    "gt.exp": lambda x: gt.exp(x),
    "log": lambda x: gt.log(x.abs()),
    "pow": lambda x: x**2,
    "pow method": lambda x: x.pow(3),
    "1 / x": lambda x: 1 / x,
    "2 ** x": lambda x: 2**x,
    "rsqrt": lambda x: x.abs().rsqrt(),
    "sum": lambda x: x.sum(),
    "gt.sum": lambda x: gt.sum(x, 0),
    "prod": lambda x: x.prod(),
    "cumsum": lambda x: x.cumsum(0),
    "norm": lambda x: x.norm(),
    "layer_norm": lambda x: F.layer_norm(x, (4,), gt.ones(4), gt.zeros(4)),
    "LayerNorm": lambda x: gt.nn.LayerNorm(4)(x),
    "RMSNorm": lambda x: gt.nn.RMSNorm(4)(x),
    "mse_loss": lambda x: F.mse_loss(x, gt.zeros(3, 4)),
    "cross_entropy": lambda x: F.cross_entropy(x, gt.tensor([0, 1, 2])),
    "CrossEntropyLoss": lambda x: gt.nn.CrossEntropyLoss()(x, gt.tensor([0, 1, 2])),
    "binary_cross_entropy": lambda x: F.binary_cross_entropy_with_logits(x, gt.zeros(3, 4)),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, gt.zeros(3, 4)),
}


@pytest.mark.parametrize("name", NARROW)
def test_what_needs_it_is_computed_in_float32(name):
    x = gt.randn(3, 4).bfloat16()
    with autocast("bfloat16"):
        out = NARROW[name](x)
    assert out.dtype == gt.float32
    assert gt.allclose(out, NARROW[name](x.float()), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + x,
        lambda x: x * 2,
        lambda x: x.relu(),
        lambda x: x.tanh(),
        lambda x: x.reshape(-1),
        lambda x: x.max(),
    ],
)
def test_everything_else_keeps_its_dtype(function):
    for dtype in (gt.bfloat16, gt.float32):
        with autocast("bfloat16"):
            assert function(gt.randn(3, 4).to(dtype)).dtype == dtype


def test_an_explicit_dtype_wins():
    x = gt.randn(3, 4).bfloat16()
    with autocast("bfloat16"):
        assert x.softmax(-1, dtype=gt.float64).dtype == gt.float64
        assert x.sum(dtype=gt.bfloat16).dtype == gt.bfloat16


def test_float64_and_integers_are_left_alone():
    with autocast("bfloat16"):
        assert (gt.ones(2, 2, dtype=gt.float64) @ gt.ones(2, 2, dtype=gt.float64)).dtype == gt.float64
        assert (gt.ones(2, 2, dtype=gt.int64) @ gt.ones(2, 2, dtype=gt.int64)).dtype == gt.int64
        assert gt.arange(3).sum().dtype == gt.int64


def test_a_product_is_that_of_the_rounded_operands():
    x, w = operands()
    with autocast("bfloat16"):
        out = x @ w
    assert (out == x.bfloat16() @ w.bfloat16()).all().item()


def test_gradients_arrive_in_the_parameters_dtype():
    model = gt.nn.Sequential(gt.nn.Linear(3, 8), gt.nn.ReLU(), gt.nn.LayerNorm(8), gt.nn.Linear(8, 2))
    with autocast("bfloat16"):
        loss = F.cross_entropy(model(gt.randn(5, 3)), gt.tensor([0, 1, 0, 1, 1]))
    assert loss.dtype == gt.float32
    loss.backward()
    for parameter in model.parameters():
        assert parameter.dtype == gt.float32 and parameter.grad.dtype == gt.float32


def test_gradients_are_near_those_of_float32():
    model = gt.nn.Sequential(gt.nn.Linear(6, 16), gt.nn.Tanh(), gt.nn.Linear(16, 4))
    x = gt.randn(32, 6)

    def gradients(mixed):
        for parameter in model.parameters():
            parameter.grad = None
        with autocast("bfloat16", enabled=mixed):
            model(x).square().mean().backward()
        return [parameter.grad for parameter in model.parameters()]

    for mixed, exact in zip(gradients(True), gradients(False)):
        assert (mixed - exact).norm().item() < 0.02 * exact.norm().item()


def test_training_with_master_weights():
    gt.manual_seed(1)
    model = gt.nn.Sequential(gt.nn.Linear(4, 16), gt.nn.ReLU(), gt.nn.Linear(16, 1))
    optimizer = gt.optim.AdamW(model.parameters(), lr=0.02)
    x = gt.randn(64, 4)
    target = x[:, :1] * 2 - x[:, 1:2]
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        with autocast("bfloat16"):
            loss = F.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.05 * losses[0]
    # Updates smaller than a step of bfloat16 are not lost.
    weight = model[0].weight
    assert not (weight == weight.bfloat16().float()).all().item()


def test_a_parameter_is_cast_once_in_a_block():
    w = gt.randn(3, 3, requires_grad=True)
    with autocast("bfloat16"):
        gt.ones(2, 3) @ w
        assert len(gt.amp.mode.mode.cache) == 1
        gt.ones(2, 3) @ w
        assert len(gt.amp.mode.mode.cache) == 1
        with gt.no_grad():
            before = (gt.ones(2, 3) @ w).sum().item()
            w.mul_(2)
            assert (gt.ones(2, 3) @ w).sum().item() == pytest.approx(2 * before, rel=1e-2)
            assert not (gt.ones(2, 3) @ w).requires_grad
        assert (gt.ones(2, 3) @ w).requires_grad
    assert gt.amp.mode.mode.cache == {}
    with autocast("bfloat16", cache_enabled=False):
        gt.ones(2, 3) @ w
        assert gt.amp.mode.mode.cache == {}


def test_a_parameter_used_twice_collects_both_gradients():
    w = gt.ones(2, 2, requires_grad=True)
    with autocast("bfloat16"):
        out = (gt.ones(1, 2) @ w).sum() + (gt.ones(1, 2) @ w).sum()
    out.backward()
    assert w.grad.tolist() == [[2, 2], [2, 2]]


def test_spellings():
    x, w = operands()
    for block in (
        autocast("bfloat16"),
        autocast(gt.bfloat16),
        autocast("gt.bfloat16"),
        autocast("cpu"),
        autocast(device_type="cpu", dtype=gt.bfloat16, enabled=True),
        autocast("cuda", dtype=gt.bfloat16),
        autocast(gt.device("cpu")),
        autocast("cuda:0", "bfloat16"),
    ):
        with block:
            assert (x @ w).dtype == gt.bfloat16
    with autocast("cuda"):
        assert (x @ w).dtype == gt.float16
    with autocast("cpu", enabled=False):
        assert (x @ w).dtype == gt.float32 and not gt.amp.is_autocast_enabled()


def test_as_a_decorator():
    @autocast("bfloat16")
    def product(a, b):
        """Multiplies."""
        return a @ b

    assert product(*operands()).dtype == gt.bfloat16 and product.__doc__ == "Multiplies."
    assert not gt.amp.is_autocast_enabled()


def test_blocks_nest_and_end():
    x, w = operands()
    with autocast("bfloat16"):
        with autocast("cpu", enabled=False):
            assert (x @ w).dtype == gt.float32
        assert (x @ w).dtype == gt.bfloat16
        with autocast("float16"):
            assert (x @ w).dtype == gt.float16
            assert gt.amp.get_autocast_dtype("cpu") == gt.float16
        with pytest.raises(KeyError), autocast("float16"):
            raise KeyError
        assert (x @ w).dtype == gt.bfloat16
    assert (x @ w).dtype == gt.float32 and not gt.amp.is_autocast_enabled()


def test_one_block_entered_twice():
    block = autocast("bfloat16")
    with block, block:
        pass
    assert not gt.amp.is_autocast_enabled()


def test_the_mode_belongs_to_the_thread():
    seen = []
    with autocast("bfloat16"):
        thread = threading.Thread(
            target=lambda: seen.append(((gt.ones(2, 2) @ gt.ones(2, 2)).dtype, gt.amp.is_autocast_enabled()))
        )
        thread.start()
        thread.join()
    assert seen == [(gt.float32, False)]


def test_wrong_arguments():
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'toaster'"):
        autocast("toaster")
    with pytest.raises(TypeError, match="got 'flat32'"):
        autocast("cpu", dtype="flat32")
    with pytest.raises(ValueError, match="device_type"):
        autocast(3)
    with pytest.warns(UserWarning, match="Disabling autocast"), autocast("cpu", dtype=gt.float32):
        assert not gt.amp.is_autocast_enabled()
    with pytest.raises(ValueError, match="bfloat16"):
        gt.amp.set_autocast_dtype("cpu", gt.int64)


def test_shape_errors_are_those_of_the_operation():
    with autocast("bfloat16"), pytest.raises(RuntimeError, match="cannot be multiplied"):
        gt.ones(2, 3) @ gt.ones(2, 3)
    assert not gt.amp.is_autocast_enabled()
    with autocast("bfloat16"):
        with pytest.raises(TypeError):
            gt.ones(2, 3) @ "text"
        assert gt.amp.is_autocast_enabled()


def test_entering_does_not_wait():
    def reads():
        return sum(worker["round_trips"] for worker in gt.debug.get_worker_stats().values())

    x, w = operands()
    gt.synchronize()
    before = reads()
    with autocast("bfloat16"):
        (x @ w).softmax(-1).sum()
    assert reads() == before


def test_custom_functions():
    seen = []

    class Cube(gt.autograd.Function):
        @staticmethod
        @gt.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        @gt.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            seen.append((grad @ w.t()).dtype)
            return (grad.float() @ w.t().float()).float(), (x.t().float() @ grad.float()).float()

    w = gt.ones(3, 3, requires_grad=True)
    with autocast("bfloat16"):
        out = Cube.apply(gt.ones(1, 3), w)
    assert out.dtype == gt.bfloat16
    out.float().sum().backward()
    assert seen == [gt.bfloat16] and w.grad.tolist() == [[1] * 3] * 3


# The scaler.


def scaled_step(scaler, optimizer, x, factor):
    optimizer.zero_grad()
    scaler.scale((x * factor).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


def test_scaling_changes_no_step():
    x, y = gt.ones(2, requires_grad=True), gt.ones(2, requires_grad=True)
    plain, scaled = gt.optim.Adam([x], lr=0.1), gt.optim.Adam([y], lr=0.1)
    scaler = GradScaler("cpu")
    for factor in (1.0, 2.0, -3.0):
        plain.zero_grad()
        (x * factor).sum().backward()
        plain.step()
        scaled_step(scaler, scaled, y, factor)
    assert x.tolist() == y.tolist() and scaler.get_scale() == 2.0**16


def test_overflow_leaves_a_step_out_and_backs_off():
    x = gt.ones(2, requires_grad=True)
    optimizer = gt.optim.Adam([x], lr=0.1)
    scaler = GradScaler("cpu", init_scale=8.0, growth_interval=2)
    for factor, scale in (
        (float("inf"), 4.0),
        (float("nan"), 2.0),
        (1.0, 2.0),
        (1.0, 4.0),
        (1.0, 4.0),
        (float("inf"), 2.0),
        (1.0, 2.0),
    ):
        before = x.tolist()
        scaled_step(scaler, optimizer, x, factor)
        assert scaler.get_scale() == scale
        assert (x.tolist() == before) == (factor != 1.0)
    assert optimizer.state[x]["step"] == 4


def test_unscaled_gradients_can_be_clipped():
    x = gt.ones(2, requires_grad=True)
    optimizer = gt.optim.SGD([x], lr=1.0)
    scaler = GradScaler("cpu", init_scale=1024.0)
    scaler.scale((x * 3).sum()).backward()
    scaler.unscale_(optimizer)
    assert x.grad.tolist() == [3, 3]
    gt.nn.utils.clip_grad_value_([x], 1.0)
    scaler.step(optimizer)
    scaler.update()
    assert x.tolist() == [0, 0]


def test_scaler_order_of_calls():
    x = gt.ones(2, requires_grad=True)
    optimizer = gt.optim.SGD([x], lr=1.0)
    scaler = GradScaler("cpu")
    with pytest.raises(AssertionError, match="prior to update"):
        scaler.update()
    scaler.scale(x.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="step\\(\\) has already"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.unscale_(optimizer)
    scaler.update()
    with pytest.raises(RuntimeError, match="Closure"):
        scaler.step(optimizer, lambda: 1)
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.step(gt.optim.SGD([gt.ones(1, requires_grad=True)]))


def test_scaler_refuses_half_gradients():
    x = gt.ones(2, dtype=gt.float16, requires_grad=True)
    optimizer = gt.optim.SGD([x])
    x.sum().backward()
    with pytest.raises(ValueError, match="FP16"):
        GradScaler("cpu").unscale_(optimizer)


def test_a_disabled_scaler_is_the_identity():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaler = GradScaler(enabled=False)
    x = gt.ones(2, requires_grad=True)
    optimizer = gt.optim.SGD([x], lr=1.0)
    loss = x.sum()
    assert scaler.scale(loss) is loss and scaler.get_scale() == 1.0 and scaler.state_dict() == {}
    loss.backward()
    scaler.unscale_(optimizer)
    assert scaler.step(optimizer, closure=lambda: 5) == 5
    scaler.update()
    assert x.tolist() == [0, 0] and not scaler.is_enabled()


def test_cuda_scaler_without_cuda():
    if gt.cuda.is_available():
        pytest.skip("there is CUDA")
    with pytest.warns(UserWarning, match="CUDA is not available"):
        assert not GradScaler().is_enabled()


def test_scaler_state():
    scaler = GradScaler("cpu", init_scale=16.0, growth_interval=7)
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.25)
    x = gt.ones(2, requires_grad=True)
    scaled_step(scaler, gt.optim.SGD([x]), x, 1.0)
    state = scaler.state_dict()
    assert state == {
        "scale": 16.0,
        "growth_factor": 3.0,
        "backoff_factor": 0.25,
        "growth_interval": 7,
        "_growth_tracker": 1,
    }
    other = GradScaler("cpu")
    other.load_state_dict(state)
    assert other.state_dict() == state
    with pytest.raises(RuntimeError, match="empty"):
        other.load_state_dict({})
    assert scaler.scale([gt.ones(1), (gt.ones(1),)])[1][0].item() == 16.0
    scaler.update(32.0)
    assert scaler.get_scale() == 32.0
    with pytest.raises(ValueError):
        GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(ValueError):
        GradScaler("cpu", backoff_factor=1.0)
