// Question: my pull-style PageRank step is slower than the CPU, what do I do wrong?
#include <iostream>
#include <random>
#include <vector>

__global__ void pull(int nodes, const int *row_ptr, const int *col, const float *rank, const int *out_degree,
                     float *next, float damping) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v < nodes) {
        float s = 0;
        for (int e = row_ptr[v]; e < row_ptr[v + 1]; e++) {
            int u = col[e];
            s += rank[u] / out_degree[u];
        }
        next[v] = (1 - damping) / nodes + damping * s;
    }
}

int main() {
    const int nodes = 20000;
    std::mt19937 gen(42);
    std::uniform_int_distribution<int> pick(0, nodes - 1);
    std::uniform_int_distribution<int> deg(1, 16);
    std::vector<int> row_ptr, col;
    std::vector<int> out_degree(nodes, 1);
    row_ptr.push_back(0);
    for (int v = 0; v < nodes; v++) {
        int d = deg(gen);
        for (int k = 0; k < d; k++) {
            int u = pick(gen);
            col.push_back(u);
            out_degree[u]++;
        }
        row_ptr.push_back(col.size());
    }
    std::vector<float> rank(nodes, 1.0f / nodes);

    int *d_row, *d_col, *d_deg;
    float *d_rank, *d_next;
    cudaMalloc(&d_row, row_ptr.size() * sizeof(int));
    cudaMalloc(&d_col, col.size() * sizeof(int));
    cudaMalloc(&d_deg, nodes * sizeof(int));
    cudaMalloc(&d_rank, nodes * sizeof(float));
    cudaMalloc(&d_next, nodes * sizeof(float));
    cudaMemcpy(d_row, row_ptr.data(), row_ptr.size() * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(d_col, col.data(), col.size() * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(d_deg, out_degree.data(), nodes * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(d_rank, rank.data(), nodes * sizeof(float), cudaMemcpyHostToDevice);

    for (int it = 0; it < 20; it++) {
        pull<<<(nodes + 255) / 256, 256>>>(nodes, d_row, d_col, d_rank, d_deg, d_next, 0.85f);
        std::swap(d_rank, d_next);
    }
    cudaMemcpy(rank.data(), d_rank, nodes * sizeof(float), cudaMemcpyDeviceToHost);
    std::cout << rank[0] << std::endl;
}
