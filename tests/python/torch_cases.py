"""One-line programs over functions, dtypes and spellings, whose results were recorded from PyTorch. See `programs.py`."""

import itertools

from method_cases import MORE

FLOATS = ["float32", "float64", "float16", "bfloat16"]
DTYPES = [*FLOATS, "int64", "int32", "int8", "uint8", "bool"]
UNARY = """abs neg sign square reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh
asinh acosh atanh sigmoid erf erfc relu floor ceil round trunc logical_not bitwise_not isnan isinf isfinite nan_to_num""".split()
# PyTorch answers int16 here, which GT does not have.
NO_COMMON = {("uint8", "int8"), ("int8", "uint8")}


def literal(dtype: str, left: bool = True) -> str:
    if dtype == "bool":
        values = "[True, False, True]" if left else "[True, True, False]"
    elif dtype in FLOATS:
        values = "[2.5, 0.75, 3.0]" if left else "[1.5, 2.0, 0.5]"
    else:
        values = "[7, 2, 5]" if left else "[2, 3, 4]"
    return f"T.tensor({values}, dtype=T.{dtype})"


def unary() -> list[str]:
    programs = [f"r = T.{name}({literal(dtype)})" for name in UNARY for dtype in DTYPES]
    small = "T.tensor([0.5, -0.25, 0.0], dtype=T.{})"
    programs += [
        f"r = {small.format(dtype)}.{name}()"
        for name in UNARY
        for dtype in FLOATS
        if name not in ("rsqrt", "acosh", "log2", "log10")
    ]
    programs += [
        f"x = {literal(dtype)}; x.{name}_(); r = x"
        for name in UNARY
        for dtype in ("float32", "int64", "bool")
        if not name.startswith("is")
    ]
    return programs


def binary() -> list[str]:
    programs = []
    for left, right in itertools.product(DTYPES, DTYPES):
        if (left, right) in NO_COMMON:
            continue
        a, b = literal(left), literal(right, left=False)
        programs += [f"r = {a} {symbol} {b}" for symbol in ("+", "-", "*", "/", "**", "==", "<", "&", "^")]
        divisor = b if right != "bool" else "T.tensor([True, True, True])"
        programs += [f"r = {a} {symbol} {divisor}" for symbol in ("//", "%")]
        programs += [
            f"r = T.{name}({a}, {b})"
            for name in ("maximum", "minimum", "logical_and", "where_", "cat_")
            if not name.endswith("_")
        ]
        programs += [
            f"r = T.where(T.tensor([True, False, True]), {a}, {b})",
            f"r = T.cat([{a}, {b}])",
            f"r = {a} + {b}[0]",
            f"r = {a}[0] * {b}",
        ]
        programs += [
            f"x = {a}; x += {b}; r = x",
            f"x = {a}; x *= {b}; r = x",
            f"x = {a}; x[1:] = {b}[1:]; r = x",
            f"x = {a}; x.copy_({b}); r = x",
        ]
    return programs


def scalars() -> list[str]:
    programs = []
    for dtype, scalar in itertools.product(DTYPES, ("2", "2.5", "True", "-3")):
        if (dtype, scalar) == ("uint8", "-3"):
            continue
        x = literal(dtype)
        programs += [f"r = {x} {symbol} {scalar}" for symbol in ("+", "-", "*", "/", "//", "%", "==", ">=", "|")]
        programs += [f"r = {scalar} {symbol} {x}" for symbol in ("+", "-", "*", "/", "<", "&")]
        programs += [f"x = {x}; x {symbol}= {scalar}; r = x" for symbol in ("+", "-", "*", "/", "//", "**")]
        programs += [
            f"x = {x}; x[0] = {scalar}; r = x",
            f"x = {x}; x.fill_({scalar}); r = x",
            f"r = {x}.clamp(max={scalar})",
            f"r = T.full((2,), {scalar}, dtype=T.{dtype})",
        ]
    for dtype, exponent in itertools.product(DTYPES, ("0", "1", "2", "3", "0.5", "2.0", "-1", "-0.5")):
        programs.append(f"r = {literal(dtype)} ** {exponent}")
    for dtype, base in itertools.product(DTYPES, ("2", "2.5", "True")):
        programs.append(f"r = {base} ** {literal(dtype)}")
    return programs


def reductions() -> list[str]:
    programs = []
    names = "sum prod mean amax amin max min argmax argmin any all var std logsumexp norm cumsum cumprod softmax log_softmax sort argsort median".split()
    matrices = {
        "bool": "[[True, False], [True, True], [False, True]]",
        "int": "[[3, 1], [2, 7], [5, 4]]",
        "float": "[[1.5, -0.5], [2.0, 0.25], [-3.0, 4.0]]",
    }
    for name, dtype in itertools.product(names, DTYPES):
        kind = "bool" if dtype == "bool" else "float" if dtype in FLOATS else "int"
        values = matrices[kind].replace("-", "") if dtype == "uint8" else matrices[kind]
        x = f"T.tensor({values}, dtype=T.{dtype})"
        if name not in ("cumsum", "cumprod", "softmax", "log_softmax", "logsumexp", "sort", "argsort"):
            programs.append(f"r = {x}.{name}()")
        for dim in ("0", "1", "-1"):
            call = f"dim={dim}" if name == "norm" else dim
            programs.append(
                f"r = {x}.{name}({call})"
                if name not in ("sort", "max", "min", "median")
                else f"r = tuple({x}.{name}({call}))"
            )
        if name not in ("cumsum", "cumprod", "softmax", "log_softmax", "sort", "argsort"):
            programs.append(
                f"r = {x}.{name}(dim=0, keepdim=True)"
                if name not in ("max", "min", "median")
                else f"r = tuple({x}.{name}(dim=0, keepdim=True))"
            )
    for dtype in DTYPES:
        programs += [
            f"r = T.tensor([1, 0, 1], dtype=T.{dtype}).{name}(0, dtype=T.{to})"
            for name in ("sum", "cumsum", "prod")
            for to in ("float64", "int32")
        ]
    return programs


def casts() -> list[str]:
    programs = []
    for source, target in itertools.product(DTYPES, DTYPES):
        programs += [
            f"r = {literal(source)}.to(T.{target})",
            f"r = T.promote_types(T.{source}, T.{target})" if (source, target) not in NO_COMMON else "r = None",
        ]
    for dtype in DTYPES:
        programs += [
            f"r = T.zeros(2, dtype=T.{dtype}).{name}().dtype"
            for name in ("float", "double", "half", "bfloat16", "long", "int", "bool")
        ]
        programs += [f"r = T.{name}(3, dtype=T.{dtype})" for name in ("zeros", "ones", "arange", "eye")]
        programs += [
            f"r = T.linspace(0, 4, 5, dtype=T.{dtype})",
            f"r = T.tensor([0, 1], dtype=T.{dtype}).tolist()",
            f"r = T.tensor(1, dtype=T.{dtype}).item()",
        ]
        programs += [
            f"r = T.{name}(T.zeros(2, dtype=T.{dtype})).dtype"
            for name in ("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like")
        ]
        programs += [
            f"r = T.tensor([1, 0], dtype=T.{dtype}).{name}"
            for name in ("nonzero()", "bool().any()", "T", "unique()", "flip(0)", "clone()", "requires_grad")
        ]
        programs += [f"r = T.tensor([1., 0.]).to(T.{dtype}).requires_grad_().requires_grad"]
        programs += [f"r = T.ones(2, 2, dtype=T.{dtype}) @ T.ones(2, 2, dtype=T.{other})" for other in DTYPES]
    return list(dict.fromkeys(programs))


SPELLINGS = """
r = T.sum(T.ones(2, 3), 1)
r = T.sum(T.ones(2, 3), dim=(0, 1))
r = T.sum(T.ones(2, 3), dim=[0], keepdim=True)
r = T.ones(2, 3).sum(axis=0)
r = T.ones(2, 3).sum(0, True)
r = T.ones(2, 3).sum(dim=None)
r = T.ones(2, 3).sum(())
r = T.ones(2, 3).mean((0, 1), keepdim=True)
r = T.ones(2, 3).mean(axis=1, keepdims=True)
r = T.ones(2, 3).std(unbiased=False)
r = T.ones(2, 3).var(0, unbiased=False)
r = T.ones(2, 3).var(dim=(0, 1), correction=0)
r = T.arange(6.).reshape(2, 3).max()
r = tuple(T.arange(6.).reshape(2, 3).max(1))
r = tuple(T.max(T.arange(6.).reshape(2, 3), dim=0, keepdim=True))
r = T.max(T.tensor([1., 5.]), T.tensor([3., 2.]))
r = T.arange(6.).reshape(2, 3).argmax()
r = T.arange(6.).reshape(2, 3).argmax(dim=None)
r = T.arange(6.).reshape(2, 3).argmax(1, keepdim=True)
r = T.norm(T.tensor([3., 4.]))
r = T.tensor([3., 4.]).norm(p=1)
r = T.tensor([[3., 4.]]).norm(2, 1)
r = T.tensor([[3., 4.]]).norm(2, dim=1, keepdim=True)
r = T.tensor([3., 4.]).norm(p=float('inf'))
r = T.tensor([[3., 4.]]).norm('fro')
r = T.ones(2, 3).any(dim=1)
r = T.ones(2, 3).all()
r = T.tensor([1, 2, 3]).cumsum(-1)
r = T.tensor([1, 2, 3]).cumsum(dim=0, dtype=T.float32)
r = T.arange(6).view(2, 3)
r = T.arange(6).view((2, 3))
r = T.arange(6).view([3, -1])
r = T.arange(6).reshape(-1, 2)
r = T.arange(6).reshape((3, 2))
r = T.reshape(T.arange(6), [2, 3])
r = T.arange(24).view(2, 3, 4).permute(2, 0, 1).shape
r = T.arange(24).view(2, 3, 4).permute([2, 0, 1]).stride()
r = T.permute(T.arange(24).view(2, 3, 4), (0, 2, 1)).shape
r = T.arange(24).view(2, 3, 4).transpose(-1, -2).shape
r = T.arange(24).view(2, 3, 4).flatten(1).shape
r = T.arange(24).view(2, 3, 4).flatten(0, -2).shape
r = T.arange(24).view(2, 12).unflatten(1, (3, 4)).shape
r = T.arange(24).view(2, 12).unflatten(-1, (3, -1)).shape
r = T.zeros(1, 2, 1).squeeze().shape
r = T.zeros(1, 2, 1).squeeze(-1).shape
r = T.zeros(1, 2, 1).squeeze((0, 2)).shape
r = T.zeros(1, 2, 1).squeeze(1).shape
r = T.zeros(2).unsqueeze(-1).shape
r = T.zeros(2, 1).expand(2, 3).shape
r = T.zeros(2, 1).expand(-1, 3).shape
r = T.zeros(2, 1).expand(4, -1, 3).shape
r = T.zeros(2, 1).expand((4, 2, 1)).shape
r = T.zeros(2).repeat(3).shape
r = T.zeros(2).repeat(3, 2).shape
r = T.zeros(2).repeat((3, 2)).shape
r = T.zeros(2, 3).tile(2).shape
r = T.zeros(2, 3).tile((2, 1)).shape
r = T.tensor([1, 2]).repeat_interleave(2)
r = T.tensor([1, 2]).repeat_interleave(T.tensor([1, 3]))
r = T.repeat_interleave(T.tensor([[1, 2]]), 2, dim=0)
r = T.roll(T.arange(5), 2)
r = T.roll(T.arange(6).view(2, 3), shifts=(1, 1), dims=(0, 1))
r = T.flip(T.arange(3), [0])
r = T.arange(3).flip(0)
r = T.arange(6).view(2, 3).flip((0, 1))
r = [p.shape for p in T.zeros(7).split(3)]
r = [p.shape for p in T.zeros(7).split([3, 4])]
r = [p.shape for p in T.zeros(7).chunk(3)]
r = [p.shape for p in T.zeros(2, 6).chunk(3, dim=1)]
r = [p.shape for p in T.split(T.zeros(4, 2), 2, dim=0)]
r = len(T.zeros(4, 2).unbind())
r = T.stack([T.zeros(2), T.ones(2)], dim=-1)
r = T.cat((T.zeros(1, 2), T.ones(1, 2)), dim=1)
r = T.cat([T.zeros(2, 1), T.ones(2, 1)], -1)
r = T.arange(10).narrow(0, 2, 3)
r = T.arange(6).view(2, 3).select(1, -1)
r = T.ones(3, 3).tril(-1)
r = T.ones(2, 3).triu(diagonal=1)
r = T.triu(T.ones(3, 3), 1).bool()
r = T.arange(9).view(3, 3).diagonal()
r = T.arange(9).view(3, 3).diagonal(offset=-1)
r = T.movedim(T.zeros(2, 3, 4), 0, -1).shape
r = T.zeros(2, 3, 4).movedim((0, 1), (1, 2)).shape
r = T.zeros(2, 3).swapaxes(0, 1).shape
r = T.zeros(2, 3).T.shape
r = T.zeros(4, 2, 3).mT.shape
r = T.arange(5)[1:4:2]
r = T.arange(5)[-2:]
r = T.arange(6).view(2, 3)[:, [0, 2]]
r = T.arange(6).view(2, 3)[..., -1]
r = T.arange(6).view(2, 3)[T.tensor([1, 0])]
r = T.arange(6).view(2, 3)[T.tensor([[True, False, True], [False, True, False]])]
r = T.arange(6).view(2, 3)[None, :, 1]
r = T.arange(6).view(2, 3)[1][2]
r = T.arange(24).view(2, 3, 4)[T.tensor([0, 1]), :, T.tensor([1, 2])]
r = T.arange(24).view(2, 3, 4)[0, T.tensor([0, 2]), 1:3]
r = T.arange(24).view(2, 3, 4)[:, T.tensor([[0], [1]]), T.tensor([1, 2])].shape
r = T.where(T.tensor([True, False]), 1.0, 2.0)
r = T.where(T.tensor([True, False]), 1, 2)
r = T.where(T.tensor([True, False]), T.tensor([1, 2]), 0.5)
r = T.where(T.tensor([[True], [False]]), T.tensor([1., 2.]), T.tensor(0.))
r = T.tensor([1., 2.]).masked_fill(T.tensor([True, False]), -1)
r = T.tensor([[1., 2.], [3., 4.]]).gather(1, T.tensor([[1], [0]]))
r = T.zeros(2, 3).scatter(1, T.tensor([[1], [2]]), 5.0)
r = T.zeros(2, 3).scatter(1, T.tensor([[1], [2]]), T.tensor([[7.], [8.]]))
r = T.zeros(3).scatter_add(0, T.tensor([0, 0, 1]), T.tensor([1., 2., 3.]))
r = T.arange(6.).view(2, 3).index_select(1, T.tensor([2, 0]))
r = T.zeros(3).index_add(0, T.tensor([0, 0]), T.tensor([1., 2.]))
r = T.take_along_dim(T.tensor([[3., 1.], [2., 5.]]), T.tensor([[1, 0], [0, 1]]), dim=1)
r = tuple(T.tensor([3., 1., 2.]).topk(2))
r = tuple(T.topk(T.tensor([[3., 1., 2.]]), 1, dim=1, largest=False))
r = tuple(T.tensor([3., 1., 2.]).sort(descending=True))
r = T.tensor([3., 1., 2.]).argsort()
r = T.tensor([0, 2, 0, 3]).nonzero()
r = T.nonzero(T.tensor([0, 2, 0, 3]), as_tuple=True)
r = T.unique(T.tensor([2, 1, 2]))
r = T.unique(T.tensor([2, 1, 2]), return_counts=True)
r = T.unique(T.tensor([2, 1, 2]), return_inverse=True, return_counts=True)
r = T.bincount(T.tensor([0, 2, 2]))
r = T.bincount(T.tensor([0, 2, 2]), minlength=5)
r = T.einsum('ij,jk->ik', T.ones(2, 3), T.ones(3, 4))
r = T.einsum('bhqd,bhkd->bhqk', T.ones(1, 2, 3, 4), T.ones(1, 2, 5, 4)).shape
r = T.einsum('...d,d->...', T.ones(2, 3, 4), T.ones(4))
r = T.outer(T.tensor([1., 2.]), T.tensor([3., 4.]))
r = T.dot(T.tensor([1., 2.]), T.tensor([3., 4.]))
r = T.addmm(T.ones(2), T.ones(3, 4), T.ones(4, 2))
r = T.addmm(T.ones(2), T.ones(3, 4), T.ones(4, 2), beta=2, alpha=0.5)
r = T.bmm(T.ones(2, 3, 4), T.ones(2, 4, 5)).shape
r = T.lerp(T.zeros(2), T.ones(2), 0.3)
r = T.addcmul(T.zeros(2), T.ones(2), T.ones(2), value=0.5)
r = T.clamp(T.arange(5.), 1, 3)
r = T.clamp(T.arange(5.), min=2)
r = T.arange(5.).clamp(T.tensor(1.), T.tensor(3.))
r = T.softmax(T.arange(3.), dim=0)
r = T.arange(3.).softmax(-1)
r = T.log_softmax(T.arange(6.).view(2, 3), 1)
r = T.meshgrid(T.arange(2), T.arange(3), indexing='ij')
r = T.meshgrid(T.arange(2), T.arange(3), indexing='xy')
r = T.allclose(T.ones(2), T.ones(2) + 1e-9)
r = T.equal(T.ones(2), T.ones(2))
r = T.isnan(T.tensor([nan, 1.]))
r = T.isfinite(T.tensor([nan, inf, 1.]))
r = T.nan_to_num(T.tensor([nan, inf, -inf]), nan=1., posinf=2., neginf=-2.)
r = T.maximum(T.tensor([1., nan]), T.tensor([2., 1.]))
r = T.arange(0, 1, 0.25)
r = T.arange(5, 0, -2)
r = T.arange(1., 4.)
r = T.linspace(0, 1, 5)
r = T.linspace(start=-1, end=1, steps=3)
r = T.eye(2, 3)
r = T.full((2, 2), 7)
r = T.full([2], True)
r = T.full_like(T.zeros(2), 3)
r = T.tensor([[1, 2], [3, 4]]).tolist()
r = T.tensor([1.5]).item()
r = T.zeros(2, 3).size()
r = T.zeros(2, 3).size(-1)
r = T.zeros(2, 3).dim()
r = T.zeros(2, 3).numel()
r = T.zeros(2, 3).stride()
r = T.zeros(2, 3).t().is_contiguous()
r = T.zeros(2, 3).ndim
r = T.ones(3).add(1, alpha=2)
r = T.add(T.ones(3), T.ones(3), alpha=-1)
r = T.sub(T.ones(3), 1)
r = T.mul(T.ones(3), 2)
r = T.div(T.tensor([7., -7.]), 2, rounding_mode='floor')
r = T.div(T.tensor([7, -7]), 2, rounding_mode='trunc')
r = T.floor_divide(T.tensor([7, -7]), 2)
r = T.remainder(T.tensor([7, -7]), 3)
r = T.fmod(T.tensor([7, -7]), 3)
r = T.pow(T.tensor([1., 2.]), 2)
r = T.pow(2, T.tensor([1., 2.]))
r = T.tensor([1., 2.]).pow(T.tensor([2., 3.]))
r = T.rsqrt(T.tensor([4.]))
r = T.round(T.tensor([0.5, 1.5, 2.5, -0.5]))
r = T.sign(T.tensor([-2., 0., 3.]))
r = T.tensor([1, 2, 3]) @ T.tensor([4, 5, 6])
r = T.ones(2, 3) @ T.ones(3)
r = T.ones(3) @ T.ones(3, 2)
r = (T.ones(2, 1, 3, 4) @ T.ones(5, 4, 2)).shape
r = T.tensor([5, 3]) & T.tensor([6, 1])
r = ~T.tensor([True, False])
r = ~T.tensor([5])
r = T.tensor([1, 2]) << 2
r = T.tensor([8, 4]) >> 1
r = -T.tensor([1, 2], dtype=T.uint8)
r = abs(T.tensor([-1.5]))
r = T.tensor([1, 2]) / 2
r = T.tensor([7, 8]) // 2
r = 7 // T.tensor([2, 4])
r = 7 % T.tensor([2, 4])
r = 2 ** T.tensor([1, 2])
r = 1 / T.tensor([2, 4])
r = 1 - T.tensor([0.25])
r = bool(T.tensor([1.0]))
r = int(T.tensor(3.7))
r = float(T.tensor(3))
r = len(T.zeros(4, 2))
r = [float(v) for v in T.arange(3.)]
r = T.tensor(2.) in T.arange(3.)
r = T.zeros(0).sum()
r = T.zeros(0).mean()
r = T.zeros(0).prod()
r = T.zeros(0, 3).sum(0)
r = T.zeros(2, 0).sum(1)
r = T.zeros(0).max()
r = T.zeros(0, 3).max(0)
r = T.zeros(0, 3).amax(1)
r = T.zeros(2, 0).argmax(1)
r = T.zeros(0) + T.zeros(1)
r = (T.zeros(0, 3) @ T.zeros(3, 2)).shape
r = T.zeros(2, 0) @ T.zeros(0, 2)
r = T.cat([T.zeros(0), T.ones(2)])
r = T.zeros(0).reshape(0, 5).shape
r = T.zeros(0).reshape(5, -1)
r = T.tensor([]).dtype
r = T.zeros(0)[T.tensor([], dtype=T.int64)]
r = T.zeros(2, 3) + T.zeros(4)
r = T.zeros(2, 3) @ T.zeros(4, 5)
r = T.zeros(2, 3).view(5)
r = T.zeros(2, 3).sum(2)
r = T.zeros(2, 3)[2]
r = T.zeros(2, 3)[0, 0, 0]
r = T.zeros(2).item()
r = T.zeros(2, requires_grad=True).numpy()
r = T.tensor([1, 2]).mean()
r = T.tensor([1, 2]).std()
r = T.tensor([True]) - T.tensor([True])
r = T.tensor([1.]) & T.tensor([1.])
r = T.zeros(3).topk(5)
r = T.zeros(3).softmax(1)
r = T.stack([T.zeros(2), T.zeros(3)])
r = T.cat([T.zeros(2, 2), T.zeros(3, 3)])
r = T.zeros(2, 3).expand(3, 3)
r = T.zeros(2, 3).permute(0, 0)
r = T.zeros(2, 3).transpose(0, 2)
r = T.zeros(3).narrow(0, 2, 5)
r = T.arange(3)[3]
r = T.arange(3)[1.0]
r = T.arange(3)[T.tensor([0.5])]
r = T.arange(3)[T.tensor([True, False])]
r = T.tensor([[1, 2], [3]])
r = T.zeros(2, dtype=T.int64, requires_grad=True)
r = T.ones(2, requires_grad=True).sum().backward(T.ones(3))
r = T.einsum('ij,jk->ik', T.ones(2, 3), T.ones(4, 5))
r = T.eye(-1)
r = T.arange(0, 3, -1)
r = T.linspace(0, 1)
r = T.zeros(2).sum(foo=1)
r = T.zeros(2).reshape()
r = T.zeros(2).to('nonsense')
x = T.ones(2, requires_grad=True); (x * 2).sum().backward(); r = x.grad
x = T.ones(2, requires_grad=True); (x * 2).backward(T.ones(2)); r = x.grad
x = T.ones(2, requires_grad=True); r = T.autograd.grad((x ** 2).sum(), x)
x = T.ones(2, requires_grad=True); y = x.detach(); r = y.requires_grad, x.is_leaf, (x * 2).is_leaf
x = T.arange(3.).requires_grad_(); (x.cumsum(0) * T.arange(3.)).sum().backward(); r = x.grad
x = T.arange(3.).requires_grad_(); (x.softmax(0) * T.arange(3.)).sum().backward(); r = x.grad
x = T.arange(4.).view(2, 2).requires_grad_(); (x @ x).sum().backward(); r = x.grad
x = T.tensor([2., 1., 2.]).requires_grad_(); x.max().backward(); r = x.grad
x = T.tensor([2., 1., 2.]).requires_grad_(); x.amax().backward(); r = x.grad
x = T.tensor([2., 1., 2.]).requires_grad_(); x.max(0).values.backward(); r = x.grad
x = T.tensor([2., 1., 3.]).requires_grad_(); x.sort().values[0].backward(); r = x.grad
x = T.tensor([-1., 0., 1.]).requires_grad_(); x.relu().sum().backward(); r = x.grad
x = T.tensor([-1., 0., 1.]).requires_grad_(); x.abs().sum().backward(); r = x.grad
x = T.tensor([0., 4.]).requires_grad_(); x.sqrt().sum().backward(); r = x.grad
x = T.tensor([0., 2.]).requires_grad_(); (x ** 2).sum().backward(); r = x.grad
x = T.tensor([0., 2.]).requires_grad_(); (x ** 0.5).sum().backward(); r = x.grad
x = T.tensor([0., 2.]).requires_grad_(); x.prod().backward(); r = x.grad
x = T.tensor([3., 4.]).requires_grad_(); x.norm().backward(); r = x.grad
x = T.zeros(2).requires_grad_(); x.norm().backward(); r = x.grad
x = T.tensor([1., 2., 4.]).requires_grad_(); x.var().backward(); r = x.grad
x = T.tensor([1., 2., 4.]).requires_grad_(); x.std(unbiased=False).backward(); r = x.grad
x = T.tensor([1., 2., 4.]).requires_grad_(); x.logsumexp(0).backward(); r = x.grad
x = T.ones(3, requires_grad=True); x[T.tensor([0, 0, 2])].sum().backward(); r = x.grad
x = T.ones(2, 2, requires_grad=True); x.expand(3, 2, 2).sum().backward(); r = x.grad
x = T.ones(2, requires_grad=True); x.repeat(3).sum().backward(); r = x.grad
x = T.ones(2, requires_grad=True); T.where(T.tensor([True, False]), x, x * 3).sum().backward(); r = x.grad
x = T.tensor([-2., 0.5, 3.], requires_grad=True); x.clamp(0, 1).sum().backward(); r = x.grad
x = T.tensor([1.5], dtype=T.float16, requires_grad=True); (x * x).sum().backward(); r = x.grad
x = T.tensor([1.5, 2.5], dtype=T.bfloat16, requires_grad=True); (x * x).sum().backward(); r = x.grad
x = T.ones(2, requires_grad=True); y = x.long(); r = y.requires_grad
x = T.ones(2, requires_grad=True); (x.double() * 2).sum().backward(); r = x.grad
x = T.ones(2, 3, requires_grad=True); x.sum(0).prod().backward(); r = x.grad
x = T.ones(2, requires_grad=True); r = (x + 1).requires_grad, (x > 0).requires_grad, x.argmax().requires_grad
""".strip().splitlines()

CASES = [
    (program, program)
    for program in dict.fromkeys([*unary(), *binary(), *scalars(), *reductions(), *casts(), *SPELLINGS, *MORE])
]
