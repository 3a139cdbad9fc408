import torch
from torch import nn
from torch.distributions import Pareto, Uniform


class Model(nn.Module):
    """Huber's loss of heavy-tailed errors."""

    def __init__(self, delta):
        super().__init__()
        self.loss = nn.HuberLoss(delta=delta)

    def forward(self, found, wanted):
        return self.loss(found, wanted)


rows, columns = 16384, 32768


def get_inputs():
    found = Pareto(scale=0.05, alpha=2.0).sample((rows, columns))
    return [found, Uniform(0.0, 0.2).sample((rows, columns))]


def get_init_inputs():
    return [0.1]
