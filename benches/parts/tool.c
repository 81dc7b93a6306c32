/* What the bench runs inside jails and outside of them; always the same binary.
 *
 *   tool stamp             says the time, in its last moment
 *   tool alive             says the time, and waits to be killed
 *   tool timed COMMAND...  says how long the command took, whose output goes nowhere
 *   tool ask               says the time when ANTHROPIC_BASE_URL has answered a question with 200
 *   tool calls FOLDER      for each name of a call on standard input, a batch of them in
 *                          FOLDER, and how long one took
 *   tool walk FOLDER       asks every file below for its owner and its capabilities
 *   tool confined ...      any of these under layers that allow everything (confine.h)
 *
 * Times are nanoseconds, of CLOCK_MONOTONIC, a line each.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "confine.h"

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void say(long long value) {
  char line[32];
  int length = snprintf(line, sizeof line, "%lld\n", value);
  if (write(1, line, length) != length) err(1, "write");
}

static int timed(char **command) {
  long long begin = now();
  pid_t pid = fork();
  if (pid == 0) {
    dup2(open("/dev/null", O_WRONLY), 1);
    execvp(command[0], command);
    err(127, "%s", command[0]);
  }
  int status;
  if (waitpid(pid, &status, 0) != pid || status != 0) errx(1, "%s: wait status %d", command[0], status);
  say(now() - begin);
  return 0;
}

static int answered(const struct sockaddr_in *address, const char *request) {
  char answer[16] = "";
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int good = connect(fd, (const void *)address, sizeof *address) == 0 &&
             send(fd, request, strlen(request), MSG_NOSIGNAL) > 0 &&
             recv(fd, answer, 12, MSG_WAITALL) == 12 && !strcmp(answer, "HTTP/1.1 200");
  close(fd);
  return good;
}

static int ask(void) {
  const char *url = getenv("ANTHROPIC_BASE_URL"), *key = getenv("ANTHROPIC_API_KEY");
  if (!url || !key) errx(1, "there is no broker");
  struct sockaddr_in address = {AF_INET, htons(atoi(strrchr(url, ':') + 1)), {htonl(INADDR_LOOPBACK)}, {0}};
  char request[512];
  snprintf(request, sizeof request, "GET /v1/models HTTP/1.1\r\nHost: %s\r\nx-api-key: %s\r\n\r\n", url + 7, key);
  for (long long end = now() + 10000000000LL; now() < end; nanosleep(&(struct timespec){0, 100000}, NULL)) {
    if (answered(&address, request)) {
      say(now());
      return 0;
    }
  }
  errx(1, "no answer came");
}

/* One call of each kind; returns a negative number if it failed. */
static long call(const char *name) {
  static int zero = -1, null = -1, word;
  static char byte;
  struct stat found;
  if (zero < 0) zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY);
  switch (name[0]) {
    case 'g': return syscall(SYS_getppid);
    case 'r': return syscall(SYS_read, zero, &byte, 1);
    case 'w': return syscall(SYS_write, null, &byte, 1);
    case 'f': return syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    case 's': return stat("tool", &found);
    case 'o': return close(open("tool", O_RDONLY));
  }
  errx(1, "what is %s?", name);
}

static int calls(const char *folder) {
  char name[32];
  if (chdir(folder)) err(1, "%s", folder);
  while (fgets(name, sizeof name, stdin)) {
    int count = name[0] == 's' || name[0] == 'o' ? 2000 : 20000;
    long long begin = now();
    for (int index = 0; index < count; index++)
      if (call(name) < 0) err(1, "%s", name);
    printf("%.3f\n", (double)(now() - begin) / count);
    fflush(stdout);
  }
  return 0;
}

/* The calls of groom-ns as root, in the least of a loop. getxattrat(2) is newer than libc. */
static void walk(int folder) {
  struct { void *value; unsigned size, flags; } got = {NULL, 0, 0};
  DIR *entries = fdopendir(folder);
  if (!entries) err(1, "fdopendir");
  for (struct dirent *entry; (entry = readdir(entries));) {
    struct stat found;
    const char *name = entry->d_name;
    if (!strcmp(name, ".") || !strcmp(name, "..")) continue;
    if (fstatat(folder, name, &found, AT_SYMLINK_NOFOLLOW)) err(1, "%s", name);
    /* Unless it is answered, nothing was asked. */
    if (syscall(464, folder, name, AT_SYMLINK_NOFOLLOW, "security.capability", &got, sizeof got) < 0 && errno != ENODATA)
      err(1, "getxattrat: %s", name);
    if (!S_ISDIR(found.st_mode)) continue;
    int next = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0) err(1, "%s", name);
    walk(next);
  }
  closedir(entries);
}

int main(int count, char **words) {
  if (count > 2 && !strcmp(words[1], "confined")) {
    confine();
    count--, words++;
  }
  const char *what = count > 1 ? words[1] : "";
  if (!strcmp(what, "stamp")) return say(now()), 0;
  if (!strcmp(what, "alive")) {
    say(now());
    for (;;) pause();
  }
  if (!strcmp(what, "timed") && count > 2) return timed(words + 2);
  if (!strcmp(what, "ask")) return ask();
  if (!strcmp(what, "calls") && count > 2) return calls(words[2]);
  if (!strcmp(what, "walk") && count > 2) return walk(open(words[2], O_RDONLY | O_DIRECTORY)), 0;
  errx(2, "see the head of tool.c");
}
