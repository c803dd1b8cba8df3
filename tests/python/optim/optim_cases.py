"""Runs of optimizers and schedules, written once for GT and for PyTorch: `record_optim.py` stores what PyTorch gives."""

STEPS = 20
EPOCHS = 50

ADAM = [
    {},
    {"lr": 0.05},
    {"betas": (0.7, 0.8)},
    {"weight_decay": 0.1},
    {"amsgrad": True},
    {"amsgrad": True, "weight_decay": 0.05, "maximize": True},
    {"maximize": True},
    {"eps": 1e-3, "betas": (0.0, 0.9)},
]

OPTIMIZERS = {
    "SGD": [
        {},
        {"lr": 0.1},
        {"lr": 0.1, "momentum": 0.9},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.3},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True},
        {"lr": 0.1, "weight_decay": 0.2},
        {"lr": 0.1, "weight_decay": 0.2, "momentum": 0.5, "dampening": 0.1, "maximize": True},
        {"lr": 0.1, "maximize": True},
    ],
    "Adam": [*ADAM, {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "AdamW": [*ADAM, {"weight_decay": 0.0}],
    "Adagrad": [
        {},
        {"lr": 0.1, "lr_decay": 0.05},
        {"weight_decay": 0.1},
        {"initial_accumulator_value": 0.3, "eps": 1e-4},
        {"maximize": True, "lr": 0.1},
    ],
    "RMSprop": [
        {},
        {"alpha": 0.8},
        {"weight_decay": 0.1},
        {"momentum": 0.9},
        {"centered": True},
        {"centered": True, "momentum": 0.5, "weight_decay": 0.1, "maximize": True},
        {"eps": 1e-2, "maximize": True},
    ],
    "Adadelta": [{}, {"lr": 0.5, "rho": 0.7}, {"weight_decay": 0.1, "maximize": True}],
    "Adamax": [{}, {"betas": (0.5, 0.9), "lr": 0.05}, {"weight_decay": 0.1, "maximize": True}],
    "NAdam": [
        {},
        {"momentum_decay": 0.1, "lr": 0.05},
        {"weight_decay": 0.1},
        {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ],
    "RAdam": [
        {},
        {"betas": (0.9, 0.9), "lr": 0.05},
        {"weight_decay": 0.1},
        {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ],
    "ASGD": [{}, {"lr": 0.1, "lambd": 0.01, "alpha": 0.5, "t0": 5}, {"weight_decay": 0.1, "maximize": True}],
    "Rprop": [{}, {"lr": 0.1, "etas": (0.4, 1.3), "step_sizes": (1e-3, 0.2)}, {"maximize": True}],
}

# What ends at another place than it starts: groups, gradients that are not always there, closures, a rate in a tensor.
VARIATIONS = ("groups", "sometimes", "closure", "tensor_lr")
VARIED = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "dampening": 0.2},
    "Adam": {"lr": 0.05, "weight_decay": 0.01},
    "AdamW": {"lr": 0.05, "amsgrad": True},
    "Adagrad": {"lr": 0.1, "lr_decay": 0.1},
    "RMSprop": {"lr": 0.02, "momentum": 0.9},
    "NAdam": {"lr": 0.05},
    "RAdam": {"lr": 0.05, "betas": (0.9, 0.9)},
    "Adamax": {"lr": 0.05},
}


def cases():
    """Every run as (name, class, options, variation)."""
    for kind, options in OPTIMIZERS.items():
        for i, option in enumerate(options):
            yield f"{kind}-{i}", kind, option, None
    for kind, option in VARIED.items():
        for variation in VARIATIONS:
            yield f"{kind}-{variation}", kind, option, variation


def parameters(T, dtype):
    """Three parameters of different shapes, and targets the loss pulls them to."""
    start = [
        [[0.5, -1.5, 2.0, 0.25], [1.0, 0.75, -0.5, -2.25], [3.0, -0.125, 0.0, 1.75]],
        [-1.0, 2.5, 0.3, -0.7, 1.1],
        0.9,
    ]
    params = [T.tensor(values, dtype=getattr(T, dtype), requires_grad=True) for values in start]
    scales = [1.0, 0.5, 2.0]
    return params, scales


def loss_of(params, scales):
    """Smooth, and its gradients are nowhere near zero for long: what divides by them stays comparable."""
    total = 0.0
    for param, scale in zip(params, scales):
        total = total + ((param * scale - 0.37) ** 2).sum() + (param * scale).sin().sum() * 0.5
    return total


def run(T, kind, options, variation, dtype, visit=None):
    """The optimizer after STEPS steps, and the parameters after each of them."""
    params, scales = parameters(T, dtype)
    options = dict(options)
    given = params
    if variation == "groups":
        given = [{"params": params[:1]}, {"params": params[1:], "lr": options["lr"] * 0.5}]
    if variation == "tensor_lr":
        options["lr"] = T.tensor(options["lr"])
    optimizer = getattr(T.optim, kind)(given, **options)
    history = []
    for step in range(STEPS):

        def closure():
            optimizer.zero_grad()
            loss = loss_of(params, scales)
            loss.backward()
            return loss

        if variation == "closure":
            optimizer.step(closure)
        else:
            closure()
            if variation == "sometimes":
                params[step % 3].grad = None
            optimizer.step()
        history.append(T.cat([p.detach().reshape(-1) for p in params]))
        if visit is not None:
            visit(step, optimizer)
    return optimizer, params, T.stack(history)


def rosenbrock(T, **options):
    """L-BFGS in the bent valley: the points after each of six steps, and the counts."""
    x = T.tensor([-1.2, 1.0], dtype=T.float64, requires_grad=True)
    y = T.tensor([[0.5, 2.0]], dtype=T.float64, requires_grad=True)
    optimizer = T.optim.LBFGS([x, y], **options)

    def closure():
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2 + ((y - 0.3) ** 4).sum()
        if options.get("maximize"):
            loss = -loss
        loss.backward()
        return loss

    points, losses = [], []
    for _ in range(6):
        losses.append(float(optimizer.step(closure).detach()))
        points.append(T.cat([x.detach(), y.detach().reshape(-1)]).tolist())
    state = optimizer.state[x]
    return {"points": points, "losses": losses, "n_iter": state["n_iter"], "func_evals": state["func_evals"]}


LBFGS = [
    {"lr": 1e-3},
    {"lr": 1e-3, "max_iter": 7, "history_size": 3},
    {"line_search_fn": "strong_wolfe"},
    {"line_search_fn": "strong_wolfe", "max_iter": 4},
    {"line_search_fn": "strong_wolfe", "history_size": 2, "max_eval": 9},
    {"line_search_fn": "strong_wolfe", "maximize": True, "max_iter": 5},
]


def _lambda(epoch):
    return 0.95**epoch


class Warm:
    """A callable with state of its own."""

    def __init__(self):
        self.calls = 0

    def __call__(self, epoch):
        self.calls += 1
        return min(1.0, (epoch + 1) / 10)


def _sequential(S, opt):
    warm = S.LinearLR(opt, start_factor=0.1, total_iters=10)
    return S.SequentialLR(
        opt, [warm, S.CosineAnnealingLR(opt, T_max=30, eta_min=1e-3), S.ExponentialLR(opt, 0.9)], [10, 35]
    )


def _nested(S, opt):
    chained = S.ChainedScheduler([S.ConstantLR(opt, 0.5, 4), S.ExponentialLR(opt, 0.97)])
    return S.SequentialLR(opt, [chained, S.StepLR(opt, 5, 0.5)], [20])


# Each: (class of optimizer, its options, how the schedule is made from the module and the optimizer).
SCHEDULES = {
    "StepLR": ("SGD", {}, lambda S, o: S.StepLR(o, 7, 0.3)),
    "StepLR-1": ("SGD", {}, lambda S, o: S.StepLR(o, step_size=1)),
    "MultiStepLR": ("SGD", {}, lambda S, o: S.MultiStepLR(o, [3, 11, 11, 30], gamma=0.5)),
    "ConstantLR": ("SGD", {}, lambda S, o: S.ConstantLR(o)),
    "ConstantLR-20": ("SGD", {}, lambda S, o: S.ConstantLR(o, factor=0.7, total_iters=20)),
    "LinearLR": ("SGD", {}, lambda S, o: S.LinearLR(o)),
    "LinearLR-down": ("SGD", {}, lambda S, o: S.LinearLR(o, start_factor=1.0, end_factor=0.05, total_iters=33)),
    "ExponentialLR": ("SGD", {}, lambda S, o: S.ExponentialLR(o, 0.93)),
    "PolynomialLR": ("SGD", {}, lambda S, o: S.PolynomialLR(o, total_iters=40, power=2.5)),
    "PolynomialLR-1": ("SGD", {}, lambda S, o: S.PolynomialLR(o)),
    "CosineAnnealingLR": ("SGD", {}, lambda S, o: S.CosineAnnealingLR(o, T_max=12, eta_min=0.01)),
    "CosineAnnealingLR-50": ("Adam", {}, lambda S, o: S.CosineAnnealingLR(o, T_max=50)),
    "WarmRestarts": ("SGD", {}, lambda S, o: S.CosineAnnealingWarmRestarts(o, T_0=6)),
    "WarmRestarts-2": ("SGD", {}, lambda S, o: S.CosineAnnealingWarmRestarts(o, T_0=4, T_mult=2, eta_min=0.001)),
    "OneCycleLR": ("SGD", {"momentum": 0.9}, lambda S, o: S.OneCycleLR(o, max_lr=0.5, total_steps=60)),
    "OneCycleLR-linear": ("Adam", {}, lambda S, o: S.OneCycleLR(o, max_lr=[0.5, 0.1], epochs=6, steps_per_epoch=10, anneal_strategy="linear", pct_start=0.2)),
    "OneCycleLR-three": ("AdamW", {}, lambda S, o: S.OneCycleLR(o, max_lr=0.5, total_steps=51, three_phase=True)),
    "OneCycleLR-plain": ("SGD", {}, lambda S, o: S.OneCycleLR(o, 1.0, 55, cycle_momentum=False, div_factor=10.0, final_div_factor=100.0)),
    "CyclicLR": ("SGD", {"momentum": 0.9}, lambda S, o: S.CyclicLR(o, 0.01, 0.1, step_size_up=5)),
    "CyclicLR-2": ("SGD", {"momentum": 0.9}, lambda S, o: S.CyclicLR(o, 0.01, 0.1, step_size_up=4, step_size_down=7, mode="triangular2")),
    "CyclicLR-exp": ("Adam", {}, lambda S, o: S.CyclicLR(o, [0.01, 0.02], 0.1, step_size_up=5, mode="exp_range", gamma=0.98)),
    "CyclicLR-own": ("SGD", {}, lambda S, o: S.CyclicLR(o, 0.01, 0.1, step_size_up=5, scale_fn=_lambda, scale_mode="iterations", cycle_momentum=False)),
    "LambdaLR": ("SGD", {}, lambda S, o: S.LambdaLR(o, _lambda)),
    "LambdaLR-two": ("SGD", {}, lambda S, o: S.LambdaLR(o, [_lambda, Warm()])),
    "MultiplicativeLR": ("SGD", {}, lambda S, o: S.MultiplicativeLR(o, lambda e: 0.9 if e % 3 else 1.05)),
    "Plateau": ("SGD", {}, lambda S, o: S.ReduceLROnPlateau(o, factor=0.5, patience=3)),
    "Plateau-max": ("SGD", {}, lambda S, o: S.ReduceLROnPlateau(o, "max", 0.5, 2, threshold_mode="abs", threshold=0.05, cooldown=2, min_lr=[0.001, 0.02])),
    "SequentialLR": ("SGD", {}, _sequential),
    "SequentialLR-nested": ("SGD", {}, _nested),
    "ChainedScheduler": ("SGD", {}, lambda S, o: S.ChainedScheduler([S.ConstantLR(o, 0.5, 4), S.ExponentialLR(o, 0.9), S.MultiStepLR(o, [9], 0.1)])),
}  # fmt: skip


def metric(epoch):
    """A measure that falls, stalls, and jumps."""
    return [1.0, 0.9, 0.85, 0.8, 0.8, 0.8, 0.8, 0.8, 0.79, 0.7][epoch % 10] / (1 + epoch // 10)


def make_schedule(T, S, name):
    kind, options, make = SCHEDULES[name]
    params = [T.ones(1, requires_grad=True), T.ones(2, requires_grad=True)]
    groups = [{"params": params[:1]}, {"params": params[1:], "lr": 0.2}]
    optimizer = getattr(T.optim, kind)(groups, lr=0.4, **options)
    return optimizer, make(S, optimizer)


def momentum_of(group):
    return group["betas"][0] if "betas" in group else group.get("momentum", 0)


def step_once(optimizer, schedule, epoch):
    optimizer.step()
    if type(schedule).__name__ == "ReduceLROnPlateau":
        schedule.step(metric(epoch))
    else:
        schedule.step()


def run_schedule(T, S, name):
    """Rate and momentum of both groups before the first epoch and after each."""
    optimizer, schedule = make_schedule(T, S, name)
    rows = [[*(g["lr"] for g in optimizer.param_groups), *(momentum_of(g) for g in optimizer.param_groups)]]
    for epoch in range(EPOCHS):
        step_once(optimizer, schedule, epoch)
        rows.append([*schedule.get_last_lr(), *(momentum_of(g) for g in optimizer.param_groups)])
    return rows, schedule


# Jumps with `step(epoch)`, where a closed form is used.
JUMPS = ("StepLR", "MultiStepLR", "ConstantLR-20", "LinearLR-down", "ExponentialLR", "PolynomialLR", "CosineAnnealingLR",
         "WarmRestarts-2", "LambdaLR")  # fmt: skip


def run_jumps(T, S, name):
    optimizer, schedule = make_schedule(T, S, name)
    rows = []
    for epoch in (0, 3, 10, 7, 33, 49, 12):
        optimizer.step()
        schedule.step(epoch)
        rows.append(list(schedule.get_last_lr()))
    return rows
