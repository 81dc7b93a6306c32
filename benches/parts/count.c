/* Counts the instructions of a command and of all its processes, each until it executes
 * something else or ends, and the pages that they lie in: a single step each (ptrace(2)).
 * Works where no counters can be had, and in the jail, which valgrind can't enter. An
 * instruction with a rep prefix counts once a repetition; the kernel's own don't count.
 *
 * usage: count COMMAND [ARGUMENT...]; prints a line `INSTRUCTIONS PAGES` a process, in the
 * order of their start, and ends with the command's exit code.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 64, PAGES = 1 << 14, CHILDREN = PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK };

/* `seen`: a hash table of page numbers, 0 where nothing is. */
static struct { pid_t pid; long steps, pages; int begun; unsigned long seen[PAGES]; } processes[MOST];
static int known;

static int place_of(pid_t pid) {
  for (int index = 0; index < known; index++)
    if (processes[index].pid == pid) return index;
  if (known == MOST) errx(1, "too many processes");
  processes[known].pid = pid;
  return known++;
}

static void see_page(int index) {
  struct user_regs_struct at;
  if (ptrace(PTRACE_GETREGS, processes[index].pid, 0, &at) < 0) return; /* It was killed. */
  unsigned long page = at.rip >> 12, place = page % PAGES;
  while (processes[index].seen[place] && processes[index].seen[place] != page) place = (place + 1) % PAGES;
  if (processes[index].seen[place]) return;
  processes[index].seen[place] = page;
  if (++processes[index].pages == PAGES / 2) errx(1, "too many pages");
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
    see_page(index);
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
  for (int index = 0; index < known; index++) printf("%ld %ld\n", processes[index].steps, processes[index].pages);
  return code;
}
