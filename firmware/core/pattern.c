#include "pattern.h"

#include "motion.h"
#include "motivation.h"
#include "table.h"

enum { TURNING, DRIVING };
/* Headings nearer than this to what is wanted are left alone: a shorter turn than that can't be made well. */
static const kg_q CLOSE_ENOUGH = KG_DEGREES(3.5);
/* Turns at one corner: the second repairs the first. */
enum { MOST_TURNS = 2 };
/* Parts that a side may be driven in, with a look at the camera after each. */
enum { MOST_PARTS = 3 };
/* How fast the measured share of a turn that is really made is taken over. */
static const kg_q CORNER_RATE = KG_Q(0.3);

/* The pose at the end of an arc. */
static kg_pose along(const kg_pose *from, kg_q length, kg_q turn) {
    kg_q sine;
    kg_q cosine;
    const kg_q chord = length - kg_mul(length, kg_mul(turn, turn)) / 24;
    kg_sincos(from->heading + turn / 2, &sine, &cosine);
    const kg_pose to = {from->x + kg_mul(chord, cosine), from->y + kg_mul(chord, sine), kg_wrap(from->heading + turn)};
    return to;
}

/* Distance to the left of a directed line. */
static kg_q beside(const kg_pose *line, kg_q x, kg_q y) {
    kg_q sine;
    kg_q cosine;
    kg_sincos(line->heading, &sine, &cosine);
    return kg_mul(y - line->y, cosine) - kg_mul(x - line->x, sine);
}

static void add_error(kg_run *run, kg_q error) {
    run->squares += (uint64_t)((int64_t)error * error) >> 16;
    run->samples++;
}

/* Share of a commanded turn that a polygon's corners really make. */
static kg_q *corner_share(kg_agent *agent) {
    return &agent->memory.skill[agent->run.skill].model.weight[0][2];
}

/* Parts of a side, less one; elementary moves keep their speed there. */
static int16_t *more_parts(kg_skill *memory) {
    return &memory->command[0];
}

static void plan_curve(kg_agent *agent, const kg_entry *entry, const kg_pose *pose, kg_decision *decision) {
    kg_run *run = &agent->run;
    const kg_q turn = kg_segment_turn(entry, run->segment);
    const kg_pose next = along(&run->reference, entry->length, turn);
    const kg_change way = kg_change_between(pose, &next, 0);
    /* An arc to the next point would turn by twice its bearing, and by way.turn to have its heading. Half of each takes
     * out an error of either kind within two segments. */
    const kg_q bend = kg_clip(way.bearing + way.turn / 2, -KG_PI / 3, KG_PI / 3);
    kg_bend(agent, decision, way.travel + kg_mul(way.travel, kg_mul(bend, bend)) / 24, bend);
    run->phase = DRIVING;
}

static bool plan_polygon(kg_agent *agent, const kg_entry *entry, const kg_pose *pose, kg_decision *decision) {
    kg_run *run = &agent->run;
    kg_skill *memory = &agent->memory.skill[run->skill];
    const kg_model *model = &memory->model;
    const bool home = run->segment == entry->count; /* only the heading of the start is left to take up */
    const kg_pose next = along(&run->reference, entry->length, 0);
    const kg_change way = kg_change_between(pose, &next, 0);
    const int parts = 1 + *more_parts(memory) - run->part;
    const kg_q wanted = way.travel / (parts > 1 ? parts : 1);
    /* The part gets as long as wanted, and its drift is met half-way, if it is commanded like this: */
    const kg_q distance = kg_div(wanted / 50 - model->weight[1][0], kg_clip(model->weight[1][1], KG_Q(0.3), KG_Q(3)));
    const kg_q drift = kg_predict(model, 0, distance, 0);
    const kg_q off = home ? kg_wrap(run->reference.heading - pose->heading) : kg_wrap(way.bearing - drift);
    if (kg_abs(off) > CLOSE_ENOUGH && run->corrections < MOST_TURNS) {
        run->corrections++;
        run->phase = TURNING;
        run->goal = kg_div(off, kg_clip(*corner_share(agent), KG_Q(0.4), KG_Q(2.5)));
        kg_turn(agent, decision, run->goal);
        run->expected[1] = off;
        return true;
    }
    if (home) {
        return false;
    }
    run->phase = DRIVING;
    run->input[0] = distance;
    run->input[1] = 0;
    kg_go(agent, decision, distance * 50);
    run->expected[0] = wanted;
    return true;
}

bool kg_pattern_plan(kg_agent *agent, const kg_pose *pose, kg_decision *decision) {
    const kg_entry *entry = &KG_TABLE[agent->run.skill];
    if (entry->kind == KG_KIND_POLYGON) {
        return plan_polygon(agent, entry, pose, decision);
    }
    if (agent->run.segment == entry->count) {
        return false;
    }
    plan_curve(agent, entry, pose, decision);
    return true;
}

/* Add up how far the motion to `pose` was from the piece of the curve that it was to follow. */
static void measure(kg_run *run, const kg_pose *pose, const kg_change *change, const kg_pose *half, const kg_pose *end) {
    /* The camera saw both ends. Between them the robot drove about an arc: its middle lies beside the chord's. */
    kg_q sine;
    kg_q cosine;
    kg_sincos(run->last.heading + change->bearing, &sine, &cosine);
    const kg_q bulge = kg_mul(change->travel, change->turn) / 8;
    const kg_q middle_x = run->last.x + (pose->x - run->last.x) / 2 + kg_mul(bulge, sine);
    const kg_q middle_y = run->last.y + (pose->y - run->last.y) / 2 - kg_mul(bulge, cosine);
    add_error(run, beside(half, middle_x, middle_y));
    add_error(run, beside(end, pose->x, pose->y));
}

static void observe_corner(kg_agent *agent, const kg_change *change) {
    if (agent->settings.learner == KG_REGRESSION && kg_abs(agent->run.goal) > KG_DEGREES(20)) {
        kg_q *share = corner_share(agent);
        *share += kg_mul(CORNER_RATE, kg_div(change->turn, agent->run.goal) - *share);
    }
}

void kg_pattern_observe(kg_agent *agent, const kg_pose *pose) {
    kg_run *run = &agent->run;
    const kg_entry *entry = &KG_TABLE[run->skill];
    const kg_change change = kg_change_between(&run->last, pose, run->expected[1]);
    if (run->phase == TURNING) {
        observe_corner(agent, &change);
        return;
    }
    if (agent->settings.learner != KG_FROZEN) {
        kg_learn(agent, &change);
    }
    const kg_q turn = kg_segment_turn(entry, run->segment);
    const kg_pose half = along(&run->reference, entry->length / 2, turn / 2);
    const kg_pose end = along(&run->reference, entry->length, turn);
    measure(run, pose, &change, &half, &end);
    run->corrections = 0;
    if (entry->kind == KG_KIND_POLYGON && run->part++ < *more_parts(&agent->memory.skill[run->skill])) {
        return;
    }
    run->part = 0;
    run->segment++;
    run->reference = end;
    run->reference.heading = kg_wrap(end.heading + entry->corner);
}

void kg_pattern_refine(kg_agent *agent, kg_q fitness) {
    kg_skill *memory = &agent->memory.skill[agent->run.skill];
    const bool poor = fitness < KG_THRESHOLD;
    if (KG_TABLE[agent->run.skill].kind != KG_KIND_POLYGON || agent->settings.learner != KG_REGRESSION) {
        return;
    }
    if (poor && (memory->flags & KG_WAS_POOR) && *more_parts(memory) + 1 < MOST_PARTS) {
        *more_parts(memory) += 1;
        memory->flags &= (uint8_t)~KG_WAS_POOR;
        return;
    }
    memory->flags = (uint8_t)(poor ? memory->flags | KG_WAS_POOR : memory->flags & ~KG_WAS_POOR);
}

kg_q kg_pattern_fitness(const kg_agent *agent, const kg_pose *pose) {
    const kg_run *run = &agent->run;
    const kg_q size = KG_TABLE[run->skill].size;
    const kg_q cross = kg_div(kg_sqrt(kg_saturated((int64_t)(run->squares / (run->samples ? run->samples : 1)))), size);
    const kg_q end = kg_div(kg_hypot(pose->x - run->reference.x, pose->y - run->reference.y), 3 * size);
    return KG_ONE - (cross > end ? cross : end);
}
