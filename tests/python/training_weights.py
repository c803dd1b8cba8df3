"""Programs about weights: averages, checkpoints, freezing, parametrizations."""

from __future__ import annotations

import copy
import io
import os
import tempfile
from collections import OrderedDict
from importlib import import_module
from typing import Any

from training_programs import classes, numbers, program, start_from


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
def parametrized_layers(torch: Any) -> list[float]:
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
