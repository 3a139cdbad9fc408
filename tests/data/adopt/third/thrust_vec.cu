// leaky bucket: clamp, accumulate a per-sensor mean, in three lines of thrust and two kernels
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <iostream>

__global__ void clampKernel(float* x, int n, float lo, float hi) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        x[i] = fminf(fmaxf(x[i], lo), hi);
}

__global__ void sensorMean(const float* x, float* mean, int sensors, int samples) {
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= sensors) return;
    float total = 0;
    for (int t = 0; t < samples; ++t) total += x[t * sensors + s];
    mean[s] = total / samples;
}

int main(int argc, char** argv) {
    int sensors = 2048, samples = 1000;
    thrust::host_vector<float> h(sensors * samples);
    for (size_t i = 0; i < h.size(); ++i) h[i] = rand() / float(RAND_MAX);
    thrust::device_vector<float> d = h;
    thrust::device_vector<float> mean(sensors);
    int n = sensors * samples;
    int block = 256;
    clampKernel<<<std::min(1024, (n + block - 1) / block), block>>>(thrust::raw_pointer_cast(d.data()), n, 0.1f, 0.9f);
    sensorMean<<<(sensors + block - 1) / block, block>>>(thrust::raw_pointer_cast(&d[0]), thrust::raw_pointer_cast(mean.data()), sensors, samples);
    cudaDeviceSynchronize();
    thrust::host_vector<float> result = mean;
    std::cout << result[0] << " " << result[sensors - 1] << std::endl;
    return 0;
}
