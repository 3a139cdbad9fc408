// evo: task pivots
// evo: launch invert4 grid (ceil_div(N, 128)) block (128) shared 0
#define DIM 4
extern "C" __global__ void invert4(const float* a, float* inv, int n) {
    int m = threadIdx.x + blockIdx.x * blockDim.x;
    if (m >= n) return;
    float aug[DIM][2 * DIM];
    for (int i = 0; i < DIM; i++)
        for (int j = 0; j < DIM; j++) {
            aug[i][j] = a[m * DIM * DIM + i * DIM + j];
            aug[i][j + DIM] = (i == j) ? 1.0f : 0.0f;
        }
    for (int col = 0; col < DIM; col++) {
        int piv = col;
        for (int r = col + 1; r < DIM; r++)
            if (fabsf(aug[r][col]) > fabsf(aug[piv][col])) piv = r;
        if (piv != col)
            for (int j = 0; j < 2 * DIM; j++) {
                float t = aug[col][j];
                aug[col][j] = aug[piv][j];
                aug[piv][j] = t;
            }
        float d = 1.0f / aug[col][col];
        for (int j = 0; j < 2 * DIM; j++) aug[col][j] *= d;
        for (int r = 0; r < DIM; r++) {
            if (r == col) continue;
            float f = aug[r][col];
            for (int j = 0; j < 2 * DIM; j++) aug[r][j] -= f * aug[col][j];
        }
    }
    for (int i = 0; i < DIM; i++)
        for (int j = 0; j < DIM; j++) inv[m * DIM * DIM + i * DIM + j] = aug[i][j + DIM];
}
