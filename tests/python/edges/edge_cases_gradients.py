"""Gradients at special points: zeros of both signs, corners, ties, integers, infinities, NaN."""

# Where an activation or a function of one number changes its rule, and where it has no value.
POINTS = "[0., -0., .5, -.5, 1., -1., 2., -2., 3., -3., 6., inf, -inf, nan]"
# Points at which PyTorch's own answer is the rounding of a pole, or has none although the function has.
INSIDE = "[0., .5, -.5, 1., -1., 2., -2., 3., 6., nan]"
OF_ONE = """
T.relu(x) | x.relu_() | T.nn.functional.relu6(x) | T.nn.functional.hardtanh(x) | T.nn.functional.hardtanh(x, 0., 3.)
T.nn.functional.leaky_relu(x, .5) | T.nn.functional.elu(x, 2.) | T.nn.functional.selu(x) | T.nn.functional.celu(x, 2.)
T.nn.functional.hardsigmoid(x) | T.nn.functional.hardshrink(x, 1.) | T.nn.functional.softshrink(x, 1.) | T.nn.functional.softshrink(x, 0.)
T.nn.functional.threshold(x, 0., 9.) | T.nn.functional.threshold(x, nan, 9.) | T.nn.functional.softplus(x) | T.nn.functional.logsigmoid(x)
T.nn.functional.silu(x) | T.nn.functional.mish(x) | T.nn.functional.softsign(x) | T.nn.functional.tanhshrink(x) | T.nn.functional.prelu(x, T.tensor(.25))
x.clamp(-1, 1) | x.clamp(min=0) | x.clamp(max=1) | x.clamp(1, -1) | x.clamp(min=nan) | x.clamp_(0, 6) | T.nan_to_num(x)
x.abs() | x.sqrt() | x.rsqrt() | x.log() | x.log1p() | x.reciprocal() | x.square() | x.sign() | x.frac() | x.asin() | x.acosh() | x.atanh()
x ** 0 | x ** 1 | x ** 2 | x ** 3 | x ** -1 | x ** .5 | 0. ** x | 1. ** x | 2. ** x | T.where(x > 0, x.sqrt(), x) | x * 0
T.div(x, 0., rounding_mode="trunc") | T.div(x, 2., rounding_mode="trunc") | T.div(x, 0., rounding_mode="floor") | x.unsqueeze(1).std(1) | x.unsqueeze(1).std(1, correction=0)
T.special.entr(x) | T.xlogy(x, 0.) | T.xlogy(x, 2.) | T.special.xlog1py(x, -1.) | T.logit(x, .25) | T.special.ndtr(x) | T.atan2(x, x) | T.hypot(x, x) | T.maximum(x, x)
"""
OF_ONE_INSIDE = "T.nn.functional.hardswish(x) | T.lgamma(x) | T.logit(x) | T.nn.functional.gelu(x) | T.copysign(x.nan_to_num(), -1.)"
OF_TWO = """
T.maximum(x, y) | T.minimum(x, y) | T.fmax(x, y) | T.fmin(x, y) | T.max(x, y) | x.clamp(min=y) | x.clamp(max=y) | T.atan2(x, y) | x ** y
T.div(x, y, rounding_mode="trunc") | T.xlogy(x, y) | T.special.xlog1py(x, y) | x / y | x * y | T.where(x > y, x, y) | T.float_power(x, y)
T.nn.functional.smooth_l1_loss(x, y, reduction="none") | T.nn.functional.huber_loss(x, y, reduction="none") | T.nn.functional.l1_loss(x, y, reduction="none") | T.nn.functional.margin_ranking_loss(x, y, T.ones_like(x), reduction="none")
T.nn.functional.kl_div(x, y, reduction="none")
"""
ROWS = "[0., 0., 0.] [2., 0., 3.] [0., 0., 3.] [2., 2., 1.] [-2., 2., -2.] [3., 3., 3.] [1., -2., 3.] [-0., 0., 1.]"
OF_ROWS = """
T.linalg.vector_norm(x, 0) | T.linalg.vector_norm(x, .5) | x.norm(1) | x.norm(1.5) | x.norm() | x.norm(3) | x.norm(inf) | x.norm(-inf) | x.norm(-1) | T.linalg.vector_norm(x, -2)
x.max() | x.amax() | x.min() | x.prod() | x.std() | x.var() | x.median() | x.cumprod(0) | T.dist(x, T.tensor([1., 0., 2.]), .5) | T.nn.functional.normalize(x, p=.5, dim=0)
T.cdist(x.view(3, 1), x.detach().view(3, 1), .5) | T.renorm(x.view(1, 3), .5, 0, 1.) | T.zeros(2).scatter_reduce(0, T.tensor([0, 0, 1]), x, "amax")
"""
# The larger element of a row with NaN or infinities, and what is like it.
ODD_ROWS = "[1., nan, 2.] [nan, nan, 1.] [1., inf, 2.] [inf, inf, 1.] [-inf, -inf, -inf]"
OF_ODD_ROWS = "x.max() | x.min() | x.median() | x.nanmedian() | x.norm(inf) | T.ones(2).scatter_reduce(0, T.tensor([0, 0, 1]), x, 'amax').detach()"

BACK = "q = {}; q.backward(T.ones_like(q)) if q.requires_grad else None"


def _calls(table: str) -> list[str]:
    return [call.strip() for line in table.strip().splitlines() for call in line.split(" | ")]


def _cases() -> list[str]:
    cases = []
    for points, table in ((POINTS, OF_ONE), (INSIDE, OF_ONE_INSIDE)):
        for call in _calls(table):
            leaf = (
                "x.clone().relu_()" if call == "x.relu_()" else "x.clone().clamp_(0, 6)" if "clamp_(" in call else call
            )
            cases.append(f"x = T.tensor({points}, requires_grad=True); {BACK.format(leaf)}; r = q, x.grad")
    pairs = "a, b = T.meshgrid(T.tensor([0., 1., -1., 2., nan]), T.tensor([0., 1., -1., 2., nan]), indexing='ij')"
    both = "x, y = a.flatten().requires_grad_(), b.flatten().requires_grad_()"
    cases += [f"{pairs}; {both}; {BACK.format(call)}; r = q, x.grad, y.grad" for call in _calls(OF_TWO)]
    for rows, table in ((ROWS, OF_ROWS), (ODD_ROWS, OF_ODD_ROWS)):
        of_all = ", ".join(row + "]" for row in rows.rstrip("]").split("] "))
        cases += [
            rf"r = []\nfor row in [{of_all}]:\n    x = T.tensor(row, requires_grad=True); {BACK.format(call)}; r += [q, x.grad]"
            for call in _calls(table)
        ]
    return cases


CASES = (
    "\n".join(_cases())
    + r"""
x = T.tensor([1., nan, 2.], requires_grad=True); T.quantile(x, .5).backward(); r = x.grad
x = T.tensor([0., 1., 0., 1., .5], requires_grad=True); y = T.tensor([0., 1., 1., 0., .5]); T.nn.functional.binary_cross_entropy(x, y, reduction="sum").backward(); r = x.grad
x = T.tensor([0., 0.], dtype=T.float64, requires_grad=True); y = x.detach().clone().requires_grad_(); T.atan2(x, y).sum().backward(); r = x.grad, y.grad
x = T.tensor([0., -1., -2.5, 1., 2.], dtype=T.float64, requires_grad=True); T.lgamma(x).sum().backward(); r = x.grad
x = T.tensor([.5, 3., -2.5], requires_grad=True); T.digamma(x).sum().backward(); r = x.grad, T.digamma(x), T.lgamma(T.tensor([-1e-30])), T.digamma(T.tensor([-1e-30]))
x = T.tensor([.5, 3.], requires_grad=True); g = T.autograd.grad(T.lgamma(x).sum(), x, create_graph=True)[0]; g.sum().backward(); r = x.grad
"""
)
