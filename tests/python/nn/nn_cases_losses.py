"""Losses, as functions and as modules, over reductions, weights and shapes."""

REDUCTIONS = ("mean", "sum", "none")

PAIRS = [
    f"r = F.{name}(x(3, 4), x(3, 4), reduction={reduction!r}{more})"
    for name, extras in {
        "mse_loss": [""],
        "l1_loss": [""],
        "smooth_l1_loss": ["", ", beta=0.3", ", beta=2.5", ", beta=0.0"],
        "huber_loss": ["", ", delta=0.3", ", delta=2.5"],
    }.items()
    for reduction in REDUCTIONS
    for more in extras
]

CROSS = []
for reduction in REDUCTIONS:
    for more in ("", ", weight=c(5, scale=0.25, shift=1.0)", ", label_smoothing=0.2", ", ignore_index=2"):
        CROSS.append(f"r = F.cross_entropy(x(4, 5), ints(5, 4), reduction={reduction!r}{more})")
    CROSS.append(
        f"r = F.cross_entropy(x(4, 5), ints(5, 4), weight=c(5, scale=0.25, shift=1.0), ignore_index=1, label_smoothing=0.1, reduction={reduction!r})"
    )
    for more in ("", ", weight=c(5, scale=0.25, shift=1.0)", ", label_smoothing=0.2"):
        CROSS.append(f"r = F.cross_entropy(x(4, 5), F.softmax(x(4, 5), 1), reduction={reduction!r}{more})")
    CROSS.append(f"r = F.cross_entropy(x(2, 5, 3), ints(5, 2, 3), reduction={reduction!r})")
    CROSS.append(f"r = F.cross_entropy(x(2, 5, 2, 2), ints(5, 2, 2, 2), reduction={reduction!r}, label_smoothing=0.1)")
    CROSS.append(
        f"r = F.cross_entropy(x(2, 5, 3), F.softmax(c(2, 5, 3), 1), reduction={reduction!r}, weight=c(5, scale=0.25, shift=1.0), label_smoothing=0.1)"
    )
    CROSS.append(f"r = F.nll_loss(F.log_softmax(x(4, 5), 1), ints(5, 4), reduction={reduction!r})")
    CROSS.append(
        f"r = F.nll_loss(x(4, 5), ints(5, 4), weight=c(5, scale=0.25, shift=1.0), ignore_index=3, reduction={reduction!r})"
    )
    CROSS.append(f"r = F.nll_loss(x(2, 5, 3), ints(5, 2, 3), reduction={reduction!r})")
    CROSS.append(
        f"r = F.nll_loss(x(2, 5, 3, 2), ints(5, 2, 3, 2), weight=c(5, scale=0.25, shift=1.0), ignore_index=0, reduction={reduction!r})"
    )
CROSS += [
    f"r = {program}"
    for program in """
F.cross_entropy(x(5), T.tensor(3))
F.cross_entropy(x(5), F.softmax(c(5), 0))
F.cross_entropy(x(5), T.tensor(3), label_smoothing=0.3)
F.cross_entropy(x(4, 5), T.tensor([-100, 1, -100, 2]))
F.cross_entropy(x(4, 5), T.tensor([-100, -100, -100, -100]))
F.cross_entropy(x(4, 5), T.tensor([-100, -100, -100, -100]), reduction='sum')
F.cross_entropy(x(4, 5) * 200, ints(5, 4))
F.nll_loss(x(5), T.tensor(3))
m(nn.CrossEntropyLoss())(x(4, 5), ints(5, 4))
m(nn.CrossEntropyLoss(c(5, scale=0.25, shift=1.0), label_smoothing=0.1))(x(4, 5), ints(5, 4))
m(nn.CrossEntropyLoss(ignore_index=1, reduction='sum'))(x(4, 5), ints(5, 4))
m(nn.NLLLoss())(x(4, 5), ints(5, 4))
m(nn.NLLLoss(weight=c(5, scale=0.25, shift=1.0), ignore_index=0))(x(4, 5), ints(5, 4))
""".strip().splitlines()
]

BINARY = []
for reduction in REDUCTIONS:
    BINARY += [
        f"r = F.binary_cross_entropy(p(3, 4), p(3, 4), reduction={reduction!r})",
        f"r = F.binary_cross_entropy(p(3, 4), bools(3, 4).to(dt), weight=c(3, 4), reduction={reduction!r})",
        f"r = F.binary_cross_entropy_with_logits(x(3, 4), p(3, 4), reduction={reduction!r})",
        f"r = F.binary_cross_entropy_with_logits(x(3, 4), bools(3, 4).to(dt), weight=c(4), pos_weight=c(4, scale=0.25, shift=1.0), reduction={reduction!r})",
        f"r = F.kl_div(F.log_softmax(x(3, 4), 1), F.softmax(x(3, 4), 1), reduction={reduction!r})",
        f"r = F.kl_div(F.log_softmax(x(3, 4), 1), F.log_softmax(x(3, 4), 1), log_target=True, reduction={reduction!r})",
        f"r = F.poisson_nll_loss(x(3, 4), ints(6, 3, 4).to(dt), reduction={reduction!r})",
        f"r = F.poisson_nll_loss(p(3, 4), ints(6, 3, 4).to(dt), log_input=False, full=True, reduction={reduction!r})",
        f"r = F.poisson_nll_loss(x(3, 4), ints(6, 3, 4).to(dt), full=True, reduction={reduction!r})",
        f"r = F.gaussian_nll_loss(x(3, 4), x(3, 4), p(3, 4), reduction={reduction!r})",
        f"r = F.gaussian_nll_loss(x(3, 4), x(3, 4), p(3, 1), full=True, reduction={reduction!r})",
        f"r = F.gaussian_nll_loss(x(3, 4), x(3, 4), p(3), reduction={reduction!r})",
        f"r = F.gaussian_nll_loss(x(3, 4), x(3, 4), p(3, 4), eps=0.5, reduction={reduction!r})",
        f"r = F.soft_margin_loss(x(3, 4), signs(3, 4), reduction={reduction!r})",
        f"r = F.hinge_embedding_loss(x(3, 4), signs(3, 4), reduction={reduction!r})",
        f"r = F.hinge_embedding_loss(x(3, 4), signs(3, 4), margin=0.3, reduction={reduction!r})",
        f"r = F.margin_ranking_loss(x(5), x(5), signs(5), reduction={reduction!r})",
        f"r = F.margin_ranking_loss(x(3, 4), x(3, 4), signs(3, 4), margin=0.5, reduction={reduction!r})",
        f"r = F.cosine_embedding_loss(x(5, 3), x(5, 3), signs(5), reduction={reduction!r})",
        f"r = F.cosine_embedding_loss(x(5, 3), x(5, 3), signs(5), margin=0.2, reduction={reduction!r})",
        f"r = F.triplet_margin_loss(x(5, 3), x(5, 3), x(5, 3), reduction={reduction!r})",
        f"r = F.triplet_margin_loss(x(5, 3), x(5, 3), x(5, 3), margin=0.4, p=1, swap=True, reduction={reduction!r})",
        f"r = F.triplet_margin_with_distance_loss(x(5, 3), x(5, 3), x(5, 3), distance_function=lambda a, b: 1 - F.cosine_similarity(a, b), reduction={reduction!r})",
        f"r = F.multi_margin_loss(x(4, 5), ints(5, 4), reduction={reduction!r})",
        f"r = F.multi_margin_loss(x(4, 5), ints(5, 4), p=2, margin=0.5, weight=c(5, scale=0.25, shift=1.0), reduction={reduction!r})",
        f"r = F.multilabel_margin_loss(x(3, 4), T.tensor([[3, 0, -1, 1], [1, 2, 3, 0], [-1, 0, 1, 2]]), reduction={reduction!r})",
        f"r = F.multilabel_soft_margin_loss(x(3, 4), bools(3, 4).to(dt), reduction={reduction!r})",
        f"r = F.multilabel_soft_margin_loss(x(3, 4), bools(3, 4).to(dt), weight=c(4), reduction={reduction!r})",
    ]

MODULES = [
    f"r = {program}"
    for program in """
m(nn.MSELoss())(x(3, 4), x(3, 4))
m(nn.MSELoss(reduction='sum'))(x(3, 4), x(3, 4))
m(nn.MSELoss(reduction='none'))(x(), x())
m(nn.MSELoss())(x(3, 1), x(3))
m(nn.MSELoss(size_average=False))(x(3, 4), x(3, 4))
m(nn.MSELoss(reduce=False))(x(3, 4), x(3, 4))
m(nn.L1Loss())(x(3, 4), x(3, 4))
m(nn.SmoothL1Loss(beta=0.4))(x(3, 4), x(3, 4))
m(nn.HuberLoss(delta=0.4))(x(3, 4), x(3, 4))
m(nn.BCELoss())(p(3, 4), p(3, 4))
m(nn.BCELoss(weight=c(4)))(p(3, 4), p(3, 4))
m(nn.BCEWithLogitsLoss())(x(3, 4), p(3, 4))
m(nn.BCEWithLogitsLoss(pos_weight=c(4, scale=0.25, shift=1.0)))(x(3, 4), p(3, 4))
m(nn.BCEWithLogitsLoss())(x(3, 4) * 100, p(3, 4))
m(nn.KLDivLoss(reduction='batchmean'))(F.log_softmax(x(3, 4), 1), F.softmax(x(3, 4), 1))
m(nn.KLDivLoss(reduction='batchmean', log_target=True))(F.log_softmax(x(3, 4), 1), F.log_softmax(x(3, 4), 1))
m(nn.KLDivLoss(reduction='sum'))(F.log_softmax(x(3, 4), 1), bools(3, 4).to(dt))
m(nn.PoissonNLLLoss())(x(3, 4), ints(5, 3, 4).to(dt))
m(nn.GaussianNLLLoss(full=True))(x(3, 4), x(3, 4), p(3, 4))
m(nn.GaussianNLLLoss())(x(3, 4), x(3, 4), 0.7)
m(nn.HingeEmbeddingLoss())(x(3, 4), signs(3, 4))
m(nn.MarginRankingLoss(margin=0.2))(x(3), x(3), signs(3))
m(nn.CosineEmbeddingLoss())(x(3, 4), x(3, 4), signs(3))
m(nn.CosineEmbeddingLoss())(x(4), x(4), T.tensor(1))
m(nn.TripletMarginLoss(p=1))(x(3, 4), x(3, 4), x(3, 4))
m(nn.TripletMarginWithDistanceLoss(swap=True))(x(3, 4), x(3, 4), x(3, 4))
m(nn.SoftMarginLoss())(x(3, 4), signs(3, 4))
m(nn.MultiMarginLoss())(x(3, 4), ints(4, 3))
m(nn.MultiMarginLoss())(x(4), T.tensor(2))
m(nn.MultiLabelMarginLoss())(x(4), T.tensor([3, 0, -1, 1]))
m(nn.MultiLabelSoftMarginLoss())(x(3, 4), bools(3, 4).to(dt))
""".strip().splitlines()
]

CTC = [
    f"r = F.ctc_loss(F.log_softmax(x({steps}, {batch}, 4), 2), {targets}, {lengths}, reduction={reduction!r}{more})"
    for reduction in REDUCTIONS
    for steps, batch, targets, lengths, more in (
        (5, 2, "T.tensor([[1, 2, 3], [2, 2, 1]])", "T.tensor([5, 5]), T.tensor([3, 2])", ""),
        (6, 2, "T.tensor([[1, 2, 3], [2, 2, 1]])", "T.tensor([6, 4]), T.tensor([1, 2])", ""),
        (5, 2, "T.tensor([1, 2, 3, 3])", "(5, 4), (3, 1)", ""),
        (5, 2, "T.tensor([[0, 2], [1, 1]])", "(5, 5), (2, 2)", ", blank=3"),
        (4, 2, "T.tensor([[1, 2, 3], [2, 2, 1]])", "(4, 4), (3, 0)", ""),
        (2, 2, "T.tensor([[1, 2, 3], [2, 3, 1]])", "(2, 2), (3, 2)", ", zero_infinity=True"),
    )
] + [
    "r = m(nn.CTCLoss(blank=1))(F.log_softmax(x(5, 1, 4), 2), T.tensor([[0, 3]]), T.tensor([5]), T.tensor([2]))",
    "r = F.ctc_loss(F.log_softmax(x(5, 4), 1), T.tensor([1, 3]), T.tensor(5), T.tensor(2))",
]

LOSSES = [*CTC, *PAIRS, *CROSS, *BINARY, *MODULES]
