/* userns_ban COMMAND...: runs a command while a BPF program on the LSM hook `capable`
 * denies every capability in every user namespace that root didn't make, as a kernel
 * does that restricts unprivileged user namespaces (Ubuntu's AppArmor). The ban ends
 * with the command. By bpf(2) alone; what a kernel calls its functions and where its
 * fields lie is read from its own BTF (Documentation/bpf/btf.rst). Root only. */

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what)
{
	fprintf(stderr, "userns_ban: %s: %s\n", what, strerror(errno));
	exit(99);
}

static char *btf_bytes(void)
{
	size_t size = 0, room = 16 << 20;
	char *bytes = malloc(room);
	int fd = open("/sys/kernel/btf/vmlinux", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || !bytes)
		die("/sys/kernel/btf/vmlinux");
	for (ssize_t got; (got = read(fd, bytes + size, room - size)) != 0; size += got)
		if (got < 0)
			die("read BTF");
	if (size == room || ((struct btf_header *)bytes)->magic != BTF_MAGIC)
		die("BTF of an unknown form");
	close(fd);
	return bytes;
}

/* How many bytes follow a type's head. */
static size_t tail(const struct btf_type *type)
{
	size_t count = BTF_INFO_VLEN(type->info);
	switch (BTF_INFO_KIND(type->info)) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case 17: /* DECL_TAG */
		return 4;
	case BTF_KIND_ARRAY:
		return 12;
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
	case BTF_KIND_DATASEC:
	case 19: /* ENUM64 */
		return count * 12;
	case BTF_KIND_ENUM:
	case BTF_KIND_FUNC_PROTO:
		return count * 8;
	default:
		return 0;
	}
}

/* The type of this name and kind, and its number. */
static const struct btf_type *find(const char *btf, int kind, const char *name, __u32 *id)
{
	const struct btf_header *head = (const void *)btf;
	const char *names = btf + head->hdr_len + head->str_off;
	const char *at = btf + head->hdr_len + head->type_off;
	const char *end = at + head->type_len;
	for (*id = 1; at < end; (*id)++) {
		const struct btf_type *type = (const void *)at;
		if ((int)BTF_INFO_KIND(type->info) == kind && !strcmp(names + type->name_off, name))
			return type;
		at += sizeof *type + tail(type);
	}
	errno = ENOENT;
	die(name);
	return NULL;
}

/* Where a field of struct user_namespace lies, in bytes. */
static __s16 field(const char *btf, const char *name)
{
	__u32 id;
	const struct btf_header *head = (const void *)btf;
	const struct btf_type *type = find(btf, BTF_KIND_STRUCT, "user_namespace", &id);
	const struct btf_member *member = (const void *)(type + 1);
	for (__u32 i = 0; i < BTF_INFO_VLEN(type->info); i++, member++)
		if (!strcmp(btf + head->hdr_len + head->str_off + member->name_off, name))
			return BTF_MEMBER_BIT_OFFSET(member->offset) / 8;
	errno = ENOENT;
	die(name);
	return 0;
}

static int bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof *attr);
}

/* int capable(cred, target, cap, opts): the link that holds it in place. */
static int attach(const char *btf)
{
	static char log[65536];
	struct bpf_insn program[] = {
		/* r1 = target, the second argument */
		{ .code = BPF_LDX | BPF_MEM | BPF_DW, .dst_reg = 1, .src_reg = 1, .off = 8 },
		/* the initial namespace, or one of root's: allow */
		{ .code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 2, .src_reg = 1, .off = field(btf, "level") },
		{ .code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = 2, .imm = 0, .off = 4 },
		{ .code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 2, .src_reg = 1, .off = field(btf, "owner") },
		{ .code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = 2, .imm = 0, .off = 2 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = -EPERM },
		{ .code = BPF_JMP | BPF_EXIT },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr load = {
		.prog_type = BPF_PROG_TYPE_LSM,
		.expected_attach_type = BPF_LSM_MAC,
		.insns = (__u64)program,
		.insn_cnt = sizeof program / sizeof *program,
		.license = (__u64) "GPL",
		.log_buf = (__u64)log,
		.log_size = sizeof log,
		.log_level = 1,
	};
	__u32 hook;
	find(btf, BTF_KIND_FUNC, "bpf_lsm_capable", &hook);
	load.attach_btf_id = hook;
	int loaded = bpf(BPF_PROG_LOAD, &load);
	if (loaded < 0) {
		fputs(log, stderr);
		die("load");
	}
	union bpf_attr open = { .raw_tracepoint = { .prog_fd = loaded } };
	int link = bpf(BPF_RAW_TRACEPOINT_OPEN, &open);
	if (link < 0)
		die("attach");
	return link;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fputs("usage: userns_ban COMMAND...\n", stderr);
		return 99;
	}
	/* bpf(2) makes its descriptors close-on-exec. */
	attach(btf_bytes());
	pid_t child = fork();
	if (child == 0) {
		execvp(argv[1], argv + 1);
		die(argv[1]);
	}
	int status;
	if (child < 0 || waitpid(child, &status, 0) != child)
		die("run the command");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
