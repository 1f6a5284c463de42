#include "model.h"

#include <stdbool.h>

static const kg_q MOST_VARIANCE = KG_Q(200);
static const kg_q HOTTEST = KG_ONE;
static const kg_q COLDEST = KG_Q(0.1);
static const kg_q COOLING = KG_Q(0.99);
/* A difference in fitness that a temperature of 1 accepts with probability 1/e. */
static const kg_q FITNESS_SCALE = KG_Q(0.2);
/* What was accepted by luck is overtaken after a while: it loses this each time that it defends itself. */
static const kg_q AGEING = KG_Q(0.045);
/* Fitness of what has never been tried. */
static const kg_q UNTRIED = KG_Q(-1000);
/* A fall of fitness by more than this means that the body has changed: search widely again. */
static const kg_q SURPRISE = KG_Q(0.3);

void kg_regression_start(kg_model *model, kg_q constant, kg_q slope) {
    for (int i = 0; i < 6; i++) {
        model->learner.covariance[i] = 0;
    }
    model->learner.covariance[0] = constant;
    model->learner.covariance[3] = slope;
    model->learner.covariance[5] = slope;
}

kg_q kg_predict(const kg_model *model, int outcome, kg_q first, kg_q second) {
    const kg_q *weight = model->weight[outcome];
    return kg_add(weight[0], kg_add(kg_mul(weight[1], first), kg_mul(weight[2], second)));
}

void kg_regression_learn(kg_model *model, kg_q first, kg_q second, const kg_q outcome[KG_OUTCOMES], kg_q remember) {
    kg_q *p = model->learner.covariance;
    const kg_q input[KG_FEATURES] = {KG_ONE, first, second};
    /* Row and column (i, j) of the symmetric matrix. */
    static const uint8_t at[KG_FEATURES][KG_FEATURES] = {{0, 1, 2}, {1, 3, 4}, {2, 4, 5}};
    kg_q direction[KG_FEATURES];
    kg_q doubt = 0;
    for (int i = 0; i < KG_FEATURES; i++) {
        direction[i] = 0;
        for (int j = 0; j < KG_FEATURES; j++) {
            direction[i] = kg_add(direction[i], kg_mul(p[at[i][j]], input[j]));
        }
        doubt = kg_add(doubt, kg_mul(direction[i], input[i]));
    }
    const kg_q scale = kg_add(remember, doubt);
    kg_q error[KG_OUTCOMES];
    for (int k = 0; k < KG_OUTCOMES; k++) {
        error[k] = outcome[k] - kg_predict(model, k, first, second);
    }
    kg_q most = 0;
    for (int i = 0; i < KG_FEATURES; i++) {
        const kg_q gain = kg_div(direction[i], scale);
        for (int k = 0; k < KG_OUTCOMES; k++) {
            model->weight[k][i] = kg_add(model->weight[k][i], kg_mul(gain, error[k]));
        }
        for (int j = i; j < KG_FEATURES; j++) {
            p[at[i][j]] -= kg_mul(gain, direction[j]);
        }
        most = p[at[i][i]] > most ? p[at[i][i]] : most;
    }
    if (most > MOST_VARIANCE) { /* inputs that never vary would let their variance grow for ever */
        return;
    }
    for (int i = 0; i < 6; i++) {
        p[i] = kg_div(p[i], remember);
    }
}

static kg_q *weight_at(kg_model *model, uint8_t index) {
    return &model->weight[index / KG_FEATURES][index % KG_FEATURES];
}

void kg_annealing_start(kg_model *model, const kg_annealed *what) {
    for (int i = 0; i < what->count; i++) {
        model->learner.annealing.accepted[i] = *weight_at(model, what->index[i]);
    }
    model->learner.annealing.fitness = UNTRIED;
    model->learner.annealing.temperature = HOTTEST;
}

void kg_annealing_propose(kg_model *model, const kg_annealed *what, uint32_t *random) {
    for (int i = 0; i < what->count; i++) {
        const kg_q reach = kg_mul(what->range[i], model->learner.annealing.temperature);
        *weight_at(model, what->index[i]) = model->learner.annealing.accepted[i] + kg_uniform(random, -reach, reach);
    }
}

void kg_annealing_judge(kg_model *model, const kg_annealed *what, kg_q fitness, uint32_t *random) {
    const kg_q loss = model->learner.annealing.fitness - fitness;
    kg_q temperature = model->learner.annealing.temperature;
    kg_q chance = KG_ONE;
    if (loss > 0) {
        chance = kg_exp_of_minus(kg_div(loss, kg_mul(FITNESS_SCALE, temperature)));
    }
    if (kg_uniform(random, 0, KG_ONE) < chance) {
        for (int i = 0; i < what->count; i++) {
            model->learner.annealing.accepted[i] = *weight_at(model, what->index[i]);
        }
        model->learner.annealing.fitness = fitness;
    } else {
        for (int i = 0; i < what->count; i++) {
            *weight_at(model, what->index[i]) = model->learner.annealing.accepted[i];
        }
        model->learner.annealing.fitness -= AGEING;
    }
    const bool surprised = loss > SURPRISE && temperature < KG_ONE / 8;
    temperature = kg_mul(temperature, surprised ? KG_Q(1.5) : COOLING);
    model->learner.annealing.temperature = kg_clip(temperature, COLDEST, HOTTEST);
}
