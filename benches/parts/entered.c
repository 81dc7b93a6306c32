/* Which functions of a static, position-independent program are entered, by each of its
 * processes until it executes something else or ends: a breakpoint on each function's
 * first byte, taken away when it is hit (ptrace(2)). A process that was forked has all of
 * them again; what it is in the middle of, it doesn't enter.
 *
 * usage: entered UID OFFSETS RESULT PROGRAM [ARGUMENT...]; root's, since what groom-ns
 * hides from its user it hides from a tracer of that user too. OFFSETS is a file with a
 * function's hexadecimal offset from the load address in each line. Writes a line
 * `PROCESS OFFSET` to RESULT for each function entered, in that order, and ends with the
 * program's exit code. Processes are numbered in the order in which they first stop.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 64, BREAKPOINT = 0xcc, CHILDREN = PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK };
static const long OPTIONS = PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC | CHILDREN;

/* A thread has its process's number and breakpoints. */
static struct { pid_t pid; int process; } threads[MOST];
static int known;
/* Where a process has a breakpoint still. */
static unsigned char *processes[MOST];
static int begun;
/* The span that the functions lie in, as it is in the file; which bytes begin one. */
static unsigned char *original, *begins;
static unsigned long base, from, span;
static FILE *result;

/* The pid of a thread's process. */
static pid_t leader_of(pid_t pid) {
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/%d/status", pid);
  FILE *status = fopen(path, "r");
  int leader = 0;
  while (status && !leader && fgets(line, sizeof line, status)) sscanf(line, "Tgid: %d", &leader);
  if (!leader) errx(1, "%s: no Tgid", path);
  fclose(status);
  return leader;
}

/* -1: not known yet. */
static int thread_of(pid_t pid) {
  for (int index = 0; index < known; index++)
    if (threads[index].pid == pid) return index;
  return -1;
}

static void memory(pid_t pid, void *bytes, unsigned long at, unsigned long count, int is_write) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/mem", pid);
  int file = open(path, is_write ? O_WRONLY : O_RDONLY);
  long moved = is_write ? pwrite(file, bytes, count, at) : pread(file, bytes, count, at);
  if (moved != (long)count) err(1, "%s", path);
  close(file);
}

static void read_offsets(const char *path) {
  FILE *file = fopen(path, "r");
  if (!file) err(1, "%s", path);
  unsigned long count = 0, offset, *offsets = NULL;
  while (fscanf(file, "%lx", &offset) == 1) {
    offsets = realloc(offsets, ++count * sizeof offset);
    offsets[count - 1] = offset;
    if (count == 1 || offset < from) from = offset;
    if (offset >= span) span = offset + 1;
  }
  fclose(file);
  if (!count) errx(1, "%s: no functions", path);
  span -= from;
  begins = calloc(span, 1);
  for (unsigned long index = 0; index < count; index++) begins[offsets[index] - from] = 1;
  free(offsets);
}

/* All breakpoints for a new process, whatever its parent has hit; returns its number. */
static int begin(pid_t pid) {
  if (begun == MOST) errx(1, "too many processes");
  unsigned char *code = malloc(span);
  for (unsigned long index = 0; index < span; index++) code[index] = begins[index] ? BREAKPOINT : original[index];
  memory(pid, code, base + from, span, 1);
  free(code);
  processes[begun] = memcpy(malloc(span), begins, span);
  return begun++;
}

static int hit(pid_t pid, int process) {
  struct user_regs_struct at;
  if (ptrace(PTRACE_GETREGS, pid, 0, &at) < 0) err(1, "registers");
  unsigned long place = at.rip - 1 - base - from;
  if (place >= span || !begins[place]) return 0;
  /* Always: a child that shares its parent's memory has set them there again. */
  memory(pid, original + place, base + from + place, 1, 1);
  if (processes[process][place]) fprintf(result, "%d %lx\n", process, from + place);
  processes[process][place] = 0;
  at.rip--;
  if (ptrace(PTRACE_SETREGS, pid, 0, &at) < 0) err(1, "registers");
  return 1;
}

static int learn(pid_t pid) {
  pid_t leader = leader_of(pid);
  int index = thread_of(leader);
  if (known == MOST || (leader != pid && index < 0)) errx(1, "too many threads, or one without a process");
  threads[known].process = leader == pid ? begin(pid) : threads[index].process;
  threads[known].pid = pid;
  return known++;
}

/* What one stop says; goes on with the thread, or leaves it alone. */
static void stopped(pid_t pid, int status) {
  int index = thread_of(pid), with = WSTOPSIG(status), event = status >> 16;
  if (event == PTRACE_EVENT_EXEC) {
    ptrace(PTRACE_DETACH, pid, 0, 0);
    return;
  }
  if (index < 0) index = learn(pid);
  /* Nobody is stopped here but by us. */
  if (event || with == SIGSTOP || (with == SIGTRAP && hit(pid, threads[index].process))) with = 0;
  /* It may have been killed since. */
  if (ptrace(PTRACE_CONT, pid, 0, with) < 0 && errno != ESRCH) err(1, "go on");
}

static void find_code(pid_t pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/maps", pid);
  FILE *maps = fopen(path, "r");
  if (!maps || fscanf(maps, "%lx", &base) != 1) err(1, "%s", path);
  fclose(maps);
  original = malloc(span);
  memory(pid, original, base + from, span, 0);
}

static void become(uid_t uid) {
  if (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid)) err(1, "become %u", uid);
}

int main(int count, char **words) {
  if (count < 5) errx(2, "usage: entered UID OFFSETS RESULT PROGRAM [ARGUMENT...]");
  char **program = words + 4;
  read_offsets(words[2]);
  if (!(result = fopen(words[3], "we"))) err(1, "%s", words[3]);
  pid_t first = fork();
  if (first == 0) {
    if (atoi(words[1])) become(atoi(words[1]));
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    execv(program[0], program);
    err(127, "%s", program[0]);
  }
  int status, code = 1;
  if (waitpid(first, &status, 0) != first || !WIFSTOPPED(status)) errx(1, "it doesn't stop");
  if (ptrace(PTRACE_SETOPTIONS, first, 0, OPTIONS) < 0) err(1, "PTRACE_SETOPTIONS");
  if (ptrace(PTRACE_CONT, first, 0, 0) < 0 || waitpid(first, &status, 0) != first) err(1, "start");
  if (status >> 8 != (SIGTRAP | PTRACE_EVENT_EXEC << 8)) errx(1, "%s isn't executed", program[0]);
  find_code(first);
  stopped(first, SIGSTOP << 8);
  for (pid_t pid; (pid = waitpid(-1, &status, __WALL)) > 0;) {
    if (WIFSTOPPED(status))
      stopped(pid, status);
    else if (pid == first)
      code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  if (fclose(result)) err(1, "%s", words[3]);
  return code;
}
