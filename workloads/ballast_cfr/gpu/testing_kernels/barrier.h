// What barrier.cu promises, by counters that fibers look at: nobody waits on arriving, as on the GPU.
template <typename T> INLINE void store_far(u32 address, T x) {
    Block& far = blocks[blockIdx.x / NB * NB + (address >> 24)];
    memcpy(far.shared + (address & 0xffffff), &x, sizeof(T));
}

struct Barrier {
    u32* counters;  // [0] all blocks, [32] subtrees to trunk, [64] trunk to subtrees
    u32 all, up, down;
};

INLINE void arrive(u32* counter) {
    __syncthreads();
    if (threadIdx.x == 0) ++*counter;
}

INLINE void wait_for(const u32* counter, u32 target) {
    while ((int)(*(volatile const u32*)counter - target) < 0) yield();
    __syncthreads();
}

INLINE void arrive_all(Barrier& b) {
#if REGIME != ONE
    b.all += NB;
    arrive(b.counters);
#endif
}

INLINE void wait_all(Barrier& b) {
#if REGIME == ONE
    __syncthreads();
#else
    wait_for(b.counters, b.all);
#endif
}

INLINE void subtrees_arrive(Barrier& b, bool trunk) {
#if REGIME != ONE
    b.up += NB - 1;
    if (!trunk) arrive(b.counters + 32);
#endif
}

INLINE void trunk_wait(Barrier& b) {
#if REGIME != ONE
    wait_for(b.counters + 32, b.up);
#endif
}

INLINE void trunk_arrive(Barrier& b) {
#if REGIME != ONE
    b.down += 1;
    arrive(b.counters + 64);
#endif
}

INLINE void subtrees_wait(Barrier& b) {
#if REGIME != ONE
    b.down += 1;
    wait_for(b.counters + 64, b.down);
#endif
}

INLINE void cluster_arrive() {}
INLINE void cluster_wait() {}
