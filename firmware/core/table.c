#include "table.h"

#include <stddef.h>

#define BIT(skill) (1u << (skill))
enum { ONE_SIDE = 255 };

const kg_entry KG_TABLE[KG_SKILLS] = {
    [KG_LINEAR] = {.kind = KG_KIND_LINEAR, .parent = KG_NO_SKILL},
    [KG_ANGULAR] = {.kind = KG_KIND_ANGULAR, .parent = KG_NO_SKILL},
    [KG_MOVE_LINEAR] = {.kind = KG_KIND_MOVE_LINEAR, .parent = KG_NO_SKILL, .needs = BIT(KG_LINEAR)},
    [KG_MOVE_ANGULAR] = {.kind = KG_KIND_MOVE_ANGULAR, .parent = KG_NO_SKILL, .needs = BIT(KG_ANGULAR)},
    [KG_ARC] = {.kind = KG_KIND_CURVE,
                .parent = KG_NO_SKILL,
                .needs = BIT(KG_LINEAR) | BIT(KG_ANGULAR),
                .count = 4,
                .period = ONE_SIDE,
                .length = KG_Q(23.562), /* a quarter of the way round */
                .radius = KG_Q(60),
                .size = KG_Q(60)},
    [KG_SQUARE] = {.kind = KG_KIND_POLYGON,
                   .parent = KG_NO_SKILL,
                   .needs = BIT(KG_MOVE_LINEAR) | BIT(KG_MOVE_ANGULAR),
                   .count = 4,
                   .length = KG_Q(50),
                   .corner = KG_DEGREES(90),
                   .size = KG_Q(50)},
    [KG_CIRCLE] = {.kind = KG_KIND_CURVE,
                   .parent = KG_ARC,
                   .needs = BIT(KG_ARC),
                   .count = 12,
                   .period = ONE_SIDE,
                   .length = KG_Q(23.562),
                   .radius = KG_Q(45),
                   .size = KG_Q(90)},
    [KG_TRIANGLE] = {.kind = KG_KIND_POLYGON,
                     .parent = KG_SQUARE,
                     .needs = BIT(KG_SQUARE),
                     .count = 3,
                     .length = KG_Q(60),
                     .corner = KG_DEGREES(120),
                     .size = KG_Q(60)},
    [KG_HEXAGON] = {.kind = KG_KIND_POLYGON,
                    .parent = KG_SQUARE,
                    .needs = BIT(KG_SQUARE),
                    .count = 6,
                    .length = KG_Q(40),
                    .corner = KG_DEGREES(60),
                    .size = KG_Q(80)},
    [KG_SLALOM] = {.kind = KG_KIND_CURVE, /* a quarter left, a half right, a quarter left */
                   .parent = KG_ARC,
                   .needs = BIT(KG_ARC),
                   .count = 12,
                   .period = 6,
                   .shift = 3,
                   .length = KG_Q(20.944),
                   .radius = KG_Q(40),
                   .size = KG_Q(80)},
    [KG_EIGHT] = {.kind = KG_KIND_CURVE,
                  .parent = KG_SLALOM,
                  .needs = BIT(KG_CIRCLE) | BIT(KG_SLALOM),
                  .count = 20,
                  .period = 10,
                  .length = KG_Q(21.991),
                  .radius = KG_Q(35),
                  .size = KG_Q(70)},
    [KG_SPIRAL] = {.kind = KG_KIND_CURVE,
                   .parent = KG_CIRCLE,
                   .needs = BIT(KG_CIRCLE),
                   .count = 18,
                   .period = ONE_SIDE,
                   .length = KG_Q(20),
                   .radius = KG_Q(26),
                   .growth = KG_Q(2),
                   .size = KG_Q(100)},
};

kg_q kg_segment_turn(const kg_entry *entry, int segment) {
    if (entry->kind != KG_KIND_CURVE) {
        return 0;
    }
    const kg_q turn = kg_div(entry->length, entry->radius + entry->growth * segment);
    return (segment + entry->shift) / entry->period % 2 != 0 ? -turn : turn;
}

uint16_t kg_foundations(int skill) {
    uint16_t mask = KG_TABLE[skill].needs;
    for (int below = skill - 1; below >= 0; below--) { /* a skill stands after all that it needs */
        if (mask & BIT(below)) {
            mask |= KG_TABLE[below].needs;
        }
    }
    return mask;
}

const kg_annealed *kg_annealed_of(const kg_entry *entry) {
    /* Indices are outcome · KG_FEATURES + feature. */
    static const kg_annealed command = {{1, 2}, 2, {KG_Q(0.35), KG_Q(0.35)}};
    static const kg_annealed move = {{0, 1}, 2, {KG_Q(0.05), KG_Q(0.1)}};
    static const kg_annealed curve = {{0, 1, 3}, 3, {KG_Q(0.5), KG_Q(2), KG_Q(0.3)}};
    static const kg_annealed polygon = {{0, 2, 3}, 3, {KG_Q(0.3), KG_Q(0.2), KG_Q(0.2)}};
    switch (entry->kind) {
    case KG_KIND_LINEAR:
    case KG_KIND_ANGULAR:
        return &command;
    case KG_KIND_MOVE_LINEAR:
    case KG_KIND_MOVE_ANGULAR:
        return &move;
    case KG_KIND_CURVE:
        return &curve;
    default:
        return &polygon;
    }
}
