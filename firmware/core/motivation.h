/* Which skill is worth running next: novelty · progress · difficulty, after Kobelrausch et al. (arXiv 2608.17596). */
#ifndef KG_MOTIVATION_H
#define KG_MOTIVATION_H

#include "skills.h"

/* Fitness from which a skill counts as learned. */
#define KG_THRESHOLD KG_Q(0.95)
/* The product is kept divided by this, so that the largest fits. */
enum { KG_MOTIVE_SCALE = 16 };

typedef struct {
    kg_q novelty;
    kg_q progress;
    kg_q difficulty;
    kg_q value; /* the product / KG_MOTIVE_SCALE */
} kg_motive;

/* Whether everything that a skill needs is learned. */
bool kg_in_pool(const kg_agent *agent, int skill);
kg_motive kg_motive_of(const kg_agent *agent, int skill);
/* The skill to run, by the agent's strategy; there is always one. */
int kg_choose(kg_agent *agent, kg_motive *why);
/* A run has ended: what was run loses novelty, all others gain some. */
void kg_age_novelty(kg_agent *agent, int ran);

#endif
