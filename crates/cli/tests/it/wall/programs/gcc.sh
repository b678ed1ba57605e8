cat > a.c <<'END'
#include <pthread.h>
#include <stdio.h>
static void *run(void *x) { puts("thread"); return x; }
int main(void) { pthread_t t; pthread_create(&t, 0, run, 0); return pthread_join(t, 0); }
END
printf 'all: a b\na: a.c\n\tgcc -pthread -o a a.c\nb: a.c\n\tgcc -pthread -o b a.c\n' > Makefile
if command -v make > /dev/null; then make -j2; else gcc -pthread -o a a.c; fi && ./a | grep thread
