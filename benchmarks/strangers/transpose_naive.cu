// naive transpose: 16x16 threads, coalesced reads, scattered writes
// evo: task transpose
// evo: launch transpose grid (ceil_div(COLS, 16), ceil_div(ROWS, 16)) block (16, 16) shared 0
extern "C" __global__ void transpose(const float* in, float* out, int rows, int cols)
{
    int c = threadIdx.x + blockIdx.x * blockDim.x;
    int r = threadIdx.y + blockIdx.y * blockDim.y;
    if (c < cols && r < rows)
        out[c * rows + r] = in[r * cols + c];
}
