"""Training programs as PyTorch users write them, run on GT and, when the losses are recorded, on PyTorch.

A program takes the module under test under the name `torch` and returns numbers: losses step by step, sometimes others.
TRAINING-1: parameters and data come from NumPy, not from the module's own random stream, so both start from the same.
TRAINING-2: nothing random is left in the numbers: dropout is 0 or in evaluation, samples are drawn greedily.
"""

from __future__ import annotations

import copy
import inspect
import io
import math
import os
import tempfile
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

PROGRAMS: dict[str, Any] = {}


def program(function: Any) -> Any:
    PROGRAMS[function.__name__] = function
    return function


def numbers(torch: Any, seed: int, *shape: int) -> Any:
    return torch.from_numpy(np.random.RandomState(seed).randn(*shape).astype(np.float32))


def classes(torch: Any, seed: int, count: int, *shape: int) -> Any:
    return torch.from_numpy(np.random.RandomState(seed).randint(0, count, shape).astype(np.int64))


def start_from(torch: Any, model: Any, seed: int = 0, scale: float = 0.3) -> Any:
    """Fills the parameters from NumPy."""
    rng = np.random.RandomState(seed)
    with torch.no_grad():
        for _, p in sorted(model.named_parameters()):
            p.copy_(torch.from_numpy((rng.randn(*p.shape) * scale).astype(np.float32)))
    return model


# --- image classifiers -----------------------------------------------------------------------------------------------


@program
def mlp_on_digits(torch: Any) -> list[float]:
    nn, F, optim = torch.nn, torch.nn.functional, torch.optim

    class Net(nn.Module):
        def __init__(self):
            super(Net, self).__init__()
            self.fc1 = nn.Linear(28 * 28, 64)
            self.fc2 = nn.Linear(64, 10)
            self.dropout = nn.Dropout(0.25)

        def forward(self, x):
            x = torch.flatten(x, 1)
            x = F.relu(self.fc1(x))
            x = self.dropout(x)
            return F.log_softmax(self.fc2(x), dim=1)

    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = start_from(torch, Net(), scale=0.05).to(device)
    model.eval()
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    losses = []
    for epoch in range(1, 4):
        for batch_idx in range(3):
            data, target = numbers(torch, batch_idx, 16, 1, 28, 28), classes(torch, batch_idx, 10, 16)
            data, target = data.to(device), target.to(device)
            optimizer.zero_grad()
            output = model(data)
            loss = F.nll_loss(output, target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        test_loss = 0
        correct = 0
        with torch.no_grad():
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
        losses += [test_loss, float(correct)]
        scheduler.step()
    return losses


@program
def convnet_with_batchnorm(torch: Any) -> list[float]:
    nn = torch.nn
    model = nn.Sequential(
        OrderedDict(
            [
                ("conv1", nn.Conv2d(3, 8, kernel_size=3, padding=1, bias=False)),
                ("bn1", nn.BatchNorm2d(8)),
                ("relu1", nn.ReLU(inplace=True)),
                ("pool1", nn.MaxPool2d(2)),
                ("conv2", nn.Conv2d(8, 12, 3, stride=2, padding=1, groups=4)),
                ("bn2", nn.BatchNorm2d(12, momentum=0.3)),
                ("act", nn.LeakyReLU(0.1, inplace=True)),
                ("pool", nn.AdaptiveAvgPool2d((1, 1))),
                ("flat", nn.Flatten()),
                ("fc", nn.Linear(12, 5)),
            ]
        )
    )
    start_from(torch, model)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1, weight=torch.tensor([1.0, 2.0, 1.0, 0.5, 1.0]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    losses = []
    model.train()
    for step in range(8):
        x, y = numbers(torch, step % 2, 6, 3, 16, 16), classes(torch, step % 2, 5, 6)
        outputs = model(x)
        loss = criterion(outputs, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.inference_mode():
        _, predicted = torch.max(model(x).data, 1)
        losses.append(float((predicted == y).sum().item()))
        losses.append(model(x).softmax(-1).max().item())
    losses += model.bn1.running_mean.tolist() + model.bn2.running_var.tolist()
    losses.append(float(model.bn1.num_batches_tracked))
    return losses


@program
def resnet_with_blocks(torch: Any) -> list[float]:
    nn = torch.nn

    def conv3x3(cin, cout, stride=1):
        return nn.Conv2d(cin, cout, kernel_size=3, stride=stride, padding=1, bias=False)

    class BasicBlock(nn.Module):
        expansion = 1

        def __init__(self, inplanes, planes, stride=1, downsample=None, norm_layer=None):
            super().__init__()
            norm_layer = norm_layer or nn.BatchNorm2d
            self.conv1 = conv3x3(inplanes, planes, stride)
            self.bn1 = norm_layer(planes)
            self.relu = nn.ReLU(inplace=True)
            self.conv2 = conv3x3(planes, planes)
            self.bn2 = norm_layer(planes)
            self.downsample = downsample

        def forward(self, x):
            identity = x
            out = self.relu(self.bn1(self.conv1(x)))
            out = self.bn2(self.conv2(out))
            if self.downsample is not None:
                identity = self.downsample(x)
            out += identity
            return self.relu(out)

    class ResNet(nn.Module):
        def __init__(self, layers, num_classes=4):
            super().__init__()
            self.inplanes = 8
            self.stem = nn.Sequential(conv3x3(3, 8), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
            self.layer1 = self._make_layer(8, layers[0])
            self.layer2 = self._make_layer(16, layers[1], stride=2)
            self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
            self.fc = nn.Linear(16, num_classes)
            for m in self.modules():
                if isinstance(m, nn.Conv2d):
                    nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                    nn.init.constant_(m.weight, 1)
                    nn.init.constant_(m.bias, 0)

        def _make_layer(self, planes, blocks, stride=1):
            downsample = None
            if stride != 1 or self.inplanes != planes:
                downsample = nn.Sequential(nn.Conv2d(self.inplanes, planes, 1, stride), nn.BatchNorm2d(planes))
            layers = [BasicBlock(self.inplanes, planes, stride, downsample)]
            self.inplanes = planes
            layers.extend(BasicBlock(planes, planes) for _ in range(1, blocks))
            return nn.Sequential(*layers)

        def forward(self, x):
            x = self.layer2(self.layer1(self.stem(x)))
            return self.fc(torch.flatten(self.avgpool(x), 1))

    model = start_from(torch, ResNet([1, 2]))
    decay, no_decay = [], []
    for name, p in model.named_parameters():
        (no_decay if p.ndim == 1 or name.endswith(".bias") else decay).append(p)
    optimizer = torch.optim.SGD(
        [{"params": decay, "weight_decay": 1e-2}, {"params": no_decay, "weight_decay": 0.0, "lr": 0.01}],
        lr=0.05,
        momentum=0.9,
    )
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=[0.1, 0.02], total_steps=6)
    losses = []
    for step in range(6):
        x, y = numbers(torch, step, 4, 3, 8, 8), classes(torch, step, 4, 4)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses += [loss.item(), *scheduler.get_last_lr()]
    return losses


# --- sequences -------------------------------------------------------------------------------------------------------


@program
def lstm_over_characters(torch: Any) -> list[float]:
    nn = torch.nn
    text = "hello world, this is a small text to learn from. "
    chars = sorted(set(text))
    stoi = {c: i for i, c in enumerate(chars)}
    data = torch.tensor([stoi[c] for c in text], dtype=torch.long)

    class CharLSTM(nn.Module):
        def __init__(self, vocab, hidden, layers):
            super().__init__()
            self.hidden, self.layers = hidden, layers
            self.encoder = nn.Embedding(vocab, hidden)
            self.rnn = nn.LSTM(hidden, hidden, layers, batch_first=True)
            self.decoder = nn.Linear(hidden, vocab)

        def forward(self, x, state):
            out, state = self.rnn(self.encoder(x), state)
            return self.decoder(out.contiguous().view(-1, self.hidden)), state

        def init_hidden(self, batch):
            weight = next(self.parameters())
            return (
                weight.new_zeros(self.layers, batch, self.hidden),
                weight.new_zeros(self.layers, batch, self.hidden),
            )

    model = start_from(torch, CharLSTM(len(chars), 16, 2))
    model.rnn.flatten_parameters()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    criterion = nn.CrossEntropyLoss()
    state = model.init_hidden(2)
    losses = []
    for step in range(6):
        start = step * 4
        x = torch.stack([data[start : start + 10], data[start + 5 : start + 15]])
        y = torch.stack([data[start + 1 : start + 11], data[start + 6 : start + 16]])
        state = tuple(h.detach() for h in state)
        model.zero_grad()
        output, state = model(x, state)
        loss = criterion(output, y.view(-1))
        loss.backward()
        total = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        losses += [loss.item(), float(total)]
    with torch.no_grad():
        token, state = data[:1].view(1, 1), model.init_hidden(1)
        for _ in range(5):
            output, state = model(token, state)
            token = output.argmax(-1, keepdim=True)
            losses.append(float(token.item()))
    return losses


@program
def gru_on_packed_sequences(torch: Any) -> list[float]:
    nn = torch.nn
    from importlib import import_module

    rnn_utils = import_module(torch.__name__ + ".nn.utils.rnn")
    lengths = [5, 3, 6, 1]
    sequences = [numbers(torch, i, n, 4) for i, n in enumerate(lengths)]
    padded = rnn_utils.pad_sequence(sequences, batch_first=True)
    rnn = start_from(torch, nn.GRU(4, 6, num_layers=2, bidirectional=True, batch_first=True))
    head = start_from(torch, nn.Linear(12, 3), 1)
    optimizer = torch.optim.RMSprop(list(rnn.parameters()) + list(head.parameters()), lr=1e-2)
    losses = []
    for _ in range(4):
        packed = rnn_utils.pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)
        out, hidden = rnn(packed)
        unpacked, sizes = rnn_utils.pad_packed_sequence(out, batch_first=True)
        last = unpacked[torch.arange(4), sizes - 1]
        loss = nn.functional.cross_entropy(head(last), torch.tensor([0, 1, 2, 1])) + hidden.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses + [float(n) for n in sizes]


@program
def seq2seq_with_attention(torch: Any) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(12, 8, padding_idx=0)
            self.gru = nn.GRU(8, 8)

        def forward(self, x, hidden):
            return self.gru(self.embedding(x).view(1, 1, -1), hidden)

    class Decoder(nn.Module):
        def __init__(self, max_length=6):
            super().__init__()
            self.max_length = max_length
            self.embedding = nn.Embedding(12, 8)
            self.attn = nn.Linear(16, max_length)
            self.attn_combine = nn.Linear(16, 8)
            self.gru = nn.GRU(8, 8)
            self.out = nn.Linear(8, 12)

        def forward(self, x, hidden, encoder_outputs):
            embedded = self.embedding(x).view(1, 1, -1)
            weights = F.softmax(self.attn(torch.cat((embedded[0], hidden[0]), 1)), dim=1)
            applied = torch.bmm(weights.unsqueeze(0), encoder_outputs.unsqueeze(0))
            output = F.relu(self.attn_combine(torch.cat((embedded[0], applied[0]), 1)).unsqueeze(0))
            output, hidden = self.gru(output, hidden)
            return F.log_softmax(self.out(output[0]), dim=1), hidden, weights

    encoder, decoder = start_from(torch, Encoder()), start_from(torch, Decoder(), 1)
    encoder_optimizer = torch.optim.SGD(encoder.parameters(), lr=0.05)
    decoder_optimizer = torch.optim.SGD(decoder.parameters(), lr=0.05)
    criterion = nn.NLLLoss()
    source, target = classes(torch, 0, 12, 5, 1), classes(torch, 1, 12, 4, 1)
    losses = []
    for _ in range(4):
        hidden = torch.zeros(1, 1, 8)
        encoder_optimizer.zero_grad()
        decoder_optimizer.zero_grad()
        outputs = torch.zeros(6, 8)
        for i in range(source.size(0)):
            out, hidden = encoder(source[i], hidden)
            outputs[i] = out[0, 0]
        loss = 0
        token = torch.tensor([[1]])
        for i in range(target.size(0)):
            out, hidden, _ = decoder(token, hidden, outputs)
            _, topi = out.topk(1)
            token = topi.squeeze().detach()
            loss += criterion(out, target[i])
        loss.backward()
        encoder_optimizer.step()
        decoder_optimizer.step()
        losses.append(loss.item() / target.size(0))
    return losses


# --- transformers ----------------------------------------------------------------------------------------------------


@program
def transformer_encoder_classifier(torch: Any) -> list[float]:
    nn = torch.nn

    class PositionalEncoding(nn.Module):
        def __init__(self, d_model, dropout=0.1, max_len=50):
            super().__init__()
            self.dropout = nn.Dropout(p=dropout)
            position = torch.arange(max_len).unsqueeze(1)
            div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
            pe = torch.zeros(max_len, 1, d_model)
            pe[:, 0, 0::2] = torch.sin(position * div_term)
            pe[:, 0, 1::2] = torch.cos(position * div_term)
            self.register_buffer("pe", pe)

        def forward(self, x):
            return self.dropout(x + self.pe[: x.size(0)])

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(20, 16)
            self.pos = PositionalEncoding(16, dropout=0.0)
            layer = nn.TransformerEncoderLayer(
                16, 4, dim_feedforward=32, dropout=0.0, activation="gelu", norm_first=True
            )
            self.encoder = nn.TransformerEncoder(layer, num_layers=2, norm=nn.LayerNorm(16), enable_nested_tensor=False)
            self.head = nn.Linear(16, 3)

        def forward(self, tokens, padding):
            x = self.pos(self.embed(tokens) * math.sqrt(16))
            x = self.encoder(x, src_key_padding_mask=padding)
            keep = (~padding).t().unsqueeze(-1)
            return self.head((x * keep).sum(0) / keep.sum(0))

    model = start_from(torch, Classifier(), scale=0.15)
    for p in model.parameters():
        if p.dim() > 1:
            assert p.requires_grad
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98), eps=1e-9)
    warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=lambda s: min((s + 1) / 3, 1.0))
    tokens = classes(torch, 3, 20, 7, 5)
    padding = torch.zeros(5, 7, dtype=torch.bool)
    padding[1, 4:] = True
    padding[3, 2:] = True
    y = classes(torch, 4, 3, 5)
    losses = []
    for _ in range(6):
        loss = nn.functional.cross_entropy(model(tokens, padding), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        warm.step()
        losses += [loss.item(), warm.get_last_lr()[0]]
    model.eval()
    with torch.no_grad():
        losses.append(model(tokens, padding).sum().item())
    return losses


@program
def transformer_translation(torch: Any) -> list[float]:
    nn = torch.nn
    model = nn.Transformer(
        16, 2, num_encoder_layers=1, num_decoder_layers=2, dim_feedforward=24, dropout=0.0, batch_first=True
    )
    start_from(torch, model, scale=0.2)
    embed, out = start_from(torch, nn.Embedding(11, 16), 1), start_from(torch, nn.Linear(16, 11), 2)
    params = [p for m in (model, embed, out) for p in m.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(params, lr=1e-3, betas=(0.9, 0.98), eps=1e-9)
    src, tgt = classes(torch, 1, 11, 3, 6), classes(torch, 2, 11, 3, 5)
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    losses = []
    for _ in range(4):
        logits = out(model(embed(src), embed(tgt[:, :-1]), tgt_mask=mask))
        loss = nn.CrossEntropyLoss(ignore_index=0)(logits.reshape(-1, 11), tgt[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(params, max_norm=1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


@program
def nano_gpt(torch: Any) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    class LayerNorm(nn.Module):
        def __init__(self, ndim, bias):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(ndim))
            self.bias = nn.Parameter(torch.zeros(ndim)) if bias else None

        def forward(self, input):
            return F.layer_norm(input, self.weight.shape, self.weight, self.bias, 1e-5)

    class CausalSelfAttention(nn.Module):
        def __init__(self, config):
            super().__init__()
            assert config.n_embd % config.n_head == 0
            self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
            self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
            self.attn_dropout = nn.Dropout(config.dropout)
            self.resid_dropout = nn.Dropout(config.dropout)
            self.n_head, self.n_embd, self.dropout = config.n_head, config.n_embd, config.dropout
            self.flash = hasattr(torch.nn.functional, "scaled_dot_product_attention") and config.flash
            if not self.flash:
                self.register_buffer(
                    "bias",
                    torch.tril(torch.ones(config.block_size, config.block_size)).view(
                        1, 1, config.block_size, config.block_size
                    ),
                )

        def forward(self, x):
            B, T, C = x.size()
            q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
            k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
            q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
            v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
            if self.flash:
                y = torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, attn_mask=None, dropout_p=self.dropout if self.training else 0, is_causal=True
                )
            else:
                att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
                att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
                att = F.softmax(att, dim=-1)
                att = self.attn_dropout(att)
                y = att @ v
            y = y.transpose(1, 2).contiguous().view(B, T, C)
            return self.resid_dropout(self.c_proj(y))

    class MLP(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
            self.gelu = nn.GELU()
            self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)
            self.dropout = nn.Dropout(config.dropout)

        def forward(self, x):
            return self.dropout(self.c_proj(self.gelu(self.c_fc(x))))

    class Block(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.ln_1 = LayerNorm(config.n_embd, bias=config.bias)
            self.attn = CausalSelfAttention(config)
            self.ln_2 = LayerNorm(config.n_embd, bias=config.bias)
            self.mlp = MLP(config)

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    @dataclass
    class GPTConfig:
        block_size: int = 12
        vocab_size: int = 17
        n_layer: int = 2
        n_head: int = 2
        n_embd: int = 16
        dropout: float = 0.0
        bias: bool = False
        flash: bool = True

    class GPT(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.config = config
            self.transformer = nn.ModuleDict(
                dict(
                    wte=nn.Embedding(config.vocab_size, config.n_embd),
                    wpe=nn.Embedding(config.block_size, config.n_embd),
                    drop=nn.Dropout(config.dropout),
                    h=nn.ModuleList([Block(config) for _ in range(config.n_layer)]),
                    ln_f=LayerNorm(config.n_embd, bias=config.bias),
                )
            )
            self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
            self.transformer.wte.weight = self.lm_head.weight
            self.apply(self._init_weights)
            for pn, p in self.named_parameters():
                if pn.endswith("c_proj.weight"):
                    torch.nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * config.n_layer))

        def get_num_params(self, non_embedding=True):
            n_params = sum(p.numel() for p in self.parameters())
            if non_embedding:
                n_params -= self.transformer.wpe.weight.numel()
            return n_params

        def _init_weights(self, module):
            if isinstance(module, nn.Linear):
                torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
                if module.bias is not None:
                    torch.nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)

        def forward(self, idx, targets=None):
            device = idx.device
            b, t = idx.size()
            assert t <= self.config.block_size
            pos = torch.arange(0, t, dtype=torch.long, device=device)
            x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
            for block in self.transformer.h:
                x = block(x)
            x = self.transformer.ln_f(x)
            if targets is not None:
                logits = self.lm_head(x)
                loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
            else:
                logits = self.lm_head(x[:, [-1], :])
                loss = None
            return logits, loss

        def crop_block_size(self, block_size):
            self.config.block_size = block_size
            self.transformer.wpe.weight = nn.Parameter(self.transformer.wpe.weight[:block_size])
            for block in self.transformer.h:
                if hasattr(block.attn, "bias"):
                    block.attn.bias = block.attn.bias[:, :, :block_size, :block_size]

        def configure_optimizers(self, weight_decay, learning_rate, betas, device_type):
            param_dict = {pn: p for pn, p in self.named_parameters()}
            param_dict = {pn: p for pn, p in param_dict.items() if p.requires_grad}
            decay_params = [p for n, p in param_dict.items() if p.dim() >= 2]
            nodecay_params = [p for n, p in param_dict.items() if p.dim() < 2]
            optim_groups = [
                {"params": decay_params, "weight_decay": weight_decay},
                {"params": nodecay_params, "weight_decay": 0.0},
            ]
            fused_available = "fused" in inspect.signature(torch.optim.AdamW).parameters
            use_fused = fused_available and device_type == "cuda"
            extra_args = dict(fused=True) if use_fused else dict()
            return torch.optim.AdamW(optim_groups, lr=learning_rate, betas=betas, **extra_args)

        @torch.no_grad()
        def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
            for _ in range(max_new_tokens):
                idx_cond = idx if idx.size(1) <= self.config.block_size else idx[:, -self.config.block_size :]
                logits, _ = self(idx_cond)
                logits = logits[:, -1, :] / temperature
                if top_k is not None:
                    v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                    logits[logits < v[:, [-1]]] = -float("Inf")
                probs = F.softmax(logits, dim=-1)
                idx_next = torch.multinomial(probs, num_samples=1)
                idx = torch.cat((idx, idx_next), dim=1)
            return idx

    losses = []
    for flash in (True, False):
        model = GPT(GPTConfig(flash=flash))
        losses.append(float(model.get_num_params()))
        start_from(torch, model, scale=0.1)
        assert model.transformer.wte.weight is model.lm_head.weight
        optimizer = model.configure_optimizers(0.1, 1e-2, (0.9, 0.95), "cpu")
        losses.append(float(sum(len(g["params"]) for g in optimizer.param_groups)))

        def get_lr(it):
            if it < 2:
                return 1e-2 * (it + 1) / 3
            coeff = 0.5 * (1.0 + math.cos(math.pi * (it - 2) / 8))
            return 1e-3 + coeff * 9e-3

        text = classes(torch, 7, 17, 200)
        for it in range(6):
            for param_group in optimizer.param_groups:
                param_group["lr"] = get_lr(it)
            for micro_step in range(2):
                ix = [5 * it + micro_step, 30 + it, 90 + 2 * it]
                x = torch.stack([text[i : i + 12] for i in ix])
                y = torch.stack([text[i + 1 : i + 13] for i in ix])
                _, loss = model(x, y)
                (loss / 2).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.item())
        losses += [float(t) for t in model.generate(x[:1, :3], 12, temperature=0.8, top_k=1)[0].tolist()]
        model.crop_block_size(8)
        losses.append(float(model(x[:, :8], y[:, :8])[1]))
        losses.append(float(len(model.state_dict())))
    return losses


@program
def llama_style(torch: Any) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    class RMSNorm(nn.Module):
        def __init__(self, dim, eps=1e-6):
            super().__init__()
            self.eps = eps
            self.weight = nn.Parameter(torch.ones(dim))

        def _norm(self, x):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

        def forward(self, x):
            return self._norm(x.float()).type_as(x) * self.weight

    def rotate_half(x):
        x1 = x[..., : x.shape[-1] // 2]
        x2 = x[..., x.shape[-1] // 2 :]
        return torch.cat((-x2, x1), dim=-1)

    class Rotary(nn.Module):
        def __init__(self, dim, base=10000):
            super().__init__()
            inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
            self.register_buffer("inv_freq", inv_freq, persistent=False)

        @torch.no_grad()
        def forward(self, x, position_ids):
            inv = self.inv_freq[None, :, None].float().expand(position_ids.shape[0], -1, 1)
            freqs = (inv @ position_ids[:, None, :].float()).transpose(1, 2)
            emb = torch.cat((freqs, freqs), dim=-1)
            return emb.cos().to(dtype=x.dtype), emb.sin().to(dtype=x.dtype)

    def repeat_kv(x, n_rep):
        b, h, t, d = x.shape
        return x[:, :, None, :, :].expand(b, h, n_rep, t, d).reshape(b, h * n_rep, t, d)

    class Attention(nn.Module):
        def __init__(self, dim, heads, kv_heads):
            super().__init__()
            self.heads, self.kv_heads, self.head_dim = heads, kv_heads, dim // heads
            self.q_proj = nn.Linear(dim, heads * self.head_dim, bias=False)
            self.k_proj = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
            self.v_proj = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
            self.o_proj = nn.Linear(heads * self.head_dim, dim, bias=False)

        def forward(self, x, cos, sin, mask):
            b, t, _ = x.shape
            shape = (b, t, -1, self.head_dim)
            q = self.q_proj(x).view(shape).transpose(1, 2)
            k = self.k_proj(x).view(shape).transpose(1, 2)
            v = self.v_proj(x).view(*shape).transpose(1, 2)
            cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
            q = q * cos + rotate_half(q) * sin
            k = k * cos + rotate_half(k) * sin
            k, v = repeat_kv(k, self.heads // self.kv_heads), repeat_kv(v, self.heads // self.kv_heads)
            weights = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.head_dim) + mask
            weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
            return self.o_proj(torch.matmul(weights, v).transpose(1, 2).reshape(b, t, -1))

    class Block(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.norm1, self.norm2 = RMSNorm(dim), RMSNorm(dim)
            self.attn = Attention(dim, 4, 2)
            self.gate, self.up, self.down = (
                nn.Linear(dim, 24, bias=False),
                nn.Linear(dim, 24, bias=False),
                nn.Linear(24, dim, bias=False),
            )

        def forward(self, x, cos, sin, mask):
            x = x + self.attn(self.norm1(x), cos, sin, mask)
            h = self.norm2(x)
            return x + self.down(F.silu(self.gate(h)) * self.up(h))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(19, 16)
            self.rotary = Rotary(4)
            self.layers = nn.ModuleList(Block(16) for _ in range(2))
            self.norm = RMSNorm(16)

        def forward(self, ids):
            x = self.embed(ids)
            t = ids.shape[1]
            mask = torch.full((t, t), torch.finfo(x.dtype).min).triu(1)[None, None]
            cos, sin = self.rotary(x, torch.arange(t)[None])
            for layer in self.layers:
                x = layer(x, cos, sin, mask)
            return F.linear(self.norm(x), self.embed.weight)

    model = start_from(torch, Llama(), scale=0.2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.1)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5, eta_min=1e-4)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=2)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], milestones=[2])
    ids = classes(torch, 5, 19, 3, 9)
    losses = []
    for _ in range(6):
        logits = model(ids)
        loss = F.cross_entropy(logits[:, :-1].reshape(-1, 19), ids[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        losses += [loss.item(), optimizer.param_groups[0]["lr"]]
    return losses + [float("rotary.inv_freq" in model.state_dict())]


@program
def vision_transformer(torch: Any) -> list[float]:
    nn = torch.nn

    class ViT(nn.Module):
        def __init__(self, patch=4, dim=12, classes=3):
            super().__init__()
            self.patch = nn.Conv2d(3, dim, patch, patch)
            self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
            self.pos_embed = nn.Parameter(torch.empty(1, 5, dim).normal_(std=0.02))
            self.norm = nn.LayerNorm(dim, eps=1e-6)
            self.attn = nn.MultiheadAttention(dim, 3, batch_first=True)
            self.mlp = nn.Sequential(nn.Linear(dim, 24), nn.GELU(approximate="tanh"), nn.Linear(24, dim))
            self.head = nn.Linear(dim, classes)

        def forward(self, x):
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1) + self.pos_embed
            y = self.norm(x)
            attended, self.weights = self.attn(y, y, y, need_weights=True)
            x = x + attended
            x = x + self.mlp(self.norm(x))
            return self.head(x[:, 0])

    model = start_from(torch, ViT())
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-2)
    losses = []
    for step in range(4):
        loss = nn.CrossEntropyLoss()(model(numbers(torch, step, 4, 3, 8, 8)), classes(torch, step, 3, 4))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses += [loss.item(), model.weights[0, 0, 1].item()]
    return losses
