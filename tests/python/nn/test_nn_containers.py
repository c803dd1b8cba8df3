"""Sequential, lists and dictionaries of modules and parameters."""

from collections import OrderedDict

import pytest

import gt
import gt.nn as nn


def relu_and_friends():
    return [nn.ReLU(), nn.Tanh(), nn.Sigmoid()]


def test_sequential_indexing():
    made = relu_and_friends()
    net = nn.Sequential(*made)
    assert len(net) == 3 and net[0] is made[0] and net[-1] is made[2] and list(net) == made
    assert list(net[1:]) == made[1:] and isinstance(net[:2], nn.Sequential)
    net[1] = nn.GELU()
    assert isinstance(net[1], nn.GELU)
    with pytest.raises(IndexError):
        net[3]


def test_sequential_named():
    net = nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh()))
    assert isinstance(net.a, nn.ReLU) and [n for n, _ in net.named_children()] == ["a", "b"]
    assert [n for n, _ in net[1:].named_children()] == ["b"]


def test_sequential_changes():
    made = relu_and_friends()
    net = nn.Sequential(*made[:1])
    assert net.append(made[1]) is net and net.extend([made[2]]) is net and list(net) == made
    net.insert(0, nn.GELU())
    assert [type(m).__name__ for m in net] == ["GELU", "ReLU", "Tanh", "Sigmoid"]
    del net[1]
    assert [type(m).__name__ for m in net] == ["GELU", "Tanh", "Sigmoid"]
    assert [n for n, _ in net.named_children()] == ["0", "1", "2"]
    assert isinstance(net.pop(0), nn.GELU) and len(net) == 2
    del net[:1]
    assert [type(m).__name__ for m in net] == ["Sigmoid"]


def test_sequential_arithmetic():
    a, b = nn.Sequential(nn.ReLU()), nn.Sequential(nn.Tanh())
    assert len(a + b) == 2 and len(a * 3) == 3 and len(2 * b) == 2
    a += b
    assert len(a) == 2
    with pytest.raises(ValueError):
        a + [nn.ReLU()]
    with pytest.raises(ValueError):
        a * 0


def test_module_list():
    made = relu_and_friends()
    layers = nn.ModuleList(made)
    assert len(layers) == 3 and list(layers) == made and layers[-1] is made[2]
    assert isinstance(layers[:2], nn.ModuleList) and len(layers[:2]) == 2
    layers.append(nn.GELU())
    layers.insert(0, nn.SiLU())
    assert [type(m).__name__ for m in layers] == ["SiLU", "ReLU", "Tanh", "Sigmoid", "GELU"]
    assert isinstance(layers.pop(0), nn.SiLU)
    del layers[0]
    layers[0] = nn.ELU()
    assert [type(m).__name__ for m in layers] == ["ELU", "Sigmoid", "GELU"]
    assert [n for n, _ in layers.named_children()] == ["0", "1", "2"]
    layers += [nn.ReLU()]
    assert len(layers) == 4 and len(layers + [nn.ReLU()]) == 5
    del layers[1:]
    assert len(layers) == 1
    with pytest.raises(NotImplementedError):
        layers(1)


def test_module_dict():
    heads = nn.ModuleDict({"a": nn.ReLU()})
    heads["b"] = nn.Tanh()
    heads.update([("c", nn.GELU())])
    assert list(heads) == list(heads.keys()) == ["a", "b", "c"] and "b" in heads and len(heads) == 3
    assert [type(m).__name__ for m in heads.values()] == ["ReLU", "Tanh", "GELU"]
    assert isinstance(heads.pop("a"), nn.ReLU) and "a" not in heads
    del heads["b"]
    assert [k for k, _ in heads.items()] == ["c"]
    heads.clear()
    assert len(heads) == 0
    with pytest.raises(KeyError):
        heads["c"]


def test_parameter_list():
    params = nn.ParameterList([gt.ones(1), nn.Parameter(gt.zeros(2))])
    params.append(gt.ones(3)).extend([gt.ones(4)])
    assert [p.numel() for p in params] == [1, 2, 3, 4] and all(isinstance(p, nn.Parameter) for p in params)
    assert len(list(params.parameters())) == 4 and params[-1].numel() == 4
    params[0] = gt.ones(7)
    assert params[0].numel() == 7 and len(params[1:3]) == 2
    params += [gt.ones(1)]
    assert len(params) == 5
    with pytest.raises(TypeError):
        params.extend(gt.ones(2))


def test_parameter_dict():
    params = nn.ParameterDict({"a": gt.ones(1)})
    params["b"] = gt.ones(2)
    params.update({"c": gt.ones(3)})
    assert list(params) == ["a", "b", "c"] and len(list(params.parameters())) == 3
    assert params.get("z") is None and params.pop("a").numel() == 1 and "a" not in params
    assert params.setdefault("d", gt.ones(4)).numel() == 4 and params.popitem()[0] == "d"
    assert {k: v.numel() for k, v in params.items()} == {"b": 2, "c": 3}
    assert params.copy()["b"] is params["b"]
    del params["b"]
    params.clear()
    assert len(params) == 0 and list(params.parameters()) == []
