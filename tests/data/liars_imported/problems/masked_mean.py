import torch
import torch.nn as nn


class Model(nn.Module):
    """Mean of each row over the elements that the mask selects; 0 if it selects none."""

    def forward(self, x, mask):
        count = mask.sum(dim=1).clamp(min=1)
        return (x * mask).sum(dim=1) / count


rows, cols = 512, 512


def get_inputs():
    return [torch.randn(rows, cols), torch.rand(rows, cols) > 0.5]


def get_init_inputs():
    return []
