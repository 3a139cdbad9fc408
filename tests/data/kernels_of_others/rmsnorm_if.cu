// rmsnorm: a thread a row; #if hides a guard and an accumulation, early statement on one line
// evo: task rmsnorm
// evo: knob BLOCK in 32, 64
// evo: launch rmsnorm grid (ceil_div(ROWS, BLOCK)) block (BLOCK) shared 0
#include <cuda_fp16.h>
#define BLOCK 32
extern "C" __global__ void rmsnorm(const __half* __restrict__ x, const __half* __restrict__ w, __half* __restrict__ y, float eps, int rows, int cols) {
  const int row = blockIdx.x * BLOCK + threadIdx.x; if (row >= rows) return;
  const __half* in = x + (long long)row * cols;
  __half* out = y + (long long)row * cols;
  float squares = 0.0f;
  int seen = 0;
  for (int i = 0; i < cols; ++i) {
    const float v = __half2float(in[i]);
    squares += v * v;
#if BLOCK > 1
    seen += 1;
#endif
  }
  const float inverse = 1.0f / sqrtf(squares / seen + eps);
  for (int i = 0; i < cols; ++i) {
    out[i] = __float2half(__half2float(in[i]) * inverse * __half2float(w[i])); }
}
