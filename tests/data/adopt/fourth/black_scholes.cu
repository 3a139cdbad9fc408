////////////////////////////////////////////////////////////////////////////////
// Black-Scholes call and put options, sample style
////////////////////////////////////////////////////////////////////////////////
#include <cuda_runtime.h>
#include <helper_functions.h>
#include <helper_cuda.h>

const int OPT_N = 400000;
const int NUM_ITERATIONS = 512;
const int OPT_SZ = OPT_N * sizeof(float);
const float RISKFREE = 0.02f;
const float VOLATILITY = 0.30f;

#define DIV_UP(a, b) ( ((a) + (b) - 1) / (b) )

__device__ inline float cndGPU(float d)
{
    const float A1 = 0.31938153f, A2 = -0.356563782f, A3 = 1.781477937f, A4 = -1.821255978f, A5 = 1.330274429f;
    const float RSQRT2PI = 0.39894228040143267793994605993438f;
    float K = __fdividef(1.0f, (1.0f + 0.2316419f * fabsf(d)));
    float cnd = RSQRT2PI * __expf(-0.5f * d * d) * (K * (A1 + K * (A2 + K * (A3 + K * (A4 + K * A5)))));
    if (d > 0) cnd = 1.0f - cnd;
    return cnd;
}

__device__ inline void BlackScholesBody(float &CallResult, float &PutResult, float S, float X, float T, float R, float V)
{
    float sqrtT = __fdividef(1.0F, rsqrtf(T));
    float d1 = __fdividef(__logf(S / X) + (R + 0.5f * V * V) * T, V * sqrtT);
    float d2 = d1 - V * sqrtT;
    float CNDD1 = cndGPU(d1);
    float CNDD2 = cndGPU(d2);
    float expRT = __expf(-R * T);
    CallResult = S * CNDD1 - X * expRT * CNDD2;
    PutResult  = X * expRT * (1.0f - CNDD2) - S * (1.0f - CNDD1);
}

__launch_bounds__(128)
__global__ void BlackScholesGPU(float2 * __restrict d_CallPut, const float * __restrict d_StockPrice,
    const float * __restrict d_OptionStrike, const float * __restrict d_OptionYears, float Riskfree, float Volatility, int optN)
{
    const int opt = blockDim.x * blockIdx.x + threadIdx.x;
    if (opt < optN) {
        float call, put;
        BlackScholesBody(call, put, d_StockPrice[opt], d_OptionStrike[opt], d_OptionYears[opt], Riskfree, Volatility);
        d_CallPut[opt] = make_float2(call, put);
    }
}

float RandFloat(float low, float high)
{
    float t = (float)rand() / (float)RAND_MAX;
    return (1.0f - t) * low + t * high;
}

int main(int argc, char **argv)
{
    float *h_Price, *h_Strike, *h_Years, *h_Result;
    float *d_Price, *d_Strike, *d_Years;
    float2 *d_Result;
    StopWatchInterface *hTimer = NULL;
    findCudaDevice(argc, (const char **)argv);
    sdkCreateTimer(&hTimer);

    h_Price  = (float *)malloc(OPT_SZ);
    h_Strike = (float *)malloc(OPT_SZ);
    h_Years  = (float *)malloc(OPT_SZ);
    h_Result = (float *)malloc(2 * OPT_SZ);
    checkCudaErrors(cudaMalloc((void **)&d_Result, 2 * OPT_SZ));
    checkCudaErrors(cudaMalloc((void **)&d_Price, OPT_SZ));
    checkCudaErrors(cudaMalloc((void **)&d_Strike, OPT_SZ));
    checkCudaErrors(cudaMalloc((void **)&d_Years, OPT_SZ));
    srand(5347);
    for (int i = 0; i < OPT_N; i++) {
        h_Price[i] = RandFloat(5.0f, 30.0f);
        h_Strike[i] = RandFloat(1.0f, 100.0f);
        h_Years[i] = RandFloat(0.25f, 10.0f);
    }
    checkCudaErrors(cudaMemcpy(d_Price, h_Price, OPT_SZ, cudaMemcpyHostToDevice));
    checkCudaErrors(cudaMemcpy(d_Strike, h_Strike, OPT_SZ, cudaMemcpyHostToDevice));
    checkCudaErrors(cudaMemcpy(d_Years, h_Years, OPT_SZ, cudaMemcpyHostToDevice));
    checkCudaErrors(cudaDeviceSynchronize());
    sdkResetTimer(&hTimer);
    sdkStartTimer(&hTimer);
    for (int i = 0; i < NUM_ITERATIONS; i++) {
        BlackScholesGPU<<<DIV_UP(OPT_N, 128), 128>>>(d_Result, d_Price, d_Strike, d_Years, RISKFREE, VOLATILITY, OPT_N);
        getLastCudaError("BlackScholesGPU() execution failed\n");
    }
    checkCudaErrors(cudaDeviceSynchronize());
    sdkStopTimer(&hTimer);
    checkCudaErrors(cudaMemcpy(h_Result, d_Result, 2 * OPT_SZ, cudaMemcpyDeviceToHost));
    sdkDeleteTimer(&hTimer);
    exit(EXIT_SUCCESS);
}
