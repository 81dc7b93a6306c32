//! Ways in which jails like this one have failed, an attack a file.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

#[path = "escape/bombs.rs"]
mod bombs;
#[path = "escape/catalogue.rs"]
mod catalogue;
mod common;
#[path = "escape/cores.rs"]
mod cores;
#[path = "escape/descriptors.rs"]
mod descriptors;
#[path = "escape/devices.rs"]
mod devices;
#[path = "escape/groups.rs"]
mod groups;
#[path = "escape/ipc.rs"]
mod ipc;
#[path = "escape/kills.rs"]
mod kills;
#[path = "escape/leaks.rs"]
mod leaks;
#[path = "escape/mount_calls.rs"]
mod mount_calls;
#[path = "escape/mount_table.rs"]
mod mount_table;
#[path = "escape/nested_userns.rs"]
mod nested_userns;
#[path = "escape/old_root.rs"]
mod old_root;
#[path = "escape/other_abis.rs"]
mod other_abis;
#[path = "escape/own_binary.rs"]
mod own_binary;
#[path = "escape/pipes.rs"]
mod pipes;
#[path = "escape/proc_and_sys.rs"]
mod proc_and_sys;
#[path = "escape/propagation.rs"]
mod propagation;
#[path = "escape/read_only_submount.rs"]
mod read_only_submount;
#[path = "escape/shared_namespaces.rs"]
mod shared_namespaces;
#[path = "escape/source_swapped.rs"]
mod source_swapped;
#[path = "escape/startup.rs"]
mod startup;
#[path = "escape/syscalls.rs"]
mod syscalls;
#[path = "escape/terminal.rs"]
mod terminal;
#[path = "escape/tracing.rs"]
mod tracing;
