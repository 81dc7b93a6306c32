/* What the kernel alone takes for layers: the calling process gets a landlock domain of one
 * rule and a filter of one instruction, and both allow everything. */
#include <err.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A filter that looks at nothing. */
static void filter(void) {
  struct sock_filter allow = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
  struct sock_fprog program = {1, &allow};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
    err(1, "filter");
}

static void confine(void) {
  struct landlock_ruleset_attr handled = {.handled_access_fs = 0xffff};
  int rules;
  /* As many rights as this kernel knows. */
  while ((rules = syscall(SYS_landlock_create_ruleset, &handled, sizeof handled.handled_access_fs, 0)) < 0)
    if (!(handled.handled_access_fs >>= 1)) err(1, "landlock");
  struct landlock_path_beneath_attr root = {handled.handled_access_fs, open("/", O_PATH | O_CLOEXEC)};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
      syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &root, 0) ||
      syscall(SYS_landlock_restrict_self, rules, 0))
    err(1, "landlock");
  close(root.parent_fd);
  close(rules);
  filter();
}
