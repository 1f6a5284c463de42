#include "motion.h"

/* Elementary moves stay below this share of full speed: a turn in one second could else exceed half a revolution, which
 * no camera can tell from one the other way. */
static const kg_q ELEMENTARY_MOST = KG_Q(0.5);
/* Outcomes of one second that the elementary moves are to have, as far as their speeds allow. */
static const kg_q AIM_TRAVEL = KG_Q(0.8); /* of KG_UNIT */
static const kg_q AIM_TURN = KG_DEGREES(70);
/* Trials with random speeds before the model is asked. */
enum { BABBLING = 4 };
/* A curve's speeds are this share of full speed along the learned straight, and at most that along the learned spin. */
static const kg_q CURVE_BASE = KG_Q(0.45);
static const kg_q CURVE_MOST = KG_Q(0.35);
static const kg_q SHORTEST = KG_Q(0.08);
static const kg_q LONGEST = KG_Q(3);
static const kg_q TRIAL = KG_ONE;

static kg_q larger(kg_q a, kg_q b) {
    return a > b ? a : b;
}

kg_change kg_change_between(const kg_pose *before, const kg_pose *after, kg_q expected) {
    kg_change change;
    kg_q sine;
    kg_q cosine;
    const kg_q dx = after->x - before->x;
    const kg_q dy = after->y - before->y;
    kg_sincos(before->heading, &sine, &cosine);
    change.x = kg_mul(dx, cosine) + kg_mul(dy, sine);
    change.y = kg_mul(dy, cosine) - kg_mul(dx, sine);
    change.turn = expected + kg_wrap(after->heading - before->heading - expected);
    change.travel = kg_hypot(dx, dy);
    change.bearing = kg_atan2(change.y, change.x);
    return change;
}

static int16_t thousandths(kg_q share) {
    return (int16_t)((kg_clip(share, -KG_ONE, KG_ONE) * 1000 + (share < 0 ? -KG_ONE : KG_ONE) / 2) / KG_ONE);
}

void kg_drive(kg_run *run, kg_decision *decision, kg_q left, kg_q right, kg_q seconds) {
    const kg_q bounded = kg_clip(seconds, SHORTEST, LONGEST);
    decision->left = thousandths(left);
    decision->right = thousandths(right);
    decision->milliseconds = (uint16_t)((bounded * 125 + 4096) / 8192); /* · 1000 / 65536, without overflow */
    run->seconds = bounded;
}

static kg_q command(const kg_skill *skill, int wheel) {
    return skill->command[wheel] * KG_ONE / 1000;
}

/* Larger of the two speeds of an elementary move; not 0, for it divides. */
static kg_q strength(const kg_skill *skill) {
    return larger(larger(kg_abs(command(skill, 0)), kg_abs(command(skill, 1))), KG_Q(0.02));
}

/* Solve the two affine outcomes for the speeds that give `want`. */
static void solve(const kg_model *model, kg_q want, int main, kg_q speed[2]) {
    const kg_q(*w)[KG_FEATURES] = model->weight;
    const kg_q rest[2] = {(main == 0 ? want : 0) - w[0][0], (main == 1 ? want : 0) - w[1][0]};
    kg_q determinant = kg_mul(w[0][1], w[1][2]) - kg_mul(w[0][2], w[1][1]);
    if (kg_abs(determinant) < KG_Q(0.05)) { /* nothing known yet: small steps at most */
        determinant = determinant < 0 ? KG_Q(-0.05) : KG_Q(0.05);
    }
    speed[0] = kg_div(kg_mul(rest[0], w[1][2]) - kg_mul(rest[1], w[0][2]), determinant);
    speed[1] = kg_div(kg_mul(rest[1], w[0][1]) - kg_mul(rest[0], w[1][1]), determinant);
}

/* Speeds that the model expects to give the aim, or as much of it as the limit allows without a side effect. */
static void aimed(const kg_model *model, int main, kg_q speed[2]) {
    kg_q none[2];
    kg_q all[2];
    solve(model, 0, main, none);
    solve(model, main == 0 ? AIM_TRAVEL : AIM_TURN, main, all);
    kg_q share = KG_ONE;
    for (int wheel = 0; wheel < 2; wheel++) {
        const kg_q step = all[wheel] - none[wheel];
        const kg_q end = step < 0 ? -ELEMENTARY_MOST : ELEMENTARY_MOST;
        const kg_q reach = kg_div(end - none[wheel], step);
        share = step != 0 && reach < share ? larger(reach, 0) : share;
    }
    for (int wheel = 0; wheel < 2; wheel++) {
        speed[wheel] = none[wheel] + kg_mul(share, all[wheel] - none[wheel]);
    }
}

void kg_try_elementary(kg_agent *agent, kg_decision *decision) {
    kg_run *run = &agent->run;
    kg_skill *skill = &agent->memory.skill[run->skill];
    kg_q speed[2] = {command(skill, 0), command(skill, 1)};
    if (agent->settings.learner == KG_ANNEALING) {
        speed[0] = skill->model.weight[0][1];
        speed[1] = skill->model.weight[0][2];
    } else if (agent->settings.learner == KG_REGRESSION) {
        if (skill->runs < BABBLING) {
            speed[0] = kg_uniform(&agent->random, -ELEMENTARY_MOST, ELEMENTARY_MOST);
            speed[1] = kg_uniform(&agent->random, -ELEMENTARY_MOST, ELEMENTARY_MOST);
        } else {
            aimed(&skill->model, run->skill == KG_LINEAR ? 0 : 1, speed);
        }
    }
    for (int wheel = 0; wheel < 2; wheel++) {
        speed[wheel] = kg_clip(speed[wheel], -ELEMENTARY_MOST, ELEMENTARY_MOST);
        skill->command[wheel] = thousandths(speed[wheel]);
        run->input[wheel] = command(skill, wheel); /* what the motors get, rounded */
    }
    kg_drive(run, decision, run->input[0], run->input[1], TRIAL);
}

/* Duration in which a move covers an amount (units or radians). */
static kg_q duration(const kg_model *move, kg_q amount) {
    return kg_div(amount - move->weight[0][0], larger(move->weight[0][1], KG_Q(0.05)));
}

void kg_go(kg_agent *agent, kg_decision *decision, kg_q distance) {
    const kg_skill *linear = &agent->memory.skill[KG_LINEAR];
    const kg_q seconds = duration(&agent->memory.skill[KG_MOVE_LINEAR].model, kg_div(distance, KG_UNIT));
    kg_drive(&agent->run, decision, command(linear, 0), command(linear, 1), seconds);
    agent->run.expected[0] = distance;
    agent->run.expected[1] = 0;
}

void kg_turn(kg_agent *agent, kg_decision *decision, kg_q angle) {
    const kg_skill *angular = &agent->memory.skill[KG_ANGULAR];
    const kg_q seconds = duration(&agent->memory.skill[KG_MOVE_ANGULAR].model, kg_abs(angle));
    const kg_q sign = angle < 0 ? -1 : 1;
    kg_drive(&agent->run, decision, sign * command(angular, 0), sign * command(angular, 1), seconds);
    agent->run.expected[0] = 0;
    agent->run.expected[1] = angle;
}

void kg_bend(kg_agent *agent, kg_decision *decision, kg_q length, kg_q turn) {
    kg_run *run = &agent->run;
    const kg_skill *linear = &agent->memory.skill[KG_LINEAR];
    const kg_skill *angular = &agent->memory.skill[KG_ANGULAR];
    const kg_q(*w)[KG_FEATURES] = agent->memory.skill[run->skill].model.weight;
    /* Turn per second a + b·mix, travel per second c + d·mix: their ratio is the curvature. */
    const kg_q curvature = kg_div(turn, kg_div(length, KG_UNIT));
    kg_q slope = w[0][1] - kg_mul(curvature, w[1][1]);
    slope = larger(slope, KG_Q(0.3));
    const kg_q mix = kg_clip(kg_div(kg_mul(curvature, w[1][0]) - w[0][0], slope), -CURVE_MOST, CURVE_MOST);
    const kg_q rate = larger(w[1][0] + kg_mul(w[1][1], mix), KG_Q(0.2));
    kg_q speed[2];
    for (int wheel = 0; wheel < 2; wheel++) {
        speed[wheel] = kg_mul(CURVE_BASE, kg_div(command(linear, wheel), strength(linear))) +
                       kg_mul(mix, kg_div(command(angular, wheel), strength(angular)));
    }
    run->input[0] = mix;
    run->input[1] = 0;
    kg_drive(run, decision, speed[0], speed[1], kg_div(kg_div(length, KG_UNIT), rate));
    run->expected[0] = length;
    run->expected[1] = turn;
}

/* What an elementary move does in a second: units travelled or radians turned. */
static kg_q rate_of(const kg_agent *agent, int elementary) {
    const kg_skill *skill = &agent->memory.skill[elementary];
    if (agent->settings.learner == KG_ANNEALING) {
        return skill->model.weight[1][0]; /* observed: see kg_learn */
    }
    return kg_predict(&skill->model, elementary == KG_LINEAR ? 0 : 1, command(skill, 0), command(skill, 1));
}

void kg_inherit(kg_agent *agent, int skill) {
    kg_model *model = &agent->memory.skill[skill].model;
    const kg_entry *entry = &KG_TABLE[skill];
    if (entry->parent != KG_NO_SKILL) {
        *model = agent->memory.skill[entry->parent].model;
    } else if (entry->kind == KG_KIND_MOVE_LINEAR) {
        model->weight[0][1] = larger(rate_of(agent, KG_LINEAR), KG_Q(0.1));
    } else if (entry->kind == KG_KIND_MOVE_ANGULAR) {
        model->weight[0][1] = larger(rate_of(agent, KG_ANGULAR), KG_Q(0.1));
    } else if (entry->kind == KG_KIND_POLYGON) { /* what is commanded happens, straight ahead */
        model->weight[0][2] = KG_ONE;
        model->weight[1][1] = KG_ONE;
    } else if (entry->kind == KG_KIND_CURVE) { /* the effects of both moves add up, in proportion to their speeds */
        const kg_q spin = strength(&agent->memory.skill[KG_ANGULAR]);
        const kg_q straight = strength(&agent->memory.skill[KG_LINEAR]);
        model->weight[0][1] = kg_div(rate_of(agent, KG_ANGULAR), spin);
        model->weight[1][0] = kg_mul(CURVE_BASE, kg_div(rate_of(agent, KG_LINEAR), straight));
    }
}

/* 1 - |e| / sqrt(n) with errors in shares of their tolerance. */
static kg_q fitness_of_trial(kg_q x, kg_q y, kg_q turn) {
    return KG_ONE - kg_mul(kg_hypot(kg_hypot(x, y), turn), KG_Q(0.57735));
}

kg_q kg_fitness_of(const kg_agent *agent, const kg_change *change) {
    if (agent->run.skill == KG_LINEAR) {
        /* Tolerance: a quarter of the target, in millimetres and in degrees. */
        const kg_q target = larger(change->x, KG_Q(20));
        const kg_q degrees = kg_mul(change->turn, KG_Q(57.29578));
        return fitness_of_trial(kg_div(4 * (target - change->x), target), kg_div(4 * change->y, target),
                                kg_div(4 * degrees, target));
    }
    if (agent->run.skill == KG_ANGULAR) {
        const kg_q target = larger(change->turn, KG_DEGREES(20));
        return fitness_of_trial(change->x / 10, change->y / 10, kg_div(target - change->turn, target));
    }
    const kg_q done = agent->run.skill == KG_MOVE_LINEAR ? change->x : change->turn;
    return KG_ONE - kg_div(2 * kg_abs(done - agent->run.goal), kg_abs(agent->run.goal));
}

void kg_learn(kg_agent *agent, const kg_change *change) {
    kg_run *run = &agent->run;
    kg_model *model = &agent->memory.skill[run->skill].model;
    const uint8_t kind = KG_TABLE[run->skill].kind;
    kg_q outcome[KG_OUTCOMES] = {change->x / 50, change->turn};
    kg_q remember = KG_Q(0.9);
    if (agent->settings.learner == KG_ANNEALING) {
        if (kind == KG_KIND_LINEAR || kind == KG_KIND_ANGULAR) { /* for those who build on it */
            model->weight[1][0] = outcome[kind == KG_KIND_ANGULAR];
        }
        return;
    }
    if (kind == KG_KIND_MOVE_ANGULAR) {
        outcome[0] = run->goal < 0 ? -change->turn : change->turn;
    } else if (kind == KG_KIND_CURVE) {
        /* The arc is longer than its chord by turn² / 24 of it. */
        const kg_q arc = change->travel + kg_mul(change->travel, kg_mul(change->turn, change->turn)) / 24;
        outcome[0] = kg_div(change->turn, run->seconds);
        outcome[1] = kg_div(arc / 50, run->seconds);
    } else if (kind == KG_KIND_POLYGON) {
        outcome[0] = change->bearing;
        outcome[1] = change->travel / 50;
    } 
    if (kind == KG_KIND_MOVE_LINEAR || kind == KG_KIND_MOVE_ANGULAR) {
        run->input[0] = run->seconds;
        run->input[1] = 0;
    }
    kg_regression_learn(model, run->input[0], run->input[1], outcome, remember);
}
