/* Registers of the RP2040 that the board's code uses (RP2040 datasheet, sections 2.8 to 4.7). */
#ifndef KG_REGISTERS_H
#define KG_REGISTERS_H

#include <stdint.h>

#define KG_REGISTER(address) (*(volatile uint32_t *)(address))
/* Writing to these aliases sets or clears single bits. */
#define KG_SET_BITS(address, bits) (KG_REGISTER((address) + 0x2000u) = (bits))
#define KG_CLEAR_BITS(address, bits) (KG_REGISTER((address) + 0x3000u) = (bits))

#define RESETS_RESET 0x4000c000u
#define RESETS_DONE 0x4000c008u
#define RESET_IO_BANK0 (1u << 5)
#define RESET_PADS_BANK0 (1u << 8)
#define RESET_PLL_SYS (1u << 12)
#define RESET_PWM (1u << 14)
#define RESET_TIMER (1u << 21)
#define RESET_UART0 (1u << 22)

#define XOSC_CTRL 0x40024000u
#define XOSC_STATUS 0x40024004u
#define XOSC_STARTUP 0x4002400cu
#define PLL_SYS_CS 0x40028000u
#define PLL_SYS_PWR 0x40028004u
#define PLL_SYS_FBDIV 0x40028008u
#define PLL_SYS_PRIM 0x4002800cu
#define CLK_REF_CTRL 0x40008030u
#define CLK_REF_SELECTED 0x40008038u
#define CLK_SYS_CTRL 0x4000803cu
#define CLK_SYS_SELECTED 0x40008044u
#define CLK_PERI_CTRL 0x40008048u

#define WATCHDOG_CTRL 0x40058000u
#define WATCHDOG_LOAD 0x40058004u
#define WATCHDOG_REASON 0x40058008u
#define WATCHDOG_TICK 0x4005802cu

#define TIMER_ALARM0 0x40054010u
#define TIMER_RAWL 0x40054028u
#define TIMER_INTR 0x40054034u
#define TIMER_INTE 0x40054038u

#define GPIO_CTRL(pin) (0x40014004u + 8u * (pin))
#define FUNCTION_UART 2u
#define FUNCTION_PWM 4u

#define PWM_SLICE(slice) (0x40050000u + 0x14u * (slice))
#define PWM_CSR 0x00u
#define PWM_DIV 0x04u
#define PWM_CC 0x0cu
#define PWM_TOP 0x10u

#define UART0_DR 0x40034000u
#define UART0_FR 0x40034018u
#define UART0_IBRD 0x40034024u
#define UART0_FBRD 0x40034028u
#define UART0_LCR 0x4003402cu
#define UART0_CR 0x40034030u
#define UART0_IFLS 0x40034034u
#define UART0_IMSC 0x40034038u
#define UART0_ICR 0x40034044u
#define UART_FR_RXFE (1u << 4)
#define UART_FR_TXFF (1u << 5)

#define NVIC_ISER 0xe000e100u
#define IRQ_TIMER0 0u
#define IRQ_UART0 20u

#endif
