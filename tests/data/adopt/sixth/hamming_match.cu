// Brute force matching of 256-bit ORB descriptors. For every query: the nearest train descriptor and its distance.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int WORDS = 8;   // 256 bits

__device__ __forceinline__ int hamming(const uint32_t *a, const uint32_t *b)
{
  int d = 0;
  for (int w = 0; w < WORDS; ++w)
    d += __popc(a[w] ^ b[w]);
  return d;
}

__global__ void matchKernel(const uint32_t *query, const uint32_t *train, int *bestIdx, int *bestDist,
                            int nQuery, int nTrain)
{
  const int q = blockIdx.x * blockDim.x + threadIdx.x;
  if (q >= nQuery)
    return;
  int best = WORDS * 32 + 1;
  int idx = -1;
  for (int t = 0; t < nTrain; ++t) {
    const int d = hamming(query + q * WORDS, train + t * WORDS);
    if (d < best) {
      best = d;
      idx = t;
    }
  }
  bestIdx[q] = idx;
  bestDist[q] = best;
}

class Matcher {
public:
  Matcher(int nQuery, int nTrain) : nQuery_(nQuery), nTrain_(nTrain)
  {
    cudaMalloc(&query_, sizeof(uint32_t) * WORDS * nQuery_);
    cudaMalloc(&train_, sizeof(uint32_t) * WORDS * nTrain_);
    cudaMalloc(&idx_, sizeof(int) * nQuery_);
    cudaMalloc(&dist_, sizeof(int) * nQuery_);
  }
  ~Matcher() { cudaFree(query_); cudaFree(train_); cudaFree(idx_); cudaFree(dist_); }

  void match(const uint32_t *query, const uint32_t *train, int *idx, int *dist)
  {
    cudaMemcpy(query_, query, sizeof(uint32_t) * WORDS * nQuery_, cudaMemcpyHostToDevice);
    cudaMemcpy(train_, train, sizeof(uint32_t) * WORDS * nTrain_, cudaMemcpyHostToDevice);
    const int threads = 128;
    matchKernel<<<(nQuery_ + threads - 1) / threads, threads>>>(query_, train_, idx_, dist_, nQuery_, nTrain_);
    cudaMemcpy(idx, idx_, sizeof(int) * nQuery_, cudaMemcpyDeviceToHost);
    cudaMemcpy(dist, dist_, sizeof(int) * nQuery_, cudaMemcpyDeviceToHost);
  }

private:
  int nQuery_, nTrain_;
  uint32_t *query_ = nullptr, *train_ = nullptr;
  int *idx_ = nullptr, *dist_ = nullptr;
};

int main()
{
  const int nq = 1000, nt = 1000;
  std::vector<uint32_t> q(nq * WORDS), t(nt * WORDS);
  for (auto &v : q) v = ((uint32_t)rand() << 16) ^ rand();
  for (auto &v : t) v = ((uint32_t)rand() << 16) ^ rand();
  std::vector<int> idx(nq), dist(nq);
  Matcher matcher(nq, nt);
  matcher.match(q.data(), t.data(), idx.data(), dist.data());
  printf("%d %d\n", idx[0], dist[0]);
}
