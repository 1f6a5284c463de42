/* The Raspberry Pi Pico as the robot uses it. No SDK: registers after the RP2040 datasheet.
 *
 * UART0 on GPIO 0 (out) and 1 (in), 115,200 baud. Left motor on GPIO 2 (forward) and 3 (backward), right motor on GPIO 4
 * and 5, each pair to the two inputs of a bridge such as the DRV8833. */
#ifndef KG_BOARD_H
#define KG_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "store.h"

/* Clocks at 125 MHz, pins, UART, motors off, watchdog running. */
void kg_board_start(void);
/* Whether the last reset came from the watchdog. */
bool kg_board_was_hung(void);
/* Microseconds since the start; wraps after 71 minutes. */
uint32_t kg_board_microseconds(void);
/* Feed the watchdog and sleep until an interrupt comes, at most so many microseconds and never longer than 10 ms. */
void kg_board_rest(uint32_t microseconds);
/* Thousandths of full speed; negative is backward. */
void kg_board_motors(int16_t left, int16_t right);
void kg_board_put(uint8_t byte);
/* A received byte, or -1. */
int kg_board_get(void);

extern const kg_flash KG_BOARD_FLASH;

#endif
