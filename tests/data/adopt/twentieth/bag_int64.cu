// EmbeddingBag (mode = mean) with per-sample weights; indices and offsets are int64 as in PyTorch.
// Wrapped by pybind11 + cupy pointers: kernels.embedding_bag(w.data.ptr, ...)
#include <cstdint>
#include <cuda_runtime.h>
#include <pybind11/pybind11.h>
#include <stdexcept>

namespace py = pybind11;

// one warp-sized block per bag would be better, I know...  here: one thread per bag
template <typename index_t>
__global__ void embedding_bag_mean(const float* __restrict__ weight, const index_t* __restrict__ indices,
                                   const index_t* __restrict__ offsets, const float* __restrict__ per_sample,
                                   float* __restrict__ out, index_t num_bags, index_t dim) {
    index_t bag = (index_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (bag >= num_bags) return;
    index_t begin = offsets[bag];
    index_t end = offsets[bag + 1];
    for (index_t d = 0; d < dim; ++d) {
        float acc = 0.0f;
        for (index_t i = begin; i < end; ++i) {
            acc += per_sample[i] * weight[indices[i] * dim + d];
        }
        out[bag * dim + d] = end > begin ? acc / (float)(end - begin) : 0.0f;
    }
}

static void raise_if(cudaError_t status) {
    if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

void embedding_bag(uintptr_t weight, uintptr_t indices, uintptr_t offsets, uintptr_t per_sample, uintptr_t out,
                   int64_t num_bags, int64_t dim) {
    const int threads = 64;
    const int64_t blocks = (num_bags + threads - 1) / threads;
    embedding_bag_mean<int64_t><<<(unsigned)blocks, threads>>>(
        reinterpret_cast<const float*>(weight), reinterpret_cast<const int64_t*>(indices),
        reinterpret_cast<const int64_t*>(offsets), reinterpret_cast<const float*>(per_sample),
        reinterpret_cast<float*>(out), num_bags, dim);
    raise_if(cudaGetLastError());
}

PYBIND11_MODULE(kernels, m) {
    m.doc() = "kernels that cupy lacks";
    m.def("embedding_bag", &embedding_bag, py::arg("weight"), py::arg("indices"), py::arg("offsets"),
          py::arg("per_sample"), py::arg("out"), py::arg("num_bags"), py::arg("dim"));
}
