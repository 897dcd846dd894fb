// The stages of an iteration over one share. Sums have the order of the CPU's kernels, addition by addition: rows left
// to right in chunks of 16, children from the last to the first, actions from the first to the last. Nothing is fused.

#define ROW_CHUNK 16
#define WARPS (NT / 32)
#define BATCH 8
#define LOWEST ((REAL)__longlong_as_double((long long)0xfff0000000000000ull))
#define EVERYONE 0xffffffffu

// m / total. Division takes a slow path for zeros, which are what most actions have; they do not enter it here.
INLINE double part_of(double m, double total) {
    const double quotient = (m > 0.0 ? m : total) / total;
    return m > 0.0 ? quotient : 0.0;
}

// g = A y for the rows of the share, and for those of the trunk that it has taken on: a thread for each part of a row.
INLINE void put_row(const Share& s, u32 to, REAL total) {
    if (to & FOREIGN) __stcg(s.trunk_g + (to & TARGET), total);
    else if (!(to & NOWHERE)) s.g[to & TARGET] = total;
}

INLINE void gradient(const Share& s, const Share& other) {
    for (u32 i = threadIdx.x; i < s.rows; i += NT) {
        const Row row = s.row[i];
        const u32 length = row.to >> LENGTH_SHIFT;
        REAL total = 0;
        for (u32 j = 0; j < length; j += BATCH) {  // loads of a batch are all under way before the first is added
            REAL term[BATCH];
#pragma unroll
            for (u32 i = 0; i < BATCH; ++i) {
                const u32 e = row.entry + 32 * min(j + i, length - 1);
                term[i] = s.value[e] * plan_of(other, s.column[e]);
            }
#pragma unroll
            for (u32 i = 0; i < BATCH; ++i) total = total + (j + i < length ? term[i] : (REAL)0);
        }
        put_row(s, row.to, total);
    }
    __syncthreads();
#if LONGS
    for (u32 i = threadIdx.x; i < s.n_long; i += NT) {
        const u32* row = s.longs + 3 * i;
        const u32 from = s.slots + row[1], count = row[2];
        REAL total = 0;
#pragma unroll 4
        for (u32 part = 0; part < count; ++part) total = total + s.g[from + part];
        put_row(s, row[0], total);
    }
    __syncthreads();
#endif
}

struct Rates {
    double weight, positive, negative, predict;
};

enum { UP, VALUE, BEST };

enum { STEP, REALISE, REALISE_AVERAGE };
