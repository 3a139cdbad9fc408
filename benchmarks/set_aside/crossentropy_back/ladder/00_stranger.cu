// evo: task crossentropy_back
// evo: launch crossentropy_softmax_backward grid (ceil_div(B * T, 128)) block (128) shared 0
extern "C" __global__ void crossentropy_softmax_backward(const float* logits, const float* dlosses, const int* targets,
                                                         float* dlogits, int B, int T, int V) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < B * T) {
        const float* x = logits + i * V;
        float* dx = dlogits + i * V;
        float maxval = -INFINITY;
        for (int v = 0; v < V; v++) maxval = fmaxf(maxval, x[v]);
        float sum = 0.0f;
        for (int v = 0; v < V; v++) sum += expf(x[v] - maxval);
        float dloss = dlosses[i];
        int ix = targets[i];
        for (int v = 0; v < V; v++) {
            float p = expf(x[v] - maxval) / sum;
            float indicator = v == ix ? 1.0f : 0.0f;
            dx[v] = (p - indicator) * dloss;
        }
    }
}
