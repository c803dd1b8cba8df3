"""Programs about the loop itself: accumulation, clipping, closures, hooks, mixed precision, losses of all kinds."""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from typing import Any

from training_programs import classes, numbers, program, start_from


@program
def variational_autoencoder(torch: Any) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc21, self.fc22 = nn.Linear(20, 12), nn.Linear(12, 3), nn.Linear(12, 3)
            self.fc3, self.fc4 = nn.Linear(3, 12), nn.Linear(12, 20)

        def encode(self, x):
            h1 = F.relu(self.fc1(x))
            return self.fc21(h1), self.fc22(h1)

        def reparameterize(self, mu, logvar, eps):
            std = torch.exp(0.5 * logvar)
            assert torch.randn_like(std).shape == std.shape
            return mu + eps * std

        def decode(self, z):
            return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

        def forward(self, x, eps):
            mu, logvar = self.encode(x.view(-1, 20))
            return self.decode(self.reparameterize(mu, logvar, eps)), mu, logvar

    def loss_function(recon_x, x, mu, logvar):
        bce = F.binary_cross_entropy(recon_x, x.view(-1, 20), reduction="sum")
        kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        return bce + kld

    model = start_from(torch, VAE())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for step in range(5):
        x = torch.sigmoid(numbers(torch, step, 8, 4, 5))
        optimizer.zero_grad()
        recon, mu, logvar = model(x, numbers(torch, 100 + step, 8, 3))
        loss = loss_function(recon, x, mu, logvar)
        loss.backward()
        optimizer.step()
        losses.append(loss.item() / len(x))
    return losses


@program
def wasserstein_gradient_penalty(torch: Any) -> list[float]:
    nn = torch.nn
    critic = start_from(torch, nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.RMSprop(critic.parameters(), lr=5e-3)
    losses = []
    for step in range(4):
        real, fake = numbers(torch, step, 6, 4), numbers(torch, 10 + step, 6, 4) * 0.5 + 1
        alpha = torch.sigmoid(numbers(torch, 20 + step, 6, 1))
        mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
        scores = critic(mixed)
        gradients = torch.autograd.grad(
            outputs=scores, inputs=mixed, grad_outputs=torch.ones_like(scores), create_graph=True, retain_graph=True
        )[0]
        penalty = ((gradients.view(6, -1).norm(2, dim=1) - 1) ** 2).mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses += [loss.item(), penalty.item()]
    return losses


@program
def accumulation_clipping_and_warmup(torch: Any) -> list[float]:
    nn, F = torch.nn, torch.nn.functional
    model = start_from(torch, nn.Sequential(nn.Linear(6, 10), nn.Mish(), nn.Linear(10, 3)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    total_steps, warmup_steps = 8, 3

    def lr_lambda(current_step):
        if current_step < warmup_steps:
            return float(current_step) / float(max(1, warmup_steps))
        progress = float(current_step - warmup_steps) / float(max(1, total_steps - warmup_steps))
        return max(0.0, 0.5 * (1.0 + math.cos(math.pi * progress)))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda)
    losses, best, bad, best_state = [], float("inf"), 0, None
    accumulation_steps = 2
    optimizer.zero_grad()
    for i in range(total_steps * accumulation_steps):
        x, y = numbers(torch, i % 3, 5, 6), classes(torch, i % 3, 3, 5)
        loss = F.cross_entropy(model(x), y) / accumulation_steps
        loss.backward()
        if (i + 1) % accumulation_steps == 0:
            norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.1, norm_type=2)
            nn.utils.clip_grad_value_(model.parameters(), 0.05)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            losses += [loss.item(), norm.item(), scheduler.get_last_lr()[0]]
            if loss.item() < best - 1e-3:
                best, bad, best_state = loss.item(), 0, copy.deepcopy(model.state_dict())
            else:
                bad += 1
            if bad >= 3:
                break
    model.load_state_dict(best_state)
    return losses + [F.cross_entropy(model(x), y).item()]


@program
def own_autograd_function_in_a_module(torch: Any) -> list[float]:
    nn = torch.nn

    class StraightThrough(torch.autograd.Function):
        @staticmethod
        def forward(ctx, input, bound):
            ctx.save_for_backward(input)
            ctx.bound = bound
            return torch.sign(input)

        @staticmethod
        def backward(ctx, grad_output):
            (input,) = ctx.saved_tensors
            grad_input = grad_output.clone()
            grad_input[input.abs() > ctx.bound] = 0
            return grad_input, None

    class LegendrePolynomial3(torch.autograd.Function):
        @staticmethod
        def forward(ctx, input):
            ctx.save_for_backward(input)
            return 0.5 * (5 * input**3 - 3 * input)

        @staticmethod
        def backward(ctx, grad_output):
            (input,) = ctx.saved_tensors
            return grad_output * 1.5 * (5 * input**2 - 1)

    class BinaryLinear(nn.Linear):
        def forward(self, x):
            return nn.functional.linear(x, StraightThrough.apply(self.weight, 1.0), self.bias)

    model = start_from(torch, nn.Sequential(BinaryLinear(5, 6), nn.Hardtanh(), BinaryLinear(6, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    P3 = LegendrePolynomial3.apply
    losses = []
    for step in range(5):
        x = numbers(torch, step, 12, 5)
        loss = nn.functional.mse_loss(P3(torch.tanh(model(x))).squeeze(), x[:, 0].sign())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@program
def hooks_collect_activations_and_gradients(torch: Any) -> list[float]:
    nn = torch.nn
    model = start_from(torch, nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2)))
    activation: dict[str, Any] = {}
    gradients: dict[str, Any] = defaultdict(list)

    def get_activation(name):
        def hook(module, input, output):
            activation[name] = output.detach()

        return hook

    handles = [m.register_forward_hook(get_activation(n)) for n, m in model.named_modules() if n]
    model[0].register_full_backward_hook(lambda m, gin, gout: gradients["conv"].append(gout[0].norm().item()))
    model[3].weight.register_hook(lambda g: g * 2)
    model[3].register_forward_pre_hook(lambda m, args: (args[0] * 0.5,))
    x = numbers(torch, 0, 2, 1, 6, 6)
    model(x)[:, 1].sum().backward()
    cam = (activation["1"].mean((2, 3), keepdim=True) * activation["0"]).sum(1).relu()
    for h in handles:
        h.remove()
    activation.clear()
    model(x)
    assert not activation
    result = [cam.sum().item(), model[3].weight.grad.norm().item(), *gradients["conv"]]
    return result + [p.grad.abs().sum().item() for p in model.parameters()]


@program
def mixed_precision_with_scaler(torch: Any) -> list[float]:
    nn, F = torch.nn, torch.nn.functional
    model = start_from(torch, nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    losses = []
    for step in range(5):
        x, y = numbers(torch, step, 16, 6), classes(torch, step, 3, 16)
        optimizer.zero_grad()
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            output = model(x)
            assert output.dtype is torch.bfloat16
            loss = F.cross_entropy(output.float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(round(loss.item(), 1))
    return losses + [float(scaler.get_scale())]


@program
def cuda_amp_as_older_code_writes_it(torch: Any) -> list[float]:
    nn = torch.nn
    use_amp = torch.cuda.is_available()
    model = start_from(torch, nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.cuda.amp.GradScaler(enabled=use_amp)
    losses = []
    for step in range(3):
        with torch.cuda.amp.autocast(enabled=use_amp):
            loss = model(numbers(torch, step, 4, 3)).pow(2).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


@program
def quasi_newton_with_closure(torch: Any) -> list[float]:
    nn = torch.nn
    model = start_from(torch, nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5, history_size=4, line_search_fn="strong_wolfe")
    x = numbers(torch, 0, 20, 3)
    y = x.prod(dim=1, keepdim=True)
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(3):
        losses.append(optimizer.step(closure).item())
    return losses


@program
def policy_gradient(torch: Any) -> list[float]:
    nn, F = torch.nn, torch.nn.functional
    policy = start_from(torch, nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2), nn.Softmax(dim=-1)))
    value = start_from(torch, nn.Linear(4, 1), 1)
    target = copy.deepcopy(value)
    optimizer = torch.optim.Adam([{"params": policy.parameters()}, {"params": value.parameters(), "lr": 0.05}], lr=0.01)
    losses = []
    for step in range(4):
        states, actions = numbers(torch, step, 6, 4), classes(torch, step, 2, 6, 1)
        rewards, returns, R = [1.0] * 6, [], 0.0
        for r in rewards[::-1]:
            R = r + 0.99 * R
            returns.insert(0, R)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + 1e-7)
        log_probs = torch.log(policy(states).gather(1, actions)).squeeze(1)
        advantage = returns - value(states).squeeze(-1)
        with torch.no_grad():
            bootstrap = target(states).max(1)[0]
        loss = torch.stack([-lp * a for lp, a in zip(log_probs, advantage.detach())]).sum()
        loss = loss + F.smooth_l1_loss(value(states).squeeze(-1), returns + 0.9 * bootstrap)
        optimizer.zero_grad()
        loss.backward()
        for p in policy.parameters():
            p.grad.data.clamp_(-1, 1)
        optimizer.step()
        for t, s in zip(target.parameters(), value.parameters()):
            t.data.copy_(0.05 * s.data + 0.95 * t.data)
        losses.append(loss.item())
    return losses


@program
def contrastive_pairs(torch: Any) -> list[float]:
    nn, F = torch.nn, torch.nn.functional
    tower = start_from(torch, nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 4)))
    logit_scale = nn.Parameter(torch.ones([]) * math.log(1 / 0.07))
    optimizer = torch.optim.Adagrad([*tower.parameters(), logit_scale], lr=0.05)
    losses = []
    for step in range(4):
        a = F.normalize(tower(numbers(torch, step, 6, 5)), dim=-1)
        b = F.normalize(tower(numbers(torch, 30 + step, 6, 5)), dim=-1)
        logits = logit_scale.exp() * a @ b.t()
        labels = torch.arange(6)
        loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
        loss = loss + F.triplet_margin_loss(a, b, b.roll(1, 0)) + F.cosine_embedding_loss(a, b, torch.ones(6))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            logit_scale.clamp_(0, math.log(100))
        losses += [loss.item(), logit_scale.item()]
    return losses


@program
def regression_by_hand(torch: Any) -> list[float]:
    x = torch.linspace(-math.pi, math.pi, 200, device="cpu", dtype=torch.float)
    y = torch.sin(x)
    a, b, c, d = (torch.full((), v, requires_grad=True) for v in (0.1, -0.2, 0.3, 0.05))
    losses = []
    for _ in range(20):
        y_pred = a + b * x + c * x**2 + d * x**3
        loss = (y_pred - y).pow(2).sum()
        losses.append(loss.item())
        loss.backward()
        with torch.no_grad():
            a -= 1e-6 * a.grad
            b -= 1e-6 * b.grad
            c -= 1e-6 * c.grad
            d -= 1e-6 * d.grad
            a.grad = None
            b.grad = None
            c.grad.zero_()
            d.grad.zero_()
    return losses
