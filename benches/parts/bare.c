/* The least that a jail of this view costs: seven namespaces, the mounts, the pivot
 * and exec, and nothing else. No landlock, no seccomp, no look back at what stands,
 * no process beside the command, no broker. As root it maps no tree's owner either.
 *
 * usage: bare [layers] FOLDER STEP... -- COMMAND [ARGUMENT...]
 * With `layers` there is a process beside the command, pid 1, which waits for it; both have
 * a filter, and the command a landlock domain, which allow everything (confine.h).
 *   dir PATH | file PATH | link TARGET PATH    made on the new root
 *   new KIND ATTRIBUTES OPTIONS PATH           a new file system
 *   bind SOURCE ATTRIBUTES PATH                a tree of the host
 *   again SOURCE ATTRIBUTES PATH               what is in the new root, once more; 0: as it is
 * PATH and `again`'s SOURCE are relative to the new root, ATTRIBUTES are a number of
 * MOUNT_ATTR_*, OPTIONS are KEY=VALUE with commas between. The command runs in FOLDER.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "confine.h"

#define NAMESPACES \
  (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

static const char *step = "start";

static long must(long returned) {
  if (returned < 0) err(125, "%s", step);
  return returned;
}

static void put(const char *path, const char *text) {
  int fd = must(open(path, O_WRONLY | O_CLOEXEC));
  must(write(fd, text, strlen(text)));
  close(fd);
}

static void map_ids(unsigned uid, unsigned gid) {
  char text[64];
  put("/proc/self/setgroups", "deny");
  snprintf(text, sizeof text, "1000 %u 1", uid);
  put("/proc/self/uid_map", text);
  snprintf(text, sizeof text, "1000 %u 1", gid);
  put("/proc/self/gid_map", text);
}

static void set_attributes(int fd, unsigned flags, uint64_t attributes) {
  struct mount_attr attr = {.attr_set = attributes, .propagation = 1 << 18 /* MS_PRIVATE */};
  must(syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | flags, &attr, sizeof attr));
}

static int new_filesystem(const char *kind, uint64_t attributes, char *options) {
  int context = must(syscall(SYS_fsopen, kind, FSOPEN_CLOEXEC));
  for (char *key; (key = strsep(&options, ",")) && *key;) {
    char *value = strchr(key, '=');
    *value++ = 0;
    must(syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, key, value, 0));
  }
  must(syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0));
  int fd = must(syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, attributes));
  close(context);
  return fd;
}

static void attach(int tree, int root, const char *path) {
  int flags = MOVE_MOUNT_F_EMPTY_PATH | (*path ? 0 : MOVE_MOUNT_T_EMPTY_PATH);
  must(syscall(SYS_move_mount, tree, "", root, path, flags));
}

static int copy_of(int from, const char *path, unsigned flags) {
  return must(syscall(SYS_open_tree, from, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | flags));
}

/* Carries out the step that begins at `word`; returns where the next one begins. */
static char **carry_out(char **word, int root) {
  step = *word++;
  if (!strcmp(step, "dir")) {
    must(mkdirat(root, word[0], 0755));
    return word + 1;
  }
  if (!strcmp(step, "file")) {
    close(must(openat(root, word[0], O_CREAT | O_EXCL | O_CLOEXEC, 0444)));
    return word + 1;
  }
  if (!strcmp(step, "link")) {
    must(symlinkat(word[0], root, word[1]));
    return word + 2;
  }
  int tree, words;
  if (!strcmp(step, "new")) {
    tree = new_filesystem(word[0], strtoull(word[1], NULL, 10), word[2]);
    words = 4;
  } else if (!strcmp(step, "bind")) {
    tree = copy_of(AT_FDCWD, word[0], AT_RECURSIVE);
    set_attributes(tree, AT_RECURSIVE, strtoull(word[1], NULL, 10));
    words = 3;
  } else if (!strcmp(step, "again")) {
    tree = copy_of(root, word[0], 0);
    uint64_t attributes = strtoull(word[1], NULL, 10);
    if (attributes) set_attributes(tree, 0, attributes);
    words = 3;
  } else {
    errx(125, "what is %s?", step);
  }
  attach(tree, root, word[words - 1]);
  close(tree);
  return word + words;
}

static int end_of(pid_t pid) {
  int status;
  must(waitpid(pid, &status, 0));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Returns in the command's process. */
static void beside_the_command(void) {
  pid_t pid = must(fork());
  if (pid == 0) {
    confine();
    return;
  }
  filter();
  _exit(end_of(pid));
}

static void inside(char **words, int layers, unsigned uid, unsigned gid) {
  const char *folder = *words++;
  step = "maps";
  map_ids(uid, gid);
  step = "root";
  int host = must(open("/", O_PATH | O_CLOEXEC));
  set_attributes(host, AT_RECURSIVE, 0);
  char options[] = "size=1m,nr_inodes=8192,mode=755";
  int root = new_filesystem("tmpfs", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, options);
  attach(root, host, "");
  while (*words && strcmp(*words, "--")) words = carry_out(words, root);
  step = "pivot";
  must(fchdir(root));
  must(syscall(SYS_pivot_root, ".", "."));
  must(syscall(SYS_umount2, ".", 2 /* MNT_DETACH */));
  set_attributes(root, 0, MOUNT_ATTR_RDONLY);
  step = folder;
  must(chdir(folder));
  step = "layers";
  if (layers) beside_the_command();
  step = words[1];
  must(execv(words[1], words + 1));
}

int main(int count, char **words) {
  int layers = count > 1 && !strcmp(words[1], "layers");
  words += layers;
  if (count - layers < 4) errx(125, "usage: bare [layers] FOLDER STEP... -- COMMAND [ARGUMENT...]");
  unsigned uid = geteuid(), gid = getegid();
  umask(0022);
  long pid = must(syscall(SYS_clone, NAMESPACES | SIGCHLD, 0, 0, 0, 0));
  if (pid == 0) inside(words + 1, layers, uid, gid);
  return end_of(pid);
}
