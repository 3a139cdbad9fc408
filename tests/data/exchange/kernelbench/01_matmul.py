import torch
import torch.nn as nn


class Model(nn.Module):
    """Product of two rectangular matrices."""

    def __init__(self):
        super().__init__()

    def forward(self, A, B):
        return torch.matmul(A, B)


M = 1024 * 2
K = 4096
N = 2048


def get_inputs():
    return [torch.rand(M, K), torch.rand(K, N)]


def get_init_inputs():
    return []
