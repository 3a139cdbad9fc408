// evo: macro COLS
// evo: launch k grid (ceil_div(ROWS, 128)) block (128) shared 0
extern "C" __global__ void k(const float* a, float* o, int rows, int cols_given) {
  int cols = COLS;
  const int at = blockIdx.x * 128 + threadIdx.x;
  if (at >= rows) return;
  o[at] = a[at % cols];
}
