/* Written by `make docs` from crates/server/src/memory_map.rs; docs/memory-map.md says what is
   where. */
#ifndef MEMORY_MAP_H
#define MEMORY_MAP_H

#define CLINT_START 0x02000000
#define IO_REGISTERS_START 0x10000000
#define ICE_NIC_REGISTERS_START 0x10016000
#define IO_TENANTS_START 0x10100000
#define SONUMA_REGISTERS_START 0x10200000
#define DMA_NIC_REGISTERS_START 0x10300000
#define DMA_NIC_SCRATCHPAD_START 0x10740000
#define CQE_NIC_REGISTERS_START 0x10800000
#define DOORBELLS_START 0x60000000
#define CONSUMERS_START 0x64000000
#define TENANT_DOORBELLS_START 0x68000000
#define IO_PAGE_TABLES_START 0x69000000
#define QUEUE_PAIRS_START 0x6c000000
#define PAGE_TABLES_START 0x6d000000
#define STACKS_START 0x70000000
#define MAIN_MEMORY_START 0x80000000
#define CLINT_MSIP 0x02000000
#define CLINT_MTIMECMP 0x02004000
#define CLINT_MTIME 0x0200bff8

/* Where the stack of the first hart ends, and how far it is to the next one's end. */
#define FIRST_STACK 0x70100000
#define STACK_STRIDE 0x101040

/* Doorbells without an I/O device that says how many. */
#define EXECUTED_DOORBELLS 2048

#endif
