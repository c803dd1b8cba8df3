"""Devices are a hint: `cpu`, `cuda` and nothing mean the session's own placement."""

import pytest

import gt

pytestmark = pytest.mark.transport


def test_device_objects():
    plain = gt.device("cpu")
    assert plain.type == "cpu" and plain.index is None
    assert str(plain) == "cpu" and repr(plain) == "device(type='cpu')"
    assert plain == gt.device("cpu") and hash(plain) == hash(gt.device("cpu"))
    numbered = gt.device("cuda:0")
    assert numbered.type == "cuda" and numbered.index == 0 and str(numbered) == "cuda:0"
    assert repr(numbered) == "device(type='cuda', index=0)"
    assert gt.device("cuda", 0) == numbered and numbered != plain
    assert gt.device(plain) == plain


@pytest.mark.parametrize("name", ["", "gpu", "cpu:x", "nonsense:0", "cuda:-1"])
def test_wrong_device_names(name):
    with pytest.raises((RuntimeError, ValueError)):
        gt.device(name)


def test_device_of_a_fresh_tensor():
    assert isinstance(gt.zeros(1).device, gt.device)
    assert gt.zeros(1).device.type == "cpu"
    assert gt.zeros(1, device=None).device.type == "cpu"


@pytest.mark.parametrize("name", ["cpu", "cuda"])
def test_device_gives_back_what_was_asked_for(name):
    made = gt.zeros(2, device=name)
    assert made.device.type == name
    assert gt.tensor([0], device=made.device).device == made.device
    assert gt.zeros(2).to(name).device.type == name
    assert gt.zeros(2).to(gt.device(name)).device.type == name
    assert gt.zeros_like(made).device == made.device
    assert gt.arange(3, device=name).tolist() == [0, 1, 2]


def test_results_follow_their_operands():
    a = gt.ones(2, device="cuda")
    assert (a + 1).device.type == "cuda" and (a + a).sum().device.type == "cuda"
    assert a[0].device.type == "cuda" and a.view(1, 2).device.type == "cuda"
    assert a.tolist() == [1, 1] and a.cpu().device.type == "cpu" and a.cpu().cuda().device.type == "cuda"


def test_every_creation_function_takes_a_device():
    made = [
        gt.tensor([1], device="cpu"), gt.as_tensor([1], device="cpu"), gt.zeros(1, device="cpu"), gt.ones(1, device="cpu"),
        gt.full((1,), 1, device="cpu"), gt.empty(1, device="cpu"), gt.arange(1, device="cpu"), gt.linspace(0, 1, 2, device="cpu"),
        gt.eye(1, device="cpu"), gt.rand(1, device="cpu"), gt.randn(1, device="cpu"), gt.randint(1, (1,), device="cpu"),
        gt.randperm(1, device="cpu"),
    ]  # fmt: skip
    source = gt.zeros(1)
    made += [f(source, device="cpu") for f in (gt.zeros_like, gt.ones_like, gt.empty_like, gt.rand_like, gt.randn_like)]
    made += [gt.full_like(source, 1, device="cpu"), gt.randint_like(source, 2, device="cpu")]
    assert {str(one.device) for one in made} == {"cpu"}


def test_moving_is_differentiable_and_copies_nothing():
    source = gt.ones(2, requires_grad=True)
    source.to("cpu").cpu().mul(2).sum().backward()
    assert source.grad.tolist() == [2, 2]
    plain = gt.ones(2)
    assert plain.cpu() is plain and plain.to("cpu") is plain
    assert plain.to("cpu", non_blocking=True).tolist() == [1, 1]


def test_operands_on_cpu_and_cuda_meet():
    """Both names mean the session's own placement, so nothing stands between them."""
    assert (gt.ones(2, device="cuda") + gt.ones(2)).tolist() == [2, 2]


@pytest.mark.parametrize("name", ["worker:99", "cuda:99"])
def test_an_index_that_does_not_exist_raises(name):
    with pytest.raises((RuntimeError, ValueError)):
        gt.zeros(1, device=name)


def test_worker_zero_exists():
    assert gt.zeros(1, device="worker:0").tolist() == [0]


def test_cuda_namespace():
    assert isinstance(gt.cuda.is_available(), bool)
    assert isinstance(gt.cuda.device_count(), int)
    gt.cuda.synchronize()
    assert isinstance(gt.cuda.memory_allocated(), int) and isinstance(gt.cuda.max_memory_allocated(), int)
    device = "cuda" if gt.cuda.is_available() else "cpu"
    assert gt.zeros(1, device=device).device.type == device


def test_pin_memory_and_empty_cache():
    assert gt.ones(2).pin_memory().tolist() == [1, 1]
    gt.empty_cache()
    gt.synchronize()


def test_num_threads():
    before = gt.get_num_threads()
    assert before >= 1
    gt.set_num_threads(1)
    try:
        assert gt.get_num_threads() == 1
        assert gt.ones(1000).sum().item() == 1000
    finally:
        gt.set_num_threads(before)
    with pytest.raises((RuntimeError, ValueError)):
        gt.set_num_threads(0)


def test_device_in_a_with_statement_and_is_cuda():
    assert gt.zeros(1).is_cuda is False
    assert gt.zeros(1, device="cuda").is_cuda is True
