// evo: task transpose_naive
// evo: launch transpose grid (ceil_div(COLS, 32), ceil_div(ROWS, 32)) block (32, 8) shared 0
// out = in^T, each block does a 32x32 tile with 8 rows of threads
static constexpr int TILE_DIM = 32, BLOCK_ROWS = 8;

extern "C" __global__ void transpose(const float *idata, float *odata, int height, int width) {
  int xIndex = blockIdx.x * TILE_DIM + threadIdx.x;
  int yIndex = blockIdx.y * TILE_DIM + threadIdx.y;
  int index_in = xIndex + width * yIndex;
  int index_out = yIndex + height * xIndex;
  for (int i = 0; i < TILE_DIM; i += BLOCK_ROWS)
    if (xIndex < width && yIndex + i < height)
      odata[index_out + i] = idata[index_in + i * width];
}
