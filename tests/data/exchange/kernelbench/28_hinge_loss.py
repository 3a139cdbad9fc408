import torch
from torch import nn


class Model(nn.Module):
    """Hinge loss; one label a column, so the two lengths have to be one."""

    def forward(self, scores, labels):
        margins = torch.relu(1 - scores * labels)
        return margins.sum() / margins.numel()


batch_size = 16384
input_shape = (16384,)


def get_inputs():
    labels = 2.0 * torch.randint(0, 2, (batch_size,)) - 1.0
    return [torch.randn(batch_size, *input_shape), labels]


def get_init_inputs():
    return []
