/* What runs before main: the vector table, and the variables' first values. */
#include <stdint.h>

extern uint32_t kg_data_begin[], kg_data_end[], kg_bss_begin[], kg_bss_end[], kg_stack_top[];
extern const uint32_t kg_data_source[];

int main(void);
void kg_reset(void);
void kg_on_timer(void);
void kg_on_uart(void);

void kg_reset(void) {
    const uint32_t *from = kg_data_source;
    for (uint32_t *to = kg_data_begin; to < kg_data_end; to++) {
        *to = *from++;
    }
    for (uint32_t *to = kg_bss_begin; to < kg_bss_end; to++) {
        *to = 0;
    }
    (void)main();
}

/* A fault of the program: the watchdog resets the chip, and what was learned is read again. */
static void hang(void) {
    for (;;) {
    }
}

enum { EXCEPTIONS = 16, FIRST_IRQ = EXCEPTIONS };

__attribute__((section(".vectors"), used)) static void (*const VECTORS[EXCEPTIONS + 26])(void) = {
    [0] = (void (*)(void))kg_stack_top,
    [1] = kg_reset,
    [2] = hang,
    [3] = hang,
    [11] = hang,
    [14] = hang,
    [15] = hang,
    [FIRST_IRQ + 0] = kg_on_timer,
    [FIRST_IRQ + 20] = kg_on_uart,
};
