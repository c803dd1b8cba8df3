"""Mixed precision, custom functions, copies and results given a place."""

# Programs are one line each, however long.
CASES = r"""
with T.autocast("cpu", dtype=T.bfloat16):\n    a = T.ones(2, 2) @ T.ones(2, 2); b = T.nn.Linear(2, 2)(T.ones(1, 2)); c = T.ones(2, 2) + 1; d = T.nn.functional.softmax(a, -1); e = (a * 2).sum()\nr = a.dtype, b.dtype, c.dtype, d.dtype, e.dtype
with T.autocast(device_type="cpu", enabled=False):\n    a = T.ones(2, 2) @ T.ones(2, 2)\nr = a.dtype
with T.amp.autocast("cpu"):\n    a = T.nn.functional.linear(T.ones(1, 2), T.ones(2, 2)); b = T.nn.functional.mse_loss(a, T.ones(1, 2)); c = T.nn.functional.layer_norm(a, (2,)); d = T.bmm(T.ones(1, 2, 2), T.ones(1, 2, 2)); e = T.cat([a, T.ones(1, 2)])\nr = a.dtype, b.dtype, c.dtype, d.dtype, e.dtype, T.is_autocast_enabled("cpu")
with T.autocast("cpu", dtype=T.bfloat16):\n    with T.autocast("cpu", enabled=False):\n        a = T.mm(T.ones(2, 2), T.ones(2, 2))\n    b = T.mm(T.ones(2, 2), T.ones(2, 2))\nr = a.dtype, b.dtype
with T.autocast("cpu", dtype=T.bfloat16):\n    a = T.nn.functional.conv2d(T.ones(1, 1, 3, 3), T.ones(1, 1, 2, 2)); b = T.nn.functional.scaled_dot_product_attention(T.ones(1, 1, 2, 2), T.ones(1, 1, 2, 2), T.ones(1, 1, 2, 2)); c = T.einsum("ij,jk->ik", T.ones(2, 2), T.ones(2, 2)); d = T.addmm(T.ones(2), T.ones(2, 2), T.ones(2, 2)); e = T.matmul(T.ones(2, 2, dtype=T.float64), T.ones(2, 2, dtype=T.float64)); f = T.exp(a); g = T.norm(a); h = T.nn.functional.cross_entropy(c, T.tensor([0, 1])); i = T.nn.functional.gelu(a)\nr = a.dtype, b.dtype, c.dtype, d.dtype, e.dtype, f.dtype, g.dtype, h.dtype, i.dtype
m = T.nn.Linear(2, 2)\nwith T.autocast("cpu", dtype=T.bfloat16):\n    l = m(T.ones(1, 2)).sum()\nl.backward(); r = m.weight.grad.dtype, l.dtype
@T.autocast("cpu", dtype=T.bfloat16)\ndef f():\n    return T.ones(2, 2) @ T.ones(2, 2)\nr = f().dtype
s = T.amp.GradScaler("cpu", init_scale=4.); p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1); s.scale((p * 2).sum()).backward(); a = p.grad.clone(); s.step(o); s.update(); r = a, p, s.get_scale()
s = T.amp.GradScaler("cpu", init_scale=4.); p = T.nn.Parameter(T.ones(1)); o = T.optim.SGD([p], lr=.1); s.scale((p * inf).sum()).backward(); s.unscale_(o); s.step(o); s.update(); r = p, s.get_scale()
r = sorted(T.amp.GradScaler("cpu").state_dict())
x = T.ones(2, requires_grad=True); y = T.utils.checkpoint.checkpoint(lambda t: (t * 2).exp(), x, use_reentrant=False); y.sum().backward(); r = x.grad
class F2(T.autograd.Function):\n    @staticmethod\n    def forward(ctx, a, k):\n        ctx.save_for_backward(a); ctx.k = k; return a * k\n    @staticmethod\n    def backward(ctx, g):\n        a, = ctx.saved_tensors; return g * ctx.k, None\nx = T.ones(2, requires_grad=True); F2.apply(x, 3).sum().backward(); r = x.grad, F2.apply(x, 2).grad_fn is not None
class F2(T.autograd.Function):\n    @staticmethod\n    def forward(a):\n        return a * 2\n    @staticmethod\n    def setup_context(ctx, inputs, output):\n        ctx.n = len(inputs)\n    @staticmethod\n    def backward(ctx, g):\n        return g * 2 * ctx.n\nx = T.ones(2, requires_grad=True); F2.apply(x).sum().backward(); r = x.grad
class F2(T.autograd.Function):\n    @staticmethod\n    def forward(ctx, a):\n        return a * 2\n    @staticmethod\n    def backward(ctx, g):\n        return g, g\nx = T.ones(2, requires_grad=True); F2.apply(x).sum().backward()
class F2(T.autograd.Function):\n    @staticmethod\n    def forward(ctx, a):\n        ctx.mark_non_differentiable(a); return a * 2, a > 0\n    @staticmethod\n    def backward(ctx, g, h):\n        return g\nx = T.ones(2, requires_grad=True); a, b = F2.apply(x); r = a.requires_grad, b.requires_grad
class F2(T.autograd.Function):\n    @staticmethod\n    def forward(ctx, a):\n        ctx.mark_dirty(a); a.add_(1); return a\n    @staticmethod\n    def backward(ctx, g):\n        return g * 3\nx = T.ones(2, requires_grad=True); y = x * 1; z = F2.apply(y); z.sum().backward(); r = x.grad, z is y
g = T.Generator().manual_seed(3); a = T.rand(3, generator=g); g.manual_seed(3); r = T.equal(a, T.rand(3, generator=g)), g.initial_seed()
T.manual_seed(1); s = T.get_rng_state(); a = T.rand(2); T.set_rng_state(s); r = T.equal(a, T.rand(2)), s.dtype, T.initial_seed()
with T.random.fork_rng():\n    T.rand(3)\nr = 1
import io; b = io.BytesIO(); T.save({"a": T.ones(2), "b": [1, "x", T.zeros(1)]}, b); b.seek(0); d = T.load(b); r = d["a"], d["b"]
import copy; x = T.ones(2, requires_grad=True); y = copy.deepcopy(x); r = y.requires_grad, y.is_leaf, y is x
import copy; x = T.ones(2, requires_grad=True) * 2; copy.deepcopy(x)
import pickle; x = T.arange(3); r = pickle.loads(pickle.dumps(x)), pickle.loads(pickle.dumps(T.nn.Linear(1, 1).state_dict()))["bias"].shape
import numpy as np; x = T.from_numpy(np.arange(3)); r = x, T.tensor(np.float32(1.5)), T.as_tensor(np.ones((2, 2))).dtype, T.ones(2).numpy().dtype.name, np.asarray(T.ones(2)).shape, (T.ones(2) + np.ones(2)).dtype, T.tensor(np.array([True])).dtype
import numpy as np; r = T.from_numpy([1, 2])
import numpy as np; r = T.tensor(np.array(["a"]))
r = T.from_dlpack(T.arange(3)), T.utils.dlpack.from_dlpack(T.utils.dlpack.to_dlpack(T.arange(2))) if hasattr(T.utils, "dlpack") else T.arange(2)
r = T.compile(T.nn.Linear(1, 1)) is not None, T.cuda.is_available(), T.cuda.device_count(), T.get_num_threads() > 0, T.__version__ is not None
m = T.nn.Linear(2, 1); a = T.nn.utils.parametrizations.weight_norm(m); r = sorted(n for n, _ in a.named_parameters())
m = T.nn.utils.weight_norm(T.nn.Linear(2, 1)); r = sorted(n for n, _ in m.named_parameters())
m = T.nn.utils.spectral_norm(T.nn.Linear(2, 1)); r = sorted(n for n, _ in m.named_parameters()), sorted(n for n, _ in m.named_buffers())
m = T.nn.Linear(2, 2); r = T.func.functional_call(m, {"weight": T.ones(2, 2), "bias": T.zeros(2)}, (T.ones(1, 2),)) if hasattr(T, "func") else T.tensor([[2., 2.]])
m = T.nn.Linear(2, 2); r = T.nn.utils.stateless.functional_call(m, {"weight": T.ones(2, 2), "bias": T.zeros(2)}, T.ones(1, 2))
s = T.optim.swa_utils.AveragedModel(T.nn.Linear(1, 1)); r = sorted(s.state_dict())
x = T.ones(2, 3); r = x.to_dense() if hasattr(x, "to_dense") else x
r = T.vmap(lambda a: a * 2)(T.arange(3)) if hasattr(T, "vmap") else T.arange(3) * 2
x = T.ones(2, requires_grad=True); y = x.clone(); y.register_hook(lambda g: None); y.sum().backward(); r = x.grad
x = T.ones(2); x.register_hook(lambda g: g)
p = T.nn.Parameter(T.ones(2)); l = []; p.register_post_accumulate_grad_hook(lambda q: l.append(q.grad.sum().item())); p.sum().backward(); r = l
with T.enable_grad():\n    pass\nwith T.no_grad():\n    with T.enable_grad():\n        a = (T.ones(1, requires_grad=True) * 2).requires_grad\nr = a
r = T.autograd.gradcheck(lambda a: a ** 3, T.ones(2, dtype=T.float64, requires_grad=True))
with T.profiler.record_function("a") if hasattr(T, "profiler") else T.no_grad():\n    r = 1
v, i = T.ones(2, 2).max(dim=1); r = v, i
out = T.empty(2); T.add(T.ones(2), 1, out=out); r = out
out = T.empty(0); T.mul(T.ones(2), 3, out=out); r = out
v, i = T.empty(1), T.empty(1, dtype=T.int64); T.max(T.ones(2, 2), 1, out=(v, i)); r = v, i
r = T.max(T.ones(2), T.zeros(2)), T.min(T.ones(2), T.zeros(2)), T.max(T.tensor([1, 2])), T.sum(T.ones(2, 2), 1), T.mean(T.ones(2), dim=0), T.flatten(T.ones(2, 2), start_dim=0), T.argmax(T.tensor([1, 2]), dim=0), T.squeeze(T.ones(1, 2)), T.transpose(T.ones(1, 2), 0, 1).shape, T.permute(T.ones(1, 2), (1, 0)).shape, T.t(T.ones(1, 2)).shape
with T.autocast("cpu", dtype=T.bfloat16):\n    a = T.ones(2, 2).bfloat16(); r = [f(a).dtype for f in (T.exp, T.log, T.sum, T.norm, T.prod, lambda t: t.cumsum(0), lambda t: t ** 2, lambda t: 1 / t, lambda t: t.softmax(0), lambda t: T.nn.functional.layer_norm(t, (2,)), lambda t: T.nn.LayerNorm(2)(t), lambda t: T.nn.functional.gelu(t), lambda t: T.cdist(t, t), lambda t: T.nn.functional.mse_loss(t, t), lambda t: T.nn.functional.l1_loss(t, t), lambda t: T.nn.functional.smooth_l1_loss(t, t), lambda t: T.nn.functional.kl_div(t, t), lambda t: T.nn.functional.cross_entropy(t, T.tensor([0, 1])), lambda t: T.nn.functional.nll_loss(t, T.tensor([0, 1])), lambda t: T.nn.functional.binary_cross_entropy_with_logits(t, t), lambda t: T.nn.functional.cosine_similarity(t, t), lambda t: T.nn.functional.normalize(t), lambda t: t.mean(), lambda t: t.logsumexp(0), lambda t: T.nn.functional.group_norm(t, 1), lambda t: T.nn.functional.softplus(t), lambda t: T.nn.RMSNorm(2)(t))]
m = T.nn.Sequential(T.nn.Linear(4, 4), T.nn.LayerNorm(4), T.nn.GELU(), T.nn.Linear(4, 2))\nwith T.autocast("cpu", dtype=T.bfloat16):\n    y = m(T.ones(1, 4)); l = T.nn.functional.cross_entropy(y, T.tensor([0]))\nl.backward(); r = y.dtype, l.dtype, [p.grad.dtype for p in m.parameters()]
m = T.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.)\nwith T.autocast("cpu", dtype=T.bfloat16):\n    y = m(T.ones(1, 3, 4))\nr = y.dtype
m = T.nn.BatchNorm1d(2)\nwith T.autocast("cpu", dtype=T.bfloat16):\n    y = m(T.ones(3, 2).bfloat16())\nr = y.dtype
m = T.nn.Embedding(3, 2)\nwith T.autocast("cpu", dtype=T.bfloat16):\n    y = m(T.tensor([1])); z = T.nn.functional.linear(y, T.ones(2, 2))\nr = y.dtype, z.dtype
out = T.empty(3); T.mul(T.ones(2), 3, out=out); r = out
out = T.empty(2, dtype=T.int64); T.mul(T.ones(2), 3, out=out)
"""
