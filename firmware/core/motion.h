/* From what a skill has learned to wheel commands, and from what the camera saw back to the learner. */
#ifndef KG_MOTION_H
#define KG_MOTION_H

#include "skills.h"
#include "table.h"

/* Models see distances in this unit, so that all their numbers are near 1. */
#define KG_UNIT KG_Q(50)

/* What a motion did, in the body frame of its start. */
typedef struct {
    kg_q x;
    kg_q y;
    kg_q turn;
    kg_q travel; /* length of the straight line to the new place */
    kg_q bearing; /* direction of that line */
} kg_change;

/* The camera can't tell a turn from one that is a revolution longer: the one nearest to `expected` is meant. */
kg_change kg_change_between(const kg_pose *before, const kg_pose *after, kg_q expected);
/* Run both wheels, in shares of full speed, and remember what for. */
void kg_drive(kg_run *run, kg_decision *decision, kg_q left, kg_q right, kg_q seconds);
/* One trial of an elementary move. */
void kg_try_elementary(kg_agent *agent, kg_decision *decision);
/* Go straight on by a distance (mm), or turn by an angle, with the learned moves. */
void kg_go(kg_agent *agent, kg_decision *decision, kg_q distance);
void kg_turn(kg_agent *agent, kg_decision *decision, kg_q angle);
/* Drive a curve of a length (mm) and a turn with a pattern's model. */
void kg_bend(kg_agent *agent, kg_decision *decision, kg_q length, kg_q turn);
/* Where a composite's model begins: its parent's, or what the elementary moves predict. */
void kg_inherit(kg_agent *agent, int skill);
/* Fitness of a trial or move, from what it did. */
kg_q kg_fitness_of(const kg_agent *agent, const kg_change *change);
/* Let the model of the running skill learn from a motion. */
void kg_learn(kg_agent *agent, const kg_change *change);

#endif
