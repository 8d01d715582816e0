"""Models on images: ResNet-18, a mobile CNN, a U-Net, an MLP-mixer and a variational autoencoder.

Goes in: images (batch, channels, height, width).  Comes out: class scores, a map of scores, or a reconstruction.
What they ask of a compiler: batch norm that updates its buffers, in-place activations, depthwise and transposed
convolutions, global pooling, concatenation, transposes around matmuls, random numbers in the forward pass.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

from .registry import Batch, Entry, classify, images, sizes


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        identity = x if self.shortcut is None else self.shortcut(x)
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += identity
        return self.relu(out)


class ResNet18(nn.Module):
    def __init__(self, o):
        super().__init__()
        widths = [o.width * 2**i for i in range(4)]
        self.stem = nn.Sequential(
            nn.Conv2d(o.channels, o.width, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(o.width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        stages = [
            nn.Sequential(BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs, 1))
            for inputs, outputs, stride in zip([o.width, *widths], widths, (1, 2, 2, 2), strict=False)
        ]
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(widths[-1], o.classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.layer4(self.layer3(self.layer2(self.layer1(self.stem(x)))))
        return self.fc(torch.flatten(self.pool(x), 1))


class SqueezeExcite(nn.Module):
    """Scale each channel by a number computed from the means of all channels."""

    def __init__(self, channels, squeezed):
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x):
        scale = F.adaptive_avg_pool2d(x, 1)
        return x * F.hardsigmoid(self.expand(F.relu(self.reduce(scale))))


class InvertedResidual(nn.Module):
    def __init__(self, inputs, hidden, outputs, stride, kernel, excite):
        super().__init__()
        self.use_residual = stride == 1 and inputs == outputs
        layers = [
            *(nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.Hardswish(inplace=True)),
            nn.Conv2d(hidden, hidden, kernel, stride, padding=kernel // 2, groups=hidden, bias=False),  # depthwise
            *(nn.BatchNorm2d(hidden), nn.ReLU6(inplace=True)),
        ]
        if excite:
            layers.append(SqueezeExcite(hidden, max(4, hidden // 4)))
        self.layers = nn.Sequential(*layers, nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return x + self.layers(x) if self.use_residual else self.layers(x)


class MobileCNN(nn.Module):
    def __init__(self, o):
        super().__init__()
        w = o.width
        blocks, inputs = [], w
        stages = ((w, 1, 3, False, 1), (2 * w, 2, 3, True, 2), (4 * w, 2, 5, True, 2))
        for outputs, stride, kernel, excite, repeats in stages:
            for i in range(repeats):
                blocks.append(InvertedResidual(inputs, 3 * inputs, outputs, stride if i == 0 else 1, kernel, excite))
                inputs = outputs
        self.stem = nn.Sequential(
            nn.Conv2d(o.channels, w, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(w), nn.Hardswish()
        )
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Sequential(nn.Linear(4 * w, 8 * w), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(8 * w, o.classes))

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean([2, 3]))


class DoubleConv(nn.Sequential):
    def __init__(self, inputs, outputs):
        def conv(a, b):
            return nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True)

        super().__init__(*conv(inputs, outputs), *conv(outputs, outputs))


class UNet(nn.Module):
    def __init__(self, o):
        super().__init__()
        widths = [o.width * 2**i for i in range(o.depth + 1)]
        self.first = DoubleConv(o.channels, widths[0])
        self.down = nn.ModuleList(DoubleConv(a, b) for a, b in zip(widths, widths[1:], strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(widths, widths[1:], strict=False))
        self.merge = nn.ModuleList(DoubleConv(2 * a, a) for a in widths[:-1])
        self.last = nn.Conv2d(widths[0], o.classes, 1)

    def forward(self, x):
        skips = [self.first(x)]
        for down in self.down:
            skips.append(down(F.max_pool2d(skips[-1], 2)))
        x = skips.pop()
        for up, merge in zip(reversed(self.up), reversed(self.merge), strict=True):
            x, skip = up(x), skips.pop()
            rows, columns = skip.size(2) - x.size(2), skip.size(3) - x.size(3)  # an odd size lost a row on its way down
            x = F.pad(x, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
            x = merge(torch.cat([skip, x], dim=1))
        return self.last(x)  # (batch, classes, height, width)


def segmentation(o):
    """Images and a class for each pixel."""
    target = torch.randint(o.classes, (o.batch, o.image, o.image))
    return Batch((torch.randn(o.batch, o.channels, o.image, o.image),), target=target)


class MixerBlock(nn.Module):
    def __init__(self, patches, width):
        super().__init__()

        def mlp(size, hidden):
            return nn.Sequential(nn.Linear(size, hidden), nn.GELU(), nn.Linear(hidden, size))

        self.token_norm, self.token_mix = nn.LayerNorm(width), mlp(patches, 2 * patches)
        self.channel_norm, self.channel_mix = nn.LayerNorm(width), mlp(width, 4 * width)

    def forward(self, x):  # (batch, patches, width)
        x = x + self.token_mix(self.token_norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel_mix(self.channel_norm(x))


class MLPMixer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.patch = nn.Conv2d(o.channels, o.width, o.patch, stride=o.patch)
        self.blocks = nn.Sequential(*(MixerBlock((o.image // o.patch) ** 2, o.width) for _ in range(o.layers)))
        self.norm, self.head = nn.LayerNorm(o.width), nn.Linear(o.width, o.classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)  # (batch, patches, width)
        return self.head(self.norm(self.blocks(x)).mean(dim=1))


class VAE(nn.Module):
    def __init__(self, o):
        super().__init__()
        pixels = o.channels * o.image**2
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(pixels, o.hidden), nn.ReLU())
        self.moments = nn.Linear(o.hidden, 2 * o.latent)
        self.decoder = nn.Sequential(nn.Linear(o.latent, o.hidden), nn.ReLU(), nn.Linear(o.hidden, pixels))

    def forward(self, x):
        mean, log_variance = self.moments(self.encoder(x)).chunk(2, dim=-1)
        deviation = torch.exp(0.5 * log_variance)
        z = mean + torch.randn_like(deviation) * deviation  # the reparameterisation: gradients pass around the draw
        return torch.sigmoid(self.decoder(z)).view_as(x), mean, log_variance


def pixels_in_unit_range(o):
    x = torch.rand(o.batch, o.channels, o.image, o.image)
    return Batch((x,), target=x)


def evidence_bound(output, target):
    reconstruction, mean, log_variance = output
    target = target.to(reconstruction.dtype)
    likelihood = F.binary_cross_entropy(reconstruction, target, reduction="sum")
    divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
    return (likelihood + divergence) / target.size(0)


IMAGES = {"channels": 3, "classes": (10, 100, 1000), "batch": (4, 8, 64)}
MAPS = {"channels": 3, "classes": 3, "batch": (4, 4, 16)}
DIGITS = {"channels": 1, "classes": (10, 100, 1000), "batch": (4, 128, 4096)}

ENTRIES = [
    Entry("resnet18", ResNet18, images, classify, sizes(**IMAGES, image=(64, 96, 224), width=(8, 32, 64))),
    Entry("mobile_cnn", MobileCNN, images, classify, sizes(**IMAGES, image=(32, 96, 224), width=(8, 16, 32))),
    Entry(  # 18 -> 9 -> 4: the decoder has to pad
        *("unet", UNet, segmentation, classify),
        sizes(**MAPS, image=(18, 96, 256), width=(8, 16, 64), depth=(2, 3, 4)),
    ),
    Entry(
        *("mlp_mixer", MLPMixer, images, classify),
        sizes(**IMAGES, image=(16, 96, 224), patch=(4, 8, 16), width=(32, 192, 512), layers=(2, 6, 8)),
    ),
    Entry(
        *("vae", VAE, pixels_in_unit_range, evidence_bound),
        sizes(**DIGITS, image=(12, 28, 28), hidden=(48, 400, 400), latent=(8, 20, 20)),
    ),
]
