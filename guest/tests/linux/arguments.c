/* Shows what it was given, copies its input to its output, and ends with the number of arguments.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

int main(int argc, char **argv, char **environment) {
  for (int i = 0; i < argc; i++)
    printf("argument %d: %s\n", i, argv[i]);
  for (char **variable = environment; *variable; variable++)
    printf("variable: %s\n", *variable);
  printf("page: %lu, secure: %lu\n", getauxval(AT_PAGESZ), getauxval(AT_SECURE));
  printf("third: %.17g\n", 1.0 / strtod("3", NULL));
  char line[100];
  while (fgets(line, sizeof line, stdin))
    fputs(line, stdout);
  fflush(stdout);
  fprintf(stderr, "to standard error\n");
  return argc;
}
