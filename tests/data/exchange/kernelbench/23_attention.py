import torch
import torch.nn as nn


class Model(nn.Module):
    """Scaled dot product attention in half precision on the GPU."""

    def __init__(self):
        super().__init__()

    def forward(self, Q, K, V):
        return torch.nn.functional.scaled_dot_product_attention(Q, K, V)


batch_size = 32
num_heads = 32
sequence_length = 512
embedding_dimension = 1024


def get_inputs():
    shape = (batch_size, num_heads, sequence_length, embedding_dimension)
    Q = torch.rand(*shape, device="cuda", dtype=torch.float16)
    K = torch.rand(*shape, device="cuda", dtype=torch.float16)
    V = torch.rand(*shape, device="cuda", dtype=torch.float16)
    return [Q, K, V]


def get_init_inputs():
    return []
