"""Qwen3 against what Hugging Face's transformers computed (`record_qwen3.py`): logits, loss, gradients, generation."""

import json

import curve
import numpy as np
import pytest
from tiny_models import CASES, FIXTURES

import gt
from gt import optim
from gt.models import Qwen3Config, Qwen3ForCausalLM
from gt.serialization import load_file

pytestmark = pytest.mark.transport


@pytest.fixture(params=CASES)
def case(request):
    """A model that Hugging Face saved, and what it computed."""
    folder = FIXTURES / request.param
    return Qwen3ForCausalLM.from_pretrained(folder), load_file(folder / "golden.safetensors")


def assert_close(actual, expected, what):
    difference = np.abs(actual.detach().numpy() - expected.numpy()).max()
    assert difference <= 1e-5 * max(1.0, float(expected.abs().max())), f"{what}: off by {difference}"


def test_logits_loss_and_every_gradient(case):
    model, golden = case
    out = model(golden["input_ids"], labels=golden["labels"])
    assert_close(out.logits, golden["logits"], "logits")
    assert_close(out.loss, golden["loss"], "loss")
    out.loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters()}
    assert {f"grad.{name}" for name in gradients} == {name for name in golden if name.startswith("grad.")}
    for name, gradient in gradients.items():
        assert_close(gradient, golden[f"grad.{name}"], name)


def test_gradients_with_checkpointing(case):
    model, golden = case
    model.train()
    model.gradient_checkpointing_enable()
    assert model.is_gradient_checkpointing
    model(golden["input_ids"], labels=golden["labels"]).loss.backward()
    for name, parameter in model.named_parameters():
        assert_close(parameter.grad, golden[f"grad.{name}"], name)
    model.gradient_checkpointing_disable()
    assert not model.is_gradient_checkpointing


def test_padding_on_the_left(case):
    model, golden = case
    mask = golden["padded_mask"]
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    out = model(golden["input_ids"], attention_mask=mask, position_ids=positions)
    real = mask.bool().unsqueeze(-1)
    assert_close(gt.where(real, out.logits, 0.0), gt.where(real, golden["padded_logits"], 0.0), "logits")
    assert bool(out.logits.isfinite().all())


@pytest.mark.parametrize("use_cache", [True, False])
def test_greedy_generation(case, use_cache):
    model, golden = case
    written = model.generate(golden["input_ids"], max_new_tokens=20, use_cache=use_cache)
    assert written.tolist() == golden["greedy"].tolist()
    written = model.generate(
        golden["input_ids"], max_new_tokens=20, attention_mask=golden["padded_mask"], use_cache=use_cache
    )
    assert written.tolist() == golden["padded_greedy"].tolist()


def start_from(model):
    """The weights that the recorded run started from."""
    with gt.no_grad():
        for number, (_, parameter) in enumerate(sorted(model.named_parameters())):
            parameter.copy_(gt.from_numpy(curve.weight(number, tuple(parameter.shape))))


@pytest.mark.parametrize("fused", [True, False])
def test_fifty_steps_follow_the_loss_curve_of_pytorch(fused):
    model = Qwen3ForCausalLM(Qwen3Config(**curve.CONFIG))
    start_from(model)
    optimizer = optim.AdamW(model.parameters(), lr=curve.LEARNING_RATE, fused=fused)
    losses = []
    for step in range(curve.STEPS):
        batch = gt.from_numpy(curve.tokens(step))
        logits = model(batch[:, :-1]).logits
        loss = gt.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    expected = json.loads((FIXTURES / "curve.json").read_text())["losses"]
    assert expected[0] > 6.8 and expected[-1] < 5.0
    assert max(abs(a - b) for a, b in zip(losses, expected, strict=True)) < 1e-3


def test_fifty_steps_of_the_benchmark_follow_it_too(monkeypatch):
    """The model of bench/qwen3.py, norms and rotary positions spelled out."""
    monkeypatch.syspath_prepend(str(FIXTURES.parents[3] / "bench"))
    import qwen3

    training = qwen3.Training(gt, qwen3.SIZES["tiny"])
    names = sorted(f"model.{name}" for name, _ in training.model.named_parameters())
    with gt.no_grad():
        for name, parameter in training.model.named_parameters():
            number = names.index(f"model.{name}")
            parameter.copy_(gt.from_numpy(curve.weight(number, tuple(parameter.shape))))
    training.optimizer = optim.AdamW(training.model.parameters(), lr=curve.LEARNING_RATE, fused=True)
    training.batches = (curve.tokens(step) for step in range(curve.STEPS))
    losses = [training.step() for _ in range(curve.STEPS)]
    expected = json.loads((FIXTURES / "curve.json").read_text())["losses"]
    assert max(abs(a - b) for a, b in zip(losses, expected, strict=True)) < 1e-3
