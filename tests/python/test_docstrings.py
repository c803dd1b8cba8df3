"""Every example in a docstring runs, and the stubs name what there is."""

import ast
import doctest
import importlib
import inspect
import pathlib
import pkgutil

import pytest

import gt

PACKAGE = pathlib.Path(gt.__file__).parent
MODULES = ["gt", *(m.name for m in pkgutil.walk_packages(gt.__path__, "gt.") if m.name != "gt._core")]


def examples():
    """Every docstring with an example, found once."""
    seen = {}
    for name in MODULES:
        module = importlib.import_module(name)
        found = [(name, module)]
        for attribute, value in vars(module).items():
            if inspect.isroutine(value) or inspect.isclass(value):
                found.append((f"{name}.{attribute}", value))
        for label, value in found:
            text = getattr(value, "__doc__", None) or ""
            if ">>>" in text:
                seen.setdefault(text, label)
    for attribute, value in vars(gt.Tensor).items():
        text = value.__doc__ if inspect.isroutine(value) else None
        if text and ">>>" in text:
            seen.setdefault(text, f"gt.Tensor.{attribute}")
    return sorted((label, text) for text, label in seen.items())


@pytest.mark.parametrize("label, text", examples(), ids=lambda value: value if value.startswith("gt") else "")
def test_example(label, text):
    gt.set_printoptions(profile="default")
    test = doctest.DocTestParser().get_doctest(text, {"gt": gt}, label, None, 0)
    report = []
    doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert not report, "".join(report)


PUBLIC = """gt gt.amp gt.autograd gt.autograd.functional gt.cuda gt.data gt.debug gt.errors gt.linalg gt.models gt.nn gt.nn.functional
gt.nn.init gt.nn.parameter gt.nn.utils gt.nn.utils.rnn gt.optim gt.optim.lr_scheduler gt.signal gt.utils.checkpoint
gt.utils.data gt.utils.tensorboard""".split()


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_function_and_class_has_an_example(name):
    module = importlib.import_module(name)
    bare = []
    for attribute in getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]:
        value = getattr(module, attribute)
        said = getattr(value, "__doc__", None) or ""
        ours = (getattr(value, "__module__", None) or "").partition(".")[0] == "gt"
        told = ">>>" in said or said.startswith("The old name of")
        if ours and (inspect.isroutine(value) or inspect.isclass(value)) and not told:
            bare.append(attribute)
    assert bare == []


def stub(name):
    return ast.parse((PACKAGE / name).read_text())


def test_the_stub_of_tensors_names_what_there_is():
    (tensor,) = [n for n in stub("_core.pyi").body if isinstance(n, ast.ClassDef) and n.name == "Tensor"]
    named = {n.name for n in tensor.body if isinstance(n, ast.FunctionDef)}
    named |= {n.target.id for n in tensor.body if isinstance(n, ast.AnnAssign)}
    assert sorted(n for n in named if not hasattr(gt.Tensor, n)) == []
    assert sorted(n for n in dir(gt.ones(1)) if not n.startswith("_") and n not in named) == []


def test_the_stub_of_the_extension_names_what_there_is():
    named = {n.name for n in stub("_core.pyi").body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    assert sorted(n for n in named if not hasattr(gt._core, n)) == []
    public = {n for n in dir(gt._core) if not n.startswith("_") and callable(getattr(gt._core, n))}
    assert sorted(public - named - {"HostBuffer"}) == []


def test_the_stub_of_functions_names_what_there_is():
    named = {n.name for n in stub("_functions.pyi").body if isinstance(n, ast.FunctionDef)}
    assert named == set(gt._functions.__all__)


def test_all_names_are_there_and_named_once():
    assert [n for n in gt.__all__ if not hasattr(gt, n)] == []
    assert len(gt.__all__) == len(set(gt.__all__))
