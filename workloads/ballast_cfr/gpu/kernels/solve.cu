// Many iterations in one launch. Blocks share a solve (or hold one each, in a batch) and meet twice in each player's
// half: where the subtrees hand their values to the trunk, if there is one, and when the player's plan is complete.

// Values of the roots of a share's subtrees, for the trunk or for whoever sums the roots of the game.
INLINE void hand_up(const Share& s) {
    const u32 count = s.d[N_ROOTS], to = s.d[CUT0];
    for (u32 i = threadIdx.x; i < count; i += NT) __stcg(s.cut + to + i, s.v[i]);
}

// What the other blocks have worked out for the trunk.
INLINE void take_up(const Share& s) {
    const u32 infosets = s.d[N_INFOSETS], roots = s.cut_roots;
    for (u32 i = threadIdx.x; i < roots; i += NT) s.v[infosets + i] = __ldcg(s.cut + i);
    for (u32 i = threadIdx.x; i < s.trunk_slots; i += NT) s.g[i] = __ldcg(s.trunk_g + i);
    __syncthreads();
}

// From g to the player's next plan, seen by all blocks after the next barrier of all.
INLINE void update(const Share& s, Barrier& b, const Rates& rate, u32 mine) {
    if (ANY_CUT && s.trunk) {
        subtrees_arrive(b, true);
        trunk_wait(b);
        take_up(s);
    }
    all_levels_up<UP>(s, mine);
    if (ANY_CUT && s.has_cut && !s.trunk) {
        hand_up(s);
        subtrees_arrive(b, false);
    }
    match(s, rate, mine);
    __syncthreads();
    if (ANY_CUT && s.has_cut && !s.trunk) subtrees_wait(b);
    all_levels_down<STEP>(s, rate, mine);
    if (ANY_CUT && s.trunk) trunk_arrive(b);
}

INLINE void iterate(const Share& s0, const Share& s1, Barrier& b, const Rates& rate, u32 mine) {
#if !ALTERNATE
    gradient(s0, s1);
    gradient(s1, s0);
    arrive_all(b);
    wait_all(b);
#endif
#pragma unroll 1
    for (u32 player = 0; player < 2; ++player) {
        const Share s = either(player == 1, s0, s1);
#if ALTERNATE
        const Share other = either(player == 0, s0, s1);
        gradient(s, other);
#endif
        update(s, b, rate, mine);
        arrive_all(b);
        wait_all(b);
    }
}

// The plan of the average strategy, or of the current one again.
template <int WHAT> INLINE void realise(const Share& s, Barrier& b, u32 mine) {
    const Rates none = {};
    if (ANY_CUT && s.has_cut) {
        subtrees_arrive(b, s.trunk);
        if (s.trunk) trunk_wait(b);
        else subtrees_wait(b);
    }
    all_levels_down<WHAT>(s, none, mine);
    if (ANY_CUT && s.trunk) trunk_arrive(b);
}

// The value of the game's start under VALUE or BEST for player P; block 0 leaves it in `to`.
template <int WHAT>
INLINE void value_of(const Arrays& a, u32 row0, const Share& s, const Share& other, Barrier& b, u32 roots, double* to, u32 mine) {
    gradient(s, other);
    if (s.trunk) {
        arrive_all(b);
        wait_all(b);
        take_up(s);
    }
    all_levels_up<WHAT>(s, mine);
    if (!s.trunk) {
        hand_up(s);
        arrive_all(b);
        wait_all(b);
    }
    if (blockIdx.x % NB == 0 && threadIdx.x == 0) {
        REAL g = 0;
        for (u32 chunk = 0; chunk < a.entry0_end; chunk += ROW_CHUNK) {
            REAL part = 0;
            for (u32 e = chunk; e < min(a.entry0_end, chunk + ROW_CHUNK); ++e)
                part = part + a.row0_value[row0 + e] * plan_of(other, a.row0_column[e]);
            g = g + part;
        }
        for (u32 i = roots; i-- > 0;) g = g + (s.has_cut ? s.v[i] : __ldcg(s.cut + i));
        *to = (double)g;
    }
    arrive_all(b);
    wait_all(b);
}

struct Look {
    Barrier barrier;
    bool met;
};

// Exact best replies to the average strategies, and whether they meet the target; the state is as before afterwards.
// The strategies' own value is worked out only where the solve ends: at the last look, or where the target is met.
__device__ __noinline__ Look evaluate(const Problem& q, const u32* d, Barrier b, u32 instance, bool last) {
    const Share s0 = place<0, false>(q, d, instance), s1 = place<1, false>(q, d + DESCRIPTOR, instance);
    double* found = q.found + 3 * instance;
    const u32 mine = warp_number();
#pragma unroll 1
    for (u32 player = 0; player < 2; ++player) realise<REALISE_AVERAGE>(either(player, s0, s1), b, mine);
    arrive_all(b);
    wait_all(b);
#pragma unroll 1
    for (u32 player = 0; player < 2; ++player)
        value_of<BEST>(q.player[player], instance * q.stride_row0[player], either(player, s0, s1), either(!player, s0, s1), b,
                       player ? ROOTS_1 : ROOTS_0, found + 1 + player, mine);
    const double lower = q.shift - __ldcg(found + 2), upper = q.shift + __ldcg(found + 1);
    const bool met = (upper - lower) / 2 <= q.target;
    if (last || met) value_of<VALUE>(q.player[0], instance * q.stride_row0[0], s0, s1, b, ROOTS_0, found, mine);
#pragma unroll 1
    for (u32 player = 0; player < 2; ++player) realise<REALISE>(either(player, s0, s1), b, mine);
    arrive_all(b);
    wait_all(b);
    return {b, met};
}

extern "C" __global__ void __launch_bounds__(NT, 1) solve(const __grid_constant__ Problem q) {
    __shared__ u32 descriptor[2][DESCRIPTOR];
    const u32 block = blockIdx.x % NB, instance = blockIdx.x / NB;
#if POISON
    for (u32 i = threadIdx.x; i < SHARED_BYTES / 4; i += NT) ((u32*)memory)[i] = ~0u;
    __syncthreads();
#endif
    for (u32 i = threadIdx.x; i < 2 * DESCRIPTOR; i += NT)
        descriptor[i / DESCRIPTOR][i % DESCRIPTOR] =
            q.player[i / DESCRIPTOR].descriptor[block * DESCRIPTOR + i % DESCRIPTOR];
    __syncthreads();
    Barrier b = {q.barrier + 128 * instance, 0, 0, 0};
    const Share s0 = place<0, true>(q, descriptor[0], instance);
    const Share s1 = place<1, true>(q, descriptor[1], instance);
#if PUSH
    copy<REAL>((REAL*)(memory + AT_pushed_0), q.player[0].plan, SLOTS_0 + 1);
    copy<REAL>((REAL*)(memory + AT_pushed_1), q.player[1].plan, SLOTS_1 + 1);
#endif
    arrive_all(b);
    wait_all(b);
    const u32 mine = warp_number();
    u32 done = 0, look = 0;
    bool met = false;
    u32 next = q.n_looks ? q.looks[0] : ~0u;
    if (q.iterations == 0 && q.n_looks) b = evaluate(q, descriptor[0], b, instance, true).barrier;
    Rates soon = {0, 0, 0, q.predict};
    if (q.iterations) soon = {q.weight[0], q.positive[0], q.negative[0], q.predict};
    while (done < q.iterations && !met) {
        const Rates rate = soon;
        const u32 then = min(done + 1, q.iterations - 1);
        soon = {q.weight[then], q.positive[then], q.negative[then], q.predict};
        iterate(s0, s1, b, rate, mine);
        if (++done == next) {
            next = ++look < q.n_looks ? q.looks[look] : ~0u;
            const Look found = evaluate(q, descriptor[0], b, instance, look == q.n_looks);
            b = found.barrier, met = found.met;
        }
    }
    put_back<0>(q, s0, instance);
    put_back<1>(q, s1, instance);
    if (block == 0 && threadIdx.x == 0) {
        q.status[2 * instance] = done;
        q.status[2 * instance + 1] = met;
    }
#if REGIME == CLUSTER
    cluster_arrive();
    cluster_wait();
#endif
}
