/* Fixed-point arithmetic: signed Q16.16 numbers, angles in radians. All results saturate instead of wrapping. */
#ifndef KG_FIXED_H
#define KG_FIXED_H

#include <stdint.h>

typedef int32_t kg_q;

#define KG_ONE 65536
/* A constant. The compiler folds it: no floating-point code is left (a test looks for it in the image). */
#define KG_Q(value) ((kg_q)((value) * 65536.0 + ((value) < 0 ? -0.5 : 0.5)))
#define KG_PI KG_Q(3.14159265358979)
#define KG_DEGREES(value) KG_Q((value) * 3.14159265358979 / 180.0)
#define KG_MOST INT32_MAX

kg_q kg_saturated(int64_t value);
kg_q kg_add(kg_q a, kg_q b);
kg_q kg_mul(kg_q a, kg_q b);
/* a / b; dividing by zero gives the largest number with the sign of a. */
kg_q kg_div(kg_q a, kg_q b);
kg_q kg_abs(kg_q a);
kg_q kg_clip(kg_q a, kg_q low, kg_q high);
/* sqrt(a² + b²) */
kg_q kg_hypot(kg_q a, kg_q b);
/* Square root of a non-negative number. */
kg_q kg_sqrt(kg_q a);
/* Logarithm to base 2 of a positive number. */
kg_q kg_log2(kg_q a);
/* exp(-a) of a non-negative number. */
kg_q kg_exp_of_minus(kg_q a);
/* An angle of any size brought into [-π, π). */
kg_q kg_wrap(kg_q angle);
/* Sine and cosine of an angle of any size, by CORDIC rotation. */
void kg_sincos(kg_q angle, kg_q *sine, kg_q *cosine);
/* Direction of (x, y) in [-π, π), by CORDIC vectoring; 0 for the zero vector. */
kg_q kg_atan2(kg_q y, kg_q x);

/* Pseudo-random numbers (Marsaglia's xorshift32): the same seed gives the same numbers on every machine. */
uint32_t kg_random(uint32_t *state);
/* Uniform in [low, high). */
kg_q kg_uniform(uint32_t *state, kg_q low, kg_q high);

#endif
