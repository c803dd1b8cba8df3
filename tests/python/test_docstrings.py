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
            if inspect.isfunction(value) or inspect.isclass(value):
                found.append((f"{name}.{attribute}", value))
        for label, value in found:
            text = getattr(value, "__doc__", None) or ""
            if ">>>" in text:
                seen.setdefault(text, label)
    for attribute, value in vars(gt.Tensor).items():
        text = value.__doc__ if inspect.isfunction(value) else None
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


def public_functions_without_example():
    named = {name: getattr(gt, name) for name in gt.__all__}
    ours = {n: f for n, f in named.items() if inspect.isfunction(f) and f.__module__.partition(".")[0] == "gt"}
    return [n for n, f in sorted(ours.items()) if ">>>" not in (f.__doc__ or "")]


def test_every_function_written_in_python_has_an_example():
    assert public_functions_without_example() == []


def stub(name):
    return ast.parse((PACKAGE / name).read_text())


def test_the_stub_of_tensors_names_what_there_is():
    (tensor,) = [n for n in stub("_core.pyi").body if isinstance(n, ast.ClassDef) and n.name == "Tensor"]
    named = {n.name for n in tensor.body if isinstance(n, ast.FunctionDef)}
    named |= {n.target.id for n in tensor.body if isinstance(n, ast.AnnAssign)}
    assert sorted(n for n in named if not hasattr(gt.Tensor, n)) == []
    assert sorted(n for n in dir(gt.Tensor) if not n.startswith("_") and n not in named) == []


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
