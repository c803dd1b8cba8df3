"""Programs over sequences: recurrent networks and transformers."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

from training_programs import classes, numbers, program, start_from


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
