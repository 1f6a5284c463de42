/* The developmental learner: what runs on the robot, and on the host for simulation. Start with kg_agent_step().
 *
 * No heap, no standard I/O, no floating point; all state is in one kg_agent. Units: millimetres, radians, seconds, all
 * in Q16.16 unless a name says otherwise. Body frame: x forward, y left, angles counter-clockwise. */
#ifndef KG_SKILLS_H
#define KG_SKILLS_H

#include <stdbool.h>
#include <stdint.h>

#include "fixed.h"
#include "model.h"

enum {
    KG_LINEAR,
    KG_ANGULAR,
    KG_MOVE_LINEAR,
    KG_MOVE_ANGULAR,
    KG_ARC,
    KG_SQUARE,
    KG_CIRCLE,
    KG_TRIANGLE,
    KG_HEXAGON,
    KG_SLALOM,
    KG_EIGHT,
    KG_SPIRAL,
    KG_SKILLS,
    KG_NO_SKILL = 255
};

/* How the next skill is chosen; all but the first are there to be compared with. */
enum { KG_MOTIVATED, KG_RANDOM_CHOICE, KG_FIXED_ORDER, KG_PROGRESS_ONLY, KG_STRATEGIES };
/* FROZEN: skills run with what they know, and nothing is learned. */
enum { KG_REGRESSION, KG_ANNEALING, KG_FROZEN, KG_LEARNERS };

typedef struct {
    uint32_t seed; /* any but 0 */
    uint8_t strategy;
    uint8_t learner;
    uint8_t only; /* run this skill alone, or KG_NO_SKILL */
    uint8_t unused;
} kg_settings;

typedef struct {
    kg_q x;
    kg_q y;
    kg_q heading;
} kg_pose;

enum { KG_IS_LEARNED = 1, KG_IS_TRIED = 2, KG_WAS_LOW = 4, KG_WAS_POOR = 8 };

/* One skill's memory: 60 bytes, all of it kept in flash. */
typedef struct {
    kg_model model;
    int16_t command[2]; /* elementary moves: left and right, thousandths of full speed */
    kg_q novelty;
    uint16_t fitness; /* smoothed, in 1/65536 */
    uint8_t runs;     /* counts to 255 and stays there */
    uint8_t flags;
} kg_skill;

/* The block that is written to flash: three pages of 256 bytes. */
typedef struct {
    uint32_t magic;
    uint16_t version;
    uint16_t size;
    uint32_t sequence; /* the valid slot with the larger one counts */
    uint32_t check;    /* CRC-32 of all that follows */
    kg_skill skill[KG_SKILLS];
    uint8_t unused[32];
} kg_block;

/* What happened in a step. */
enum {
    KG_STARTED = 1,      /* `skill` was chosen */
    KG_ENDED = 2,        /* `ended` was assessed */
    KG_NEWLY_LEARNED = 4,
    KG_LOST = 8,         /* the body has changed: all skills are to be shown anew */
    KG_ABANDONED = 16,   /* the pose was lost: the run of `ended` counts for nothing */
    KG_MOTOR_STUCK = 32, /* see `stuck`; nothing runs until both motors move in a test */
};

/* What to do next, and why. */
typedef struct {
    int16_t left; /* thousandths of full speed */
    int16_t right;
    uint16_t milliseconds; /* 0: stand still */
    uint8_t skill;         /* that the motion belongs to; KG_NO_SKILL: a test of the motors, or nothing */
    uint8_t ended;         /* the skill that was assessed or abandoned, or KG_NO_SKILL */
    uint8_t events;
    uint8_t stuck; /* 1 left, 2 right, 3 both */
    uint16_t unused;
    kg_q fitness;    /* of the run that ended; can be negative */
    kg_q motivation; /* of the skill that was chosen: novelty · progress · difficulty / 16 */
    kg_q novelty;
    kg_q progress;
    kg_q difficulty;
} kg_decision;

/* A run of a skill: everything that a reset may forget. */
typedef struct {
    uint8_t skill;
    uint8_t phase;
    uint8_t segment;     /* of a pattern */
    uint8_t corrections; /* turns made at this corner */
    uint8_t strikes;     /* motions in a row that were far from what was expected */
    uint8_t stuck;
    uint8_t samples; /* of the cross-track error */
    uint8_t idle;    /* steps for which the robot has stood still */
    uint8_t part;    /* of a polygon's side */
    uint8_t unused[3];
    kg_pose start;
    kg_pose last;      /* when the motion began */
    kg_pose reference; /* where the pattern's curve is at `segment` */
    kg_q goal;         /* of a move: millimetres or radians; of a turn in a pattern: radians */
    kg_q input[2];     /* what the model is to learn from */
    kg_q seconds;      /* of the motion */
    kg_q expected[2];  /* travel in mm and turn in rad that a composite expects; 0, 0 where it expects nothing */
    kg_q surprise;     /* sum over motions of learned patterns */
    uint64_t squares;  /* of the cross-track error, Q16.16 mm² */
} kg_run;

typedef struct {
    kg_block memory;
    kg_run run;
    kg_settings settings;
    uint32_t random;
} kg_agent;

/* Begin with nothing learned. */
void kg_agent_start(kg_agent *agent, const kg_settings *settings);
/* Begin with what is in `agent->memory`, such as after a reset. */
void kg_agent_resume(kg_agent *agent, const kg_settings *settings);
/* One decision. `pose`: where the robot is, at rest after the last motion; NULL where nobody knows. */
void kg_agent_step(kg_agent *agent, const kg_pose *pose, kg_decision *decision);
/* What the end of a run does to the memory of `agent->run.skill`: smoothed fitness, learned or lost, novelty of all. A
 * part of the step; alone for hosts whose skills move another body. */
void kg_agent_assess(kg_agent *agent, kg_q fitness, kg_decision *decision);

#endif
