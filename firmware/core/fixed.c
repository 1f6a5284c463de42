#include "fixed.h"

/* Right shifts of negative numbers are arithmetic with every compiler that this is built with (GCC, Clang). */

enum { CORDIC_STEPS = 20, CORDIC_BITS = 28 };

/* atan(2^-i) with CORDIC_BITS fraction bits. */
static const int32_t CORDIC_ANGLES[CORDIC_STEPS] = {
    210828714, 124459457, 65760959, 33381290, 16755422, 8385879, 4193963, 2097109, 1048571, 524287,
    262144,    131072,    65536,    32768,    16384,    8192,    4096,    2048,    1024,    512,
};
/* Product of cos(atan(2^-i)), with CORDIC_BITS fraction bits. */
static const int32_t CORDIC_GAIN = 163008219;

kg_q kg_saturated(int64_t value) {
    if (value > INT32_MAX) {
        return INT32_MAX;
    }
    return value < INT32_MIN + 1 ? INT32_MIN + 1 : (kg_q)value; /* symmetric: the negative always exists */
}

kg_q kg_add(kg_q a, kg_q b) {
    return kg_saturated((int64_t)a + b);
}

kg_q kg_mul(kg_q a, kg_q b) {
    return kg_saturated(((int64_t)a * b + KG_ONE / 2) >> 16);
}

kg_q kg_div(kg_q a, kg_q b) {
    if (b == 0) {
        return a < 0 ? -KG_MOST : KG_MOST;
    }
    return kg_saturated((int64_t)a * KG_ONE / b);
}

kg_q kg_abs(kg_q a) {
    return a < 0 ? -kg_saturated(a) : a;
}

kg_q kg_clip(kg_q a, kg_q low, kg_q high) {
    return a < low ? low : a > high ? high : a;
}

/* Integer square root, one bit a round. */
static uint32_t root(uint64_t value) {
    uint64_t result = 0;
    uint64_t bit = (uint64_t)1 << 62;
    while (bit > value) {
        bit >>= 2;
    }
    for (; bit != 0; bit >>= 2) {
        if (value >= result + bit) {
            value -= result + bit;
            result = (result >> 1) + bit;
        } else {
            result >>= 1;
        }
    }
    return (uint32_t)result;
}

kg_q kg_hypot(kg_q a, kg_q b) {
    return kg_saturated((int64_t)root((uint64_t)((int64_t)a * a) + (uint64_t)((int64_t)b * b)));
}

kg_q kg_sqrt(kg_q a) {
    return a <= 0 ? 0 : (kg_q)root((uint64_t)a << 16);
}

kg_q kg_log2(kg_q a) {
    if (a <= 0) {
        return -KG_MOST;
    }
    uint32_t mantissa = (uint32_t)a;
    kg_q whole = 0;
    for (; mantissa >= 2 * KG_ONE; mantissa >>= 1) {
        whole += KG_ONE;
    }
    for (; mantissa < KG_ONE; mantissa <<= 1) {
        whole -= KG_ONE;
    }
    kg_q fraction = 0;
    for (kg_q bit = KG_ONE / 2; bit != 0; bit >>= 1) { /* squaring doubles the logarithm: its next bit appears */
        mantissa = (uint32_t)(((uint64_t)mantissa * mantissa) >> 16);
        if (mantissa >= 2 * KG_ONE) {
            mantissa >>= 1;
            fraction += bit;
        }
    }
    return whole + fraction;
}

kg_q kg_exp_of_minus(kg_q a) {
    if (a >= KG_Q(11)) { /* less than the smallest number */
        return 0;
    }
    kg_q power = kg_mul(a, KG_Q(1.44269504)); /* 2^-power */
    kg_q f = power & (KG_ONE - 1);
    /* Least-squares cubic of 2^-f on [0, 1); its error is below 2e-4. */
    kg_q cubic = KG_Q(0.23211) + kg_mul(f, KG_Q(-0.0404));
    cubic = KG_ONE + kg_mul(f, KG_Q(-0.69184) + kg_mul(f, cubic));
    return cubic >> (power >> 16);
}

kg_q kg_wrap(kg_q angle) {
    const int64_t turn = 2 * (int64_t)KG_PI;
    int64_t shifted = ((int64_t)angle + KG_PI) % turn;
    return (kg_q)((shifted < 0 ? shifted + turn : shifted) - KG_PI);
}

void kg_sincos(kg_q angle, kg_q *sine, kg_q *cosine) {
    kg_q wrapped = kg_wrap(angle);
    int mirrored = 0;
    if (wrapped > KG_PI / 2) {
        wrapped = KG_PI - wrapped;
        mirrored = 1;
    } else if (wrapped < -KG_PI / 2) {
        wrapped = -KG_PI - wrapped;
        mirrored = 1;
    }
    int32_t x = CORDIC_GAIN;
    int32_t y = 0;
    int32_t rest = wrapped * (1 << (CORDIC_BITS - 16));
    for (int i = 0; i < CORDIC_STEPS; i++) {
        int32_t dx = y >> i;
        int32_t dy = x >> i;
        if (rest >= 0) {
            x -= dx;
            y += dy;
            rest -= CORDIC_ANGLES[i];
        } else {
            x += dx;
            y -= dy;
            rest += CORDIC_ANGLES[i];
        }
    }
    const int32_t half = 1 << (CORDIC_BITS - 17);
    *sine = (y + half) >> (CORDIC_BITS - 16);
    *cosine = ((mirrored ? -x : x) + half) >> (CORDIC_BITS - 16);
}

kg_q kg_atan2(kg_q y, kg_q x) {
    if (x == 0 && y == 0) {
        return 0;
    }
    int64_t u = x;
    int64_t v = y;
    int64_t largest = (u < 0 ? -u : u) | (v < 0 ? -v : v);
    while (largest < (1 << 28)) { /* small vectors would lose all their bits in the shifts below */
        u *= 2;
        v *= 2;
        largest *= 2;
    }
    int64_t angle = 0;
    if (u < 0) {
        angle = (int64_t)(y < 0 ? -KG_PI : KG_PI) * (1 << (CORDIC_BITS - 16));
        u = -u;
        v = -v;
    }
    for (int i = 0; i < CORDIC_STEPS; i++) {
        int64_t du = v >> i;
        int64_t dv = u >> i;
        if (v >= 0) {
            u += du;
            v -= dv;
            angle += CORDIC_ANGLES[i];
        } else {
            u -= du;
            v += dv;
            angle -= CORDIC_ANGLES[i];
        }
    }
    return kg_wrap((kg_q)((angle + (1 << (CORDIC_BITS - 17))) >> (CORDIC_BITS - 16)));
}

uint32_t kg_random(uint32_t *state) {
    uint32_t x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    *state = x;
    return x;
}

kg_q kg_uniform(uint32_t *state, kg_q low, kg_q high) {
    uint32_t share = kg_random(state) >> 16;
    return low + (kg_q)(((int64_t)high - low) * share >> 16);
}
