import torch
from torch import nn


class Model(nn.Module):
    """Each position divided by the root mean square over its channels."""

    def __init__(self, eps=1e-6):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        power = x.square().mean(1, keepdim=True)
        return x * torch.rsqrt(power + self.eps)


batch_size = 96
channels = 48
height, width = 512, 384


def get_inputs():
    return [torch.randn(batch_size, channels, height, width)]


def get_init_inputs():
    return []
