/* What was learned, kept in flash: two slots, written in turn, so that a reset while writing loses nothing.
 *
 * A slot is valid if its magic number, version, size and CRC-32 are right; of two valid ones the later counts. A slot
 * that doesn't read back as it was written is worn and is left alone until the next reset. */
#ifndef KG_STORE_H
#define KG_STORE_H

#include "skills.h"

enum { KG_SLOTS = 2, KG_NO_SLOT = 255, KG_BLOCK_VERSION = 1 };

/* The flash of the machine: slots of at least sizeof(kg_block) bytes that can be erased alone. */
typedef struct {
    const kg_block *(*slot)(int slot); /* where it can be read */
    void (*write)(int slot, const kg_block *block); /* erase and program */
} kg_flash;

/* Load the latest valid slot into the agent's memory. Returns the slot, or KG_NO_SLOT: the memory is unchanged then. */
int kg_load(kg_agent *agent, const kg_flash *flash);
/* Write the memory. `worn`: bit mask of slots to avoid, which this updates. Returns the slot, or KG_NO_SLOT. */
int kg_store(kg_agent *agent, const kg_flash *flash, uint8_t *worn);

#endif
