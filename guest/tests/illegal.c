/* Executes an instruction that does not exist. */
int main(void) {
  __asm__ volatile(".word 0");
  return 0;
}
