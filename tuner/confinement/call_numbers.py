"""CallNumbers: the system calls that a confined process is refused, with their numbers on each machine.

The numbers are those of asm/unistd_64.h (x86-64) and asm-generic/unistd.h (ARM64). Calls that one of them lacks have a
number on the other alone.
"""

from __future__ import annotations

REFUSED: dict[str, dict[str, int]] = {  # machine, as `platform.machine` names it -> call -> number
    "x86_64": {
        # sockets, and requests that the kernel carries out by itself, such as to open one
        "socket": 41, "socketpair": 53, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
        # leaving the process group, which is killed with the worker
        "setpgid": 109, "setsid": 112,
        # other processes: their memory, files and priority
        "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "process_madvise": 440,
        "process_mrelease": 448, "kcmp": 312, "migrate_pages": 256, "move_pages": 279, "pidfd_open": 434,
        "pidfd_getfd": 438, "pidfd_send_signal": 424, "setpriority": 141, "ioprio_set": 251, "sched_setscheduler": 144,
        "sched_setparam": 142, "sched_setattr": 314,
        # mode, owner, times and attributes of files, which access rules do not cover
        "chmod": 90, "fchmod": 91, "fchmodat": 268, "fchmodat2": 452, "chown": 92, "lchown": 94, "fchown": 93,
        "fchownat": 260, "utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280, "setxattr": 188,
        "lsetxattr": 189, "fsetxattr": 190, "setxattrat": 463, "removexattr": 197, "lremovexattr": 198,
        "fremovexattr": 199, "removexattrat": 466, "file_setattr": 469,
        # memory, queues and keys that all processes of the user share
        "shmget": 29, "shmat": 30, "shmctl": 31, "semget": 64, "semop": 65, "semctl": 66, "semtimedop": 220,
        "msgget": 68, "msgsnd": 69, "msgrcv": 70, "msgctl": 71, "mq_open": 240, "mq_unlink": 241, "keyctl": 250,
        "add_key": 248, "request_key": 249,
        # files by another way than their path, and other views of the file system and the system
        "open_by_handle_at": 304, "fanotify_init": 300, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161,
        "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
        "mount_setattr": 442, "setns": 308, "unshare": 272,
        # parts of the kernel in which mistakes were often found
        "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "personality": 135,
        # the machine as a whole, should this process have privileges
        "kexec_load": 246, "kexec_file_load": 320, "init_module": 175, "finit_module": 313, "delete_module": 176,
        "reboot": 169, "swapon": 167, "swapoff": 168, "sethostname": 170, "setdomainname": 171, "settimeofday": 164,
        "clock_settime": 227, "adjtimex": 159, "clock_adjtime": 305, "quotactl": 179, "quotactl_fd": 443, "acct": 163,
        "syslog": 103, "vhangup": 153,
    },
    "aarch64": {
        # sockets, and requests that the kernel carries out by itself, such as to open one
        "socket": 198, "socketpair": 199, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
        # leaving the process group, which is killed with the worker
        "setpgid": 154, "setsid": 157,
        # other processes: their memory, files and priority
        "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "process_madvise": 440,
        "process_mrelease": 448, "kcmp": 272, "migrate_pages": 238, "move_pages": 239, "pidfd_open": 434,
        "pidfd_getfd": 438, "pidfd_send_signal": 424, "setpriority": 140, "ioprio_set": 30, "sched_setscheduler": 119,
        "sched_setparam": 118, "sched_setattr": 274,
        # mode, owner, times and attributes of files, which access rules do not cover
        "fchmod": 52, "fchmodat": 53, "fchmodat2": 452, "fchown": 55, "fchownat": 54, "utimensat": 88, "setxattr": 5,
        "lsetxattr": 6, "fsetxattr": 7, "setxattrat": 463, "removexattr": 14, "lremovexattr": 15, "fremovexattr": 16,
        "removexattrat": 466, "file_setattr": 469,
        # memory, queues and keys that all processes of the user share
        "shmget": 194, "shmat": 196, "shmctl": 195, "semget": 190, "semop": 193, "semctl": 191, "semtimedop": 192,
        "msgget": 186, "msgsnd": 189, "msgrcv": 188, "msgctl": 187, "mq_open": 180, "mq_unlink": 181, "keyctl": 219,
        "add_key": 217, "request_key": 218,
        # files by another way than their path, and other views of the file system and the system
        "open_by_handle_at": 265, "fanotify_init": 262, "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51,
        "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
        "mount_setattr": 442, "setns": 268, "unshare": 97,
        # parts of the kernel in which mistakes were often found
        "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "personality": 92,
        # the machine as a whole, should this process have privileges
        "kexec_load": 104, "kexec_file_load": 294, "init_module": 105, "finit_module": 273, "delete_module": 106,
        "reboot": 142, "swapon": 224, "swapoff": 225, "sethostname": 161, "setdomainname": 162, "settimeofday": 170,
        "clock_settime": 112, "adjtimex": 171, "clock_adjtime": 266, "quotactl": 60, "quotactl_fd": 443, "acct": 89,
        "syslog": 116, "vhangup": 58,
    },
}
