/* Waits for an interrupt that never occurs. */
int main(void) {
  for (;;)
    __asm__ volatile("wfi");
}
