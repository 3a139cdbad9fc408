%%writefile cosine.cu
// Nearest item for a query embedding -- cosine similarity on the GPU
#include <iostream>
#include <vector>
#include <random>
#include <algorithm>
using namespace std;

const int N_ITEMS = 20000;
const int DIM = 128;

__global__ void cosine_kernel(const float* items, const float* query, float* scores, int n, int d)
{
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i >= n) return;
    float dot = 0.f, norm_a = 0.f, norm_b = 0.f;
    for (int j = 0; j < d; j++) {
        float a = items[i * d + j];
        float b = query[j];
        dot += a * b;
        norm_a += a * a;
        norm_b += b * b;
    }
    scores[i] = dot / (sqrtf(norm_a) * sqrtf(norm_b) + 1e-8f);
}

int main()
{
    mt19937 gen(42);
    normal_distribution<float> dist(0.0f, 1.0f);
    vector<float> items(N_ITEMS * DIM), query(DIM), scores(N_ITEMS);
    for (auto& v : items) v = dist(gen);
    for (auto& v : query) v = dist(gen);

    float *d_items, *d_query, *d_scores;
    cudaMalloc(&d_items, items.size() * sizeof(float));
    cudaMalloc(&d_query, query.size() * sizeof(float));
    cudaMalloc(&d_scores, scores.size() * sizeof(float));
    cudaMemcpy(d_items, items.data(), items.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_query, query.data(), query.size() * sizeof(float), cudaMemcpyHostToDevice);

    int block = 256;
    int grid = (N_ITEMS + block - 1) / block;
    cosine_kernel<<<grid, block>>>(d_items, d_query, d_scores, N_ITEMS, DIM);
    cudaDeviceSynchronize();

    cudaMemcpy(scores.data(), d_scores, scores.size() * sizeof(float), cudaMemcpyDeviceToHost);
    auto best = max_element(scores.begin(), scores.end()) - scores.begin();
    cout << "best item: " << best << " score: " << scores[best] << endl;
    cudaFree(d_items); cudaFree(d_query); cudaFree(d_scores);
}
