"""What is said of names and functions that GT does not have."""

import importlib.util

import compatibility
import pytest

import gt
from gt._missing import TENSOR_ATTRIBUTES


@pytest.mark.parametrize(
    "module, name",
    [
        ("gt", "distributions"),
        ("gt", "fft"),
        ("gt", "func"),
        ("gt", "jit"),
        ("gt", "profiler"),
        ("gt", "sparse_coo_tensor"),
        ("gt.linalg", "svd"),
        ("gt.special", "zeta"),
        ("gt.nn", "AdaptiveMystery"),
        ("gt.nn.functional", "mystery"),
        ("gt.optim", "SparseAdam"),
        ("gt.optim.lr_scheduler", "mystery"),
        ("gt.autograd", "graph"),
        ("gt.cuda", "make_graphed_callables"),
        ("gt.nn.utils", "prune"),
        ("gt.nn.init", "mystery_"),
        ("gt.nn.modules", "Mystery"),
        ("gt.amp", "mystery"),
        ("gt.utils", "cpp_extension"),
    ],
)
def test_a_name_that_is_not_there_names_the_page_that_lists_them(module, name):
    found = gt
    for part in module.split(".")[1:]:
        found = getattr(found, part)
    assert not hasattr(found, name)
    with pytest.raises(AttributeError) as error:
        getattr(found, name)
    assert str(error.value).startswith(f"{module}.{name} is not in GT yet; docs/pytorch-compatibility.md")
    assert not hasattr(found, "__wrapped__")


def test_anomaly_detection_is_refused():
    for ask in (gt.autograd.detect_anomaly, lambda: gt.autograd.set_detect_anomaly(True)):
        with pytest.raises(NotImplementedError, match="not in GT yet"):
            ask()
    with gt.autograd.set_detect_anomaly(False):
        pass


@pytest.mark.parametrize(
    "statement, name",
    [
        ("from gt import fft", "gt.fft"),
        ("import gt.fft", "gt.fft"),
        ("import gt.fft.helper", "gt.fft"),
        ("from gt.distributions import Normal", "gt.distributions"),
        ("from gt.nn import AdaptiveMystery", "gt.nn.AdaptiveMystery"),
        ("from gt.nn.utils import prune", "gt.nn.utils.prune"),
        ("from gt.nn.utils.mystery import name", "gt.nn.utils.mystery"),
        ("from gt.nn.init import mystery_", "gt.nn.init.mystery_"),
        ("from gt.linalg import svd", "gt.linalg.svd"),
        ("from gt.special import zeta", "gt.special.zeta"),
        ("from gt.optim import SparseAdam", "gt.optim.SparseAdam"),
        ("import gt.utils.cpp_extension", "gt.utils.cpp_extension"),
    ],
)
def test_an_import_of_a_name_that_is_not_there_names_the_page(statement, name):
    with pytest.raises(ImportError) as error:
        exec(statement, {})
    assert str(error.value) == f"{name} is not in GT yet; docs/pytorch-compatibility.md lists what GT supports"


def test_imports_of_what_is_there_and_of_private_names_go_on_as_ever():
    exec(
        "from gt.linalg import inv, norm\nfrom gt.nn.init import zeros_\nimport gt.nn.functional, gt.optim.swa_utils",
        {},
    )
    assert importlib.util.find_spec("gt._nothing") is None and importlib.util.find_spec("gtx") is None
    with pytest.raises(ModuleNotFoundError, match="No module named 'gt._nothing'"):
        exec("import gt._nothing", {})


@pytest.mark.parametrize("name", ["angle", "svd", "stft"])
def test_an_attribute_that_tensors_do_not_have_names_the_page(name):
    x = gt.ones(2)
    assert not hasattr(x, name) and getattr(x, name, 7) == 7
    with pytest.raises(AttributeError, match=f"^gt.Tensor.{name} is not in GT yet; docs/pytorch-compatibility.md"):
        getattr(x, name)
    with pytest.raises(AttributeError, match="mystery"):
        x.mystery


def test_the_attributes_that_tensors_lack_are_those_of_the_page():
    assert list(TENSOR_ATTRIBUTES) == compatibility.missing("torch.Tensor")


def test_what_is_refused_is_not_listed_as_present():
    assert "detect_anomaly" in compatibility.missing("torch.autograd")
