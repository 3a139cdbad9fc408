// k-means on the GPU: assignment on the device, update on the host. (hobby project)
#include <cfloat>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

__global__ void assign_clusters(const float* points, const float* centroids, int* labels, float* best, int n, int k, int dims)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i < n) {
        float min_dist = FLT_MAX;
        int label = 0;
        for (int c = 0; c < k; c++) {
            float dist = 0;
            for (int d = 0; d < dims; d++) {
                float diff = points[i * dims + d] - centroids[c * dims + d];
                dist += diff * diff;
            }
            if (dist < min_dist) {
                min_dist = dist;
                label = c;
            }
        }
        labels[i] = label;
        best[i] = min_dist;
    }
}

class KMeans {
public:
    KMeans(int k, int max_iter) : k_(k), max_iter_(max_iter) {}
    ~KMeans()
    {
        cudaFree(d_points_);
        cudaFree(d_centroids_);
        cudaFree(d_labels_);
        cudaFree(d_best_);
    }

    void fit(const std::vector<std::vector<float>>& data)
    {
        n_ = data.size();
        dims_ = data[0].size();
        std::vector<float> flat;
        flat.reserve(n_ * dims_);
        for (const auto& row : data)
            for (float v : row) flat.push_back(v);
        centroids_.assign(flat.begin(), flat.begin() + k_ * dims_);

        cudaMalloc(&d_points_, n_ * dims_ * sizeof(float));
        cudaMalloc(&d_centroids_, k_ * dims_ * sizeof(float));
        cudaMalloc(&d_labels_, n_ * sizeof(int));
        cudaMalloc(&d_best_, n_ * sizeof(float));
        cudaMemcpy(d_points_, flat.data(), n_ * dims_ * sizeof(float), cudaMemcpyHostToDevice);

        labels_.resize(n_);
        for (int iter = 0; iter < max_iter_; iter++) {
            cudaMemcpy(d_centroids_, centroids_.data(), k_ * dims_ * sizeof(float), cudaMemcpyHostToDevice);
            int threads = 256;
            int blocks = (n_ + threads - 1) / threads;
            assign_clusters<<<blocks, threads>>>(d_points_, d_centroids_, d_labels_, d_best_, n_, k_, dims_);
            cudaMemcpy(labels_.data(), d_labels_, n_ * sizeof(int), cudaMemcpyDeviceToHost);
            update(flat);
        }
    }

    const std::vector<int>& labels() const { return labels_; }

private:
    void update(const std::vector<float>& flat)
    {
        std::vector<int> count(k_, 0);
        std::fill(centroids_.begin(), centroids_.end(), 0.0f);
        for (int i = 0; i < n_; i++) {
            count[labels_[i]]++;
            for (int d = 0; d < dims_; d++) centroids_[labels_[i] * dims_ + d] += flat[i * dims_ + d];
        }
        for (int c = 0; c < k_; c++)
            for (int d = 0; d < dims_; d++)
                if (count[c] > 0) centroids_[c * dims_ + d] /= count[c];
    }

    int k_, max_iter_, n_ = 0, dims_ = 0;
    std::vector<float> centroids_;
    std::vector<int> labels_;
    float* d_points_ = nullptr;
    float* d_centroids_ = nullptr;
    int* d_labels_ = nullptr;
    float* d_best_ = nullptr;
};

std::vector<std::vector<float>> load_csv(const std::string& path)
{
    std::vector<std::vector<float>> rows;
    std::ifstream in(path);
    std::string line;
    while (std::getline(in, line)) {
        std::vector<float> row;
        std::stringstream ss(line);
        std::string cell;
        while (std::getline(ss, cell, ',')) row.push_back(std::stof(cell));
        rows.push_back(row);
    }
    return rows;
}

int main(int argc, char** argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: kmeans points.csv\n");
        return 1;
    }
    auto data = load_csv(argv[1]);
    KMeans km(8, 20);
    km.fit(data);
    for (int i = 0; i < 10; i++) printf("%d\n", km.labels()[i]);
    return 0;
}
