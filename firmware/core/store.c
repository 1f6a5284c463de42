#include "store.h"

#include <stddef.h>

static const uint32_t MAGIC = 0x4C53474B; /* "KGSL" */

_Static_assert(sizeof(kg_skill) == 60, "the layout in flash has changed: raise KG_BLOCK_VERSION");
_Static_assert(sizeof(kg_block) == 768, "a block is three pages of flash");

/* CRC-32 as of Ethernet, without a table. */
static uint32_t crc32(const uint8_t *bytes, uint32_t count) {
    uint32_t check = 0xFFFFFFFF;
    for (uint32_t i = 0; i < count; i++) {
        check ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            check = check & 1 ? check >> 1 ^ 0xEDB88320 : check >> 1;
        }
    }
    return ~check;
}

static uint32_t check_of(const kg_block *block) {
    const uint32_t begin = offsetof(kg_block, skill);
    return crc32((const uint8_t *)block + begin, (uint32_t)sizeof *block - begin);
}

static bool is_valid(const kg_block *block) {
    return block->magic == MAGIC && block->version == KG_BLOCK_VERSION && block->size == sizeof *block &&
           block->check == check_of(block);
}

/* The valid slot that was written last. Sequence numbers may have wrapped: their difference tells. */
static int latest(const kg_flash *flash) {
    int found = KG_NO_SLOT;
    for (int slot = 0; slot < KG_SLOTS; slot++) {
        const kg_block *block = flash->slot(slot);
        if (!is_valid(block)) {
            continue;
        }
        if (found == KG_NO_SLOT || (int32_t)(block->sequence - flash->slot(found)->sequence) > 0) {
            found = slot;
        }
    }
    return found;
}

int kg_load(kg_agent *agent, const kg_flash *flash) {
    const int slot = latest(flash);
    if (slot != KG_NO_SLOT) {
        agent->memory = *flash->slot(slot);
    }
    return slot;
}

int kg_store(kg_agent *agent, const kg_flash *flash, uint8_t *worn) {
    const int newest = latest(flash);
    kg_block *block = &agent->memory;
    block->magic = MAGIC;
    block->version = KG_BLOCK_VERSION;
    block->size = sizeof *block;
    block->sequence = newest == KG_NO_SLOT ? 1 : flash->slot(newest)->sequence + 1;
    block->check = check_of(block);
    for (int turn = 0; turn < KG_SLOTS; turn++) {
        const int slot = newest == KG_NO_SLOT ? turn : (newest + 1 + turn) % KG_SLOTS;
        if (*worn >> slot & 1) {
            continue;
        }
        flash->write(slot, block);
        const kg_block *written = flash->slot(slot);
        if (is_valid(written) && written->sequence == block->sequence && written->check == block->check) {
            return slot;
        }
        *worn = (uint8_t)(*worn | 1 << slot);
    }
    return KG_NO_SLOT;
}
