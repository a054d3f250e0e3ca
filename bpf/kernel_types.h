/* SPDX-License-Identifier: MIT */
/*
 * The members of the kernel's types that the programs read. libbpf relocates them to the types of
 * the running kernel, so their order, and the members that are missing here, do not matter.
 */
#ifndef RP_BPF_KERNEL_TYPES_H
#define RP_BPF_KERNEL_TYPES_H

#define RELOCATED __attribute__((preserve_access_index))

struct ns_common {
	unsigned int inum;
} RELOCATED;

struct pid_namespace {
	struct ns_common ns;
} RELOCATED;

struct upid {
	int nr;
	struct pid_namespace *ns;
} RELOCATED;

struct pid {
	unsigned int level;
	struct upid numbers[1];
} RELOCATED;

struct rseq;

struct qstr {
	const unsigned char *name;
} RELOCATED;

struct inode {
	unsigned short i_mode;
} RELOCATED;

struct dentry {
	struct qstr d_name;
	struct inode *d_inode;
} RELOCATED;

struct path {
	struct dentry *dentry;
} RELOCATED;

struct file {
	struct path f_path;
} RELOCATED;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} RELOCATED;

struct files_struct {
	struct fdtable *fdt;
} RELOCATED;

typedef struct {
	unsigned int val;
} kuid_t;

struct cred {
	kuid_t euid;
} RELOCATED;

struct css_set;

/* x86-64 only. */
struct thread_struct {
	unsigned long fsbase;
} RELOCATED;

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	const struct cred *real_cred;
	struct css_set *cgroups;
	struct rseq *rseq;
	__u64 start_time;
	char comm[16];
	struct files_struct *files;
	struct thread_struct thread;
} RELOCATED;

/* x86-64 only. */
struct pt_regs {
	unsigned long bx, bp, r12, r13, r14, r15, ip, sp, di, si, dx, r10, r8, r9;
} RELOCATED;

struct gendisk {
	int major, first_minor;
	char disk_name[32];
} RELOCATED;

struct request_queue {
	struct gendisk *disk;		/* since Linux 5.17 */
} RELOCATED;

struct bio;

struct request {
	struct bio *bio;
	struct request_queue *q;
	struct gendisk *rq_disk;	/* before Linux 5.17 */
	unsigned int cmd_flags;
	unsigned int __data_len;
	__u64 __sector;
} RELOCATED;

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} RELOCATED;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} RELOCATED;

#endif
