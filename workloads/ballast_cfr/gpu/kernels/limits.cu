// What the machine can do: barriers that wait for nothing, and copies.

typedef unsigned int u32;
#define INLINE __device__ __forceinline__
#define ONE 0
#define CLUSTER 1
#define GRID 2
// BARRIERS

extern "C" __global__ void __launch_bounds__(NT, 1) barriers(u32* counters, u32 count) {
    Barrier b = {counters, 0, 0, 0};
    for (u32 i = 0; i < count; ++i) {
        arrive_all(b);
        wait_all(b);
    }
}

extern "C" __global__ void copies(const double2* from, double2* to, unsigned long long count, u32 times) {
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (u32 t = 0; t < times; ++t)
        for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) to[i] = __ldcg(from + i);
}

extern "C" __global__ void additions(double* out, double step, u32 count) {
    double total = out[threadIdx.x];
    for (u32 i = 0; i < count; ++i) total = total + step;
    out[threadIdx.x] = total;
}
