import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, window):
        super().__init__()
        self.pool = nn.AvgPool2d(window)

    def forward(self, x):
        return self.pool(x)


batch = 16
channels = 64
size = 256
window = 4


def get_inputs():
    return [torch.randn(batch, channels, size, size)]


def get_init_inputs():
    return [window]
