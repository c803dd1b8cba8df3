"""What the benchmarks hold GT against."""

from pathlib import Path

import pytest

import gt


@pytest.mark.parametrize("name", ["tiny", "nano", "small"])
def test_the_limit_counts_the_products_of_every_matrix(name, monkeypatch):
    """Layers of one shape were counted once: the limit was the lower by that of the outputs of attention."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "bench"))
    import qwen3
    import train_rows

    size = qwen3.SIZES[name]
    counted = sum(m * k * n * times for (m, k, n), times in train_rows.products(size))
    matrices = [p for p in qwen3.Training(gt, size).model.parameters() if p.dim() == 2]
    # Forward, the gradient of the input, the gradient of the weight; the embedding is the head.
    assert counted == 3 * size.batch * size.tokens * sum(p.numel() for p in matrices)
