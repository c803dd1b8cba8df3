"""Activations, as functions and as modules, with their corners."""

FUNCTIONS = """relu relu6 leaky_relu elu selu celu gelu silu mish softplus softsign hardtanh hardsigmoid hardswish hardshrink softshrink
tanhshrink logsigmoid tanh sigmoid""".split()

# Corners, and far out on both sides.
CORNERS = "given(-100., -20., -6., -3., -1., -0.5, -0.25, 0., 0.25, 0.5, 1., 2., 3., 6., 20., 100.)"

SPELLED = """
F.leaky_relu(x(3, 4), 0.3)
F.leaky_relu(x(3, 4), negative_slope=-0.5)
F.elu(x(3, 4), alpha=1.7)
F.celu(x(3, 4), alpha=0.6)
F.gelu(x(3, 4), approximate='tanh')
F.gelu(given(-8., -3., 0., 3., 8.), approximate='tanh')
F.softplus(x(3, 4), beta=3.0, threshold=2.0)
F.softplus(x(3, 4), 0.5, 1.0)
F.hardtanh(x(3, 4), -0.5, 0.75)
F.hardshrink(x(3, 4), 0.9)
F.softshrink(x(3, 4), 0.9)
F.softshrink(x(3, 4), 0)
F.threshold(x(3, 4), 0.1, -7.0)
F.prelu(x(3, 4), given(0.25))
F.prelu(x(3, 4), x(4))
F.prelu(x(2, 3, 4), x(3))
F.prelu(x(2, 3, 2, 2), x(3))
F.prelu(x(5), given(0.5))
F.rrelu(x(3, 4))
F.rrelu(x(3, 4), 0.1, 0.9)
F.glu(x(3, 4))
F.glu(x(4, 3), 0)
F.glu(x(2, 4, 3), dim=1)
F.softmax(x(3, 4), dim=1)
F.softmax(x(3, 4), dim=0)
F.softmax(x(2, 3, 4), -2)
F.softmax(x(3, 4))
F.softmax(x(2, 3, 4))
F.softmax(x(4) * 100, dim=0)
F.log_softmax(x(3, 4), dim=1)
F.log_softmax(x(2, 3, 4), 0)
F.log_softmax(x(4) * 100, dim=0)
F.log_softmax(x(3, 4))
F.softmin(x(3, 4), dim=1)
F.normalize(x(3, 4))
F.normalize(x(3, 4), p=1, dim=0)
F.normalize(x(3, 4), p=3.0, dim=-1)
F.normalize(given(0., 0., 0.), dim=0)
""".strip().splitlines()

IN_PLACE = "relu relu6 leaky_relu elu selu celu silu mish hardtanh hardsigmoid hardswish".split()

MODULES = """
nn.ReLU()
nn.ReLU(inplace=True)
nn.ReLU6()
nn.LeakyReLU()
nn.LeakyReLU(0.2, inplace=True)
nn.ELU(1.3)
nn.SELU()
nn.CELU(0.7)
nn.GELU()
nn.GELU('tanh')
nn.GELU(approximate='tanh')
nn.SiLU()
nn.SiLU(inplace=True)
nn.Mish()
nn.Softplus()
nn.Softplus(beta=2, threshold=1)
nn.Softsign()
nn.Hardtanh()
nn.Hardtanh(-2.0, 0.5)
nn.Hardsigmoid()
nn.Hardswish()
nn.Hardshrink()
nn.Hardshrink(1.0)
nn.Softshrink()
nn.Tanhshrink()
nn.Threshold(0.5, 3.0)
nn.PReLU()
nn.PReLU(4)
nn.PReLU(init=0.1)
nn.RReLU().eval()
nn.GLU()
nn.GLU(0)
nn.LogSigmoid()
nn.Sigmoid()
nn.Tanh()
nn.Softmax(dim=1)
nn.Softmax(-1)
nn.LogSoftmax(dim=0)
nn.Softmin(dim=1)
nn.Identity()
nn.Dropout(0.3).eval()
nn.Dropout(0.0)
nn.AlphaDropout(0.3).eval()
nn.Flatten(0)
""".strip().splitlines()

ACTIVATIONS = [
    *(f"r = F.{name}(x(3, 4))" for name in FUNCTIONS),
    *(f"r = F.{name}({CORNERS})" for name in FUNCTIONS),
    *(f"r = F.{name}(x(2, 3) * 1.0, inplace=True)" for name in IN_PLACE),
    *(f"r = {program}" for program in SPELLED),
    *(f"r = m({module})(x(4, 4) * 1.0)" for module in MODULES),
    "r = nn.Softmax2d()(x(2, 3, 2, 2))",
    "r = nn.Softmax2d()(x(3, 2, 2))",
    "r = nn.Dropout2d(0.5).eval()(x(2, 3, 2, 2))",
]
