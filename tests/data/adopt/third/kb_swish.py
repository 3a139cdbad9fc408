import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

swish_source = """
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void swish_bias_kernel(const float* x, const float* bias, float* out, int rows, int cols, float scale) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < rows * cols) {
        float v = x[idx] + bias[idx % cols];
        out[idx] = scale * v / (1.0f + expf(-v));
    }
}

torch::Tensor swish_bias_cuda(torch::Tensor x, torch::Tensor bias, double scale) {
    auto rows = x.size(0);
    auto cols = x.size(1);
    auto out = torch::empty_like(x);

    const int block_size = 256;
    const int num_blocks = (rows * cols + block_size - 1) / block_size;

    swish_bias_kernel<<<num_blocks, block_size>>>(
        x.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), rows, cols, (float)scale);

    return out;
}
"""

swish_cpp_source = "torch::Tensor swish_bias_cuda(torch::Tensor x, torch::Tensor bias, double scale);"

swish_bias = load_inline(
    name="swish_bias",
    cpp_sources=swish_cpp_source,
    cuda_sources=swish_source,
    functions=["swish_bias_cuda"],
    verbose=True,
    extra_cflags=[""],
    extra_ldflags=[""],
)


class ModelNew(nn.Module):
    def __init__(self, features, scale):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features))
        self.scale = scale
        self.swish_bias = swish_bias

    def forward(self, x):
        return self.swish_bias.swish_bias_cuda(x, self.bias, self.scale)


batch_size = 512
features = 2048


def get_inputs():
    return [torch.rand(batch_size, features)]


def get_init_inputs():
    return [features, 1.7]
