// Write new keys and values into a paged cache: slot[t] says where token t goes, -1 is padding.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <vector>

constexpr int BLOCK_SIZE = 16;

__global__ void reshape_and_cache(const __half* key, const __half* value, __half* key_cache, __half* value_cache,
                                  const int32_t* slot_mapping, int num_heads, int head_size) {
  const int token = blockIdx.x;
  const int slot = slot_mapping[token];
  if (slot < 0) return;
  const int block = slot / BLOCK_SIZE, offset = slot % BLOCK_SIZE;
  const int n = num_heads * head_size;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const int head = i / head_size, d = i % head_size;
    const int dst = ((block * num_heads + head) * BLOCK_SIZE + offset) * head_size + d;
    key_cache[dst] = key[token * n + i];
    value_cache[dst] = value[token * n + i];
  }
}

int main() {
  const int tokens = 256, num_heads = 8, head_size = 64, num_blocks = 64;
  const int n = num_heads * head_size;
  __half *k, *v, *kc, *vc;
  int32_t* slots;
  cudaMalloc(&k, tokens * n * sizeof(__half));
  cudaMalloc(&v, tokens * n * sizeof(__half));
  cudaMalloc(&kc, num_blocks * BLOCK_SIZE * n * sizeof(__half));
  cudaMalloc(&vc, num_blocks * BLOCK_SIZE * n * sizeof(__half));
  cudaMalloc(&slots, tokens * sizeof(int32_t));
  std::vector<int32_t> host(tokens);
  for (int t = 0; t < tokens; ++t) host[t] = (t * 37) % (num_blocks * BLOCK_SIZE);
  cudaMemcpy(slots, host.data(), tokens * sizeof(int32_t), cudaMemcpyHostToDevice);
  reshape_and_cache<<<tokens, std::min(n, 512)>>>(k, v, kc, vc, slots, num_heads, head_size);
  cudaDeviceSynchronize();
}
