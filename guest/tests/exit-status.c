/* Exits with status 42. */
int main(void) { return 42; }
