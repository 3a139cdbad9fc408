import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, q, zero):
        return (q.int() - zero.int()).sum(dim=1).int()


rows, cols = 512, 512


def get_inputs():
    return [torch.randint(0, 16, (rows, cols), dtype=torch.uint8), torch.randint(0, 8, (1,), dtype=torch.uint8)]


def get_init_inputs():
    return []
