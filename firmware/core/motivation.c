#include "motivation.h"

#include "table.h"

static const kg_q MOST_NOVELTY = KG_Q(100);

bool kg_in_pool(const kg_agent *agent, int skill) {
    for (int below = 0; below < KG_SKILLS; below++) {
        const bool learned = agent->memory.skill[below].flags & KG_IS_LEARNED;
        if ((KG_TABLE[skill].needs >> below & 1) && !learned) {
            return false;
        }
    }
    return true;
}

/* Below the threshold a skill is the more promising the nearer it is; above, the further it can still rise. */
static kg_q progress(const kg_skill *skill) {
    const kg_q fitness = skill->fitness;
    if ((skill->flags & KG_IS_LEARNED) && !(skill->flags & KG_WAS_LOW)) {
        return kg_mul(KG_ONE - fitness, KG_Q(20));
    }
    return kg_mul(kg_clip(fitness, 0, KG_THRESHOLD), KG_Q(80 / 0.95)) + KG_Q(20);
}

kg_motive kg_motive_of(const kg_agent *agent, int skill) {
    kg_motive motive = {.novelty = agent->memory.skill[skill].novelty, .progress = progress(&agent->memory.skill[skill])};
    const uint16_t foundations = kg_foundations(skill);
    kg_q sum = KG_Q(2);
    for (int below = 0; below < skill; below++) {
        sum += foundations >> below & 1 ? agent->memory.skill[below].fitness : 0;
    }
    motive.difficulty = kg_log2(sum);
    motive.value = kg_mul(kg_mul(motive.novelty, motive.progress / KG_MOTIVE_SCALE), motive.difficulty);
    return motive;
}

/* The first in the table that isn't learned; where all are, the one that has not run for longest. */
static kg_q order(const kg_agent *agent, int skill) {
    const kg_skill *memory = &agent->memory.skill[skill];
    return memory->flags & KG_IS_LEARNED ? memory->novelty : (1000 - skill) * KG_ONE;
}

int kg_choose(kg_agent *agent, kg_motive *why) {
    if (agent->settings.only < KG_SKILLS) {
        *why = kg_motive_of(agent, agent->settings.only);
        return agent->settings.only;
    }
    int best = KG_LINEAR; /* needs nothing */
    kg_q most = -KG_MOST;
    for (int skill = 0; skill < KG_SKILLS; skill++) {
        if (!kg_in_pool(agent, skill)) {
            continue;
        }
        const kg_motive motive = kg_motive_of(agent, skill);
        kg_q value = motive.value;
        if (agent->settings.strategy == KG_RANDOM_CHOICE) {
            value = kg_uniform(&agent->random, 0, KG_ONE);
        } else if (agent->settings.strategy == KG_FIXED_ORDER) {
            value = order(agent, skill);
        } else if (agent->settings.strategy == KG_PROGRESS_ONLY) {
            value = motive.progress;
        }
        if (value > most) {
            most = value;
            best = skill;
            *why = motive;
        }
    }
    return best;
}

void kg_age_novelty(kg_agent *agent, int ran) {
    for (int skill = 0; skill < KG_SKILLS; skill++) {
        kg_q *novelty = &agent->memory.skill[skill].novelty;
        *novelty = skill == ran ? kg_mul(*novelty, KG_Q(0.9)) : *novelty + kg_mul(MOST_NOVELTY - *novelty, KG_Q(0.003));
    }
}
