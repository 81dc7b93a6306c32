//! The kernel's side of a filter, for tests: runs a program on a call.

use seccompiler::sock_filter;

use super::compile::{AND, ARCH, IF_EQUAL, IF_GREATER, IF_NOT_LESS, JUMP, LOAD, RETURN};

/// `struct seccomp_data`, linux/seccomp.h, as 32-bit words in memory order.
#[derive(Clone, Copy)]
pub(super) struct Data([u32; 16]);

impl Data {
    pub(super) fn new(number: i64, args: &[u64]) -> Self {
        Self::of(ARCH, u32::try_from(number).unwrap(), args)
    }

    pub(super) fn of(arch: u32, number: u32, args: &[u64]) -> Self {
        let mut words = [0; 16];
        words[0] = number;
        words[1] = arch;
        for (i, &arg) in args.iter().enumerate() {
            words[4 + 2 * i] = u32::try_from(arg & 0xffff_ffff).unwrap();
            words[5 + 2 * i] = u32::try_from(arg >> 32).unwrap();
        }
        Data(words)
    }
}

/// The action that the program returns. Panics where the kernel's checker would
/// refuse the program: a jump out of it, an unknown instruction, no end.
pub(super) fn run(program: &[sock_filter], data: Data) -> u32 {
    let mut accumulator = 0;
    let mut at = 0;
    loop {
        let step = &program[at];
        at += 1;
        let holds = match step.code {
            RETURN => return step.k,
            LOAD => {
                assert_eq!(step.k % 4, 0);
                accumulator = data.0[usize::try_from(step.k / 4).unwrap()];
                continue;
            }
            AND => {
                accumulator &= step.k;
                continue;
            }
            JUMP => {
                at += usize::try_from(step.k).unwrap();
                continue;
            }
            IF_EQUAL => accumulator == step.k,
            IF_GREATER => accumulator > step.k,
            IF_NOT_LESS => accumulator >= step.k,
            code => panic!("unknown instruction {code:#x}"),
        };
        at += usize::from(if holds { step.jt } else { step.jf });
    }
}
