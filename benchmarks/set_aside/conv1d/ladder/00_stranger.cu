// evo: task conv1d
// evo: launch conv1d_forward grid (ceil_div(LO, 128), CO, B) block (128) shared 0
extern "C" __global__ void conv1d_forward(const float* __restrict__ x, const float* __restrict__ w,
                                          const float* __restrict__ bias, float* __restrict__ y, int batch,
                                          int in_channels, int out_channels, int length, int k, int out_length) {
    int pos = blockIdx.x * blockDim.x + threadIdx.x;
    int oc = blockIdx.y;
    int b = blockIdx.z;
    if (pos >= out_length) return;
    float sum = bias[oc];
    for (int ic = 0; ic < in_channels; ic++) {
        for (int j = 0; j < k; j++) {
            sum += x[(b * in_channels + ic) * length + pos + j] * w[(oc * in_channels + ic) * k + j];
        }
    }
    y[(b * out_channels + oc) * out_length + pos] = sum;
}
