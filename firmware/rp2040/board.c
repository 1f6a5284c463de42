#include "board.h"

#include <stddef.h>

#include "registers.h"

enum { LEFT_SLICE = 1, RIGHT_SLICE = 2, REST_US = 10000, TOO_SHORT_US = 20, WATCHDOG_US = 1000000, RING = 64 };
/* Bits of PWM_TOP: a duty in thousandths needs no scaling. 1 kHz lets small brushed motors start at low duties. */
enum { PWM_PERIOD = 1000, PWM_DIVIDER = 125 };

static volatile uint8_t ring[RING];
static volatile uint8_t ring_in;
static volatile uint8_t ring_out;
static bool was_hung;

void kg_on_timer(void);
void kg_on_uart(void);

void kg_on_timer(void) {
    KG_REGISTER(TIMER_INTR) = 1;
}

/* Bytes that find no room are lost; the frame's checksum tells. */
void kg_on_uart(void) {
    while (!(KG_REGISTER(UART0_FR) & UART_FR_RXFE)) {
        const uint8_t byte = (uint8_t)KG_REGISTER(UART0_DR);
        const uint8_t next = (uint8_t)((ring_in + 1) % RING);
        if (next != ring_out) {
            ring[ring_in] = byte;
            ring_in = next;
        }
    }
}

static void wait_for(uint32_t address, uint32_t bits) {
    while ((KG_REGISTER(address) & bits) != bits) {
    }
}

/* Crystal of 12 MHz · 125 / 6 / 2 = 125 MHz. */
static void start_clocks(void) {
    KG_REGISTER(XOSC_STARTUP) = 47; /* about 1 ms */
    KG_REGISTER(XOSC_CTRL) = 0xfabaa0;
    wait_for(XOSC_STATUS, 1u << 31);
    KG_REGISTER(CLK_REF_CTRL) = 2; /* the crystal */
    wait_for(CLK_REF_SELECTED, 1u << 2);
    KG_REGISTER(CLK_SYS_CTRL) = 0; /* clk_ref, while the PLL changes */
    wait_for(CLK_SYS_SELECTED, 1);
    KG_CLEAR_BITS(RESETS_RESET, RESET_PLL_SYS);
    wait_for(RESETS_DONE, RESET_PLL_SYS);
    KG_REGISTER(PLL_SYS_CS) = 1;
    KG_REGISTER(PLL_SYS_FBDIV) = 125;
    KG_CLEAR_BITS(PLL_SYS_PWR, 1u << 0 | 1u << 5); /* power and the oscillator */
    wait_for(PLL_SYS_CS, 1u << 31);
    KG_REGISTER(PLL_SYS_PRIM) = 6u << 16 | 2u << 12;
    KG_CLEAR_BITS(PLL_SYS_PWR, 1u << 3); /* the dividers */
    KG_REGISTER(CLK_SYS_CTRL) = 1;       /* the PLL */
    wait_for(CLK_SYS_SELECTED, 1u << 1);
    KG_REGISTER(CLK_PERI_CTRL) = 1u << 11;
    KG_REGISTER(WATCHDOG_TICK) = 1u << 9 | 12; /* a tick a microsecond, which the timer needs too */
}

static void start_uart(void) {
    KG_REGISTER(GPIO_CTRL(0)) = FUNCTION_UART;
    KG_REGISTER(GPIO_CTRL(1)) = FUNCTION_UART;
    KG_REGISTER(UART0_IBRD) = 67; /* 125 MHz / (16 · 115200) = 67 + 52/64 */
    KG_REGISTER(UART0_FBRD) = 52;
    KG_REGISTER(UART0_LCR) = 3u << 5 | 1u << 4; /* 8 bits, FIFOs */
    KG_REGISTER(UART0_CR) = 1u << 9 | 1u << 8 | 1;
    KG_REGISTER(UART0_IFLS) = 0;
    KG_REGISTER(UART0_IMSC) = 1u << 6 | 1u << 4; /* received, and received but waiting */
}

static void start_motors(void) {
    for (uint32_t pin = 2; pin <= 5; pin++) {
        KG_REGISTER(GPIO_CTRL(pin)) = FUNCTION_PWM;
    }
    for (uint32_t slice = LEFT_SLICE; slice <= RIGHT_SLICE; slice++) {
        KG_REGISTER(PWM_SLICE(slice) + PWM_DIV) = PWM_DIVIDER << 4;
        KG_REGISTER(PWM_SLICE(slice) + PWM_TOP) = PWM_PERIOD - 1;
    }
    kg_board_motors(0, 0);
}

void kg_board_start(void) {
    const uint32_t used = RESET_IO_BANK0 | RESET_PADS_BANK0 | RESET_PWM | RESET_TIMER | RESET_UART0;
    was_hung = KG_REGISTER(WATCHDOG_REASON) != 0;
    start_clocks();
    KG_SET_BITS(RESETS_RESET, used); /* a watchdog's reset leaves them as they were: motors could be running */
    KG_CLEAR_BITS(RESETS_RESET, used);
    wait_for(RESETS_DONE, used);
    start_motors();
    start_uart();
    KG_REGISTER(TIMER_INTE) = 1;
    KG_REGISTER(NVIC_ISER) = 1u << IRQ_TIMER0 | 1u << IRQ_UART0;
    KG_REGISTER(WATCHDOG_LOAD) = 2 * WATCHDOG_US; /* it counts twice a tick (erratum RP2040-E1) */
    KG_REGISTER(WATCHDOG_CTRL) = 1u << 30;
}

bool kg_board_was_hung(void) {
    return was_hung;
}

uint32_t kg_board_microseconds(void) {
    return KG_REGISTER(TIMER_RAWL);
}

void kg_board_rest(uint32_t microseconds) {
    KG_REGISTER(WATCHDOG_LOAD) = 2 * WATCHDOG_US;
    if (microseconds < TOO_SHORT_US) { /* an alarm for a time that has just passed would never come */
        return;
    }
    KG_REGISTER(TIMER_ALARM0) = kg_board_microseconds() + (microseconds < REST_US ? microseconds : REST_US);
    __asm volatile("wfi");
}

/* One motor: the duty on the pin of its direction, 0 on the other; a slice that stands still is off. */
static void motor(uint32_t slice, int16_t thousandths) {
    const uint32_t duty = (uint32_t)(thousandths < 0 ? -thousandths : thousandths);
    KG_REGISTER(PWM_SLICE(slice) + PWM_CC) = thousandths < 0 ? duty << 16 : duty;
    KG_REGISTER(PWM_SLICE(slice) + PWM_CSR) = duty != 0;
}

void kg_board_motors(int16_t left, int16_t right) {
    motor(LEFT_SLICE, left);
    motor(RIGHT_SLICE, right);
}

void kg_board_put(uint8_t byte) {
    while (KG_REGISTER(UART0_FR) & UART_FR_TXFF) {
    }
    KG_REGISTER(UART0_DR) = byte;
}

int kg_board_get(void) {
    if (ring_out == ring_in) {
        return -1;
    }
    const uint8_t byte = ring[ring_out];
    ring_out = (uint8_t)((ring_out + 1) % RING);
    return byte;
}
