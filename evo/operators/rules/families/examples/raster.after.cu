// evo: knob BLOCK_GROUP in 2, 4, 8, 16
// evo: launch k grid (N, M) block (32) shared 0
#define BLOCK_GROUP 8
extern "C" __global__ void k(const float* a, float* o) {
    // Blocks in groups of BLOCK_GROUP rows, column by column: neighbours in time share what they read.
    const int block_number = blockIdx.y * gridDim.x + blockIdx.x;
    const int group_first = block_number / (BLOCK_GROUP * gridDim.x) * BLOCK_GROUP;
    const int group_rows = min((int)gridDim.y - group_first, BLOCK_GROUP);
    const int block_y = group_first + block_number % (BLOCK_GROUP * gridDim.x) % group_rows;
    const int block_x = block_number % (BLOCK_GROUP * gridDim.x) / group_rows;
  o[block_y * 8 + block_x] = a[block_x * 8 + block_y];
}
