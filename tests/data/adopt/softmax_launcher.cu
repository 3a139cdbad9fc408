// Row-wise softmax as used in our inference server. Built into a shared library, there is no main here.
#include <cuda_runtime.h>
#include <float.h>

namespace kernels {

__global__ void softmax_kernel(float* __restrict__ out, const float* __restrict__ inp, int N, int C) {
    // one block of threads per row, shared memory holds the partial results of the threads
    extern __shared__ float shared[];
    int idx = blockIdx.x;
    int tid = threadIdx.x;
    int block_size = blockDim.x;
    const float* x = inp + idx * C;
    float maxval = -FLT_MAX;
    for (int i = tid; i < C; i += block_size) maxval = fmaxf(maxval, x[i]);
    shared[tid] = maxval;
    __syncthreads();
    for (int stride = block_size / 2; stride >= 1; stride /= 2) {
        if (tid < stride) shared[tid] = fmaxf(shared[tid], shared[tid + stride]);
        __syncthreads();
    }
    float offset = shared[0];
    __syncthreads();
    float sum = 0.0f;
    for (int i = tid; i < C; i += block_size) sum += expf(x[i] - offset);
    shared[tid] = sum;
    __syncthreads();
    for (int stride = block_size / 2; stride >= 1; stride /= 2) {
        if (tid < stride) shared[tid] += shared[tid + stride];
        __syncthreads();
    }
    sum = shared[0];
    for (int i = tid; i < C; i += block_size) out[idx * C + i] = expf(x[i] - offset) / sum;
}

void softmax_forward(float* out, const float* inp, int N, int C, cudaStream_t stream) {
    const int block_size = 128;
    int grid_size = N;
    size_t shared_mem_size = block_size * sizeof(float);
    softmax_kernel<<<grid_size, block_size, shared_mem_size, stream>>>(out, inp, N, C);
}

}  // namespace kernels
