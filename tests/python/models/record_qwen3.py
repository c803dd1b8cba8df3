"""Records what Hugging Face's Qwen3 computes: `python tests/python/models/record_qwen3.py`, with torch and transformers.

Each case is a folder of a checkpoint as `save_pretrained` writes it, and `golden.safetensors` with inputs, logits, loss,
all gradients and a greedy continuation. `curve.json` holds the losses of the run in `curve.py`.
"""

import json
import shutil
from pathlib import Path

import curve
import torch
from safetensors.torch import save_file
from transformers import Qwen3Config, Qwen3ForCausalLM

FIXTURES = Path(__file__).parent / "fixtures"
SMALL = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "initializer_range": 0.2,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
}
CASES = {
    "tied": {"tie_word_embeddings": True},
    "untied_biased_sharded": {"attention_bias": True, "num_key_value_heads": 4, "head_dim": 12},
    "sliding_yarn": {
        "use_sliding_window": True,
        "sliding_window": 5,
        "max_window_layers": 1,
        "num_key_value_heads": 1,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 1e4,
            "factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    },
}


def randomized(config):
    """A model in which norms and biases differ from their start, so that each of them matters."""
    model = Qwen3ForCausalLM(config).float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
            elif name.endswith("bias"):
                parameter.uniform_(-0.3, 0.3)
    return model


def record_case(name, changes):
    torch.manual_seed(sorted(CASES).index(name))
    folder = FIXTURES / name
    shutil.rmtree(folder, ignore_errors=True)
    model = randomized(Qwen3Config(**{**SMALL, **changes})).eval()
    model.config._attn_implementation = "eager"
    model.save_pretrained(folder, **({"max_shard_size": "40KB"} if "sharded" in name else {}))
    (folder / "generation_config.json").unlink(missing_ok=True)

    golden = {"input_ids": torch.randint(1, 96, (2, 12))}
    golden["labels"] = golden["input_ids"].clone()
    golden["labels"][0, :4] = -100
    out = model(input_ids=golden["input_ids"], labels=golden["labels"], use_cache=False)
    out.loss.backward()
    golden["logits"], golden["loss"] = out.logits.detach(), out.loss.detach()
    for parameter_name, parameter in model.named_parameters():
        golden[f"grad.{parameter_name}"] = parameter.grad

    # Padded on the left, as for generation: logits of the real tokens, and the continuation.
    golden["padded_mask"] = torch.ones(2, 12, dtype=torch.int64)
    golden["padded_mask"][1, :5] = 0
    positions = (golden["padded_mask"].cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        padded = model(input_ids=golden["input_ids"], attention_mask=golden["padded_mask"], position_ids=positions)
    golden["padded_logits"] = padded.logits
    options = {"max_new_tokens": 20, "do_sample": False, "pad_token_id": 0}
    golden["greedy"] = model.generate(golden["input_ids"], **options)
    golden["padded_greedy"] = model.generate(golden["input_ids"], attention_mask=golden["padded_mask"], **options)
    save_file({key: value.contiguous() for key, value in golden.items()}, folder / "golden.safetensors")
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{name}: loss {out.loss.item():.4f}, {size / 1000:.0f} kB")


def record_curve(dtype):
    fields = {name: value for name, value in curve.CONFIG.items() if name != "rope_theta"}
    rope = {"rope_type": "default", "rope_theta": curve.CONFIG["rope_theta"]}
    model = Qwen3ForCausalLM(Qwen3Config(**fields, rope_parameters=rope)).to(dtype)
    with torch.no_grad():
        for number, (_, parameter) in enumerate(sorted(model.named_parameters())):
            parameter.copy_(torch.from_numpy(curve.weight(number, tuple(parameter.shape))))
    optimizer = torch.optim.AdamW(model.parameters(), lr=curve.LEARNING_RATE)
    losses = []
    for step in range(curve.STEPS):
        batch = torch.from_numpy(curve.tokens(step))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch[:, :-1]).logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    FIXTURES.mkdir(exist_ok=True)
    for name, changes in CASES.items():
        record_case(name, changes)
    losses, precise = record_curve(torch.float32), record_curve(torch.float64)
    print(
        f"curve: {losses[0]:.4f} to {losses[-1]:.4f}; rounding moves it by {max(abs(a - b) for a, b in zip(losses, precise)):.1e}"
    )
    (FIXTURES / "curve.json").write_text(json.dumps({"losses": [round(loss, 6) for loss in losses]}) + "\n")
