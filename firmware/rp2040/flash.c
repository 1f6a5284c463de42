/* The last two sectors of the flash. While one is erased or written the flash can't be read, so that nothing may run from
 * it: the code that does it lies in RAM, with interrupts off, and calls the boot ROM (datasheet, section 2.8.3). */
#include "board.h"
#include "registers.h"

enum { FLASH = 0x10000000, FLASH_BYTES = 2 * 1024 * 1024, SECTOR = 4096, ERASE_COMMAND = 0x20 };

typedef void *(*lookup_function)(const uint16_t *table, uint32_t code);
typedef void (*plain_function)(void);
typedef void (*erase_function)(uint32_t at, uint32_t count, uint32_t block, uint8_t command);
typedef void (*program_function)(uint32_t at, const uint8_t *bytes, uint32_t count);

typedef struct {
    plain_function connect, exit_xip, flush, enter_xip;
    erase_function erase;
    program_function program;
} rom_functions;

/* The boot ROM keeps 16-bit pointers to its table and look-up function at fixed places. */
static void *rom(char first, char second) {
    const volatile uint16_t *fixed = (const volatile uint16_t *)0x14;
    const uint16_t *table = (const uint16_t *)(uintptr_t)fixed[0];
    const lookup_function lookup = (lookup_function)(uintptr_t)fixed[2];
    return lookup(table, (uint32_t)second << 8 | (uint32_t)first);
}

static uint32_t offset_of(int slot) {
    return FLASH_BYTES - (uint32_t)(KG_SLOTS - slot) * SECTOR;
}

static const kg_block *slot_at(int slot) {
    return (const kg_block *)(FLASH + offset_of(slot));
}

__attribute__((section(".ramcode"), noinline)) static void replace(const rom_functions *call, uint32_t at,
                                                                  const uint8_t *bytes, uint32_t count) {
    __asm volatile("cpsid i");
    call->connect();
    call->exit_xip();
    call->erase(at, SECTOR, SECTOR, ERASE_COMMAND);
    call->program(at, bytes, count);
    call->flush();
    call->enter_xip();
    __asm volatile("cpsie i");
}

static void write(int slot, const kg_block *block) {
    const rom_functions call = {
        .connect = (plain_function)rom('I', 'F'),  .exit_xip = (plain_function)rom('E', 'X'),
        .flush = (plain_function)rom('F', 'C'),    .enter_xip = (plain_function)rom('C', 'X'),
        .erase = (erase_function)rom('R', 'E'),    .program = (program_function)rom('R', 'P'),
    };
    KG_REGISTER(WATCHDOG_LOAD) = 2 * 1000000; /* an erase takes up to 0.4 s */
    replace(&call, offset_of(slot), (const uint8_t *)block, sizeof *block);
}

const kg_flash KG_BOARD_FLASH = {slot_at, write};
