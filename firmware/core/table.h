/* The skills: what each needs, and the curves of the patterns. In flash. */
#ifndef KG_TABLE_H
#define KG_TABLE_H

#include "skills.h"

enum { KG_KIND_LINEAR, KG_KIND_ANGULAR, KG_KIND_MOVE_LINEAR, KG_KIND_MOVE_ANGULAR, KG_KIND_CURVE, KG_KIND_POLYGON };

typedef struct {
    uint8_t kind;
    uint8_t parent;  /* of the same kind, whose model is where learning begins; or KG_NO_SKILL */
    uint16_t needs;  /* bit mask of skills */
    uint8_t count;   /* patterns: segments */
    uint8_t period;  /* curves: segments between changes of side */
    uint8_t shift;   /* curves: segments by which the first change comes earlier */
    kg_q length;     /* of a segment */
    kg_q corner;     /* polygons: angle between segments */
    kg_q radius;     /* curves: of the first segment */
    kg_q growth;     /* curves: of the radius, a segment */
    kg_q size;       /* that errors are measured by */
} kg_entry;

extern const kg_entry KG_TABLE[KG_SKILLS];

/* Turn of a pattern's segment while it is driven. */
kg_q kg_segment_turn(const kg_entry *entry, int segment);
/* Bit mask of everything that a skill is built on. */
uint16_t kg_foundations(int skill);
/* What annealing may change of a skill. */
const kg_annealed *kg_annealed_of(const kg_entry *entry);

#endif
