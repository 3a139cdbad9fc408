import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.mean(dim=1)


batch = 64
length = 2048
width = 512


def get_inputs():
    return [torch.randn(batch, length, width)]


def get_init_inputs():
    return []
