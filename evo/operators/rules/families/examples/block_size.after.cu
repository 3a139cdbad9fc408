// evo: knob THREADS in 32, 64, 128, 256, 512, 1024
// evo: launch k grid (ceil_div(N, THREADS)) block (THREADS) shared 0
#define THREADS 64
extern "C" __global__ void k(const float* a, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) o[i] = a[i];
}
