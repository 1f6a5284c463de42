/* Patterns: closed or open curves, driven segment by segment with a look at the camera after each.
 *
 * What the curve is stands in the table; how this body has to be commanded to follow it is learned, in the pattern's own
 * model. Polygons learn how a side drifts and how long it gets, and how far a corner turns; curves learn turn and travel
 * per second as functions of the mix of the straight and the spin. */
#ifndef KG_PATTERN_H
#define KG_PATTERN_H

#include "skills.h"

/* Plan the next motion from the robot's pose; false when the pattern is complete. */
bool kg_pattern_plan(kg_agent *agent, const kg_pose *pose, kg_decision *decision);
/* Learn from the motion that ended at this pose, and add up the error. */
void kg_pattern_observe(kg_agent *agent, const kg_pose *pose);
/* Fitness of the whole run: the worse of two errors. RMS cross-track counts in sizes of the pattern, the distance from
 * the curve's end in three sizes; for the square of 50 mm that is the 150 mm of Kobelrausch et al. */
kg_q kg_pattern_fitness(const kg_agent *agent, const kg_pose *pose);

/* After a run: a polygon whose sides were too crooked twice in a row is driven in more parts from now on. */
void kg_pattern_refine(kg_agent *agent, kg_q fitness);

#endif
