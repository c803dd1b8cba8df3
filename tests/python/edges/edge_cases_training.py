"""Losses, activations, schedules and optimizers with their options."""

# Programs are one line each, however long.
CASES = r"""
x = T.nn.functional.mse_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='mean'); r = x
x = T.nn.functional.l1_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='mean'); r = x
x = T.nn.functional.smooth_l1_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='mean'); r = x
x = T.nn.functional.huber_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='mean'); r = x
x = T.nn.functional.binary_cross_entropy_with_logits(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='mean'); r = x
x = T.nn.functional.kl_div(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='mean'); r = x
x = T.nn.functional.poisson_nll_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='mean'); r = x
x = T.nn.functional.hinge_embedding_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1.,-1,1],[-1,1,1]]), reduction='mean'); r = x
x = T.nn.functional.soft_margin_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1.,-1,1],[-1,1,1]]), reduction='mean'); r = x
x = T.nn.functional.gaussian_nll_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]),T.ones(2,3), reduction='mean'); r = x
x = T.nn.functional.cosine_embedding_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]),T.tensor([1.,-1]), reduction='mean'); r = x
x = T.nn.functional.margin_ranking_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]),T.tensor([[1.,-1,1],[-1,1,1]]), reduction='mean'); r = x
x = T.nn.functional.triplet_margin_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]),T.tensor([[.5, -1., 2.], [1.5, 0., -.5]])*2, reduction='mean'); r = x
x = T.nn.functional.triplet_margin_with_distance_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]),T.tensor([[.5, -1., 2.], [1.5, 0., -.5]])*2, reduction='mean'); r = x
x = T.nn.functional.multi_margin_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([0,2]), reduction='mean'); r = x
x = T.nn.functional.multilabel_margin_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[0,2,-1],[1,-1,0]]), reduction='mean'); r = x
x = T.nn.functional.multilabel_soft_margin_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='mean'); r = x
x = T.nn.functional.nll_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([0,2]), reduction='mean'); r = x
x = T.nn.functional.cross_entropy(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([0,2]), reduction='mean'); r = x
x = T.nn.functional.cross_entropy(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='mean'); r = x
x = T.nn.functional.ctc_loss(T.arange(12.).view(4,1,3).log_softmax(-1),T.tensor([[1,2]]),T.tensor([4]),T.tensor([2]), reduction='mean'); r = x
r = T.nn.functional.cross_entropy(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]), T.tensor([0, -100]), reduction='mean'), T.nn.functional.cross_entropy(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]), T.tensor([0, 2]), weight=T.tensor([1., 2, 3]), reduction='mean'), T.nn.functional.cross_entropy(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]), T.tensor([0, 2]), label_smoothing=.1, reduction='mean'), T.nn.functional.cross_entropy(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]), T.tensor([0, 1]), ignore_index=1, weight=T.tensor([1., 2, 3]), label_smoothing=.2, reduction='mean')
r = T.nn.functional.mse_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), weight=T.ones(2, 3) * 2, reduction='mean')
r = T.nn.functional.binary_cross_entropy_with_logits(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), pos_weight=T.tensor([1., 2, 3]), weight=T.tensor([.5, 1, 1]), reduction='mean')
r = T.nn.functional.kl_div(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), log_target=True, reduction='mean')
x = T.nn.functional.mse_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='sum'); r = x
x = T.nn.functional.l1_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='sum'); r = x
x = T.nn.functional.smooth_l1_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='sum'); r = x
x = T.nn.functional.huber_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='sum'); r = x
x = T.nn.functional.binary_cross_entropy_with_logits(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='sum'); r = x
x = T.nn.functional.kl_div(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='sum'); r = x
x = T.nn.functional.poisson_nll_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='sum'); r = x
x = T.nn.functional.hinge_embedding_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1.,-1,1],[-1,1,1]]), reduction='sum'); r = x
x = T.nn.functional.soft_margin_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1.,-1,1],[-1,1,1]]), reduction='sum'); r = x
x = T.nn.functional.gaussian_nll_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]),T.ones(2,3), reduction='sum'); r = x
x = T.nn.functional.cosine_embedding_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]),T.tensor([1.,-1]), reduction='sum'); r = x
x = T.nn.functional.margin_ranking_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]),T.tensor([[1.,-1,1],[-1,1,1]]), reduction='sum'); r = x
x = T.nn.functional.triplet_margin_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]),T.tensor([[.5, -1., 2.], [1.5, 0., -.5]])*2, reduction='sum'); r = x
x = T.nn.functional.triplet_margin_with_distance_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]),T.tensor([[.5, -1., 2.], [1.5, 0., -.5]])*2, reduction='sum'); r = x
x = T.nn.functional.multi_margin_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([0,2]), reduction='sum'); r = x
x = T.nn.functional.multilabel_margin_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[0,2,-1],[1,-1,0]]), reduction='sum'); r = x
x = T.nn.functional.multilabel_soft_margin_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='sum'); r = x
x = T.nn.functional.nll_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([0,2]), reduction='sum'); r = x
x = T.nn.functional.cross_entropy(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([0,2]), reduction='sum'); r = x
x = T.nn.functional.cross_entropy(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='sum'); r = x
x = T.nn.functional.ctc_loss(T.arange(12.).view(4,1,3).log_softmax(-1),T.tensor([[1,2]]),T.tensor([4]),T.tensor([2]), reduction='sum'); r = x
r = T.nn.functional.cross_entropy(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]), T.tensor([0, -100]), reduction='sum'), T.nn.functional.cross_entropy(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]), T.tensor([0, 2]), weight=T.tensor([1., 2, 3]), reduction='sum'), T.nn.functional.cross_entropy(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]), T.tensor([0, 2]), label_smoothing=.1, reduction='sum'), T.nn.functional.cross_entropy(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]), T.tensor([0, 1]), ignore_index=1, weight=T.tensor([1., 2, 3]), label_smoothing=.2, reduction='sum')
r = T.nn.functional.mse_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), weight=T.ones(2, 3) * 2, reduction='sum')
r = T.nn.functional.binary_cross_entropy_with_logits(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), pos_weight=T.tensor([1., 2, 3]), weight=T.tensor([.5, 1, 1]), reduction='sum')
r = T.nn.functional.kl_div(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), log_target=True, reduction='sum')
x = T.nn.functional.mse_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='none'); r = x
x = T.nn.functional.l1_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='none'); r = x
x = T.nn.functional.smooth_l1_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='none'); r = x
x = T.nn.functional.huber_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='none'); r = x
x = T.nn.functional.binary_cross_entropy_with_logits(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='none'); r = x
x = T.nn.functional.kl_div(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='none'); r = x
x = T.nn.functional.poisson_nll_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='none'); r = x
x = T.nn.functional.hinge_embedding_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1.,-1,1],[-1,1,1]]), reduction='none'); r = x
x = T.nn.functional.soft_margin_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1.,-1,1],[-1,1,1]]), reduction='none'); r = x
x = T.nn.functional.gaussian_nll_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]),T.ones(2,3), reduction='none'); r = x
x = T.nn.functional.cosine_embedding_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]),T.tensor([1.,-1]), reduction='none'); r = x
x = T.nn.functional.margin_ranking_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]),T.tensor([[1.,-1,1],[-1,1,1]]), reduction='none'); r = x
x = T.nn.functional.triplet_margin_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]),T.tensor([[.5, -1., 2.], [1.5, 0., -.5]])*2, reduction='none'); r = x
x = T.nn.functional.triplet_margin_with_distance_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]),T.tensor([[.5, -1., 2.], [1.5, 0., -.5]])*2, reduction='none'); r = x
x = T.nn.functional.multi_margin_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([0,2]), reduction='none'); r = x
x = T.nn.functional.multilabel_margin_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[0,2,-1],[1,-1,0]]), reduction='none'); r = x
x = T.nn.functional.multilabel_soft_margin_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='none'); r = x
x = T.nn.functional.nll_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([0,2]), reduction='none'); r = x
x = T.nn.functional.cross_entropy(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([0,2]), reduction='none'); r = x
x = T.nn.functional.cross_entropy(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='none'); r = x
x = T.nn.functional.ctc_loss(T.arange(12.).view(4,1,3).log_softmax(-1),T.tensor([[1,2]]),T.tensor([4]),T.tensor([2]), reduction='none'); r = x
r = T.nn.functional.cross_entropy(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]), T.tensor([0, -100]), reduction='none'), T.nn.functional.cross_entropy(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]), T.tensor([0, 2]), weight=T.tensor([1., 2, 3]), reduction='none'), T.nn.functional.cross_entropy(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]), T.tensor([0, 2]), label_smoothing=.1, reduction='none'), T.nn.functional.cross_entropy(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]), T.tensor([0, 1]), ignore_index=1, weight=T.tensor([1., 2, 3]), label_smoothing=.2, reduction='none')
r = T.nn.functional.mse_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), weight=T.ones(2, 3) * 2, reduction='none')
r = T.nn.functional.binary_cross_entropy_with_logits(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), pos_weight=T.tensor([1., 2, 3]), weight=T.tensor([.5, 1, 1]), reduction='none')
r = T.nn.functional.kl_div(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), log_target=True, reduction='none')
r = T.nn.functional.mse_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='foo')
r = T.nn.functional.mse_loss(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]), T.ones(2))
r = T.nn.functional.kl_div(T.tensor([[.5, -1., 2.], [1.5, 0., -.5]]),T.tensor([[1., 0., .25], [0., 1., .5]]), reduction='batchmean')
r = T.nn.functional.cross_entropy(T.zeros(2, 3), T.tensor([-100, -100]))
r = T.nn.functional.cross_entropy(T.zeros(0, 3), T.zeros(0, dtype=T.int64))
r = T.nn.functional.cross_entropy(T.zeros(2, 3), T.tensor([0]))
r = T.nn.functional.cross_entropy(T.zeros(3), T.tensor(1))
r = T.nn.functional.cross_entropy(T.zeros(2, 3), T.zeros(2))
r = T.nn.functional.cross_entropy(T.zeros(2, 3), T.zeros(2, dtype=T.int32))
r = T.nn.functional.smooth_l1_loss(T.tensor([1.]), T.tensor([0.]), beta=0), T.nn.functional.huber_loss(T.tensor([3.]), T.tensor([0.]), delta=2.)
r = T.nn.functional.smooth_l1_loss(T.tensor([1.]), T.tensor([0.]), beta=-1)
r = T.nn.functional.huber_loss(T.tensor([1.]), T.tensor([0.]), delta=0)
r = T.nn.functional.relu(T.tensor([-3., -1., -.5, 0., .5, 1., 4., nan, inf, -inf]))
x = T.tensor([-3., -1., -.5, 0., .5, 1., 4.], requires_grad=True); T.nn.functional.relu(x).sum().backward(); r = x.grad
r = T.nn.functional.relu(T.tensor([1, 2]))
r = T.nn.functional.relu(T.tensor([-1., 2.], dtype=T.float16))
r = T.nn.functional.relu6(T.tensor([-3., -1., -.5, 0., .5, 1., 4., nan, inf, -inf]))
x = T.tensor([-3., -1., -.5, 0., .5, 1., 4.], requires_grad=True); T.nn.functional.relu6(x).sum().backward(); r = x.grad
r = T.nn.functional.relu6(T.tensor([1, 2]))
r = T.nn.functional.relu6(T.tensor([-1., 2.], dtype=T.float16))
r = T.nn.functional.elu(T.tensor([-3., -1., -.5, 0., .5, 1., 4., nan, inf, -inf]))
x = T.tensor([-3., -1., -.5, 0., .5, 1., 4.], requires_grad=True); T.nn.functional.elu(x).sum().backward(); r = x.grad
r = T.nn.functional.elu(T.tensor([1, 2]))
r = T.nn.functional.elu(T.tensor([-1., 2.], dtype=T.float16))
r = T.nn.functional.selu(T.tensor([-3., -1., -.5, 0., .5, 1., 4., nan, inf, -inf]))
x = T.tensor([-3., -1., -.5, 0., .5, 1., 4.], requires_grad=True); T.nn.functional.selu(x).sum().backward(); r = x.grad
r = T.nn.functional.selu(T.tensor([1, 2]))
r = T.nn.functional.selu(T.tensor([-1., 2.], dtype=T.float16))
r = T.nn.functional.celu(T.tensor([-3., -1., -.5, 0., .5, 1., 4., nan, inf, -inf]))
x = T.tensor([-3., -1., -.5, 0., .5, 1., 4.], requires_grad=True); T.nn.functional.celu(x).sum().backward(); r = x.grad
r = T.nn.functional.celu(T.tensor([1, 2]))
r = T.nn.functional.celu(T.tensor([-1., 2.], dtype=T.float16))
x = T.tensor([-3., -1., -.5, 0., .5, 1., 4.], requires_grad=True); T.nn.functional.gelu(x).sum().backward(); r = x.grad
r = T.nn.functional.gelu(T.tensor([1, 2]))
r = T.nn.functional.gelu(T.tensor([-1., 2.], dtype=T.float16))
r = T.nn.functional.silu(T.tensor([-3., -1., -.5, 0., .5, 1., 4., nan, inf, -inf]))
x = T.tensor([-3., -1., -.5, 0., .5, 1., 4.], requires_grad=True); T.nn.functional.silu(x).sum().backward(); r = x.grad
r = T.nn.functional.silu(T.tensor([1, 2]))
r = T.nn.functional.silu(T.tensor([-1., 2.], dtype=T.float16))
r = T.nn.functional.mish(T.tensor([-3., -1., -.5, 0., .5, 1., 4., nan, inf, -inf]))
x = T.tensor([-3., -1., -.5, 0., .5, 1., 4.], requires_grad=True); T.nn.functional.mish(x).sum().backward(); r = x.grad
r = T.nn.functional.mish(T.tensor([1, 2]))
r = T.nn.functional.mish(T.tensor([-1., 2.], dtype=T.float16))
r = T.nn.functional.sigmoid(T.tensor([-3., -1., -.5, 0., .5, 1., 4., nan, inf, -inf]))
x = T.tensor([-3., -1., -.5, 0., .5, 1., 4.], requires_grad=True); T.nn.functional.sigmoid(x).sum().backward(); r = x.grad
r = T.nn.functional.sigmoid(T.tensor([1, 2]))
r = T.nn.functional.sigmoid(T.tensor([-1., 2.], dtype=T.float16))
r = T.nn.functional.tanh(T.tensor([-3., -1., -.5, 0., .5, 1., 4., nan, inf, -inf]))
x = T.tensor([-3., -1., -.5, 0., .5, 1., 4.], requires_grad=True); T.nn.functional.tanh(x).sum().backward(); r = x.grad
r = T.nn.functional.tanh(T.tensor([1, 2]))
r = T.nn.functional.tanh(T.tensor([-1., 2.], dtype=T.float16))
r = T.nn.functional.softplus(T.tensor([-3., -1., -.5, 0., .5, 1., 4., nan, inf, -inf]))
x = T.tensor([-3., -1., -.5, 0., .5, 1., 4.], requires_grad=True); T.nn.functional.softplus(x).sum().backward(); r = x.grad
r = T.nn.functional.softplus(T.tensor([1, 2]))
r = T.nn.functional.softplus(T.tensor([-1., 2.], dtype=T.float16))
r = T.nn.functional.softsign(T.tensor([-3., -1., -.5, 0., .5, 1., 4., nan, inf, -inf]))
x = T.tensor([-3., -1., -.5, 0., .5, 1., 4.], requires_grad=True); T.nn.functional.softsign(x).sum().backward(); r = x.grad
r = T.nn.functional.softsign(T.tensor([1, 2]))
r = T.nn.functional.softsign(T.tensor([-1., 2.], dtype=T.float16))
r = T.nn.functional.hardtanh(T.tensor([-3., -1., -.5, 0., .5, 1., 4., nan, inf, -inf]))
x = T.tensor([-3., -1., -.5, 0., .5, 1., 4.], requires_grad=True); T.nn.functional.hardtanh(x).sum().backward(); r = x.grad
r = T.nn.functional.hardtanh(T.tensor([1, 2]))
r = T.nn.functional.hardtanh(T.tensor([-1., 2.], dtype=T.float16))
x = T.tensor([-3., -1., -.5, 0., .5, 1., 4.], requires_grad=True); T.nn.functional.hardswish(x).sum().backward(); r = x.grad
r = T.nn.functional.hardswish(T.tensor([1, 2]))
r = T.nn.functional.hardswish(T.tensor([-1., 2.], dtype=T.float16))
r = T.nn.functional.hardsigmoid(T.tensor([-3., -1., -.5, 0., .5, 1., 4., nan, inf, -inf]))
x = T.tensor([-3., -1., -.5, 0., .5, 1., 4.], requires_grad=True); T.nn.functional.hardsigmoid(x).sum().backward(); r = x.grad
r = T.nn.functional.hardsigmoid(T.tensor([1, 2]))
r = T.nn.functional.hardsigmoid(T.tensor([-1., 2.], dtype=T.float16))
r = T.nn.functional.leaky_relu(T.tensor([-3., -1., -.5, 0., .5, 1., 4., nan, inf, -inf]))
x = T.tensor([-3., -1., -.5, 0., .5, 1., 4.], requires_grad=True); T.nn.functional.leaky_relu(x).sum().backward(); r = x.grad
r = T.nn.functional.leaky_relu(T.tensor([1, 2]))
r = T.nn.functional.leaky_relu(T.tensor([-1., 2.], dtype=T.float16))
r = T.nn.functional.logsigmoid(T.tensor([-3., -1., -.5, 0., .5, 1., 4., nan, inf, -inf]))
x = T.tensor([-3., -1., -.5, 0., .5, 1., 4.], requires_grad=True); T.nn.functional.logsigmoid(x).sum().backward(); r = x.grad
r = T.nn.functional.logsigmoid(T.tensor([1, 2]))
r = T.nn.functional.logsigmoid(T.tensor([-1., 2.], dtype=T.float16))
r = T.nn.functional.tanhshrink(T.tensor([-3., -1., -.5, 0., .5, 1., 4., nan, inf, -inf]))
x = T.tensor([-3., -1., -.5, 0., .5, 1., 4.], requires_grad=True); T.nn.functional.tanhshrink(x).sum().backward(); r = x.grad
r = T.nn.functional.tanhshrink(T.tensor([1, 2]))
r = T.nn.functional.tanhshrink(T.tensor([-1., 2.], dtype=T.float16))
r = T.nn.functional.softshrink(T.tensor([-3., -1., -.5, 0., .5, 1., 4., nan, inf, -inf]))
x = T.tensor([-3., -1., -.5, 0., .5, 1., 4.], requires_grad=True); T.nn.functional.softshrink(x).sum().backward(); r = x.grad
r = T.nn.functional.softshrink(T.tensor([1, 2]))
r = T.nn.functional.softshrink(T.tensor([-1., 2.], dtype=T.float16))
r = T.nn.functional.hardshrink(T.tensor([-3., -1., -.5, 0., .5, 1., 4., nan, inf, -inf]))
x = T.tensor([-3., -1., -.5, 0., .5, 1., 4.], requires_grad=True); T.nn.functional.hardshrink(x).sum().backward(); r = x.grad
r = T.nn.functional.hardshrink(T.tensor([1, 2]))
r = T.nn.functional.hardshrink(T.tensor([-1., 2.], dtype=T.float16))
r = T.nn.functional.gelu(T.tensor([-1., 2]), approximate='tanh'), T.nn.functional.elu(T.tensor([-1.]), .5), T.nn.functional.threshold(T.tensor([0., 2]), 1, 9), T.nn.functional.rrelu(T.tensor([-1.]), .2, .2), T.nn.functional.glu(T.arange(4.)), T.nn.functional.prelu(T.tensor([-1., 2]), T.tensor([.3])), T.nn.functional.softmin(T.arange(3.), 0), T.nn.functional.normalize(T.tensor([[3., 4]])), T.nn.functional.cosine_similarity(T.ones(1, 2), T.tensor([[1., 0]])), T.nn.functional.pairwise_distance(T.ones(1, 2), T.zeros(1, 2)), T.nn.functional.pdist(T.arange(6.).view(3, 2))
r = T.nn.functional.gelu(T.tensor([1.]), approximate='foo')
r = T.nn.functional.glu(T.arange(3.))
r = T.nn.functional.gumbel_softmax(T.zeros(2, 3), hard=True).sum(-1)
r = T.nn.functional.avg_pool1d(T.arange(6.).view(1, 1, 6), 2), T.nn.functional.avg_pool2d(T.arange(16.).view(1, 1, 4, 4), 3, 1, 1), T.nn.functional.avg_pool2d(T.arange(16.).view(1, 1, 4, 4), 3, 1, 1, count_include_pad=False), T.nn.functional.avg_pool2d(T.arange(16.).view(1, 1, 4, 4), 3, 2, ceil_mode=True), T.nn.functional.avg_pool2d(T.arange(16.).view(1, 1, 4, 4), 2, divisor_override=3)
r = T.nn.functional.max_pool1d(T.arange(6.).view(1, 1, 6), 2), T.nn.functional.max_pool2d(T.arange(16.).view(1, 1, 4, 4), 2, return_indices=True), T.nn.functional.max_pool2d(T.arange(16.).view(1, 1, 4, 4), 3, 1, padding=1, dilation=1), T.nn.functional.max_pool2d(T.arange(25.).view(1, 5, 5), 2, ceil_mode=True)
r = T.nn.functional.max_pool2d(T.ones(1, 1, 4, 4), 2, padding=2)
r = T.nn.functional.max_pool2d(T.ones(4, 4), 2)
r = T.nn.functional.avg_pool2d(T.ones(1, 1, 1, 1), 2)
r = T.nn.functional.adaptive_avg_pool2d(T.arange(20.).view(1, 1, 4, 5), (3, 2)), T.nn.functional.adaptive_max_pool1d(T.arange(5.).view(1, 1, 5), 3, return_indices=True), T.nn.functional.adaptive_avg_pool1d(T.arange(5.).view(1, 1, 5), 2), T.nn.functional.lp_pool1d(T.arange(6.).view(1, 1, 6), 2, 2)
r = T.nn.functional.conv1d(T.arange(5.).view(1, 1, 5), T.ones(1, 1, 3), padding='same'), T.nn.functional.conv1d(T.arange(5.).view(1, 1, 5), T.ones(1, 1, 2), T.ones(1), stride=2, dilation=2), T.nn.functional.conv_transpose1d(T.arange(3.).view(1, 1, 3), T.ones(1, 1, 2), stride=2, output_padding=1), T.nn.functional.conv2d(T.arange(9.).view(1, 1, 3, 3), T.ones(1, 1, 2, 2), padding=(1, 0)), T.nn.functional.conv3d(T.ones(1, 1, 2, 2, 2), T.ones(1, 1, 2, 2, 2))
r = T.nn.functional.conv2d(T.arange(18.).view(2, 3, 3), T.ones(2, 1, 2, 2), groups=2), T.nn.functional.conv1d(T.arange(4).view(1, 1, 4), T.ones(1, 1, 2, dtype=T.int64))
r = T.nn.functional.unfold(T.arange(16.).view(1, 1, 4, 4), 2, stride=2), T.nn.functional.fold(T.ones(1, 4, 4), (4, 4), 2, stride=2), T.nn.functional.pixel_shuffle(T.arange(8.).view(1, 4, 1, 2), 2), T.nn.functional.pixel_unshuffle(T.arange(4.).view(1, 1, 2, 2), 2), T.nn.functional.channel_shuffle(T.arange(4.).view(1, 4, 1, 1), 2)
r = T.nn.functional.layer_norm(T.arange(6.).view(2, 3), (3,)), T.nn.functional.layer_norm(T.arange(6.).view(2, 3), [3], T.ones(3) * 2, T.ones(3)), T.nn.functional.group_norm(T.arange(8.).view(1, 4, 2), 2), T.nn.functional.instance_norm(T.arange(8.).view(1, 2, 4)), T.nn.functional.rms_norm(T.arange(3.), (3,)), T.nn.functional.local_response_norm(T.arange(8.).view(1, 4, 2), 2), T.nn.functional.batch_norm(T.arange(4.).view(2, 2), T.zeros(2), T.ones(2)), T.nn.functional.batch_norm(T.arange(4.).view(2, 2), None, None, training=True)
r = T.nn.functional.batch_norm(T.ones(2, 2), None, None)
r = T.nn.functional.linear(T.ones(2), T.ones(3, 2), T.ones(3)), T.nn.functional.bilinear(T.ones(1, 2), T.ones(1, 3), T.ones(2, 2, 3)), T.nn.functional.embedding(T.tensor([[0, 1]]), T.arange(4.).view(2, 2)), T.nn.functional.embedding_bag(T.tensor([0, 1, 1]), T.arange(4.).view(2, 2), T.tensor([0, 2])), T.nn.functional.one_hot(T.tensor([1]), 3)
q = T.arange(8.).view(1, 1, 2, 4); r = T.nn.functional.scaled_dot_product_attention(q, q, q), T.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True), T.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=T.tensor([[True, False], [True, True]])), T.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=T.tensor([[0., -1], [0, 0]]), scale=.1)
q = T.ones(1, 1, 2, 4); r = T.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=T.ones(2, 2), is_causal=True)
q = T.ones(1, 1, 2, 4); r = T.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=T.zeros(2, 2, dtype=T.bool))
r = T.nn.functional.scaled_dot_product_attention(T.ones(1, 4, 2, 4), T.ones(1, 2, 2, 4), T.ones(1, 2, 2, 4), enable_gqa=True).shape
r = T.nn.functional.grid_sample(T.arange(16.).view(1, 1, 4, 4), T.zeros(1, 2, 2, 2) + .3), T.nn.functional.affine_grid(T.eye(2, 3)[None], (1, 1, 2, 2)), T.nn.functional.grid_sample(T.arange(16.).view(1, 1, 4, 4), T.ones(1, 1, 1, 2) * 1.2, padding_mode='border', align_corners=True)
r = T.nn.functional.grid_sample(T.arange(8.).view(1, 1, 2, 2, 2), T.zeros(1, 1, 1, 2, 3) + .2)
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.StepLR(o, 2, .5); l = [o.param_groups[0]['lr']]\nfor _ in range(10):\n    o.step(); s.step(); l.append(o.param_groups[0]['lr'])\nr = l, s.get_last_lr(), s.last_epoch, sorted(k for k in s.state_dict() if not k.startswith('_'))
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.StepLR(o, 2, .5)\nfor _ in range(3):\n    o.step(); s.step()\nd = s.state_dict(); o2 = T.optim.SGD([p], lr=.1, momentum=.9); s2 = T.optim.lr_scheduler.StepLR(o2, 2, .5); s2.load_state_dict(d); o2.step(); s2.step(); r = o2.param_groups[0]['lr'], s2.last_epoch
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.MultiStepLR(o, [1, 3], .1); l = [o.param_groups[0]['lr']]\nfor _ in range(10):\n    o.step(); s.step(); l.append(o.param_groups[0]['lr'])\nr = l, s.get_last_lr(), s.last_epoch, sorted(k for k in s.state_dict() if not k.startswith('_'))
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.MultiStepLR(o, [1, 3], .1)\nfor _ in range(3):\n    o.step(); s.step()\nd = s.state_dict(); o2 = T.optim.SGD([p], lr=.1, momentum=.9); s2 = T.optim.lr_scheduler.MultiStepLR(o2, [1, 3], .1); s2.load_state_dict(d); o2.step(); s2.step(); r = o2.param_groups[0]['lr'], s2.last_epoch
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.ExponentialLR(o, .9); l = [o.param_groups[0]['lr']]\nfor _ in range(10):\n    o.step(); s.step(); l.append(o.param_groups[0]['lr'])\nr = l, s.get_last_lr(), s.last_epoch, sorted(k for k in s.state_dict() if not k.startswith('_'))
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.ExponentialLR(o, .9)\nfor _ in range(3):\n    o.step(); s.step()\nd = s.state_dict(); o2 = T.optim.SGD([p], lr=.1, momentum=.9); s2 = T.optim.lr_scheduler.ExponentialLR(o2, .9); s2.load_state_dict(d); o2.step(); s2.step(); r = o2.param_groups[0]['lr'], s2.last_epoch
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.CosineAnnealingLR(o, 5, .01); l = [o.param_groups[0]['lr']]\nfor _ in range(10):\n    o.step(); s.step(); l.append(o.param_groups[0]['lr'])\nr = l, s.get_last_lr(), s.last_epoch, sorted(k for k in s.state_dict() if not k.startswith('_'))
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.CosineAnnealingLR(o, 5, .01)\nfor _ in range(3):\n    o.step(); s.step()\nd = s.state_dict(); o2 = T.optim.SGD([p], lr=.1, momentum=.9); s2 = T.optim.lr_scheduler.CosineAnnealingLR(o2, 5, .01); s2.load_state_dict(d); o2.step(); s2.step(); r = o2.param_groups[0]['lr'], s2.last_epoch
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.LambdaLR(o, lambda e: .9 ** e); l = [o.param_groups[0]['lr']]\nfor _ in range(10):\n    o.step(); s.step(); l.append(o.param_groups[0]['lr'])\nr = l, s.get_last_lr(), s.last_epoch, sorted(k for k in s.state_dict() if not k.startswith('_'))
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.LambdaLR(o, lambda e: .9 ** e)\nfor _ in range(3):\n    o.step(); s.step()\nd = s.state_dict(); o2 = T.optim.SGD([p], lr=.1, momentum=.9); s2 = T.optim.lr_scheduler.LambdaLR(o2, lambda e: .9 ** e); s2.load_state_dict(d); o2.step(); s2.step(); r = o2.param_groups[0]['lr'], s2.last_epoch
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.MultiplicativeLR(o, lambda e: .9); l = [o.param_groups[0]['lr']]\nfor _ in range(10):\n    o.step(); s.step(); l.append(o.param_groups[0]['lr'])\nr = l, s.get_last_lr(), s.last_epoch, sorted(k for k in s.state_dict() if not k.startswith('_'))
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.MultiplicativeLR(o, lambda e: .9)\nfor _ in range(3):\n    o.step(); s.step()\nd = s.state_dict(); o2 = T.optim.SGD([p], lr=.1, momentum=.9); s2 = T.optim.lr_scheduler.MultiplicativeLR(o2, lambda e: .9); s2.load_state_dict(d); o2.step(); s2.step(); r = o2.param_groups[0]['lr'], s2.last_epoch
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.ConstantLR(o, .5, 3); l = [o.param_groups[0]['lr']]\nfor _ in range(10):\n    o.step(); s.step(); l.append(o.param_groups[0]['lr'])\nr = l, s.get_last_lr(), s.last_epoch, sorted(k for k in s.state_dict() if not k.startswith('_'))
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.ConstantLR(o, .5, 3)\nfor _ in range(3):\n    o.step(); s.step()\nd = s.state_dict(); o2 = T.optim.SGD([p], lr=.1, momentum=.9); s2 = T.optim.lr_scheduler.ConstantLR(o2, .5, 3); s2.load_state_dict(d); o2.step(); s2.step(); r = o2.param_groups[0]['lr'], s2.last_epoch
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.LinearLR(o, .3, 1., 4); l = [o.param_groups[0]['lr']]\nfor _ in range(10):\n    o.step(); s.step(); l.append(o.param_groups[0]['lr'])\nr = l, s.get_last_lr(), s.last_epoch, sorted(k for k in s.state_dict() if not k.startswith('_'))
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.LinearLR(o, .3, 1., 4)\nfor _ in range(3):\n    o.step(); s.step()\nd = s.state_dict(); o2 = T.optim.SGD([p], lr=.1, momentum=.9); s2 = T.optim.lr_scheduler.LinearLR(o2, .3, 1., 4); s2.load_state_dict(d); o2.step(); s2.step(); r = o2.param_groups[0]['lr'], s2.last_epoch
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.PolynomialLR(o, 4, 2.); l = [o.param_groups[0]['lr']]\nfor _ in range(10):\n    o.step(); s.step(); l.append(o.param_groups[0]['lr'])\nr = l, s.get_last_lr(), s.last_epoch, sorted(k for k in s.state_dict() if not k.startswith('_'))
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.PolynomialLR(o, 4, 2.)\nfor _ in range(3):\n    o.step(); s.step()\nd = s.state_dict(); o2 = T.optim.SGD([p], lr=.1, momentum=.9); s2 = T.optim.lr_scheduler.PolynomialLR(o2, 4, 2.); s2.load_state_dict(d); o2.step(); s2.step(); r = o2.param_groups[0]['lr'], s2.last_epoch
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 2); l = [o.param_groups[0]['lr']]\nfor _ in range(10):\n    o.step(); s.step(); l.append(o.param_groups[0]['lr'])\nr = l, s.get_last_lr(), s.last_epoch, sorted(k for k in s.state_dict() if not k.startswith('_'))
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 2)\nfor _ in range(3):\n    o.step(); s.step()\nd = s.state_dict(); o2 = T.optim.SGD([p], lr=.1, momentum=.9); s2 = T.optim.lr_scheduler.CosineAnnealingWarmRestarts(o2, 3, 2); s2.load_state_dict(d); o2.step(); s2.step(); r = o2.param_groups[0]['lr'], s2.last_epoch
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.CyclicLR(o, .01, .1, 2); l = [o.param_groups[0]['lr']]\nfor _ in range(10):\n    o.step(); s.step(); l.append(o.param_groups[0]['lr'])\nr = l, s.get_last_lr(), s.last_epoch, sorted(k for k in s.state_dict() if not k.startswith('_'))
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.CyclicLR(o, .01, .1, 2)\nfor _ in range(3):\n    o.step(); s.step()\nd = s.state_dict(); o2 = T.optim.SGD([p], lr=.1, momentum=.9); s2 = T.optim.lr_scheduler.CyclicLR(o2, .01, .1, 2); s2.load_state_dict(d); o2.step(); s2.step(); r = o2.param_groups[0]['lr'], s2.last_epoch
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.OneCycleLR(o, .5, total_steps=12); l = [o.param_groups[0]['lr']]\nfor _ in range(10):\n    o.step(); s.step(); l.append(o.param_groups[0]['lr'])\nr = l, s.get_last_lr(), s.last_epoch, sorted(k for k in s.state_dict() if not k.startswith('_'))
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.OneCycleLR(o, .5, total_steps=12)\nfor _ in range(3):\n    o.step(); s.step()\nd = s.state_dict(); o2 = T.optim.SGD([p], lr=.1, momentum=.9); s2 = T.optim.lr_scheduler.OneCycleLR(o2, .5, total_steps=12); s2.load_state_dict(d); o2.step(); s2.step(); r = o2.param_groups[0]['lr'], s2.last_epoch
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1); S = T.optim.lr_scheduler; s = S.SequentialLR(o, [S.ConstantLR(o, .1, 2), S.ExponentialLR(o, .9)], [3]); l = []\nfor _ in range(8):\n    o.step(); s.step(); l.append(o.param_groups[0]['lr'])\nr = l
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1); S = T.optim.lr_scheduler; s = S.ChainedScheduler([S.ConstantLR(o, .1, 2), S.ExponentialLR(o, .9)]); l = []\nfor _ in range(5):\n    o.step(); s.step(); l.append(o.param_groups[0]['lr'])\nr = l
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1); s = T.optim.lr_scheduler.ReduceLROnPlateau(o, patience=1, factor=.5); l = []\nfor v in [1, 1, 1, 1, .5, .6, .7, .8]:\n    s.step(v); l.append(o.param_groups[0]['lr'])\nr = l, s.num_bad_epochs, s.best, s.get_last_lr()
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1); T.optim.lr_scheduler.ReduceLROnPlateau(o, factor=1.)
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1); T.optim.lr_scheduler.OneCycleLR(o, .1)
T.optim.lr_scheduler.StepLR(3, 2)
p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1, momentum=.9); s = T.optim.lr_scheduler.OneCycleLR(o, .5, total_steps=2)\nfor _ in range(4):\n    o.step(); s.step()
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.SGD([p],lr=.1)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.SGD([p],weight_decay=.1,lr=.1)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.SGD([p],maximize=True,lr=.1)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.SGD([p],foreach=False,lr=.1)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.SGD([p],lr=.05)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.SGD([p],differentiable=False,lr=.1)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adam([p])\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adam([p],weight_decay=.1)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adam([p],maximize=True)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adam([p],foreach=False)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adam([p],lr=.05)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adam([p],differentiable=False)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.AdamW([p])\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.AdamW([p],weight_decay=.1)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.AdamW([p],maximize=True)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.AdamW([p],foreach=False)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.AdamW([p],lr=.05)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.AdamW([p],differentiable=False)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adagrad([p])\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adagrad([p],weight_decay=.1)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adagrad([p],maximize=True)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adagrad([p],foreach=False)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adagrad([p],lr=.05)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adagrad([p],differentiable=False)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.RMSprop([p])\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.RMSprop([p],weight_decay=.1)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.RMSprop([p],maximize=True)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.RMSprop([p],foreach=False)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.RMSprop([p],lr=.05)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.RMSprop([p],differentiable=False)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adadelta([p])\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adadelta([p],weight_decay=.1)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adadelta([p],maximize=True)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adadelta([p],foreach=False)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adadelta([p],lr=.05)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adadelta([p],differentiable=False)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adamax([p])\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adamax([p],weight_decay=.1)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adamax([p],maximize=True)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adamax([p],foreach=False)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adamax([p],lr=.05)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Adamax([p],differentiable=False)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.NAdam([p])\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.NAdam([p],weight_decay=.1)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.NAdam([p],maximize=True)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.NAdam([p],foreach=False)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.NAdam([p],lr=.05)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.NAdam([p],differentiable=False)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.RAdam([p])\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.RAdam([p],weight_decay=.1)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.RAdam([p],maximize=True)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.RAdam([p],foreach=False)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.RAdam([p],lr=.05)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.RAdam([p],differentiable=False)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Rprop([p])\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Rprop([p],weight_decay=.1)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Rprop([p],maximize=True)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Rprop([p],foreach=False)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Rprop([p],lr=.05)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.Rprop([p],differentiable=False)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.ASGD([p])\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.ASGD([p],weight_decay=.1)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.ASGD([p],maximize=True)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.ASGD([p],foreach=False)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.ASGD([p],lr=.05)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.ASGD([p],differentiable=False)\nfor _ in range(4):\n    o.zero_grad(); (p ** 2 * T.tensor([1., 3.])).sum().backward(); o.step()\nr = p
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.LBFGS([p])\ndef c():\n    o.zero_grad(); l = (p ** 2 * T.tensor([1., 3.])).sum(); l.backward(); return l\nfor _ in range(3):\n    o.step(c)\nr = p.detach().round(decimals=4).abs()
p = T.nn.Parameter(T.tensor([1., -2.])); o = T.optim.LBFGS([p],lr=.05)\ndef c():\n    o.zero_grad(); l = (p ** 2 * T.tensor([1., 3.])).sum(); l.backward(); return l\nfor _ in range(3):\n    o.step(c)\nr = p.detach().round(decimals=4).abs()
r = T.special.digamma(T.tensor([.1, .5, .9, 2., -1.5, 0.]))
r = T.special.entr(T.tensor([.1, .5, .9, 2., -1.5, 0.]))
r = T.special.erf(T.tensor([.1, .5, .9, 2., -1.5, 0.]))
r = T.special.erfc(T.tensor([.1, .5, .9, 2., -1.5, 0.]))
r = T.special.erfinv(T.tensor([.1, .5, .9, 2., -1.5, 0.]))
r = T.special.exp2(T.tensor([.1, .5, .9, 2., -1.5, 0.]))
r = T.special.expit(T.tensor([.1, .5, .9, 2., -1.5, 0.]))
r = T.special.expm1(T.tensor([.1, .5, .9, 2., -1.5, 0.]))
r = T.special.gammaln(T.tensor([.1, .5, .9, 2., -1.5, 0.]))
r = T.special.log1p(T.tensor([.1, .5, .9, 2., -1.5, 0.]))
r = T.special.log_ndtr(T.tensor([.1, .5, .9, 2., -1.5, 0.]))
r = T.special.logit(T.tensor([.1, .5, .9, 2., -1.5, 0.]))
r = T.special.ndtr(T.tensor([.1, .5, .9, 2., -1.5, 0.]))
r = T.special.psi(T.tensor([.1, .5, .9, 2., -1.5, 0.]))
r = T.special.round(T.tensor([.1, .5, .9, 2., -1.5, 0.]))
r = T.special.sinc(T.tensor([.1, .5, .9, 2., -1.5, 0.]))
A = T.tensor([[2., 1.], [.5, 3.]]); r = T.linalg.norm(A)
A = T.tensor([[2., 1.], [.5, 3.]]); r = T.linalg.norm(A, 'fro')
A = T.tensor([[2., 1.], [.5, 3.]]); r = T.linalg.norm(A, 1)
A = T.tensor([[2., 1.], [.5, 3.]]); r = T.linalg.norm(A, inf)
A = T.tensor([[2., 1.], [.5, 3.]]); r = T.linalg.norm(A[0], 3)
A = T.tensor([[2., 1.], [.5, 3.]]); r = T.linalg.vector_norm(A)
A = T.tensor([[2., 1.], [.5, 3.]]); r = T.linalg.vector_norm(A, 1, dim=0)
A = T.tensor([[2., 1.], [.5, 3.]]); r = T.linalg.matrix_norm(A)
A = T.tensor([[2., 1.], [.5, 3.]]); r = T.linalg.matmul(A, A)
A = T.tensor([[2., 1.], [.5, 3.]]); r = T.linalg.multi_dot([A, A, A])
A = T.tensor([[2., 1.], [.5, 3.]]); r = T.linalg.cross(T.tensor([1., 0, 0]), T.tensor([0., 1, 0]))
A = T.tensor([[2., 1.], [.5, 3.]]); r = T.linalg.diagonal(A)
A = T.tensor([[2., 1.], [.5, 3.]]); r = T.linalg.vecdot(A, A)
A = T.tensor([[2., 1.], [.5, 3.]]); r = T.linalg.matrix_power(A, 3)
A = T.tensor([[2., 1.], [.5, 3.]]); r = T.linalg.matrix_power(A, 0)
A = T.tensor([[2., 1.], [.5, 3.]]); r = T.linalg.inv(A)
"""
