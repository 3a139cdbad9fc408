// evo: task tile_transposed
// evo: launch quarter_turn grid (ceil_div(W, 16), ceil_div(H, 16), B) block (16, 16) shared 0
// images turned clockwise by 90 degrees
extern "C" __global__ void quarter_turn(const float* image, float* turned, int B, int height, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        int at = blockIdx.z * width * height;
        int column = height - 1 - y, row = x;
        turned[at + row * height + column] = 2.0f * image[at + y * width + x];
    }
}
