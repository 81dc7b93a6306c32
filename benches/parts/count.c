/* Counts the instructions of a command and of all its processes, each until it executes
 * something else or ends, and the stretches of 64 KiB that they lie in: a single step each
 * (ptrace(2)). Works where no counters can be had, and in the jail, which valgrind can't
 * enter. An instruction with a rep prefix counts once a repetition; the kernel's own don't
 * count. Addresses aren't randomized, so that the stretches are the same each time.
 *
 * usage: count COMMAND [ARGUMENT...]; prints a line `INSTRUCTIONS STRETCHES` a process, in
 * the order of their start, and ends with the command's exit code.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 64, SLOTS = 1 << 12, CHILDREN = PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK };

/* `seen`: a hash table of numbers of stretches, 0 where nothing is. */
static struct { pid_t pid; long steps, stretches; int begun; unsigned long seen[SLOTS]; } processes[MOST];
static int known;

static int place_of(pid_t pid) {
  for (int index = 0; index < known; index++)
    if (processes[index].pid == pid) return index;
  if (known == MOST) errx(1, "too many processes");
  processes[known].pid = pid;
  return known++;
}

static void see_place(int index) {
  errno = 0;
  unsigned long rip = ptrace(PTRACE_PEEKUSER, processes[index].pid, offsetof(struct user, regs.rip), 0);
  if (errno) return; /* It was killed. */
  unsigned long stretch = rip >> 16, slot = stretch % SLOTS, *seen = processes[index].seen;
  while (seen[slot] && seen[slot] != stretch) slot = (slot + 1) % SLOTS;
  if (seen[slot]) return;
  seen[slot] = stretch;
  if (++processes[index].stretches == SLOTS / 2) errx(1, "too much code");
}

static void step(pid_t pid, int with) {
  /* It may have been killed since. */
  if (ptrace(PTRACE_SINGLESTEP, pid, 0, with) < 0 && errno != ESRCH) err(1, "step");
}

/* What one stop says; goes on with the process, or leaves it alone. */
static void stopped(int index, int status, int is_first) {
  pid_t pid = processes[index].pid;
  int with = WSTOPSIG(status), event = status >> 16;
  if (event == PTRACE_EVENT_EXEC && !is_first) {
    ptrace(PTRACE_DETACH, pid, 0, 0);
    return;
  }
  if (event || with == SIGTRAP) {
    processes[index].steps += !event;
    see_place(index);
    with = 0;
  } else if (with == SIGSTOP && !processes[index].begun) {
    with = 0;
  }
  processes[index].begun = 1;
  step(pid, with);
}

static int follow(pid_t first) {
  int status, code = 1;
  for (pid_t pid; (pid = waitpid(-1, &status, __WALL)) > 0;) {
    int index = place_of(pid);
    if (WIFSTOPPED(status))
      stopped(index, status, 0);
    else if (pid == first)
      code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return code;
}

int main(int count, char **words) {
  if (count < 2) errx(2, "usage: count COMMAND [ARGUMENT...]");
  pid_t first = fork();
  if (first == 0) {
    if (personality(ADDR_NO_RANDOMIZE) < 0) err(1, "personality");
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    execv(words[1], words + 1);
    err(127, "%s", words[1]);
  }
  int status, options = PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC | CHILDREN;
  if (waitpid(first, &status, 0) != first || !WIFSTOPPED(status)) errx(1, "it doesn't stop");
  if (ptrace(PTRACE_SETOPTIONS, first, 0, options) < 0) err(1, "PTRACE_SETOPTIONS");
  /* Counting begins with the command's own first instruction. */
  if (ptrace(PTRACE_CONT, first, 0, 0) < 0 || waitpid(first, &status, 0) != first) err(1, "start");
  if (status >> 8 != (SIGTRAP | PTRACE_EVENT_EXEC << 8)) errx(1, "%s isn't executed", words[1]);
  stopped(place_of(first), status, 1);
  int code = follow(first);
  for (int index = 0; index < known; index++) printf("%ld %ld\n", processes[index].steps, processes[index].stretches);
  return code;
}
