/* Waits for an interrupt that nobody will send. */
int main(void) {
  for (;;)
    __asm__ volatile("wfi");
}
