// evo: task column_mean
// evo: launch colmean grid (ceil_div(C, 128)) block (128) shared 0
extern "C" __global__ void colmean(const float *x, float *m, int R, int C) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c < C) {
    float acc = 0;
    for (int r = 0; r < R; r++) acc += x[r * C + c];
    m[c] = acc / R;
  }
}
