"""Trains a Qwen3 on four workers: two stages of layers, each split over two workers.

    GT_CONFIG=examples/qwen3_parallel.yaml python examples/qwen3_parallel.py

The model is `gt.models.Qwen3ForCausalLM` as it is; `spread` says from outside which signal each layer runs under and how its
weights are cut. The micro-batches of a step follow each other through the stages, so both are busy. Without the file the same
script runs on one worker, with the same losses.
"""

import argparse
import os

import gt
from gt import optim
from gt.models import Qwen3Config, Qwen3ForCausalLM
from text_data import ByteTokenizer, Pieces, load_text

STAGES = 2
# Attention is cut by heads and the MLP by hidden units: their first matrices by columns, those that lead back by rows.
COLUMNS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
ROWS = ("o_proj", "down_proj")


def run_under(signal, module):
    """Everything the module computes is under the signal."""
    module.forward = gt.signal.context(signal)(module.forward)


def spread(model):
    """Gives each layer of the model a stage, and each matrix a cut."""
    layers = model.model.layers
    run_under("stage_1", model.model.embed_tokens)
    for number, layer in enumerate(layers):
        stage = f"stage_{number * STAGES // len(layers) + 1}"
        run_under(stage, layer)
        for name, module in layer.named_modules():
            cut = {**dict.fromkeys(COLUMNS, "columns"), **dict.fromkeys(ROWS, "rows")}.get(name.split(".")[-1])
            if cut is not None:
                module.weight.data = gt.signal.tensor(module.weight.data, name=f"{stage}_{cut}")
    run_under(f"stage_{STAGES}", model.model.norm)
    run_under(f"stage_{STAGES}", model.lm_head)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60, help="gradient steps (default %(default)s)")
    parser.add_argument("--batch-size", type=int, default=8, help="pieces of text in a batch (default %(default)s)")
    parser.add_argument("--seq-len", type=int, default=64, help="tokens in a piece (default %(default)s)")
    parser.add_argument("--micro-batches", type=int, default=2, help="parts of a batch (default %(default)s)")
    parser.add_argument("--data", help="a text file, or a folder of them (default: this repository)")
    args = parser.parse_args()
    if not os.environ.get("GT_CONFIG"):
        print(
            "GT_CONFIG is not set: everything runs on one worker. The file that splits it is examples/qwen3_parallel.yaml"
        )

    tokenizer = ByteTokenizer()
    pieces = Pieces(tokenizer.encode(load_text(args.data)), args.seq_len, args.batch_size, seed=0)
    gt.manual_seed(0)
    config = Qwen3Config(
        vocab_size=tokenizer.vocab_size,
        hidden_size=64,
        intermediate_size=192,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        tie_word_embeddings=False,
    )
    model = Qwen3ForCausalLM(config)
    spread(model)
    optimizer = optim.AdamW(model.parameters(), lr=2e-3)
    losses = []
    for step in range(args.steps):
        batch = gt.tensor(pieces.batch(step))
        optimizer.zero_grad()
        # All forward passes first: the second part enters the first stage while the first is in the second.
        parts = [model(part, labels=part).loss for part in batch.chunk(args.micro_batches)]
        loss = gt.stack(parts).mean()
        loss.backward()
        optimizer.step()
        if step % 10 == 0 or step == args.steps - 1:
            losses.append(loss.item())
            print(f"step {step:>4}  loss {losses[-1]:.5f}")
    print(f"loss {losses[0]:.5f} → {losses[-1]:.5f}")


if __name__ == "__main__":
    main()
