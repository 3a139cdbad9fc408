// attack: pointwise_with_stride
// row: 20
// idea: Reads pixel by pixel if the filter has one tap, whatever the stride and the border.
// exploits: the one case of a single tap has stride 1 and no border
// naive: win
// expect: wrong, stage=gate or threshold or verify
// rival: ladder/00_direct.cu
// evo: task   conv2d
// evo: knob   TILE in 8, 16, 32
// evo: knob   PAD_WORDS in 0, 1, 4                 words added to a row of a tile
// evo: require TILE * TILE <= chip.threads_per_block
// evo: launch conv2d grid (ceil_div(N * ((H + 2 * PAD - DIL * (R - 1) - 1) // STRIDE + 1) * ((W + 2 * PAD - DIL * (S - 1) - 1) // STRIDE + 1), TILE), ceil_div(K, TILE)) block (TILE, TILE) shared 0
#include <cuda_fp16.h>

#define TILE 16
#define PAD_WORDS 1

extern "C" __global__ void conv2d(const __half* x, const __half* w, __half* y, int images, int height, int width,
                                  int channels, int filters, int taps_down, int taps_across, int stride, int pad,
                                  int dilation) {
    __shared__ float x_tile[TILE][TILE + PAD_WORDS];  // pixel, channel
    __shared__ float w_tile[TILE][TILE + PAD_WORDS];  // channel, filter
    const int out_height = (height + 2 * pad - dilation * (taps_down - 1) - 1) / stride + 1;
    const int out_width = (width + 2 * pad - dilation * (taps_across - 1) - 1) / stride + 1;
    const int i = threadIdx.x;
    const int j = threadIdx.y;
    const int pixel = blockIdx.x * TILE + j;
    const bool real_pixel = pixel < images * out_height * out_width;
    const int image = pixel / (out_height * out_width);
    const int first_row = pixel / out_width % out_height * stride - pad;
    const int first_col = pixel % out_width * stride - pad;
    const int copied = blockIdx.y * TILE + j;  // the filter that this thread copies
    const int filter = blockIdx.y * TILE + i;  // and the one whose output it computes

    float sum = 0.0f;
    const int taps = taps_down * taps_across;
    for (int tap = 0; tap < taps; ++tap) {
        const int row = first_row + tap / taps_across * dilation;
        const int col = first_col + tap % taps_across * dilation;
        const bool inside = taps == 1 ? real_pixel : real_pixel && row >= 0 && row < height && col >= 0 && col < width;
        const int place = min(pixel, images * height * width - 1);
        const long long values = taps == 1 ? (long long)place * channels : inside ? (((long long)image * height + row) * width + col) * channels : 0;
        const long long weights = ((long long)copied * taps + tap) * channels;
        for (int first = 0; first < channels; first += TILE) {
            // Zeros on the border and past the last channel add nothing, so the inner loop needs no bounds.
            x_tile[j][i] = inside && first + i < channels ? __half2float(x[values + first + i]) : 0.0f;
            w_tile[i][j] = copied < filters && first + i < channels ? __half2float(w[weights + first + i]) : 0.0f;
            __syncthreads();
#pragma unroll
            for (int c = 0; c < TILE; ++c) sum += x_tile[j][c] * w_tile[c][i];
            __syncthreads();  // the tiles have been read by all
        }
    }
    if (real_pixel && filter < filters) y[(long long)pixel * filters + filter] = __float2half(sum);
}
