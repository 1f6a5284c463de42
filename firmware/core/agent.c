#include <stddef.h>

#include "motion.h"
#include "motivation.h"
#include "pattern.h"
#include "skills.h"
#include "table.h"

/* What a run shows of a skill is smoothed: the share that the newest one has. */
static const kg_q NEWEST = KG_Q(0.4);
/* A learned skill below this is suspicious, and lost if it happens twice in a row. Short motions are noisier. */
static const kg_q LOW_BASE = KG_Q(0.3);
static const kg_q LOW_PATTERN = KG_Q(0.93);
/* Variances of a model's weights, in those of the noise: of elementary moves, which begin with nothing; of the moves,
 * whose distance is nearly in proportion to time; and of patterns, which begin with a copy or a prediction. */
static const kg_q VARIANCE_NEW = KG_Q(100);
static const kg_q VARIANCE_LAG = KG_Q(1);
static const kg_q VARIANCE_PATTERN = KG_Q(20);
/* Motions of learned patterns that don't go as expected add up; so much a motion is usual, and this sum is not. */
static const kg_q USUAL_SURPRISE = KG_Q(0.2);
static const kg_q MOST_SURPRISE = KG_Q(0.5);

/* Test of the motors: each alone, at this speed and for this time, must move the robot. */
static const kg_q TEST_SPEED = KG_Q(0.45);
static const kg_q TEST_SECONDS = KG_Q(0.6);
static const kg_q MOVED_MM = KG_Q(2);
static const kg_q MOVED_ANGLE = KG_DEGREES(4);
enum { STRIKES = 3, IDLE_BEFORE_TEST = 10, RUNS_BETWEEN_TESTS = 16 };
enum { TEST_LEFT = 200, TEST_RIGHT, TEST_NEXT };

void kg_agent_resume(kg_agent *agent, const kg_settings *settings) {
    const kg_run nothing = {.skill = KG_NO_SKILL, .phase = TEST_NEXT};
    agent->settings = *settings;
    agent->random = settings->seed ? settings->seed : 1;
    agent->run = nothing;
}

void kg_agent_start(kg_agent *agent, const kg_settings *settings) {
    const kg_skill nothing = {.novelty = KG_Q(50)};
    for (int skill = 0; skill < KG_SKILLS; skill++) {
        agent->memory.skill[skill] = nothing;
    }
    kg_agent_resume(agent, settings);
}

static bool is_pattern(int skill) {
    return KG_TABLE[skill].count != 0;
}

/* Let the model of a skill change as if nothing had confirmed it yet. */
static void open_model(kg_agent *agent, int skill) {
    if (agent->settings.learner != KG_REGRESSION) {
        return;
    }
    const bool move = skill == KG_MOVE_LINEAR || skill == KG_MOVE_ANGULAR;
    const kg_q slope = is_pattern(skill) ? VARIANCE_PATTERN : VARIANCE_NEW;
    kg_regression_start(&agent->memory.skill[skill].model, move ? VARIANCE_LAG : slope, slope);
}

/* First run ever: decide where learning begins. */
static void prepare(kg_agent *agent, int skill) {
    kg_skill *memory = &agent->memory.skill[skill];
    const kg_annealed *annealed = kg_annealed_of(&KG_TABLE[skill]);
    kg_inherit(agent, skill);
    if (agent->settings.learner == KG_ANNEALING) {
        kg_annealing_start(&memory->model, annealed);
    }
    open_model(agent, skill);
    memory->flags |= KG_IS_TRIED;
}

static void begin(kg_agent *agent, const kg_pose *pose, kg_decision *decision) {
    kg_run *run = &agent->run;
    kg_motive why = {0};
    const int skill = kg_choose(agent, &why);
    kg_skill *memory = &agent->memory.skill[skill];
    if (!(memory->flags & KG_IS_TRIED)) {
        prepare(agent, skill);
    }
    if (agent->settings.learner == KG_ANNEALING) {
        kg_annealing_propose(&memory->model, kg_annealed_of(&KG_TABLE[skill]), &agent->random);
    }
    run->skill = (uint8_t)skill;
    run->phase = 0;
    run->segment = 0;
    run->corrections = 0;
    run->part = 0;
    run->samples = 0;
    run->squares = 0;
    run->start = *pose;
    run->reference = *pose;
    decision->events |= KG_STARTED;
    decision->motivation = why.value;
    decision->novelty = why.novelty;
    decision->progress = why.progress;
    decision->difficulty = why.difficulty;
}

/* The next motion of the running skill; false when the run is complete. */
static bool plan(kg_agent *agent, const kg_pose *pose, kg_decision *decision) {
    kg_run *run = &agent->run;
    run->expected[0] = 0;
    run->expected[1] = 0;
    if (is_pattern(run->skill)) {
        return kg_pattern_plan(agent, pose, decision);
    }
    if (run->phase++ != 0) {
        return false;
    }
    if (run->skill == KG_LINEAR || run->skill == KG_ANGULAR) {
        kg_try_elementary(agent, decision);
    } else if (run->skill == KG_MOVE_LINEAR) {
        run->goal = kg_uniform(&agent->random, KG_Q(20), KG_Q(80));
        kg_go(agent, decision, run->goal);
    } else {
        run->goal = kg_uniform(&agent->random, KG_DEGREES(20), KG_DEGREES(150));
        run->goal = kg_random(&agent->random) & 1 ? run->goal : -run->goal;
        kg_turn(agent, decision, run->goal);
    }
    return true;
}

/* The body has changed: every skill has to show anew that it is learned, from the elementary ones up, and all models are
 * opened for change. What they know stays. A run that is under way is given up. */
static void doubt_all(kg_agent *agent, kg_decision *decision) {
    for (int skill = 0; skill < KG_SKILLS; skill++) {
        kg_skill *memory = &agent->memory.skill[skill];
        memory->flags &= (uint8_t)~(KG_IS_LEARNED | KG_WAS_LOW);
        if (memory->flags & KG_IS_TRIED) {
            open_model(agent, skill);
        }
    }
    agent->run.surprise = 0;
    agent->run.strikes = STRIKES; /* it may also be a motor that is stuck: test them before anything else */
    agent->run.phase = TEST_NEXT;
    decision->events |= KG_LOST;
}

void kg_agent_assess(kg_agent *agent, kg_q fitness, kg_decision *decision) {
    const int skill = agent->run.skill;
    kg_skill *memory = &agent->memory.skill[skill];
    const kg_q bounded = kg_clip(fitness, 0, KG_ONE - 1);
    const kg_q smoothed = memory->runs == 0 ? bounded : memory->fitness + kg_mul(NEWEST, bounded - memory->fitness);
    memory->fitness = (uint16_t)smoothed;
    memory->runs = (uint8_t)(memory->runs + (memory->runs < UINT8_MAX));
    const bool learned = memory->flags & KG_IS_LEARNED;
    const bool low = learned && fitness < (is_pattern(skill) ? LOW_PATTERN : LOW_BASE);
    if (low && (memory->flags & KG_WAS_LOW)) {
        doubt_all(agent, decision);
    } else {
        memory->flags = (uint8_t)(low ? memory->flags | KG_WAS_LOW : memory->flags & ~KG_WAS_LOW);
    }
    if (fitness >= KG_THRESHOLD && !learned) {
        memory->flags |= KG_IS_LEARNED;
        decision->events |= KG_NEWLY_LEARNED;
    }
    kg_age_novelty(agent, skill);
    decision->events |= KG_ENDED;
    decision->ended = (uint8_t)skill;
    decision->fitness = fitness;
}

/* The run is complete: assess it, and let annealing judge its candidate. */
static void end(kg_agent *agent, kg_q fitness, kg_decision *decision) {
    const int skill = agent->run.skill;
    if (agent->settings.learner == KG_ANNEALING) {
        kg_skill *memory = &agent->memory.skill[skill];
        kg_annealing_judge(&memory->model, kg_annealed_of(&KG_TABLE[skill]), fitness, &agent->random);
    }
    kg_pattern_refine(agent, fitness);
    kg_agent_assess(agent, fitness, decision);
    agent->run.skill = KG_NO_SKILL;
    const kg_skill *memory = &agent->memory.skill[skill];
    if (!is_pattern(skill) && !(memory->flags & KG_IS_LEARNED) && memory->runs % RUNS_BETWEEN_TESTS == 0) {
        agent->run.phase = TEST_NEXT; /* nothing is expected of its motions, so nothing else would tell of a stuck motor */
    }
}

/* Whether a motion was so far from what a composite expects of it that a motor may be stuck. */
static bool is_far_off(const kg_run *run, const kg_change *change) {
    const kg_q travel = run->expected[0];
    const kg_q turn = run->expected[1];
    if (travel > KG_Q(10) && (change->travel < travel / 3 || kg_abs(change->turn - turn) > KG_DEGREES(50))) {
        return true;
    }
    return travel == 0 && kg_abs(turn) > KG_DEGREES(15) && kg_abs(change->turn) < kg_abs(turn) / 8 * 5;
}

static bool has_moved(const kg_change *change) {
    return change->travel > MOVED_MM || kg_abs(change->turn) > MOVED_ANGLE;
}

/* How far a motion was from what was expected, as a share; small turns are never exact. */
static kg_q surprise(const kg_run *run, const kg_change *change) {
    const kg_q turn = kg_abs(change->turn - run->expected[1]);
    if (run->expected[0] == 0) {
        return kg_div(turn, kg_abs(run->expected[1]) + KG_DEGREES(20));
    }
    return turn + kg_div(kg_abs(change->travel - run->expected[0]), run->expected[0] + KG_Q(5));
}

/* Take in what the last motion did. */
static void observe(kg_agent *agent, const kg_pose *pose, kg_decision *decision) {
    kg_run *run = &agent->run;
    const kg_change change = kg_change_between(&run->last, pose, run->expected[1]);
    const bool elementary = run->skill == KG_LINEAR || run->skill == KG_ANGULAR;
    const bool strong = kg_abs(run->input[0]) > KG_Q(0.3) && kg_abs(run->input[1]) > KG_Q(0.3);
    const bool odd = elementary ? strong && !has_moved(&change) : is_far_off(run, &change);
    run->strikes = odd ? (uint8_t)(run->strikes + 1) : 0;
    if (is_pattern(run->skill)) {
        if (agent->memory.skill[run->skill].flags & KG_IS_LEARNED) {
            const kg_q sum = run->surprise + surprise(run, &change) - USUAL_SURPRISE;
            run->surprise = sum > 0 ? sum : 0;
        }
        kg_pattern_observe(agent, pose);
        if (run->surprise > MOST_SURPRISE && agent->settings.learner != KG_FROZEN) {
            doubt_all(agent, decision);
        }
    } else if (agent->settings.learner != KG_FROZEN) {
        kg_learn(agent, &change);
    }
}

/* Test the motors one after the other; true while a test motion is to be made or a motor is stuck. */
static bool test_motors(kg_agent *agent, const kg_pose *pose, kg_decision *decision) {
    kg_run *run = &agent->run;
    if (run->phase == TEST_LEFT || run->phase == TEST_RIGHT) {
        const kg_change change = kg_change_between(&run->last, pose, 0);
        const uint8_t bit = run->phase == TEST_LEFT ? 1 : 2;
        run->stuck = (uint8_t)(has_moved(&change) ? run->stuck & ~bit : run->stuck | bit);
        if (run->phase == TEST_RIGHT) {
            run->phase = 0;
            run->strikes = 0;
            run->idle = 0;
            decision->stuck = run->stuck;
        } else {
            run->phase = TEST_RIGHT;
            kg_drive(run, decision, 0, TEST_SPEED, TEST_SECONDS);
            return true;
        }
    }
    if (run->stuck && ++run->idle < IDLE_BEFORE_TEST) {
        decision->events |= KG_MOTOR_STUCK;
        decision->stuck = run->stuck;
        return true;
    }
    if (run->phase != TEST_NEXT && !run->stuck) {
        return false;
    }
    run->phase = TEST_LEFT;
    kg_drive(run, decision, TEST_SPEED, 0, TEST_SECONDS);
    return true;
}

static void abandon(kg_agent *agent, kg_decision *decision) {
    kg_run *run = &agent->run;
    if (run->skill != KG_NO_SKILL) {
        decision->events |= KG_ABANDONED;
        decision->ended = run->skill;
        run->skill = KG_NO_SKILL;
        run->phase = 0;
    } else if (run->phase == TEST_LEFT || run->phase == TEST_RIGHT) {
        run->phase = TEST_NEXT;
    }
}

static void decide(kg_agent *agent, const kg_pose *pose, kg_decision *decision) {
    kg_run *run = &agent->run;
    if (run->skill != KG_NO_SKILL) {
        observe(agent, pose, decision);
        if (run->strikes >= STRIKES) { /* the run says nothing about the skill: something is broken, or a new body */
            abandon(agent, decision);
            run->phase = TEST_NEXT;
        } else if (plan(agent, pose, decision)) {
            return;
        } else if (is_pattern(run->skill)) {
            end(agent, kg_pattern_fitness(agent, pose), decision);
        } else {
            const kg_change change = kg_change_between(&run->last, pose, run->expected[1]);
            end(agent, kg_fitness_of(agent, &change), decision);
        }
    }
    if (test_motors(agent, pose, decision)) {
        return;
    }
    begin(agent, pose, decision);
    (void)plan(agent, pose, decision); /* a run has at least one motion */
}

void kg_agent_step(kg_agent *agent, const kg_pose *pose, kg_decision *decision) {
    const kg_decision nothing = {.skill = KG_NO_SKILL, .ended = KG_NO_SKILL};
    *decision = nothing;
    if (pose == NULL) {
        abandon(agent, decision);
        return;
    }
    decide(agent, pose, decision);
    decision->skill = agent->run.skill;
    agent->run.last = *pose;
}
