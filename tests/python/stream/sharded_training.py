"""What clients of a group of workers train: `step()` is one step by data, its loss not yet read."""

TRAIN = """
import gt, hashlib, struct, time
from gt import nn, optim
gt.register_config("parts", gt.SignalConfig(shard=gt.ShardConfig(axis=0)))
gt.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
optimizer = optim.SGD(model.parameters(), lr=0.01)
def step():
    x = gt.randn(48, 64)
    with gt.signal.context("parts"):
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss
"""
