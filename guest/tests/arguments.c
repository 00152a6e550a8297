/* Prints the arguments of main(), and exits with a status below zero if there are none. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  for (int number = 0; number < argc; number++)
    printf("%d: %s\n", number, argv[number]);
  if (argv[argc])
    puts("argv does not end with a null pointer");
  return argc ? 0 : -1;
}
