"""Every public name is there and says what it does."""

import pytest

import gt

CREATE = """tensor as_tensor from_numpy zeros ones full empty arange linspace eye rand randn randint randperm multinomial
bernoulli zeros_like ones_like full_like empty_like rand_like randn_like randint_like manual_seed get_rng_state set_rng_state from_dlpack meshgrid""".split()

UNARY = """abs neg sign square reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh
tanh asinh acosh atanh sigmoid erf erfc relu floor ceil round trunc logical_not bitwise_not isnan isinf isfinite nan_to_num
clamp softmax log_softmax""".split()

BINARY = """add sub mul div floor_divide remainder fmod pow maximum minimum atan2 eq ne lt le gt ge bitwise_and bitwise_or
bitwise_xor logical_and logical_or logical_xor lerp addcmul allclose equal""".split()

REDUCE = "sum mean max min amax amin prod var std norm argmax argmin any all cumsum cumprod logsumexp".split()

SHAPE = """reshape flatten unflatten permute transpose swapaxes movedim squeeze unsqueeze broadcast_to repeat_interleave tile
flip roll split chunk unbind narrow select tril triu diagonal""".split()

SHAPE_METHODS = "view expand repeat contiguous is_contiguous stride size dim numel".split()

SELECT = """where masked_fill gather scatter scatter_add index_select index_add take_along_dim topk sort argsort nonzero unique
bincount matmul mm bmm outer dot""".split()

FUNCTIONS_ONLY = "cat stack einsum addmm no_grad enable_grad inference_mode synchronize empty_cache set_num_threads is_tensor".split()

METHODS_ONLY = """to float double half bfloat16 long int bool detach clone item tolist numpy backward requires_grad_ register_hook retain_grad
cpu cuda pin_memory addmm fill_ zero_ copy_ add_ sub_ mul_ div_ pow_ clamp_ masked_fill_ scatter_ scatter_add_ index_add_ relu_ exp_ sqrt_ neg_
abs_ lerp_ addcmul_ uniform_ normal_ __dlpack__ __dlpack_device__ __array__ __len__ __iter__ __getitem__ __setitem__ __bool__ __int__
__float__ __index__ __add__ __radd__ __iadd__ __sub__ __rsub__ __isub__ __mul__ __rmul__ __imul__ __truediv__ __rtruediv__ __itruediv__
__floordiv__ __rfloordiv__ __ifloordiv__ __mod__ __rmod__ __imod__ __pow__ __rpow__ __ipow__ __matmul__ __and__ __rand__ __iand__ __or__ __ror__
__ior__ __xor__ __rxor__ __ixor__ __invert__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __neg__ __pos__ __abs__ __hash__ __repr__
__deepcopy__ __contains__ __format__""".split()

ATTRIBUTES = "shape dtype device requires_grad grad grad_fn is_leaf data T mT ndim".split()

DTYPES = "float32 float64 float16 bfloat16 int8 int32 int64 uint8 bool float double half long int".split()

CLASSES = "Tensor Size Generator device dtype".split()

MODULES = {
    "autograd": ["grad", "backward", "Function"],
    "autograd.Function": ["apply", "forward", "backward"],
    "utils.checkpoint": ["checkpoint"],
    "cuda": ["is_available", "device_count", "synchronize", "memory_allocated", "max_memory_allocated"],
    "debug": ["get_tape", "print_tape", "get_worker_stats", "print_worker_stats"],
    "Generator": ["manual_seed", "initial_seed", "get_state", "set_state"],
}

FUNCTIONS = [*CREATE, *UNARY, *BINARY, *REDUCE, *SHAPE, *SELECT, *FUNCTIONS_ONLY]
METHODS = [*UNARY, *BINARY, *REDUCE, *SHAPE, *SHAPE_METHODS, *SELECT, *METHODS_ONLY]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    function = getattr(gt, name)
    assert callable(function)
    assert (function.__doc__ or "").strip(), f"gt.{name} has no docstring"


@pytest.mark.parametrize("name", METHODS)
def test_method(name):
    method = getattr(gt.Tensor, name)
    assert callable(method)
    if not name.startswith("__"):
        assert (method.__doc__ or "").strip(), f"Tensor.{name} has no docstring"


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attribute(name):
    assert hasattr(gt.Tensor, name) or hasattr(gt.ones(2, 2), name)


@pytest.mark.parametrize("name", DTYPES)
def test_dtype(name):
    assert isinstance(getattr(gt, name), gt.dtype)


@pytest.mark.parametrize("name", CLASSES)
def test_class(name):
    made = getattr(gt, name)
    assert isinstance(made, type)
    assert (made.__doc__ or "").strip()


@pytest.mark.parametrize("path, name", [(path, name) for path, names in MODULES.items() for name in names])
def test_member(path, name):
    place = gt
    for part in path.split("."):
        place = getattr(place, part)
    member = getattr(place, name)
    assert callable(member)
    if path != "autograd.Function":
        assert (member.__doc__ or "").strip(), f"gt.{path}.{name} has no docstring"


def test_submodules_import():
    import gt.autograd
    import gt.cuda
    import gt.debug
    import gt.utils.checkpoint
    from gt.utils.checkpoint import checkpoint

    assert callable(checkpoint) and gt.autograd.Function and gt.cuda and gt.debug


def test_module_constants():
    assert gt.pi == pytest.approx(3.14159265) and gt.inf == float("inf") and gt.nan != gt.nan
    assert isinstance(gt.__version__, str) and gt.newaxis is None


def test_it_can_stand_in_for_torch():
    import gt as torch

    x = torch.randn(4, 3, device="cpu", dtype=torch.float32, requires_grad=True)
    y = torch.nn.functional.relu(x) if hasattr(torch, "nn") else torch.relu(x)
    y.sum().backward()
    assert isinstance(x.grad, torch.Tensor)


def test_names_are_not_leaked():
    public = [name for name in dir(gt) if not name.startswith("_")]
    for name in ("os", "sys", "np", "numpy"):
        assert name not in public, name


def test_public_names_are_listed():
    assert set(FUNCTIONS) <= set(dir(gt)) and set(DTYPES) <= set(dir(gt))


def test_the_package_is_typed():
    from importlib.resources import files

    assert (files("gt") / "py.typed").is_file()
