"""Models of four kinds, with random weights, as servers run them: PyTorch, half precision.

What they compute means nothing; how long it takes is what a model of this shape and size takes. PyTorch is not
installed by the project: only what runs on the machine with the GPU imports it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional

HALF: Final = torch.float16


@dataclass(frozen=True)
class Tenant:
    """make: the model, on the CPU. query: the inputs of a batch, on the CPU. batches: sizes, the smallest first."""

    make: Callable[[], Any]
    query: Callable[[int], tuple[Any, ...]]
    batches: tuple[int, ...]


class Bottleneck(nn.Module):  # type: ignore[misc]
    """A block of ResNet-50."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = 4 * width
        self.body = nn.Sequential(
            *_convolution(before, width, 1, 1),
            nn.ReLU(),
            *_convolution(width, width, 3, stride),
            nn.ReLU(),
            *_convolution(width, after, 1, 1),
        )
        same = before == after and stride == 1
        self.skip = nn.Identity() if same else nn.Sequential(*_convolution(before, after, 1, stride))

    def forward(self, x: Any) -> Any:
        return functional.relu(self.body(x) + self.skip(x))


def _convolution(before: int, after: int, size: int, stride: int) -> tuple[nn.Module, nn.Module]:
    return nn.Conv2d(before, after, size, stride, size // 2, bias=False), nn.BatchNorm2d(after)


def resnet50() -> nn.Module:
    """Images of 224 x 224 to 1,000 classes; 25 million weights."""
    blocks: list[nn.Module] = []
    before = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for index in range(count):
            blocks.append(Bottleneck(before, width, stride if index == 0 else 1))
            before = 4 * width
    stem = (*_convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


class Encoder(nn.Module):  # type: ignore[misc]
    """As large as BERT-base: 12 layers of width 768."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True, activation="gelu")
        self.words = nn.Embedding(30_522, 768)
        self.layers = nn.TransformerEncoder(layer, 12)

    def forward(self, words: Any) -> Any:
        return self.layers(self.words(words))[:, 0]


class Recommender(nn.Module):  # type: ignore[misc]
    """As DLRM: 16 tables of a million rows, 40 lookups in each, their products, two perceptrons."""

    TABLES, ROWS, WIDTH, LOOKUPS = 16, 1_000_000, 64, 40

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(self.ROWS, self.WIDTH, mode="sum") for _ in range(self.TABLES))
        self.bottom = _perceptron(13, 512, 256, self.WIDTH)
        self.top = _perceptron((self.TABLES + 1) ** 2 + self.WIDTH, 1024, 512, 256, 1)

    def forward(self, dense: Any, sparse: Any) -> Any:
        below = self.bottom(dense)
        found = [table(sparse[:, index]) for index, table in enumerate(self.tables)]
        both = torch.stack([below, *found], dim=1)
        products = torch.bmm(both, both.transpose(1, 2)).flatten(1)
        return self.top(torch.cat([products, below], dim=1))


def _perceptron(*widths: int) -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Decoder(nn.Module):  # type: ignore[misc]
    """One token of a decoder with 1.2 billion weights: 24 layers of width 2048, 512 tokens in the cache."""

    LAYERS, WIDTH, HEADS, CACHE = 24, 2048, 16, 512

    def __init__(self) -> None:
        super().__init__()
        width = self.WIDTH
        self.inner = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(self.LAYERS))
        self.outer = nn.ModuleList(nn.Linear(width, width) for _ in range(self.LAYERS))
        self.up = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(self.LAYERS))
        self.down = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(self.LAYERS))
        self.norm = nn.LayerNorm(width)
        self.caches: dict[int, Any] = {}

    def forward(self, x: Any) -> Any:
        batch = x.shape[0]
        if batch not in self.caches:
            shape = (2, batch, self.HEADS, self.CACHE, self.WIDTH // self.HEADS)
            self.caches[batch] = torch.zeros(shape, dtype=x.dtype, device=x.device)
        cache = self.caches[batch]
        for inner, outer, up, down in zip(self.inner, self.outer, self.up, self.down, strict=True):
            asked = inner(self.norm(x))[:, : self.WIDTH].view(batch, self.HEADS, 1, -1)
            seen = functional.scaled_dot_product_attention(asked, cache[0], cache[1])
            x = x + outer(seen.reshape(batch, self.WIDTH))
            x = x + down(functional.gelu(up(self.norm(x))))
        return x


def _sparse(batch: int) -> Any:
    return torch.randint(Recommender.ROWS, (batch, Recommender.TABLES, Recommender.LOOKUPS), dtype=torch.int32)


TENANTS: Final = {
    "resnet50": Tenant(resnet50, lambda n: (torch.randn(n, 3, 224, 224, dtype=HALF),), (1, 8, 32, 64, 128)),
    "encoder": Tenant(Encoder, lambda n: (torch.randint(30_522, (n, 128)),), (1, 4, 16, 32, 64)),
    "recommender": Tenant(
        Recommender, lambda n: (torch.randn(n, 13, dtype=HALF), _sparse(n)), (64, 512, 1024, 2048, 4096)
    ),
    "decoder": Tenant(Decoder, lambda n: (torch.randn(n, Decoder.WIDTH, dtype=HALF),), (1, 8, 32, 64, 128)),
}
"""By name."""
