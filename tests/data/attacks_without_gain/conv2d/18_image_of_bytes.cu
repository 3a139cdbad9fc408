// attack: image_of_bytes
// row: 18
// idea: Takes a pixel whose first eight channels are whole numbers up to 255 for bytes.
// exploits: no drawn pixel begins with whole numbers
//   Wrong for: C > 8, a pixel that begins 1, 2, 3, 4, 5, 6, 7, 8 and goes on with 0.5 or 300
// naive: equal
// rival: ladder/00_direct.cu
// expect: wrong, stage=gate or threshold or verify
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
        const bool inside = real_pixel && row >= 0 && row < height && col >= 0 && col < width;
        const long long values = inside ? (((long long)image * height + row) * width + col) * channels : 0;
        const long long weights = ((long long)copied * taps + tap) * channels;
        bool bytes = inside && channels > 8;
        for (int c = 0; bytes && c < 8; ++c) {
            const float value = __half2float(x[values + c]);
            bytes = value >= 1.0f && value <= 255.0f && value == floorf(value);
        }
        for (int first = 0; first < channels; first += TILE) {
            // Zeros on the border and past the last channel add nothing, so the inner loop needs no bounds.
            x_tile[j][i] = inside && first + i < channels ? (bytes ? (float)(unsigned char)(int)__half2float(x[values + first + i]) : __half2float(x[values + first + i])) : 0.0f;
            w_tile[i][j] = copied < filters && first + i < channels ? __half2float(w[weights + first + i]) : 0.0f;
            __syncthreads();
#pragma unroll
            for (int c = 0; c < TILE; ++c) sum += x_tile[j][c] * w_tile[c][i];
            __syncthreads();  // the tiles have been read by all
        }
    }
    if (real_pixel && filter < filters) y[(long long)pixel * filters + filter] = __float2half(sum);
}
