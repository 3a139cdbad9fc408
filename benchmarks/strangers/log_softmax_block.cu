// log softmax: a block a row, two trees in shared memory, fmaxf
// evo: task log_softmax
// evo: launch lsm grid (ROWS) block (128) shared 0
extern "C" __global__ void lsm(const float* x, float* y, int rows, int cols) {
    __shared__ float buf[128];
    const int tid = threadIdx.x;
    const float* in = x + blockIdx.x * cols;
    float* out = y + blockIdx.x * cols;
    float top = -1e30f;
    for (int c = tid; c < cols; c += 128) top = fmaxf(top, in[c]);
    buf[tid] = top;
    __syncthreads();
    for (int s = 64; s > 0; s >>= 1) {
        if (tid < s) buf[tid] = fmaxf(buf[tid], buf[tid + s]);
        __syncthreads();
    }
    top = buf[0];
    __syncthreads();
    float sum = 0.0f;
    for (int c = tid; c < cols; c += 128) sum += expf(in[c] - top);
    buf[tid] = sum;
    __syncthreads();
    for (int s = 64; s > 0; s >>= 1) {
        if (tid < s) buf[tid] += buf[tid + s];
        __syncthreads();
    }
    sum = buf[0];
    for (int c = tid; c < cols; c += 128) out[c] = in[c] - top - logf(sum);
}
