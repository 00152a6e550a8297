/**
 * Does nothing: the peer of a server whose queues stay idle.
 */
int main(void) {
  for (;;)
    __asm__ volatile("wfi");
}
