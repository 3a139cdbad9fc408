// evo: macro COLS
// evo: launch k grid (ceil_div(ROWS, 128)) block (128) shared 0
extern "C" __global__ void k(const float* a, float* o, int ROWS, int COLS_given) {
  const int at = blockIdx.x * 128 + threadIdx.x;
  if (at < ROWS) o[at] = a[at % COLS];
}
