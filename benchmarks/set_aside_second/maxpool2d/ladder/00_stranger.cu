// evo: task maxpool2d
// evo: launch maxpool3x3s2 grid (ceil_div(N * C * OH * OW, 256)) block (256) shared 0
extern "C" __global__ void maxpool3x3s2(const float* input, float* output, int batch, int channels, int height, int width,
                                        int out_h, int out_w) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  int count = batch * channels * out_h * out_w;
  if (index < count) {
    int pw = index % out_w;
    int ph = (index / out_w) % out_h;
    int c = (index / out_w / out_h) % channels;
    int n = index / out_w / out_h / channels;
    const float* plane = input + (n * channels + c) * height * width;
    int hstart = ph * 2;
    int wstart = pw * 2;
    float best = -INFINITY;
    for (int h = hstart; h < hstart + 3; ++h) {
      for (int w = wstart; w < wstart + 3; ++w) {
        best = fmaxf(best, plane[h * width + w]);
      }
    }
    output[index] = best;
  }
}
