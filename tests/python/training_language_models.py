"""Language models as users write them: nanoGPT, Llama, adapters, experts."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import Any

from training_programs import classes, numbers, program, start_from


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
                {
                    "wte": nn.Embedding(config.vocab_size, config.n_embd),
                    "wpe": nn.Embedding(config.block_size, config.n_embd),
                    "drop": nn.Dropout(config.dropout),
                    "h": nn.ModuleList([Block(config) for _ in range(config.n_layer)]),
                    "ln_f": LayerNorm(config.n_embd, bias=config.bias),
                }
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
            param_dict = dict(self.named_parameters())
            param_dict = {pn: p for pn, p in param_dict.items() if p.requires_grad}
            decay_params = [p for n, p in param_dict.items() if p.dim() >= 2]
            nodecay_params = [p for n, p in param_dict.items() if p.dim() < 2]
            optim_groups = [
                {"params": decay_params, "weight_decay": weight_decay},
                {"params": nodecay_params, "weight_decay": 0.0},
            ]
            fused_available = "fused" in inspect.signature(torch.optim.AdamW).parameters
            use_fused = fused_available and device_type == "cuda"
            extra_args = {"fused": True} if use_fused else {}
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
        losses.append(float(model(x[:, :8], y[:, :8].contiguous())[1]))
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
def low_rank_adapters(torch: Any) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    class LoRALinear(nn.Module):
        def __init__(self, base, r=2, alpha=4):
            super().__init__()
            self.base = base
            for p in self.base.parameters():
                p.requires_grad = False
            self.lora_A = nn.Parameter(base.weight.new_empty(r, base.in_features))
            self.lora_B = nn.Parameter(torch.zeros(base.out_features, r))
            nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
            self.scaling = alpha / r

        def forward(self, x):
            return self.base(x) + (x @ self.lora_A.T @ self.lora_B.T) * self.scaling

        def merge(self):
            with torch.no_grad():
                self.base.weight += self.scaling * (self.lora_B @ self.lora_A)
            return self.base

    model = start_from(torch, nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)))
    for name, child in list(model.named_children()):
        if isinstance(child, nn.Linear):
            setattr(model, name, LoRALinear(child))
    start_from(torch, model, 3)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-2)
    before = model[0].base.weight.detach().clone()
    losses = [float(len(trainable)), float(sum(p.numel() for p in model.parameters()))]
    x, y = numbers(torch, 0, 10, 6), classes(torch, 0, 2, 10)
    for _ in range(5):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert torch.equal(before, model[0].base.weight)
    assert model[0].base.weight.grad is None
    lora_state = {k: v for k, v in model.state_dict().items() if "lora_" in k}
    losses.append(float(len(lora_state)))
    out = model(x)
    merged = nn.Sequential(*[m.merge() if isinstance(m, LoRALinear) else m for m in model])
    assert torch.allclose(out, merged(x), atol=1e-5)
    return losses


@program
def mixture_of_experts(torch: Any) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    class MoE(nn.Module):
        def __init__(self, dim, experts, k):
            super().__init__()
            self.k = k
            self.gate = nn.Linear(dim, experts, bias=False)
            self.experts = nn.ModuleList(
                [nn.Sequential(nn.Linear(dim, 12), nn.SiLU(), nn.Linear(12, dim)) for _ in range(experts)]
            )

        def forward(self, x):
            shape = x.shape
            x = x.view(-1, shape[-1])
            weights, selected = torch.topk(F.softmax(self.gate(x), dim=-1, dtype=torch.float), self.k, dim=-1)
            weights = weights / weights.sum(dim=-1, keepdim=True)
            results = torch.zeros_like(x)
            for i, expert in enumerate(self.experts):
                batch_idx, nth = torch.where(selected == i)
                results[batch_idx] += weights[batch_idx, nth, None] * expert(x[batch_idx])
            second = torch.zeros_like(x)
            for i, expert in enumerate(self.experts):
                rows, nth = (selected == i).nonzero(as_tuple=True)
                second.index_add_(0, rows, weights[rows, nth].unsqueeze(-1) * expert(x[rows]))
            assert torch.allclose(results, second, atol=1e-6)
            return results.view(shape)

    model = start_from(torch, MoE(6, 4, 2))
    optimizer = torch.optim.RAdam(model.parameters(), lr=1e-2)
    losses = []
    for step in range(4):
        x = numbers(torch, step, 2, 5, 6)
        loss = F.huber_loss(model(x), x.roll(1, -1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
