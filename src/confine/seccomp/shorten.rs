//! A classic BPF program in fewer instructions. seccompiler writes jumps to jumps, a
//! return for each rule, and a load before each test; to check and translate them, when a
//! filter is installed, takes the kernel longer than most steps of a start do.

use seccompiler::{BpfProgram, sock_filter};

use super::compile::{AND, IF_EQUAL, IF_GREATER, IF_NOT_LESS, JUMP, LOAD, RETURN, instruction};

/// How far a test jumps, at most: 255, less the one instruction that may come between it
/// and one target while the other is written.
const REACH: usize = 254;

/// What an instruction is there for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Nothing leads to it.
    Unreached,
    /// It only goes on: a jump, or a load of what is loaded.
    Idle,
    /// It goes on one of two ways.
    Test,
    /// It ends the program with its `k`.
    Return,
    /// Another; it goes on to the next.
    Step,
}

/// What the accumulator holds before an instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    /// The instruction is never reached.
    Unreached,
    /// The word at this offset of `struct seccomp_data`.
    Word(u32),
    /// One of several, or something else.
    Unknown,
}

/// A program that decides on every call as this one does, and isn't longer. One with an
/// instruction that seccompiler doesn't write, or that is led out of, is left as it is.
pub(super) fn shorten(program: BpfProgram) -> BpfProgram {
    shorter(&program)
        .filter(|short| short.len() <= program.len())
        .unwrap_or(program)
}

fn shorter(program: &[sock_filter]) -> Option<BpfProgram> {
    let roles = roles(program)?;
    let mut writer = Writer::new(program, &roles);
    for (at, role) in roles.iter().enumerate().rev() {
        match role {
            Role::Unreached => {}
            Role::Idle => writer.stands_for[at] = writer.stands_for[beyond(program, at)?],
            Role::Test | Role::Return | Role::Step => writer.put(at)?,
        }
    }
    // Nothing is left to write, but where the program is one return.
    writer.near(*writer.stands_for.first()?)?;
    writer.written.reverse();
    Some(writer.written)
}

/// Where an instruction that isn't a test goes on.
fn beyond(program: &[sock_filter], at: usize) -> Option<usize> {
    let distance = match program[at].code {
        JUMP => usize::try_from(program[at].k).ok()?,
        _ => 0,
    };
    at.checked_add(1)?.checked_add(distance)
}

/// All ways go forward, so that whatever leads to an instruction was seen before it. None
/// if one leads out of the program, or to an unknown instruction.
fn roles(program: &[sock_filter]) -> Option<Vec<Role>> {
    let mut before = vec![Held::Unreached; program.len()];
    *before.first_mut()? = Held::Unknown;
    let mut roles = vec![Role::Unreached; program.len()];
    for (at, step) in program.iter().enumerate() {
        let held = before[at];
        if held == Held::Unreached {
            continue;
        }
        let (role, holds) = match step.code {
            JUMP => (Role::Idle, held),
            LOAD if held == Held::Word(step.k) => (Role::Idle, held),
            LOAD => (Role::Step, Held::Word(step.k)),
            AND => (Role::Step, Held::Unknown),
            IF_EQUAL | IF_GREATER | IF_NOT_LESS => (Role::Test, held),
            RETURN => (Role::Return, held),
            _ => return None,
        };
        roles[at] = role;
        match role {
            Role::Return => {}
            Role::Test => {
                lead(&mut before, at + 1 + usize::from(step.jt), holds)?;
                lead(&mut before, at + 1 + usize::from(step.jf), holds)?;
            }
            _ => lead(&mut before, beyond(program, at)?, holds)?,
        }
    }
    Some(roles)
}

fn lead(before: &mut [Held], to: usize, holds: Held) -> Option<()> {
    let held = before.get_mut(to)?;
    if *held == Held::Unreached {
        *held = holds;
    } else if *held != holds {
        *held = Held::Unknown;
    }
    Some(())
}

/// Writes a program from its end, where all that an instruction leads to stands already:
/// what is written next comes before it in the program.
struct Writer<'program> {
    program: &'program [sock_filter],
    roles: &'program [Role],
    /// Of an idle instruction, the next that isn't; of another, itself.
    stands_for: Vec<usize>,
    /// The last one first.
    written: BpfProgram,
    /// How many were written when an instruction, or a jump to it, had been; 0 before that.
    places: Vec<usize>,
    /// The same for the nearest of equal returns.
    returns: Vec<(u32, usize)>,
}

impl<'program> Writer<'program> {
    fn new(program: &'program [sock_filter], roles: &'program [Role]) -> Self {
        Writer {
            program,
            roles,
            stands_for: (0..program.len()).collect(),
            written: Vec::with_capacity(program.len()),
            places: vec![0; program.len()],
            returns: Vec::new(),
        }
    }

    /// Writes one, and before it what its jumps don't reach. Returns are written where they
    /// are led to.
    fn put(&mut self, at: usize) -> Option<()> {
        let mut step = self.program[at].clone();
        match self.roles[at] {
            Role::Return => return Some(()),
            Role::Test => {
                let yes = self.near(self.stands_for[at + 1 + usize::from(step.jt)])?;
                let no = self.near(self.stands_for[at + 1 + usize::from(step.jf)])?;
                step.jt = u8::try_from(self.written.len() - yes).ok()?;
                step.jf = u8::try_from(self.written.len() - no).ok()?;
            }
            _ => {
                let next = self.near(self.stands_for[at + 1])?;
                let distance = self.written.len() - next;
                if distance > 0 {
                    self.jump(distance)?;
                }
            }
        }
        self.written.push(step);
        self.places[at] = self.written.len();
        Some(())
    }

    /// The place of an instruction that does what this one does, and that the next one
    /// to be written reaches.
    fn near(&mut self, to: usize) -> Option<usize> {
        if self.roles[to] == Role::Return {
            return Some(self.near_return(&self.program[to]));
        }
        let distance = self.written.len() - self.places[to];
        if distance > REACH {
            self.jump(distance)?;
            self.places[to] = self.written.len();
        }
        Some(self.places[to])
    }

    fn near_return(&mut self, step: &sock_filter) -> usize {
        let (length, place) = (self.written.len(), self.written.len() + 1);
        let known = self.returns.iter_mut().find(|(k, _)| *k == step.k);
        match known {
            Some((_, known)) if length - *known <= REACH => return *known,
            Some((_, known)) => *known = place,
            None => self.returns.push((step.k, place)),
        }
        self.written.push(step.clone());
        place
    }

    fn jump(&mut self, distance: usize) -> Option<()> {
        let distance = u32::try_from(distance).ok()?;
        self.written.push(instruction(JUMP, 0, 0, distance));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::interpreter::{Data, run};
    use super::*;

    fn load(offset: u32) -> sock_filter {
        instruction(LOAD, 0, 0, offset)
    }

    fn equal(k: u32, jt: u8, jf: u8) -> sock_filter {
        instruction(IF_EQUAL, jt, jf, k)
    }

    fn answer(k: u32) -> sock_filter {
        instruction(RETURN, 0, 0, k)
    }

    fn jump(k: u32) -> sock_filter {
        instruction(JUMP, 0, 0, k)
    }

    /// The same answers for these numbers; returns the shorter one.
    fn same(program: &[sock_filter], numbers: impl Iterator<Item = i64>) -> BpfProgram {
        let short = shorten(program.to_vec());
        assert!(short.len() <= program.len());
        for number in numbers {
            for args in [[0, 0], [1, 0], [0, 1], [1, 1], [2, 3], [3, 2]] {
                let data = Data::new(number, &args);
                assert_eq!(run(&short, data), run(program, data), "{number} {args:?}");
            }
        }
        short
    }

    #[test]
    fn jumps_are_followed_and_returns_shared() {
        let program = [
            load(0),
            equal(1, 0, 1),
            answer(7),
            equal(2, 0, 1),
            jump(2),
            jump(2),
            answer(9),
            answer(7),
            answer(8),
        ];
        let short = same(&program, 0..4);
        assert_eq!(
            short,
            [
                load(0),
                equal(1, 2, 0),
                equal(2, 1, 0),
                answer(8),
                answer(7)
            ]
        );
    }

    #[test]
    fn a_word_that_is_held_is_not_loaded_again() {
        let program = [
            load(16),
            equal(0, 0, 2),
            load(16),
            equal(1, 3, 0),
            load(24), // Held on no way here.
            equal(1, 0, 1),
            answer(1),
            answer(2),
        ];
        let short = same(&program, 0..2);
        let loads =
            |program: &[sock_filter]| program.iter().filter(|step| step.code == LOAD).count();
        assert_eq!((loads(&program), loads(&short)), (3, 2));
    }

    /// What is held on one way only is unknown where ways meet.
    #[test]
    fn a_word_that_may_be_another_is_loaded() {
        let program = [
            load(16),
            equal(0, 0, 1),
            load(24),
            load(16),
            equal(1, 1, 0),
            answer(2),
            answer(1),
        ];
        assert_eq!(same(&program, 0..2), program);
    }

    /// Further than a test jumps.
    #[test]
    fn far_targets_are_reached() {
        let mut program = vec![load(0)];
        for number in 1..700 {
            program.extend([equal(number, 0, 1), answer(number % 3)]);
        }
        program.push(answer(5));
        let short = same(&program, 0..701);
        assert!(short.len() < 720, "{}", short.len());
        // A load that all jump to, and a return that is nearer than it.
        let mut program = vec![load(0)];
        let after = 2 * 400 + 1;
        for number in 0..400 {
            program.extend([equal(number, 0, 1), jump(after - 2 * number - 2)]);
        }
        program.extend([answer(7), load(16), equal(1, 0, 1), answer(1), answer(2)]);
        let short = same(&program, 0..402);
        let jumps = short.iter().filter(|step| step.code == JUMP).count();
        assert!(jumps > 0, "vacuous");
        assert!(short.len() < 410, "{}", short.len());
    }

    /// A test whose targets are as far as it jumps: to reach them takes one instruction more.
    #[test]
    fn what_would_be_longer_stays() {
        for count in 250..=255u8 {
            let mut program = vec![load(0)];
            program.extend((0..count).map(|at| equal(at.into(), count - at, 0)));
            program.extend([answer(1), answer(2)]);
            same(&program, 0..260);
        }
    }

    #[test]
    fn what_is_no_program_stays() {
        for program in [
            vec![],
            vec![load(0)],
            vec![jump(1), answer(0)],
            vec![load(0), equal(1, 0, 9), answer(0)],
            // BPF_RET | BPF_A, and BPF_ST, after which a return may not stand just anywhere.
            vec![load(0), instruction(0x16, 0, 0, 0)],
            vec![load(0), instruction(0x02, 0, 0, 0), answer(0)],
        ] {
            assert_eq!(shorten(program.clone()), program);
        }
        assert_eq!(shorten(vec![answer(3), load(0)]), [answer(3)]);
        assert_eq!(shorten(vec![jump(0), answer(3)]), [answer(3)]);
        let plain = vec![load(0), answer(3)];
        assert_eq!(shorten(plain.clone()), plain);
    }

    /// Numbers that look random and are the same each time (Marsaglia's xorshift).
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 >> 33).unwrap() % end
        }

        fn k(&mut self, end: usize) -> u32 {
            u32::try_from(self.below(end)).unwrap()
        }

        /// Where all jumps lead forward and into it, and it ends.
        fn program(&mut self, length: usize) -> BpfProgram {
            let mut program = Vec::new();
            for left in (1..length).rev() {
                let near = left.min(256);
                let (jt, jf) = (self.below(near), self.below(near));
                let (jt, jf) = (u8::try_from(jt).unwrap(), u8::try_from(jf).unwrap());
                program.push(match self.below(40) {
                    0..14 => load([0, 16, 24][self.below(3)]),
                    14..18 => instruction(AND, 0, 0, self.k(4)),
                    18..28 => equal(self.k(4), jt, jf),
                    28..32 => instruction(IF_GREATER, jt, jf, self.k(4)),
                    32..36 => instruction(IF_NOT_LESS, jt, jf, self.k(4)),
                    36..39 => jump(self.k(left)),
                    _ => answer(self.k(5)),
                });
            }
            program.push(answer(9));
            program
        }
    }

    #[test]
    fn any_program_decides_the_same() {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let (mut long, mut shorter, mut jumps) = (0, 0, 0);
        for length in (1..1000).cycle().take(3000) {
            let program = numbers.program(length);
            let short = same(&program, 0..5);
            long += program.len();
            shorter += short.len();
            jumps += short.iter().filter(|step| step.code == JUMP).count();
        }
        assert!(shorter * 2 < long, "vacuous: {shorter} of {long}");
        assert!(jumps > 100, "vacuous: {jumps} far jumps");
    }
}
