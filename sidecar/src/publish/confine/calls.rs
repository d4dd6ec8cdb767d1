//! The system calls that are given up.

use libc::c_long;

/// Reaching others: sockets, and whatever could carry them past the filter.
const REACHING: [c_long; 8] = [
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Programs, and other processes.
const TOUCHING: [c_long; 13] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_bpf,
];

/// Files, but for opening them.
const WRITING: [c_long; 15] = [
    libc::SYS_openat2,
    libc::SYS_open_by_handle_at,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_truncate,
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_mount,
];

/// The same by older calls, which only this architecture has.
#[cfg(target_arch = "x86_64")]
const OLDER: [c_long; 13] = [
    libc::SYS_creat,
    libc::SYS_unlink,
    libc::SYS_rmdir,
    libc::SYS_rename,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_mkdir,
    libc::SYS_mknod,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: [c_long; 0] = [];

/// Refused whatever their arguments are.
pub(super) fn refused() -> Vec<c_long> {
    let mut refused = [&REACHING[..], &TOUCHING, &WRITING, &OLDER].concat();
    if cfg!(target_arch = "x86_64") {
        refused.extend(by_other_numbers(&refused));
    }
    refused
}

/// Calls that open a file, and which argument has the flags.
pub(super) fn opening() -> Vec<(c_long, u8)> {
    #[cfg(target_arch = "x86_64")]
    let opening = vec![(libc::SYS_openat, 2), (libc::SYS_open, 1)];
    #[cfg(not(target_arch = "x86_64"))]
    let opening = vec![(libc::SYS_openat, 2)];
    opening
}

/// The x32 ABI has the same architecture for the filter, and numbers of its own.
fn by_other_numbers(refused: &[c_long]) -> Vec<c_long> {
    const X32: c_long = 0x4000_0000;
    let with_arguments = [libc::SYS_sendto, libc::SYS_tgkill];
    let opening = opening().into_iter().map(|(call, _)| call);
    let shared = refused.iter().copied().chain(with_arguments).chain(opening).map(|call| X32 | call);
    shared.chain((512..=547).flat_map(|call| [call, X32 | call])).collect()
}
