import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, table, token):
        return table[token]


vocab, dim, length = 4096, 64, 1024


def get_inputs():
    return [torch.randn(vocab, dim), torch.randint(0, 1000, (length,))]


def get_init_inputs():
    return []
