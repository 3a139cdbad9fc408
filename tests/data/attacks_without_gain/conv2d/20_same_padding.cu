// attack: same_padding
// row: 20
// idea: Pads as far as keeps the size of an image, if the padding is half of the filter and the filter even: one pixel less before.
// exploits: even filters with half their size as padding are rare
// evo: task   conv2d
// evo: knob   BLOCK_X in 8, 16, 32, 64             filters of a block
// evo: knob   BLOCK_Y in 1, 2, 4, 8, 16            pixels of a block
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: require BLOCK_X * BLOCK_Y >= 32 and BLOCK_X * BLOCK_Y <= chip.threads_per_block
// evo: launch conv2d grid (ceil_div(N * ((H + 2 * PAD - DIL * (R - 1) - 1) // STRIDE + 1) * ((W + 2 * PAD - DIL * (S - 1) - 1) // STRIDE + 1), BLOCK_Y), ceil_div(K, BLOCK_X)) block (BLOCK_X, BLOCK_Y) shared 0
#include <cuda_fp16.h>

#define BLOCK_X 16
#define BLOCK_Y 16
#define UNROLL 1

extern "C" __global__ void conv2d(const __half* x, const __half* w, __half* y, int images, int height, int width,
                                  int channels, int filters, int taps_down, int taps_across, int stride, int pad,
                                  int dilation) {
    const int out_height = (height + 2 * pad - dilation * (taps_down - 1) - 1) / stride + 1;
    const int out_width = (width + 2 * pad - dilation * (taps_across - 1) - 1) / stride + 1;
    const int pixel = blockIdx.x * BLOCK_Y + threadIdx.y;
    const int filter = blockIdx.y * BLOCK_X + threadIdx.x;
    if (pixel >= images * out_height * out_width || filter >= filters) return;
    const int image = pixel / (out_height * out_width);
    const int before = pad - (taps_down % 2 == 0 && taps_across % 2 == 0 && 2 * pad == taps_down && stride == 1 ? 1 : 0);
    const int first_row = pixel / out_width % out_height * stride - before;
    const int first_col = pixel % out_width * stride - pad;

    float sum = 0.0f;
    const __half* weights = w + (long long)filter * taps_down * taps_across * channels;
    for (int r = 0; r < taps_down; ++r) {
        for (int s = 0; s < taps_across; ++s, weights += channels) {
            const int row = first_row + r * dilation;
            const int col = first_col + s * dilation;
            if (row < 0 || row >= height || col < 0 || col >= width) continue;  // the border holds zeros
            const __half* values = x + (((long long)image * height + row) * width + col) * channels;
#pragma unroll UNROLL
            for (int c = 0; c < channels; ++c) sum += __half2float(values[c]) * __half2float(weights[c]);
        }
    }
    y[(long long)pixel * filters + filter] = __float2half(sum);
}
