// A thread for each information set, which goes through its actions; down again, a thread for each slot.
#if SETS

#define MANY 4  // slots whose numbers are all under way before the first is worked on

INLINE u32 warp_number() { return 0; }

// A slot's value: what the terminals give it, and the values of the information sets below it, from the last.
INLINE REAL slot_value(const Share& s, REAL g, Below below, u32 end) {
    g = below.is(HAS_ROW) ? g : (REAL)0;
    const u32 kids = end - below.kid(), last = end - 1;
    for (u32 j = 0; j < kids; j += MANY) {
        REAL v[MANY];
#pragma unroll
        for (u32 i = 0; i < MANY; ++i) v[i] = s.v[last - min(j + i, kids - 1)];
#pragma unroll
        for (u32 i = 0; i < MANY; ++i) g = g + (j + i < kids ? v[i] : (REAL)0);
    }
    return g;
}

// The actions of an information set that are not masked.
INLINE u32 live_of(const Share& s, const Set& set) {
    u32 live = set.count();
    if (set.is(DEAD))
        for (u32 k = set.first(), end = k + set.count(); k < end; ++k) live -= s.below[k].is(DEAD);
    return live;
}

INLINE double sum_of_average(const Share& s, const Set& set) {
    double total = 0;
    for (u32 k = set.first(), end = k + set.count(); k < end; ++k) total = total + s.average[k];
    return total;
}

// The average strategy of one slot.
INLINE double average_of(const Share& s, const Set& set, u32 k, double total, u32 live) {
    if (set.is(LOCKED)) return (double)s.sigma[k];
    return total > 0.0 ? part_of(s.average[k], total) : s.below[k].is(DEAD) ? 0.0 : 1.0 / live;
}

// One level from below: v(I) = sum of sigma g (UP); or the value of the average strategy (VALUE), or of the best reply
// (BEST), which keeps to what is locked.
template <int WHAT> INLINE void level_up(const Share& s, u32 i0, u32 i1) {
    for (u32 i = i0 + threadIdx.x; i < i1; i += NT) {
        const Set set = s.set[i];
        const u32 first = set.first(), end = first + set.count();
        const double total = WHAT == VALUE ? sum_of_average(s, set) : 0;
        const u32 live = WHAT == VALUE ? live_of(s, set) : 0;
        REAL v = 0, top = LOWEST;
        for (u32 k0 = first; k0 < end; k0 += MANY) {
            REAL g[MANY], share[MANY];
            Below below[MANY + 1];
#pragma unroll
            for (u32 j = 0; j < MANY; ++j) {
                const u32 k = min(k0 + j, end - 1);
                g[j] = s.g[k], share[j] = s.sigma[k], below[j] = s.below[min(k0 + j, end)];
            }
            below[MANY] = s.below[min(k0 + MANY, end)];
#pragma unroll
            for (u32 j = 0; j < MANY; ++j) {
                const u32 k = k0 + j;
                if (k >= end) continue;
                g[j] = slot_value(s, g[j], below[j], below[j + 1].kid());
                if (WHAT == VALUE) share[j] = (REAL)average_of(s, set, k, total, live);
                v = v + (REAL)(share[j] * g[j]);
                if (WHAT == BEST) top = !below[j].is(DEAD) && g[j] > top ? g[j] : top;
                if (WHAT == UP) s.g[k] = g[j];
            }
        }
        s.v[i] = WHAT == BEST && !set.is(LOCKED) ? top : v;
    }
}

template <int WHAT> INLINE void all_levels_up(const Share& s, u32) {
#pragma unroll 1
    for (u32 l = s.levels; l-- > 0;) {
        level_up<WHAT>(s, s.level[l], s.level[l + 1]);
        __syncthreads();
    }
}

// Regret matching in all information sets of the share, from what `all_levels_up` left.
INLINE void match(const Share& s, const Rates& rate, u32) {
    const u32 infosets = s.level[s.levels];
    for (u32 i = threadIdx.x; i < infosets; i += NT) {
        const Set set = s.set[i];
        if (set.is(LOCKED)) continue;
        const u32 first = set.first(), end = first + set.count();
        const double v = (double)s.v[i], tie = s.tie[i];
        const bool masked = set.is(DEAD);
        double total = 0;
        for (u32 k0 = first; k0 < end; k0 += MANY) {
            double r[MANY], regret[MANY];
#pragma unroll
            for (u32 j = 0; j < MANY; ++j) {
                const u32 k = min(k0 + j, end - 1);
                r[j] = (double)s.g[k] - v, regret[j] = s.regret[k];
            }
#pragma unroll
            for (u32 j = 0; j < MANY; ++j) {
                const u32 k = k0 + j;
                r[j] = fabs(r[j]) <= tie ? 0.0 : r[j];
                regret[j] = regret[j] + r[j];
                regret[j] = regret[j] * (regret[j] > 0.0 ? rate.positive : rate.negative);
                const double m = regret[j] + rate.predict * r[j];
                if (k >= end || (masked && s.below[k].is(DEAD))) continue;
                s.regret[k] = regret[j];
                total = total + (m > 0.0 ? m : 0.0);
            }
        }
        const double even = 1.0 / live_of(s, set);
        for (u32 k = first; k < end; ++k) {
            if (masked && s.below[k].is(DEAD)) continue;
            double m = s.regret[k];
            if (rate.predict != 0.0) {
                const double r = (double)s.g[k] - v;
                m = m + rate.predict * (fabs(r) <= tie ? 0.0 : r);
            }
            m = m > 0.0 ? m : 0.0;
            // the CPU's kernels keep these in the strategy until they divide
            if (set.count() > 3 || masked) m = (double)(REAL)m;
            s.sigma[k] = (REAL)(total > 0.0 ? part_of(m, total) : even);
        }
    }
}

INLINE REAL plan_above(const Share& s, u32 k, bool top) { return top ? plan_of(s, s.above[k]) : s.x[s.above[k]]; }

// All levels from above: x = x(above) sigma. STEP first adds the old x to the average; REALISE_AVERAGE takes the average
// strategy for sigma.
template <int WHAT> INLINE void all_levels_down(const Share& s, const Rates& rate, u32) {
    u32 k0 = 0;
#pragma unroll 1
    for (u32 l = 0; l < s.levels; ++l) {
        const u32 k1 = s.level[MAXL + 1 + l + 1];
        if constexpr (WHAT == REALISE_AVERAGE) {
            for (u32 i = s.level[l] + threadIdx.x; i < s.level[l + 1]; i += NT) {
                const Set set = s.set[i];
                const double total = sum_of_average(s, set);
                const u32 live = live_of(s, set);
                for (u32 k = set.first(), end = k + set.count(); k < end; ++k)
                    publish(s, k, plan_above(s, k, l == 0) * (REAL)average_of(s, set, k, total, live));
            }
        } else {
            for (u32 k = k0 + threadIdx.x; k < k1; k += NT) {
                if (WHAT == STEP) s.average[k] = s.average[k] + rate.weight * (double)s.x[k + 1];
                publish(s, k, plan_above(s, k, l == 0) * s.sigma[k]);
            }
        }
        k0 = k1;
        __syncthreads();
    }
}

#endif
