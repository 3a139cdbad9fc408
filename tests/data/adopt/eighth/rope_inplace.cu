// Rotary embedding of queries and keys, in place, as an inference engine in plain C++ has it.
#include <cuda_runtime.h>
#include <cuda_fp16.h>

struct Config {
    int n_heads;
    int n_kv_heads;
    int head_dim;
    float theta;
};

__global__ void rope_kernel(half *q, half *k, const int *pos, int n_heads, int n_kv_heads, int head_dim, float theta) {
    int token = blockIdx.x;
    int head = blockIdx.y;
    int i = threadIdx.x;
    int half_dim = head_dim / 2;
    if (i >= half_dim) return;
    float freq = powf(theta, -2.0f * i / head_dim);
    float angle = pos[token] * freq;
    float c = cosf(angle), s = sinf(angle);
    half *p;
    if (head < n_heads)
        p = q + (token * n_heads + head) * head_dim;
    else
        p = k + (token * n_kv_heads + (head - n_heads)) * head_dim;
    float a = __half2float(p[i]), b = __half2float(p[i + half_dim]);
    p[i] = __float2half(a * c - b * s);
    p[i + half_dim] = __float2half(a * s + b * c);
}

void apply_rope(half *q, half *k, const int *pos, int n_tokens, const Config &cfg, cudaStream_t stream) {
    dim3 grid(n_tokens, cfg.n_heads + cfg.n_kv_heads);
    rope_kernel<<<grid, cfg.head_dim / 2, 0, stream>>>(q, k, pos, cfg.n_heads, cfg.n_kv_heads, cfg.head_dim, cfg.theta);
}

int main() {
    Config cfg{16, 4, 64, 10000.0f};
    const int n_tokens = 512;
    half *q, *k;
    int *pos;
    cudaMalloc(&q, sizeof(half) * n_tokens * cfg.n_heads * cfg.head_dim);
    cudaMalloc(&k, sizeof(half) * n_tokens * cfg.n_kv_heads * cfg.head_dim);
    cudaMalloc(&pos, sizeof(int) * n_tokens);
    cudaMemset(q, 0, sizeof(half) * n_tokens * cfg.n_heads * cfg.head_dim);
    cudaMemset(k, 0, sizeof(half) * n_tokens * cfg.n_kv_heads * cfg.head_dim);
    int host_pos[512];
    for (int i = 0; i < n_tokens; ++i) host_pos[i] = i;
    cudaMemcpy(pos, host_pos, sizeof(host_pos), cudaMemcpyHostToDevice);
    apply_rope(q, k, pos, n_tokens, cfg, 0);
    cudaDeviceSynchronize();
    cudaFree(q);
    cudaFree(k);
    cudaFree(pos);
    return 0;
}
