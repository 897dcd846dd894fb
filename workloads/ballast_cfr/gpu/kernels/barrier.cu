// Barriers across the blocks of a solve. Counters only grow, so none is ever reset during a launch.

INLINE void store_far(u32 address, double x) { asm volatile("st.shared::cluster.f64 [%0], %1;" ::"r"(address), "d"(x)); }
INLINE void store_far(u32 address, float x) { asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(x)); }

struct Barrier {
    u32* counters;  // [0] all blocks, [1] subtrees to trunk, [2] trunk to subtrees
    u32 all, up, down;
};

INLINE u32 seen(const u32* counter) {
    u32 value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
    return value;
}

INLINE void count(u32* counter) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}

INLINE void wait_for(const u32* counter, u32 target) {
    if (threadIdx.x == 0)
        while ((int)(seen(counter) - target) < 0) {}
    __syncthreads();
}

INLINE void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
INLINE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Everything written before, by any block, is seen after.
INLINE void arrive_all(Barrier& b) {
#if REGIME == CLUSTER
    cluster_arrive();
#elif REGIME == GRID
    __syncthreads();
    b.all += NB;
    if (threadIdx.x == 0) count(b.counters);
#endif
}

INLINE void wait_all(Barrier& b) {
#if REGIME == ONE
    __syncthreads();
#elif REGIME == CLUSTER
    cluster_wait();
#else
    wait_for(b.counters, b.all);
#endif
}

// Subtrees have published the values of their roots; the trunk may read them after `trunk_wait`.
INLINE void subtrees_arrive(Barrier& b, bool trunk) {
#if REGIME == CLUSTER
    cluster_arrive();
#elif REGIME == GRID
    b.up += NB - 1;
    if (!trunk) {
        __syncthreads();
        if (threadIdx.x == 0) count(b.counters + 32);
    }
#endif
}

INLINE void trunk_wait(Barrier& b) {
#if REGIME == CLUSTER
    cluster_wait();
#elif REGIME == GRID
    wait_for(b.counters + 32, b.up);
#endif
}

// The trunk has published its plan; subtrees may read it after `subtrees_wait`.
INLINE void trunk_arrive(Barrier& b) {
#if REGIME == CLUSTER
    cluster_arrive();
    cluster_wait();
#elif REGIME == GRID
    b.down += 1;
    __syncthreads();
    if (threadIdx.x == 0) count(b.counters + 64);
#endif
}

INLINE void subtrees_wait(Barrier& b) {
#if REGIME == CLUSTER
    cluster_wait();
    cluster_arrive();
    cluster_wait();
#elif REGIME == GRID
    b.down += 1;
    wait_for(b.counters + 64, b.down);
#endif
}
