"""In-place calls whose gradients need what they replace, and what is refused because something else needs it."""

X = "T.tensor([.25, .5, .75], requires_grad=True)"
W = "T.tensor([.5, -1.5, 2.], requires_grad=True)"
MATRIX = "T.tensor([[.25, .5], [.75, -1.]], requires_grad=True)"
CALLS = """
y.add_(w, alpha=2) | y.sub_(w, alpha=3) | y.mul_(w) | y.div_(w) | y.pow_(2) | y.pow_(w) | y.atan2_(w) | y.remainder_(w) | y.fmod_(w) | y.hypot_(w)
y.div_(w, rounding_mode="trunc") | y.div_(2, rounding_mode="floor") | y.copysign_(w) | y.copysign_(-1.) | y.xlogy_(w + 2)
y.clamp_(min=w) | y.clamp_(w, w + 1) | y.clamp_max_(w) | y.clip_(.3, .6) | y.clamp_(0., .6) | y.clamp_min_(.3)
y.lerp_(w, .25) | y.lerp_(w, w * .5) | y.addcmul_(w, w + 1, value=2) | y.addcdiv_(w, w + 3) | y.round_(decimals=1) | y.sinc_() | y.erfinv_() | y.lgamma_()
y.logit_() | y.logit_(.3) | y.nan_to_num_(1.) | y.frac_() | y.ldexp_(w) | y.abs_() | y.sigmoid_() | y.tanh_() | y.sqrt_() | y.relu_() | y.square_()
y.masked_fill_(y > .4, 3.) | y.masked_fill_(y > .4, w.sum()) | y.masked_scatter_(y > .3, w) | y.index_fill_(0, T.tensor([0, 2]), w.sum()) | y.fill_(2.)
y.index_add_(0, T.tensor([0, 1, 1]), w, alpha=2) | y.index_copy_(0, T.tensor([2, 1, 0]), w) | y.index_put_((T.tensor([0, 0]),), w[:2], accumulate=True) | y.put_(T.tensor([0, 2]), w[:2])
y.scatter_(0, T.tensor([2, 0]), w[:2]) | y.scatter_add_(0, T.tensor([2, 0]), w[:2]) | y.scatter_reduce_(0, T.tensor([2, 0, 0]), w, "prod") | y.scatter_reduce_(0, T.tensor([2, 0, 0]), w, "mean") | y.scatter_reduce_(0, T.tensor([2, 0, 0]), w, "amax")
y[1:].mul_(w[1:]) | y[1:].clamp_(w[:2]) | y[0].copysign_(w[0]) | y[:2].div_(w[:2], rounding_mode="trunc") | y.view(3, 1).mul_(w.view(3, 1))
F.elu_(y) | F.hardtanh_(y, -.4, .4) | F.leaky_relu_(y, .3) | F.selu_(y) | F.celu_(y) | F.threshold_(y, .3, 9.) | F.relu6(y, inplace=True) | F.hardswish(y, inplace=True) | F.hardsigmoid(y, inplace=True) | F.mish(y, inplace=True) | F.dropout(y, 1., True, True)
"""
OF_MATRICES = """
y.renorm_(2, 0, .5) | y.renorm_(1, 1, .5) | y.addmm_(w, w, beta=.5) | y.addr_(w[0], w[1]) | y.tril_() | y.scatter_reduce_(1, T.tensor([[1, 1], [0, 1]]), w, "prod")
"""
# What is refused, in PyTorch's way: the tape holds a value that the call replaces, and it is not the call's own.
REFUSED = """
z = y * (x + 1); y.clamp_(w, w + 1) | z = y * (x + 1); y.copysign_(w) | z = y.square(); y.logit_() | z = y.exp(); z.mul_(w)
z = y * 1; z.mul_(z) | z = y * 1; z.pow_(z) | w = w * 1; z = y.mul_(w); w.add_(1) | w = w * 1; z = y.clamp_(min=w); w.add_(1)
"""
SELF = """
y.add_(y) | y.sub_(y) | y.copysign_(y)
"""


def _calls(table: str) -> list[str]:
    return [call.strip() for line in table.strip().splitlines() for call in line.split(" | ")]


def _cases() -> list[str]:
    cases = []
    for x, w, table in ((X, W, CALLS), (MATRIX, MATRIX, OF_MATRICES)):
        start = f"F = T.nn.functional; x = {x}; w = {w}"
        for call in _calls(table):
            cases.append(f"{start}; y = x * 1; {call}; y.sum().backward(); r = y, x.grad")
            if "w" in call:
                cases.append(
                    f"{start}; y = x.detach() * 1; {call}; y.sum().backward() if y.requires_grad else 0; r = y, w.grad"
                )
    start = f"x = {X}; w = {W}; y = x * 1"
    cases += [f"{start}; {call}; z.sum().backward(); r = x.grad" for call in _calls(REFUSED)]
    cases += [f"{start}; {call}; y.sum().backward(); r = x.grad" for call in _calls(SELF)]
    return cases


CASES = (
    "\n".join(_cases())
    + rf"""
x = {X}; x.clamp_(min=T.tensor(.5))
x = {X}; w = {W}\nwith T.no_grad():\n    x.copysign_(w); x.clamp_(w - 1, w + 1); x.logit_(.1)\nr = x, x.requires_grad
x = {X}; y = x * 1; y.mul_(-1); y.clamp_(T.tensor(-.6), T.tensor(-.3)); y.mul_(3).logit_(.2); y.sum().backward(); r = y, x.grad
"""
)
