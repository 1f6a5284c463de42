/* What a skill has learned: two outcomes as affine functions of up to two inputs, and how its learner changes them.
 *
 * Regression is recursive least squares with forgetting (Ljung, System Identification, section 11.2): every observed
 * segment moves the weights. Annealing (Kirkpatrick et al., 1983) sees one fitness a run: it perturbs a few numbers and
 * keeps what was better. Both work on the same weights, so that a skill runs the same way whoever learns it. */
#ifndef KG_MODEL_H
#define KG_MODEL_H

#include "fixed.h"

enum { KG_FEATURES = 3, KG_OUTCOMES = 2, KG_ANNEALED = 3 };

typedef struct {
    kg_q weight[KG_OUTCOMES][KG_FEATURES]; /* feature 0 is the constant 1 */
    union {
        kg_q covariance[6]; /* regression: (0,0) (0,1) (0,2) (1,1) (1,2) (2,2), in units of the noise's variance */
        struct {
            kg_q accepted[KG_ANNEALED];
            kg_q fitness; /* of what was accepted */
            kg_q temperature;
        } annealing;
    } learner;
} kg_model;

/* Forget all evidence but keep the weights, whose variance is given: of the constants, and of the slopes. */
void kg_regression_start(kg_model *model, kg_q constant, kg_q slope);
/* Predicted outcome of two inputs. */
kg_q kg_predict(const kg_model *model, int outcome, kg_q first, kg_q second);
/* Learn from one observation. `remember` in (0, 1]: weight that earlier ones keep. */
void kg_regression_learn(kg_model *model, kg_q first, kg_q second, const kg_q outcome[KG_OUTCOMES], kg_q remember);

/* What annealing may change of a skill: indices into the weights (outcome · KG_FEATURES + feature) and their ranges. */
typedef struct {
    uint8_t index[KG_ANNEALED];
    uint8_t count;
    kg_q range[KG_ANNEALED];
} kg_annealed;

/* Take the weights as they are for the accepted ones. */
void kg_annealing_start(kg_model *model, const kg_annealed *what);
/* Put a perturbed candidate into the weights. */
void kg_annealing_propose(kg_model *model, const kg_annealed *what, uint32_t *random);
/* Accept or refuse the candidate; the weights are the accepted ones afterwards. */
void kg_annealing_judge(kg_model *model, const kg_annealed *what, kg_q fitness, uint32_t *random);

#endif
