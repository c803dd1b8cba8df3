"""Programs that classify, generate and rebuild images."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from training_programs import classes, numbers, program, start_from


@program
def mlp_on_digits(torch: Any) -> list[float]:
    nn, F, optim = torch.nn, torch.nn.functional, torch.optim

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
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
    for _epoch in range(1, 4):
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
