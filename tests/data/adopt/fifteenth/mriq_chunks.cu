/***************************************************************************
 *  Q matrix of a non-Cartesian MRI reconstruction (benchmark suite style)
 ***************************************************************************/
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>

#define PI   3.1415926535897932384626433832795029f
#define PIx2 6.2831853071795864769252867665590058f

#define MIN(X,Y) ((X) < (Y) ? (X) : (Y))
#define K_ELEMS_PER_GRID 1024
#define KERNEL_PHI_MAG_THREADS_PER_BLOCK 512
#define KERNEL_Q_THREADS_PER_BLOCK 256

struct kValues {
  float Kx;
  float Ky;
  float Kz;
  float PhiMag;
};

/* Values in the k-space coordinate system are stored in constant memory
 * on the GPU */
__constant__ __device__ kValues ck[K_ELEMS_PER_GRID];

__global__ void
ComputeQ_GPU(int numK, int kGlobalIndex,
             float* x, float* y, float* z, float* Qr , float* Qi)
{
  // Determine the element of the X arrays computed by this thread
  int xIndex = blockIdx.x*KERNEL_Q_THREADS_PER_BLOCK + threadIdx.x;

  // Read block's X values from global mem to registers
  float sX = x[xIndex];
  float sY = y[xIndex];
  float sZ = z[xIndex];
  float sQr = Qr[xIndex];
  float sQi = Qi[xIndex];

  // Loop over all elements of K in constant mem to compute a partial value
  // for X.
  int kIndex = 0;
  if (numK % 2) {
    float expArg = PIx2 * (ck[0].Kx * sX + ck[0].Ky * sY + ck[0].Kz * sZ);
    sQr += ck[0].PhiMag * cosf(expArg);
    sQi += ck[0].PhiMag * sinf(expArg);
    kIndex++;
    kGlobalIndex++;
  }

  for (; (kIndex < K_ELEMS_PER_GRID) && (kGlobalIndex < numK);
       kIndex += 2, kGlobalIndex += 2) {
    float expArg = PIx2 * (ck[kIndex].Kx * sX +
			   ck[kIndex].Ky * sY +
			   ck[kIndex].Kz * sZ);
    sQr += ck[kIndex].PhiMag * cosf(expArg);
    sQi += ck[kIndex].PhiMag * sinf(expArg);

    int kIndex1 = kIndex + 1;
    float expArg1 = PIx2 * (ck[kIndex1].Kx * sX +
			    ck[kIndex1].Ky * sY +
			    ck[kIndex1].Kz * sZ);
    sQr += ck[kIndex1].PhiMag * cosf(expArg1);
    sQi += ck[kIndex1].PhiMag * sinf(expArg1);
  }

  Qr[xIndex] = sQr;
  Qi[xIndex] = sQi;
}

void computeQ_GPU (int numK, int numX,
                  float* x_d, float* y_d, float* z_d,
                  kValues* kVals,
                  float* Qr_d, float* Qi_d)
{
  int QGrids = numK / K_ELEMS_PER_GRID;
  if (numK % K_ELEMS_PER_GRID)
    QGrids++;
  int QBlocks = numX / KERNEL_Q_THREADS_PER_BLOCK;
  if (numX % KERNEL_Q_THREADS_PER_BLOCK)
    QBlocks++;
  dim3 DimQBlock(KERNEL_Q_THREADS_PER_BLOCK, 1);
  dim3 DimQGrid(QBlocks, 1);

  for (int QGrid = 0; QGrid < QGrids; QGrid++) {
    // Put the tile of K values into constant mem
    int QGridBase = QGrid * K_ELEMS_PER_GRID;
    kValues* kValsTile = kVals + QGridBase;
    int numElems = MIN(K_ELEMS_PER_GRID, numK - QGridBase);

    cudaMemcpyToSymbol(ck, kValsTile, numElems * sizeof(kValues), 0);

    ComputeQ_GPU <<< DimQGrid, DimQBlock >>>
      (numK, QGridBase, x_d, y_d, z_d, Qr_d, Qi_d);
  }
}

int main (int argc, char *argv[]) {
  int numX = 32768, numK = 1024;
  if (argc > 1) numK = atoi(argv[1]);
  float *x = (float*)malloc(numX*sizeof(float)), *y = (float*)malloc(numX*sizeof(float)), *z = (float*)malloc(numX*sizeof(float));
  float *Qr = (float*)calloc(numX, sizeof(float)), *Qi = (float*)calloc(numX, sizeof(float));
  kValues *kVals = (kValues*)calloc(numK, sizeof(kValues));
  for (int i = 0; i < numX; i++) { x[i] = rand()/(float)RAND_MAX - .5f; y[i] = rand()/(float)RAND_MAX - .5f; z[i] = rand()/(float)RAND_MAX - .5f; }
  for (int k = 0; k < numK; k++) {
    kVals[k].Kx = rand()/(float)RAND_MAX; kVals[k].Ky = rand()/(float)RAND_MAX; kVals[k].Kz = rand()/(float)RAND_MAX;
    kVals[k].PhiMag = 1.0f;
  }

  float *x_d, *y_d, *z_d, *Qr_d, *Qi_d;
  cudaMalloc((void **)&x_d, numX * sizeof(float));
  cudaMemcpy(x_d, x, numX * sizeof(float), cudaMemcpyHostToDevice);
  cudaMalloc((void **)&y_d, numX * sizeof(float));
  cudaMemcpy(y_d, y, numX * sizeof(float), cudaMemcpyHostToDevice);
  cudaMalloc((void **)&z_d, numX * sizeof(float));
  cudaMemcpy(z_d, z, numX * sizeof(float), cudaMemcpyHostToDevice);
  cudaMalloc((void **)&Qr_d, numX * sizeof(float));
  cudaMemset((void *)Qr_d, 0, numX * sizeof(float));
  cudaMalloc((void **)&Qi_d, numX * sizeof(float));
  cudaMemset((void *)Qi_d, 0, numX * sizeof(float));

  computeQ_GPU(numK, numX, x_d, y_d, z_d, kVals, Qr_d, Qi_d);

  cudaMemcpy(Qr, Qr_d, numX * sizeof(float), cudaMemcpyDeviceToHost);
  cudaMemcpy(Qi, Qi_d, numX * sizeof(float), cudaMemcpyDeviceToHost);
  printf("%f %f\n", Qr[0], Qi[0]);
  return 0;
}
