/**
 * Does nothing: the neighbour of a server whose queues stay idle.
 */
int main(void) {
  for (;;)
    __asm__ volatile("wfi");
}
