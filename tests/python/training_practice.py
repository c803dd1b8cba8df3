"""Programs about the practice of training: several optimizers, checkpoints, hooks, freezing, mixed precision."""

from __future__ import annotations

import copy
import io
import math
import os
import tempfile
from collections import OrderedDict, defaultdict
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
def generative_adversarial(torch: Any) -> list[float]:
    nn = torch.nn

    def weights_init(m):
        classname = m.__class__.__name__
        if classname.find("Conv") != -1:
            nn.init.normal_(m.weight.data, 0.0, 0.02)
        elif classname.find("BatchNorm") != -1:
            nn.init.normal_(m.weight.data, 1.0, 0.02)
            nn.init.constant_(m.bias.data, 0)

    netG = nn.Sequential(
        nn.ConvTranspose2d(6, 8, 4, 1, 0, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(True),
        nn.ConvTranspose2d(8, 1, 4, 2, 1, bias=False),
        nn.Tanh(),
    )
    netD = nn.Sequential(
        nn.Conv2d(1, 8, 4, 2, 1, bias=False),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(8, 1, 4, 1, 0, bias=False),
        nn.Sigmoid(),
    )
    netG.apply(weights_init)
    netD.apply(weights_init)
    start_from(torch, netG)
    start_from(torch, netD, 1)
    criterion = nn.BCELoss()
    optimizerD = torch.optim.Adam(netD.parameters(), lr=0.002, betas=(0.5, 0.999))
    optimizerG = torch.optim.Adam(netG.parameters(), lr=0.002, betas=(0.5, 0.999))
    losses = []
    for step in range(4):
        netD.zero_grad()
        real = numbers(torch, step, 5, 1, 8, 8)
        label = torch.full((real.size(0),), 1.0, dtype=torch.float)
        output = netD(real).view(-1)
        errD_real = criterion(output, label)
        errD_real.backward()
        D_x = output.mean().item()
        fake = netG(numbers(torch, 50 + step, 5, 6, 1, 1))
        label.fill_(0.0)
        output = netD(fake.detach()).view(-1)
        errD_fake = criterion(output, label)
        errD_fake.backward()
        optimizerD.step()
        netG.zero_grad()
        label.fill_(1.0)
        errG = criterion(netD(fake).view(-1), label)
        errG.backward()
        optimizerG.step()
        losses += [D_x, (errD_real + errD_fake).item(), errG.item()]
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
def convolutional_autoencoder(torch: Any) -> list[float]:
    nn = torch.nn

    class Autoencoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(
                nn.Conv2d(1, 4, 3, stride=2, padding=1),
                nn.ELU(),
                nn.Conv2d(4, 8, 3, stride=2, padding=1),
                nn.GroupNorm(2, 8),
            )
            self.decoder = nn.Sequential(
                nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
                nn.Conv2d(8, 4, 3, padding=1),
                nn.SiLU(),
                nn.ConvTranspose2d(4, 1, 3, stride=2, padding=1, output_padding=1),
            )

        def forward(self, x):
            return self.decoder(self.encoder(x))

    model = start_from(torch, Autoencoder())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-5, amsgrad=True)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=1, threshold=0.2)
    losses = []
    for step in range(6):
        x = numbers(torch, step % 2, 3, 1, 8, 8)
        loss = nn.SmoothL1Loss()(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        plateau.step(loss.item())
        losses += [loss.item(), optimizer.param_groups[0]["lr"]]
    return losses


@program
def unet_with_skip_connections(torch: Any) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    class DoubleConv(nn.Module):
        def __init__(self, cin, cout):
            super().__init__()
            self.double_conv = nn.Sequential(
                nn.Conv2d(cin, cout, 3, padding=1, bias=False),
                nn.InstanceNorm2d(cout, affine=True),
                nn.PReLU(),
                nn.Conv2d(cout, cout, 3, padding="same", padding_mode="reflect"),
                nn.ReLU(inplace=True),
            )

        def forward(self, x):
            return self.double_conv(x)

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.inc, self.down, self.mid = DoubleConv(2, 4), nn.MaxPool2d(2), DoubleConv(4, 8)
            self.up = nn.ConvTranspose2d(8, 4, kernel_size=2, stride=2)
            self.conv, self.outc = DoubleConv(8, 4), nn.Conv2d(4, 2, kernel_size=1)

        def forward(self, x):
            x1 = self.inc(x)
            x2 = self.up(self.mid(self.down(x1)))
            dy, dx = x1.size()[2] - x2.size()[2], x1.size()[3] - x2.size()[3]
            x2 = F.pad(x2, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
            return self.outc(self.conv(torch.cat([x1, x2], dim=1)))

    def dice_loss(logits, target):
        probs = F.softmax(logits, dim=1)
        one_hot = F.one_hot(target, 2).permute(0, 3, 1, 2).float()
        inter = (probs * one_hot).sum(dim=(0, 2, 3))
        return 1 - ((2 * inter + 1) / (probs.sum((0, 2, 3)) + one_hot.sum((0, 2, 3)) + 1)).mean()

    model = start_from(torch, UNet())
    optimizer = torch.optim.Adamax(model.parameters(), lr=1e-2)
    losses = []
    for step in range(4):
        x, mask = numbers(torch, step, 2, 2, 7, 9), classes(torch, step, 2, 2, 7, 9)
        logits = model(x)
        loss = F.cross_entropy(logits, mask) + dice_loss(logits, mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


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
def moving_average_of_weights(torch: Any) -> list[float]:
    nn = torch.nn

    class EMA:
        def __init__(self, model, decay):
            self.module = copy.deepcopy(model).eval()
            self.decay = decay
            for p in self.module.parameters():
                p.requires_grad_(False)

        @torch.no_grad()
        def update(self, model):
            for ema_v, model_v in zip(self.module.state_dict().values(), model.state_dict().values()):
                if ema_v.dtype.is_floating_point:
                    ema_v.copy_(self.decay * ema_v + (1.0 - self.decay) * model_v)
                else:
                    ema_v.copy_(model_v)

    model = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Softplus(), nn.Linear(7, 1))
    start_from(torch, model)
    ema = EMA(model, 0.9)
    shadow = {name: param.clone().detach() for name, param in model.named_parameters() if param.requires_grad}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, dampening=0.1)
    losses = []
    for step in range(5):
        x = numbers(torch, step, 9, 5)
        loss = (model(x).squeeze(-1) - x.sum(-1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(model)
        for name, param in model.named_parameters():
            shadow[name].mul_(0.9).add_(param.data, alpha=0.1)
        losses.append(loss.item())
    for name, param in ema.module.named_parameters():
        assert torch.allclose(param, shadow[name], atol=1e-6)
    with torch.no_grad():
        losses.append(ema.module(x).mean().item())
    losses.append(float(ema.module[1].num_batches_tracked))
    return losses


@program
def averaged_model_from_swa_utils(torch: Any) -> list[float]:
    from importlib import import_module

    swa_utils = import_module(torch.__name__ + ".optim.swa_utils")
    nn = torch.nn
    model = start_from(torch, nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 1)))
    swa_model = swa_utils.AveragedModel(model)
    ema_model = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.8))
    own_model = swa_utils.AveragedModel(model, avg_fn=lambda averaged, new, n: 0.5 * averaged + 0.5 * new)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    swa_scheduler = swa_utils.SWALR(optimizer, swa_lr=0.05, anneal_epochs=3)
    batches = [numbers(torch, i, 8, 4) for i in range(3)]
    losses = []
    for epoch in range(6):
        for x in batches:
            loss = (model(x).sum(-1) - x[:, 0]).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch > 2:
            swa_model.update_parameters(model)
            ema_model.update_parameters(model)
            own_model.update_parameters(model)
            swa_scheduler.step()
        else:
            scheduler.step()
        losses += [loss.item(), optimizer.param_groups[0]["lr"]]
    swa_utils.update_bn(batches, swa_model)
    for averaged in (swa_model, ema_model, own_model):
        averaged.eval()
        losses.append(averaged(batches[0]).sum().item())
    return losses + [float(swa_model.n_averaged), float(len(swa_model.state_dict()))]


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
def checkpoint_and_resume(torch: Any) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    def make():
        model = start_from(torch, nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)))
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 4], gamma=0.5)
        return model, optimizer, scheduler

    def train(model, optimizer, scheduler, steps):
        losses = []
        for step in steps:
            loss = F.cross_entropy(model(numbers(torch, step, 6, 4)), classes(torch, step, 2, 6))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
        return losses

    straight = train(*make(), range(6))
    model, optimizer, scheduler = make()
    first = train(model, optimizer, scheduler, range(3))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "checkpoint.pth")
        torch.save(
            {
                "epoch": 3,
                "model_state_dict": model.state_dict(),
                "optimizer_state_dict": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
                "best_acc": 0.5,
                "args": {"lr": 1e-2, "layers": [4, 8, 2], "name": "net"},
            },
            path,
        )
        model, optimizer, scheduler = make()
        checkpoint = torch.load(path, map_location=torch.device("cpu"), weights_only=True)
        buffer = io.BytesIO()
        torch.save(model.state_dict(), buffer)
        buffer.seek(0)
        assert list(torch.load(buffer)) == list(model.state_dict())
    result = model.load_state_dict(checkpoint["model_state_dict"])
    assert str(result) == "<All keys matched successfully>"
    optimizer.load_state_dict(checkpoint["optimizer_state_dict"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    assert checkpoint["args"]["layers"] == [4, 8, 2]
    rest = train(model, optimizer, scheduler, range(checkpoint["epoch"], 6))
    assert all(abs(a - b) < 1e-6 for a, b in zip(straight, first + rest))
    return first + rest + [optimizer.param_groups[0]["lr"], float(optimizer.state[model[0].weight]["step"])]


@program
def transfer_by_freezing_and_new_heads(torch: Any) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    class Net(nn.Module):
        def __init__(self, classes):
            super().__init__()
            self.features = nn.Sequential(nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.AvgPool1d(2))
            self.fc = nn.Linear(12, classes)

        def forward(self, x):
            return self.fc(self.features(x).flatten(start_dim=1))

    old = start_from(torch, Net(7))
    model = start_from(torch, Net(3), 5)
    pretrained = old.state_dict()
    pretrained["module.extra"] = pretrained.pop("fc.bias")
    own = model.state_dict()
    filtered = {k: v for k, v in pretrained.items() if k in own and v.shape == own[k].shape}
    own.update(filtered)
    model.load_state_dict(own)
    result = model.load_state_dict(filtered, strict=False)
    numbers_out = [float(len(result.missing_keys)), float(len(result.unexpected_keys)), float(len(filtered))]
    renamed = OrderedDict(("module." + k, v) for k, v in model.state_dict().items())
    model.load_state_dict({k.replace("module.", ""): v for k, v in renamed.items()})
    for param in model.features.parameters():
        param.requires_grad = False
    model.fc = nn.Linear(model.fc.in_features, 4)
    start_from(torch, model.fc, 9)
    optimizer = torch.optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=0.1)
    x, y = numbers(torch, 0, 5, 2, 8), classes(torch, 0, 4, 5)
    for step in range(5):
        if step == 3:
            for param in model.features.parameters():
                param.requires_grad_(True)
            optimizer.add_param_group({"params": model.features.parameters(), "lr": 0.01})
        model.train()
        model.features[1].eval()
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        numbers_out.append(loss.item())
    return numbers_out + [float(len(optimizer.param_groups)), float(sum(p.requires_grad for p in model.parameters()))]


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


@program
def parametrized_layers(torch: Any) -> list[float]:
    from importlib import import_module

    nn = torch.nn
    parametrizations = import_module(torch.__name__ + ".nn.utils.parametrizations")
    layer = start_from(torch, nn.Linear(5, 4))
    layer = parametrizations.weight_norm(layer)
    conv = nn.utils.weight_norm(start_from(torch, nn.Conv1d(2, 3, 3), 1), name="weight")
    params = list(layer.parameters()) + list(conv.parameters())
    optimizer = torch.optim.SGD(params, lr=0.1)
    losses = [float(len(params)), *(float(len(k)) for k in sorted([*layer.state_dict(), *conv.state_dict()]))]
    for step in range(4):
        loss = layer(numbers(torch, step, 6, 5)).pow(2).mean() + conv(numbers(torch, step, 2, 2, 7)).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    nn.utils.remove_weight_norm(conv)
    return losses + [conv.weight.sum().item(), float(len(conv.state_dict()))]
