/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is left to a process that gave its rights up: each attempt is made in a process of its own, from
 * a thread that was there before. The calls are made as an intruder would make them, past the libraries.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/rights/filter.h"
#include "core/rights/helper.h"
#include "core/rights/rights.h"

static char folder[] = "/tmp/headrace-rights-XXXXXX";
static char noted[64], other[64];
static int server;

static long run_program(void)
{
	char *const args[] = {(char *)"/bin/true", NULL};

	return syscall(SYS_execve, args[0], args, args + 1);
}

static long make_process(void)
{
	return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static long send_raw_packets(void)
{
	return socket(AF_PACKET, SOCK_RAW, 0);
}

static long listen_for_strangers(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	return fd < 0 ? fd : listen(fd, 1);
}

static long make_code(void)
{
	return (long)mmap(NULL, 4096, PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static long make_code_later(void)
{
	void *p = mmap(NULL, 4096, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return mprotect(p, 4096, PROT_EXEC);
}

/* As a library is loaded, but of a file that was made here. */
static long make_code_in_a_file(void)
{
	int fd = memfd_create("code", 0);

	if (fd < 0 || write(fd, "\xc3", 1) != 1)
		return 0;
	return (long)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
}

static void *cancelled(void *arg)
{
	pause();
	return arg;
}

static long kill_parent(void)
{
	return kill(getppid(), SIGCONT);
}

static long trace(void)
{
	return syscall(SYS_ptrace, 16 /* PTRACE_ATTACH */, getppid(), 0, 0);
}

static long read_memory(void)
{
	return syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0);
}

static long mount_something(void)
{
	return syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, NULL);
}

static long new_namespaces(void)
{
	return syscall(SYS_unshare, 0x10000000 /* CLONE_NEWUSER */);
}

static long load_program_of_kernel(void)
{
	return syscall(SYS_bpf, 0, NULL, 0);
}

static long become_root_again(void)
{
	return syscall(SYS_setuid, 0);
}

static long type_for_user(void)
{
	return ioctl(0, TIOCSTI, "x");
}

/* The kernel reads 32 bits of the command. */
static long type_for_user_by_another_number(void)
{
	return syscall(SYS_ioctl, 0, (unsigned long)TIOCSTI | 1ul << 32, "x");
}

static long paste_for_user(void)
{
	return ioctl(0, TIOCLINUX, "\2");
}

static long signals_to_parent(void)
{
	return fcntl(server, F_SETOWN, getppid());
}

static long signals_to_parent_by_another_number(void)
{
	return syscall(SYS_fcntl, server, (unsigned long)F_SETOWN | 1ul << 32, getppid());
}

static long signals_to_group(void)
{
	struct f_owner_ex owner = {F_OWNER_PGRP, getpgrp()};

	return fcntl(server, F_SETOWN_EX, &owner);
}

static long signals_by_ioctl(void)
{
	pid_t parent = getppid();

	return ioctl(server, FIOSETOWN, &parent);
}

static long signals_by_socket(void)
{
	pid_t parent = getppid();

	return ioctl(server, SIOCSPGRP, &parent);
}

static long signal_that_kills(void)
{
	return fcntl(server, F_SETSIG, SIGKILL);
}

static long keys(void)
{
	return syscall(SYS_keyctl, 0, 0, 0, 0, 0);
}

static long ring_of_calls(void)
{
	return syscall(SYS_io_uring_setup, 1, NULL);
}

/* Another VNF's lcore is there. */
static long move_to_another_cpu(void)
{
	cpu_set_t all;

	memset(&all, 0xff, sizeof(all));
	return syscall(SYS_sched_setaffinity, 0, sizeof(all), &all);
}

static long write_own_code(void)
{
	return syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDWR);
}

static long write_by_another_number(void)
{
	return syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", (unsigned long)O_WRONLY | 1ul << 32);
}

static long fill_a_file(void)
{
	return syscall(SYS_openat, AT_FDCWD, "/tmp/headrace-rights", O_RDONLY | O_CREAT, 0600);
}

static long fill_a_file_without_name(void)
{
	return syscall(SYS_openat, AT_FDCWD, "/tmp", O_TMPFILE | O_WRONLY, 0600);
}

static long open_by_flags_in_memory(void)
{
	uint64_t how[3] = {O_RDWR};

	return syscall(SYS_openat2, AT_FDCWD, "/proc/self/mem", how, sizeof(how));
}

static const struct {
	const char *name;
	long (*call)(void);
} forbidden[] = {
	{"sched_setaffinity", move_to_another_cpu},
	{"openat of its memory", write_own_code},
	{"openat of its memory, 33 bits", write_by_another_number},
	{"openat, a new file", fill_a_file},
	{"openat, a file without a name", fill_a_file_without_name},
	{"openat2", open_by_flags_in_memory},
	{"execve", run_program},
	{"clone of a process", make_process},
	{"socket(AF_PACKET)", send_raw_packets},
	{"listen", listen_for_strangers},
	{"mmap, to write and execute", make_code},
	{"mprotect, to execute", make_code_later},
	{"mmap of a made file, to execute", make_code_in_a_file},
	{"kill of another process", kill_parent},
	{"ptrace", trace},
	{"process_vm_readv", read_memory},
	{"mount", mount_something},
	{"unshare", new_namespaces},
	{"bpf", load_program_of_kernel},
	{"setuid", become_root_again},
	{"ioctl(TIOCSTI)", type_for_user},
	{"ioctl(TIOCSTI), 33 bits", type_for_user_by_another_number},
	{"ioctl(TIOCLINUX)", paste_for_user},
	{"fcntl(F_SETOWN)", signals_to_parent},
	{"fcntl(F_SETOWN), 33 bits", signals_to_parent_by_another_number},
	{"fcntl(F_SETOWN_EX)", signals_to_group},
	{"fcntl(F_SETSIG)", signal_that_kills},
	{"ioctl(FIOSETOWN)", signals_by_ioctl},
	{"ioctl(SIOCSPGRP)", signals_by_socket},
	{"keyctl", keys},
	{"io_uring_setup", ring_of_calls},
};

#define FORBIDDEN (sizeof(forbidden) / sizeof(*forbidden))

static void *attempt(void *arg)
{
	int *refused = arg;

	for (size_t i = 0; i < FORBIDDEN; i++) {
		errno = 0;
		refused[i] = forbidden[i].call() == -1 ? errno : 0;
	}
	return NULL;
}

static void *wait_for(void *arg)
{
	int byte;

	if (read(((int *)arg)[0], &byte, 1) == 1)
		attempt((int *)arg + 1);
	return NULL;
}

/* Runs `what` in a process without rights; 0 when it says so. */
static int without_rights(int (*what)(void *), void *arg)
{
	char name[32] = "engine";
	char *argv[] = {name, NULL};
	struct err err = {0};
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(rights_begin(argv, &err) ? 100 : what(arg));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

/* An lcore that was there before: the filter has to be all threads'. */
static int try_in_older_thread(void *arg)
{
	struct err err = {0};
	pthread_t thread;
	int *shared = arg, go[2];

	if (pipe(go))
		return 101;
	shared[0] = go[0];
	if (pthread_create(&thread, NULL, wait_for, shared) || rights_drop(0, &err) ||
	    write(go[1], "", 1) != 1 || pthread_join(thread, NULL))
		return 102;
	return 0;
}

static void test_forbidden_calls(void **state)
{
	size_t bytes = (FORBIDDEN + 1) * sizeof(int);
	int *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	(void)state;
	if (!strcmp(filter_about(), "no seccomp filter"))
		skip();
	assert_int_equal(without_rights(try_in_older_thread, shared), 0);
	for (size_t i = 0; i < FORBIDDEN; i++) {
		if (shared[i + 1] != EPERM)
			print_error("%s: %s\n", forbidden[i].name, strerror(shared[i + 1]));
		assert_int_equal(shared[i + 1], EPERM);
	}
	munmap(shared, bytes);
}

static void *nothing(void *arg)
{
	return arg;
}

/* What an engine goes on doing. */
static int go_on(void *arg)
{
	struct err err = {0};
	pthread_t thread;
	char text[64];
	int fd;

	(void)arg;
	if (rights_drop(0, &err))
		return 101;
	if (pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL))
		return 102;
	if (pthread_create(&thread, NULL, cancelled, NULL) || pthread_cancel(thread) ||
	    pthread_join(thread, NULL))
		return 107;
	fd = memfd_create("more", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 8192) ||
	    mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED)
		return 103;
	if (fcntl(fd, F_SETFL, O_NONBLOCK) || fcntl(fd, F_DUPFD_CLOEXEC, 0) < 0 ||
	    ioctl(fd, FIONREAD, text) < 0)
		return 106;
	fd = open("/proc/self/status", O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text)) <= 0)
		return 104;
	return socket(AF_INET, SOCK_DGRAM, 0) < 0 ? 105 : 0;
}

static void test_allowed_calls(void **state)
{
	(void)state;
	assert_int_equal(without_rights(go_on, NULL), 0);
}

static int reach(void *arg)
{
	struct err err = {0};
	int fd;

	(void)arg;
	helper_note(noted);
	if (rights_drop(0, &err))
		return 101;
	helper_note(other); /* too late */
	if (open(noted, O_PATH) >= 0)
		return 102;
	fd = helper_connect(noted, SOCK_SEQPACKET);
	if (fd < 0 || send(fd, "hello", 5, 0) != 5)
		return 103;
	if (helper_connect(other, SOCK_SEQPACKET) != -EACCES)
		return 104;
	helper_remove(other);
	helper_remove(noted);
	return helper_connect(noted, SOCK_SEQPACKET) == -ENOENT ? 0 : 105;
}

/* In a folder of root's: what was named before is reached and removed, by the helper; nothing else. */
static void test_helper(void **state)
{
	char said[8] = "";
	int fd;

	(void)state;
	if (geteuid())
		skip(); /* who never was root has no helper, and needs none */
	assert_int_equal(without_rights(reach, NULL), 0);
	fd = accept(server, NULL, NULL);
	assert_int_equal(recv(fd, said, sizeof(said), 0), 5);
	close(fd);
	assert_int_equal(access(noted, F_OK), -1);
	assert_int_equal(access(other, F_OK), 0);
}

static int listen_at(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	strcpy(a.sun_path, path);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 4), 0);
	return fd;
}

static int set_up(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(folder)); /* its owner's alone */
	snprintf(noted, sizeof(noted), "%s/noted", folder);
	snprintf(other, sizeof(other), "%s/other", folder);
	server = listen_at(noted);
	close(listen_at(other));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(server);
	unlink(noted);
	unlink(other);
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forbidden_calls),
		cmocka_unit_test(test_allowed_calls),
		cmocka_unit_test(test_helper),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
