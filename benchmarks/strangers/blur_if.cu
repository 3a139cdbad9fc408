// 3x3 mean filter: loops over the window with a test for the border, division at the end
// evo: task blur
// evo: launch blur grid (ceil_div(W, 32), ceil_div(H, 8)) block (32, 8) shared 0
extern "C" __global__ void blur(const float* in, float* out, int h, int w) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (col < w && row < h) {
    float pixVal = 0;
    for (int blurRow = -1; blurRow < 2; ++blurRow) {
      for (int blurCol = -1; blurCol < 2; ++blurCol) {
        int curRow = row + blurRow;
        int curCol = col + blurCol;
        if (curRow >= 0 && curRow < h && curCol >= 0 && curCol < w) {
          pixVal += in[curRow * w + curCol];
        }
      }
    }
    out[row * w + col] = pixVal / 9.0f;
  }
}
