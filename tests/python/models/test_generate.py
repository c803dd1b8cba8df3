"""Generation: greedy, sampled, cut off, ended by tokens, refused."""

import collections

import pytest
from tiny_models import some_tokens, tiny_model

import gt
from gt.models.sampling import keep_top_k, keep_top_p, next_token
from gt.testing import assert_close

pytestmark = pytest.mark.transport


def worked_out(model, tokens, count):
    """Greedy generation in the plainest way."""
    for _ in range(count):
        with gt.no_grad():
            following = model(tokens, use_cache=False).logits[:, -1].argmax(-1, keepdim=True)
        tokens = gt.cat([tokens, following], dim=1)
    return tokens


@pytest.mark.parametrize("changes", [{}, {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}])
def test_greedy_with_and_without_cache(changes):
    model, tokens = tiny_model(**changes), some_tokens()
    expected = worked_out(model, tokens, 25).tolist()
    assert model.generate(tokens, max_new_tokens=25).tolist() == expected
    assert model.generate(tokens, max_new_tokens=25, use_cache=False).tolist() == expected


def test_greedy_across_the_stride_of_the_cache():
    model, tokens = tiny_model(), some_tokens(batch=1, count=60)
    assert model.generate(tokens, max_new_tokens=10).tolist() == worked_out(model, tokens, 10).tolist()


def test_rows_of_a_padded_batch_are_written_as_if_alone():
    model = tiny_model()
    short, long = some_tokens(batch=1, count=3), some_tokens(batch=1, count=6, seed=2)
    padding = gt.zeros(1, 3, dtype=gt.int64)
    batch = gt.cat([gt.cat([padding, short], dim=1), long])
    mask = gt.ones(2, 6, dtype=gt.int64)
    mask[0, :3] = 0
    for use_cache in (True, False):
        written = model.generate(batch, 12, attention_mask=mask, use_cache=use_cache)[:, 6:].tolist()
        alone = [model.generate(row, 12)[0, row.shape[1] :].tolist() for row in (short, long)]
        assert written == alone


def test_sampling_follows_the_seed():
    model, tokens = tiny_model(), some_tokens()
    options = {"max_new_tokens": 20, "do_sample": True, "temperature": 1.5}
    first = model.generate(tokens, seed=3, **options)
    gt.rand(5)
    assert gt.equal(first, model.generate(tokens, seed=3, **options))
    assert not gt.equal(first, model.generate(tokens, seed=4, **options))
    generator = gt.Generator().manual_seed(3)
    assert gt.equal(first, model.generate(tokens, generator=generator, **options))
    assert not gt.equal(first, model.generate(tokens, generator=generator, **options))
    assert gt.equal(first, model.generate(tokens, seed=3, use_cache=False, **options))
    gt.manual_seed(8)
    without = model.generate(tokens, **options)
    gt.manual_seed(8)
    assert gt.equal(without, model.generate(tokens, **options))


def test_sampling_with_one_choice_is_greedy():
    model, tokens = tiny_model(), some_tokens()
    greedy = model.generate(tokens, max_new_tokens=10).tolist()
    for options in ({"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}):
        assert model.generate(tokens, max_new_tokens=10, do_sample=True, **options).tolist() == greedy


def test_top_k_keeps_the_largest():
    logits = gt.tensor([[0.0, 3.0, 1.0, 2.0], [5.0, 5.0, 5.0, 1.0]])
    kept = keep_top_k(logits, 2).isfinite().tolist()
    # The third is as likely as the second: neither is preferred.
    assert kept == [[False, True, False, True], [True, True, True, False]]
    assert keep_top_k(logits, 4) is logits and keep_top_k(logits, 9) is logits
    assert_close(keep_top_k(logits, 3)[0, 1:], logits[0, 1:])


@pytest.mark.parametrize(
    "p, kept",
    [(0.05, [1]), (0.39, [1]), (0.4, [1]), (0.41, [1, 3]), (0.7, [1, 3]), (0.75, [1, 3, 0]), (0.95, [1, 3, 0, 2])],
)
def test_top_p_keeps_the_smallest_set_that_suffices(p, kept):
    shares = gt.tensor([[0.2, 0.4, 0.1, 0.3]])
    # A hair below each sum, so that rounding does not decide.
    assert keep_top_p(shares.log(), p - 1e-4).isfinite()[0].nonzero().flatten().tolist() == sorted(kept)


def test_top_p_of_one_keeps_all():
    logits = gt.randn(3, 9)
    assert keep_top_p(logits, 1.0) is logits


def test_draws_have_the_right_shares():
    shares = [0.05, 0.15, 0.3, 0.5]
    logits = gt.tensor(shares).log().expand(20_000, 4)
    generator = gt.Generator().manual_seed(1)

    def drawn(**options):
        settings = {"do_sample": True, "temperature": 1.0, "top_k": None, "top_p": None, **options}
        counts = collections.Counter(next_token(logits, generator=generator, **settings).tolist())
        return [counts[token] / 20_000 for token in range(4)]

    assert drawn() == pytest.approx(shares, abs=0.015)
    assert drawn(top_k=2) == pytest.approx([0, 0, 0.375, 0.625], abs=0.015)
    assert drawn(top_p=0.75) == pytest.approx([0, 0, 0.375, 0.625], abs=0.015)
    squared = [s * s for s in shares]
    assert drawn(temperature=0.5) == pytest.approx([s / sum(squared) for s in squared], abs=0.015)
    # Temperature comes first: it sharpens what top_p then sums up.
    assert drawn(temperature=0.25, top_p=0.85) == pytest.approx([0, 0, 0, 1], abs=0.0)


def end_of(row, prompt, end):
    """Where a row ends: behind the first end token that was written."""
    return row.index(end, prompt) + 1 if end in row[prompt:] else len(row)


@pytest.mark.parametrize("count", [6, 16, 40])
def test_rows_end_at_the_end_token(count):
    model, tokens = tiny_model(), some_tokens(batch=3)
    free = model.generate(tokens, max_new_tokens=count).tolist()
    for end in sorted({0} | {token for row in free for token in row[7:]})[:6]:
        stops = [end_of(row, 7, end) for row in free]
        # Zero pads, and is among the end tokens that are tried.
        expected = [(row[:stop] + [0] * len(row))[: max(stops)] for row, stop in zip(free, stops)]
        written = model.generate(tokens, max_new_tokens=count, eos_token_id=end, pad_token_id=0).tolist()
        assert written == expected, f"end {end}"


def test_all_rows_ended_stops_the_loop():
    model, tokens = tiny_model(), some_tokens(batch=2)
    first = model.generate(tokens, max_new_tokens=1)[:, -1].tolist()
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    written = model.generate(tokens, max_new_tokens=100, eos_token_id=first, pad_token_id=0)
    assert written.shape == (2, 8) and written[:, -1].tolist() == first
    assert len(calls) < 40


def test_end_tokens_come_from_the_configuration():
    model, tokens = tiny_model(), some_tokens(batch=1)
    following = model.generate(tokens, max_new_tokens=1)[0, -1].item()
    model.config.eos_token_id = following
    assert model.generate(tokens, max_new_tokens=9).shape == (1, 8)
    model.config.eos_token_id = [39 - following, following]
    assert model.generate(tokens, max_new_tokens=9).shape == (1, 8)


def test_modes_are_left_as_they_were():
    model = tiny_model()
    model.train()
    model.generate(some_tokens(), max_new_tokens=1)
    assert model.training
    model.eval()
    out = model.generate(some_tokens(), max_new_tokens=1)
    assert not model.training and not out.requires_grad and gt.is_grad_enabled()


def test_lists_and_narrow_integers_are_taken():
    model = tiny_model()
    assert model.generate([[1, 2, 3]], max_new_tokens=2).shape == (1, 5)
    written = model.generate(gt.tensor([[1, 2, 3]], dtype=gt.int32), max_new_tokens=2)
    assert written.dtype == gt.int64
    assert model.generate([[1, 2]], max_new_tokens=0).tolist() == [[1, 2]]


def test_shapes_of_a_decoding_step_repeat():
    """What generates token after token is planned once, not once a token."""
    model, tokens = tiny_model(), some_tokens(batch=1, count=4)
    model.generate(tokens, max_new_tokens=40)

    def misses():
        gt.synchronize()
        return sum(worker["plan_misses"] for worker in gt.debug.get_worker_stats().values())

    before = misses()
    model.generate(tokens, max_new_tokens=40)
    assert misses() - before < 10


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"input_ids": gt.tensor([1, 2])}, ValueError, r"\[batch, tokens\].*\(2,\)"),
        ({"input_ids": gt.zeros(1, 0, dtype=gt.int64)}, ValueError, "at least one token"),
        ({"input_ids": gt.ones(1, 2)}, TypeError, "must be integers, not gt.float32"),
        ({"max_new_tokens": -1}, ValueError, "max_new_tokens"),
        ({"max_new_tokens": 1.5}, ValueError, "max_new_tokens"),
        ({"do_sample": True, "temperature": 0.0}, ValueError, "temperature must be positive"),
        ({"do_sample": True, "temperature": -1.0}, ValueError, "temperature must be positive"),
        ({"do_sample": True, "top_k": -3}, ValueError, "top_k"),
        ({"do_sample": True, "top_p": 0.0}, ValueError, "top_p"),
        ({"do_sample": True, "top_p": 1.1}, ValueError, "top_p"),
        ({"seed": 1, "generator": gt.Generator()}, ValueError, "not both"),
        ({"attention_mask": gt.ones(2, 3)}, ValueError, r"\(2, 3\), but input_ids has shape \(2, 7\)"),
        ({"beams": 3}, TypeError, "beams"),
    ],
)
def test_wrong_use(options, error, message):
    with pytest.raises(error, match=message):
        tiny_model().generate(**{"input_ids": some_tokens(), **options})
