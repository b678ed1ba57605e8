cat > s.c <<'END'
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t n = sizeof a;
  int l = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(l, (void *)&a, n) || listen(l, 1) || getsockname(l, (void *)&a, &n)) return 1;
  if (fork() == 0) {
    int c = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c, (void *)&a, n) || write(c, "x", 1) != 1) _exit(2);
    _exit(0);
  }
  char b = 0;
  int s = accept(l, 0, 0), status;
  if (read(s, &b, 1) != 1 || b != 'x') return 3;
  wait(&status);
  return status != 0;
}
END
gcc -o s s.c && ./s
