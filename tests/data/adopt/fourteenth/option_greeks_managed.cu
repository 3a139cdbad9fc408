// European call prices and deltas on a grid of spots and strikes; unified memory.
#include <cmath>
#include <cstdlib>
#include <iostream>

struct Market {
    float rate;
    float volatility;
    float maturity;
};

__device__ double normal_cdf(double d) { return 0.5 * erfc(-d * 0.7071067811865475); }

__global__ void price_grid(const float* spots, const float* strikes, float* price, float* delta,
                           int n_spots, int n_strikes, Market mkt)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    int stride = blockDim.x * gridDim.x;
    for (int i = index; i < n_spots * n_strikes; i += stride) {
        float S = spots[i / n_strikes];
        float K = strikes[i % n_strikes];
        double sq = mkt.volatility * sqrt(mkt.maturity);
        double d1 = (log(S / K) + (mkt.rate + 0.5 * mkt.volatility * mkt.volatility) * mkt.maturity) / sq;
        double d2 = d1 - sq;
        price[i] = S * normal_cdf(d1) - K * exp(-mkt.rate * mkt.maturity) * normal_cdf(d2);
        delta[i] = normal_cdf(d1);
    }
}

int main(int argc, char** argv)
{
    int n_spots = argc > 1 ? atoi(argv[1]) : 512;
    int n_strikes = argc > 2 ? atoi(argv[2]) : 512;

    float *spots, *strikes, *price, *delta;
    cudaMallocManaged(&spots, n_spots * sizeof(float));
    cudaMallocManaged(&strikes, n_strikes * sizeof(float));
    cudaMallocManaged(&price, n_spots * n_strikes * sizeof(float));
    cudaMallocManaged(&delta, n_spots * n_strikes * sizeof(float));

    for (int i = 0; i < n_spots; i++) spots[i] = 50.0f + 100.0f * i / n_spots;
    for (int i = 0; i < n_strikes; i++) strikes[i] = 60.0f + 80.0f * i / n_strikes;

    int device, sms;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    cudaMemPrefetchAsync(price, n_spots * n_strikes * sizeof(float), device, NULL);

    Market mkt{0.03f, 0.2f, 1.0f};
    price_grid<<<32 * sms, 256>>>(spots, strikes, price, delta, n_spots, n_strikes, mkt);
    cudaDeviceSynchronize();

    std::cout << "price " << price[0] << " delta " << delta[0] << "\n";
    cudaFree(spots); cudaFree(strikes); cudaFree(price); cudaFree(delta);
}
