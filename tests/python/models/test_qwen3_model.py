"""The model itself: names, tying, masks, caches, wrong use."""

import copy
import pickle

import pytest
from tiny_models import some_tokens, tiny_config, tiny_model

import gt
from gt.models import KeyValueCache, Qwen3ForCausalLM, Qwen3Model
from gt.models.masks import attention_mask
from gt.testing import assert_close


def test_parameter_names_are_those_of_hugging_face():
    layer = [
        "self_attn.q_proj.weight",
        "self_attn.k_proj.weight",
        "self_attn.v_proj.weight",
        "self_attn.o_proj.weight",
        "self_attn.q_norm.weight",
        "self_attn.k_norm.weight",
        "mlp.gate_proj.weight",
        "mlp.up_proj.weight",
        "mlp.down_proj.weight",
        "input_layernorm.weight",
        "post_attention_layernorm.weight",
    ]
    expected = {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"}
    expected |= {f"model.layers.{i}.{name}" for i in range(2) for name in layer}
    assert set(tiny_model().state_dict()) == expected
    biased = set(tiny_model(attention_bias=True).state_dict()) - expected
    assert biased == {f"model.layers.{i}.self_attn.{p}_proj.bias" for i in range(2) for p in "qkvo"}


def test_tied_embeddings_are_one_parameter():
    model = tiny_model(tie_word_embeddings=True)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert "lm_head.weight" not in dict(model.named_parameters())
    untied = tiny_model()
    assert untied.num_parameters() - model.num_parameters() == 40 * 16
    assert copy.deepcopy(model).lm_head.weight.shape == (40, 16)


def test_initialisation():
    gt.manual_seed(0)
    model = Qwen3ForCausalLM(tiny_config(vocab_size=3000, initializer_range=0.02, attention_bias=True, pad_token_id=3))
    weight = model.model.embed_tokens.weight.detach()
    assert abs(weight.std().item() - 0.02) < 1e-3 and abs(weight.mean().item()) < 1e-3
    assert weight[3].abs().max().item() == 0.0
    assert model.model.layers[0].self_attn.q_proj.bias.abs().max().item() == 0.0
    assert model.model.norm.weight.tolist() == [1.0] * 16


def test_outputs_by_name_key_and_number():
    model, tokens = tiny_model(), some_tokens()
    out = model(tokens, labels=tokens)
    assert out.loss is out["loss"] is out[0] and out.logits is out[1]
    assert out.keys() == ["loss", "logits"] and out.past_key_values is None
    with pytest.raises(KeyError):
        out["past_key_values"]
    out = model(tokens)
    assert out.loss is None and out[0] is out.logits
    with gt.no_grad():
        assert model(tokens).past_key_values.get_seq_length() == 7
        assert model(tokens, use_cache=False).past_key_values is None


def test_labels_are_shifted_and_minus_100_is_left_out():
    model, tokens = tiny_model(), some_tokens()
    labels = tokens.clone()
    labels[0, :3] = -100
    out = model(tokens, labels=labels)
    shares = out.logits.log_softmax(-1)
    wanted = [
        -shares[row, place - 1, token].item()
        for row, line in enumerate(labels.tolist())
        for place, token in enumerate(line)
        if place > 0 and token != -100
    ]
    assert out.loss.item() == pytest.approx(sum(wanted) / len(wanted), rel=1e-5)
    assert model(tokens, labels=tokens.int()).loss.item() == pytest.approx(model(tokens, labels=tokens).loss.item())


def test_logits_to_keep():
    model, tokens = tiny_model(), some_tokens()
    assert_close(model(tokens, logits_to_keep=2).logits, model(tokens).logits[:, -2:])


def test_embeddings_instead_of_tokens():
    model, tokens = tiny_model(), some_tokens()
    vectors = model.get_input_embeddings()(tokens)
    assert_close(model(inputs_embeds=vectors).logits, model(tokens).logits)


def test_later_tokens_do_not_count():
    model, tokens = tiny_model(), some_tokens()
    changed = tokens.clone()
    changed[:, 5:] = 9
    assert_close(model(tokens).logits[:, :5], model(changed).logits[:, :5])


def test_padding_on_the_right_does_not_change_real_tokens():
    model, tokens = tiny_model(), some_tokens()
    mask = gt.ones(2, 7)
    mask[1, 4:] = 0
    out = model(tokens, attention_mask=mask)
    assert_close(out.logits[1, :4], model(tokens[1:, :4]).logits[0], rtol=1e-5, atol=1e-5)
    out.logits.sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters())


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("split", [[1] * 9, [4, 5], [1, 7, 1], [8, 1]])
def test_cache_in_pieces_equals_the_whole(split, window):
    changes = {} if window is None else {"use_sliding_window": True, "sliding_window": window, "max_window_layers": 0}
    model, tokens = tiny_model(**changes).eval(), some_tokens(count=9)
    cache, parts = None, []
    with gt.no_grad():
        for part in tokens.split(split, dim=1):
            out = model(part, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            parts.append(out.logits)
        assert cache.get_seq_length() == 9
        assert_close(gt.cat(parts, dim=1), model(tokens, use_cache=False).logits, rtol=1e-4, atol=1e-5)


def test_cache_grows_beyond_its_first_buffers():
    model, tokens = tiny_model().eval(), some_tokens(batch=1, count=100)
    with gt.no_grad():
        cache = KeyValueCache()
        first = model(tokens[:, :60], past_key_values=cache).logits
        assert cache.capacity == 64
        rest = [model(tokens[:, i : i + 1], past_key_values=cache).logits for i in range(60, 100)]
        assert cache.capacity == 128 and cache.get_seq_length() == 100
        whole = model(tokens, use_cache=False).logits
        assert_close(gt.cat([first, *rest], dim=1), whole, rtol=1e-4, atol=1e-4)


def test_cache_can_be_cropped_and_used_again():
    model, tokens = tiny_model().eval(), some_tokens(count=8)
    with gt.no_grad():
        cache = model(tokens).past_key_values
        cache.crop(5)
        again = model(tokens[:, 5:], past_key_values=cache).logits
        assert_close(again, model(tokens, use_cache=False).logits[:, 5:], rtol=1e-4, atol=1e-5)
        cache.crop(-2)
        assert cache.get_seq_length() == 6 and len(cache) == 2
        cache.reset()
        assert_close(model(tokens, past_key_values=cache).logits, model(tokens, use_cache=False).logits)


def test_cache_with_another_batch_is_refused():
    model = tiny_model()
    with gt.no_grad():
        cache = model(some_tokens(batch=2)).past_key_values
        with pytest.raises(ValueError, match="batch of 2, but the new tokens have a batch of 3"):
            model(some_tokens(batch=3), past_key_values=cache)


def test_masks():
    assert attention_mask(None, 0, 4, 4, None) is None
    assert attention_mask(None, 0, 4, 4, 4) is None
    assert attention_mask(None, 0, 3, 3, 2).int().tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    assert attention_mask(None, 2, 1, 5, None).int().tolist() == [[1, 1, 1, 0, 0]]
    padded = attention_mask(gt.tensor([[0, 0, 1, 1]]), 0, 4, 4, None).int().tolist()
    assert padded == [[[[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]]]
    padded = attention_mask(gt.tensor([[1, 1, 0]]), 0, 3, 3, None).int().tolist()
    assert padded == [[[[1, 0, 0], [1, 1, 0], [1, 1, 0]]]]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda m: m(), "give either input_ids or inputs_embeds"),
        (lambda m: m(gt.tensor([1, 2])), r"input_ids must be \[batch, tokens\]; the shape is \(2,\)"),
        (lambda m: m(some_tokens(), attention_mask=gt.ones(2, 5)), r"= \(2, 7\).*the shape is \(2, 5\)"),
        (
            lambda m: m(some_tokens(), labels=gt.zeros(2, 5).long()),
            r"labels have shape \(2, 5\), but the logits have \(2, 7\)",
        ),
    ],
)
def test_wrong_use(call, message):
    with pytest.raises(ValueError, match=message):
        call(tiny_model())


def test_dropout_of_attention_only_in_training():
    model, tokens = tiny_model(attention_dropout=0.5), some_tokens()
    model.eval()
    assert_close(model(tokens).logits, model(tokens).logits)
    model.train()
    assert not gt.allclose(model(tokens).logits, model(tokens).logits)


@pytest.mark.parametrize("name", ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "swish", "tanh"])
def test_other_activations(name):
    assert tiny_model(hidden_act=name)(some_tokens()).logits.shape == (2, 7, 40)


def test_a_model_in_half_precision():
    model = tiny_model().to(gt.bfloat16)
    out = model(some_tokens(), labels=some_tokens())
    assert out.logits.dtype == gt.bfloat16 and out.loss.dtype == gt.float32
    out.loss.backward()
    assert model.lm_head.weight.grad.dtype == gt.bfloat16
    with gt.no_grad():
        assert model.generate(some_tokens(), max_new_tokens=3).shape == (2, 10)


def test_the_headless_model():
    out = Qwen3Model(tiny_config())(some_tokens())
    assert out.last_hidden_state.shape == (2, 7, 16) and out[0] is out.last_hidden_state


def test_a_forward_pass_reads_nothing():
    model, tokens = tiny_model(), some_tokens()

    def round_trips():
        gt.synchronize()
        return sum(worker["round_trips"] for worker in gt.debug.get_worker_stats().values())

    model(tokens, labels=tokens, attention_mask=gt.ones(2, 7)).loss.backward()
    before = round_trips()
    model(tokens, labels=tokens, attention_mask=gt.ones(2, 7)).loss.backward()
    model.generate(tokens, max_new_tokens=5, do_sample=True, top_k=5, top_p=0.9)
    assert round_trips() == before


@pytest.mark.parametrize("mode", [gt.no_grad, gt.inference_mode])
def test_training_after_inference(mode):
    """What is kept from a run without gradients (the tables of positions) serves one with them."""
    model, tokens = tiny_model(), some_tokens()
    with mode():
        model(tokens)
    model(tokens, labels=tokens).loss.backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_stand_alone(copied):
    model, tokens = tiny_model(tie_word_embeddings=True), some_tokens()
    before = model(tokens).logits
    other = copied(model)
    assert other.lm_head.weight is other.model.embed_tokens.weight
    assert_close(other(tokens).logits, before)
    with gt.no_grad():
        other.lm_head.weight.zero_()
    assert_close(model(tokens).logits, before)


def test_positions_beyond_the_first_table():
    model, tokens = tiny_model().eval(), some_tokens(batch=1, count=300)
    with gt.no_grad():
        whole = model(tokens, use_cache=False).logits
        by_number = model(tokens, position_ids=gt.arange(300).unsqueeze(0), use_cache=False).logits
    assert_close(whole, by_number, rtol=1e-4, atol=1e-4)
