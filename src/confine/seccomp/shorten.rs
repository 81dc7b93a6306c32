//! A classic BPF program in fewer instructions. seccompiler writes jumps to jumps, a
//! return for each rule, and a load before each test; to check and translate them, when a
//! filter is installed, takes the kernel longer than most steps of a start do.

use seccompiler::{BpfProgram, sock_filter};

use super::compile::{JUMP, LOAD, instruction};

// Classes of instructions, linux/bpf_common.h.
const CLASS: u16 = 0x07;
const CLASS_JUMP: u16 = 0x05; // BPF_JMP
const CLASS_RETURN: u16 = 0x06; // BPF_RET

/// How far a test jumps, at most: 255, less what may come between it and one target while
/// the other is written.
const REACH: usize = 250;

/// Where an instruction goes on. All jumps go forward.
#[derive(Clone, Copy)]
enum Next {
    Nowhere,
    To(usize),
    Either(usize, usize),
}

/// What an instruction is there for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Nothing leads to it.
    Unreached,
    /// It only goes on: a jump, or a load of what is loaded.
    Idle,
    Works,
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

/// A program that decides on every call as this one does. What the kernel would refuse,
/// a jump out of the program, is left as it is.
pub(super) fn shorten(program: BpfProgram) -> BpfProgram {
    shorter(&program).unwrap_or(program)
}

fn shorter(program: &[sock_filter]) -> Option<BpfProgram> {
    let mut nexts = nexts(program)?;
    let roles = roles(program, &nexts);
    // From the end, so that where a jump goes on is known.
    for at in (0..program.len()).rev() {
        nexts[at] = match nexts[at] {
            Next::Nowhere => Next::Nowhere,
            Next::To(to) => Next::To(follow(&nexts, &roles, to)),
            Next::Either(yes, no) => {
                Next::Either(follow(&nexts, &roles, yes), follow(&nexts, &roles, no))
            }
        };
    }
    let mut writer = Writer::new(program, &nexts);
    for at in (0..program.len()).rev() {
        if roles[at] == Role::Works {
            writer.put(at)?;
        }
    }
    // Nothing is left to write, but where the program is one return.
    writer.near(follow(&nexts, &roles, 0))?;
    writer.written.reverse();
    Some(writer.written)
}

/// The instruction itself, or the next that does something.
fn follow(nexts: &[Next], roles: &[Role], at: usize) -> usize {
    match nexts[at] {
        Next::To(further) if roles[at] == Role::Idle => further,
        _ => at,
    }
}

/// None if one lies outside, or there is no instruction.
fn nexts(program: &[sock_filter]) -> Option<Vec<Next>> {
    program.first()?;
    let inside = |to: usize| (to < program.len()).then_some(to);
    let next = |(at, step): (usize, &sock_filter)| {
        Some(match (step.code & CLASS, step.code) {
            (CLASS_RETURN, _) => Next::Nowhere,
            (_, JUMP) => Next::To(inside(at + 1 + usize::try_from(step.k).ok()?)?),
            (CLASS_JUMP, _) => Next::Either(
                inside(at + 1 + usize::from(step.jt))?,
                inside(at + 1 + usize::from(step.jf))?,
            ),
            _ => Next::To(inside(at + 1)?),
        })
    };
    program.iter().enumerate().map(next).collect()
}

fn roles(program: &[sock_filter], nexts: &[Next]) -> Vec<Role> {
    let mut before = vec![Held::Unreached; program.len()];
    before[0] = Held::Unknown;
    let mut roles = vec![Role::Unreached; program.len()];
    for (at, step) in program.iter().enumerate() {
        let after = match step.code {
            _ if before[at] == Held::Unreached => continue,
            LOAD => Held::Word(step.k),
            code if code & CLASS == CLASS_JUMP => before[at],
            _ => Held::Unknown,
        };
        let is_held = step.code == LOAD && after == before[at];
        roles[at] = if step.code == JUMP || is_held {
            Role::Idle
        } else {
            Role::Works
        };
        let mut lead = |to: usize| {
            before[to] = match before[to] {
                Held::Unreached => after,
                other if other == after => after,
                _ => Held::Unknown,
            };
        };
        match nexts[at] {
            Next::Nowhere => {}
            Next::To(to) => lead(to),
            Next::Either(yes, no) => {
                lead(yes);
                lead(no);
            }
        }
    }
    roles
}

/// Writes a program from its end, where all that an instruction jumps to stands already.
struct Writer<'program> {
    program: &'program [sock_filter],
    nexts: &'program [Next],
    /// The last one first.
    written: BpfProgram,
    /// How many were written when an instruction, or a jump to it, had been; 0 before that.
    places: Vec<usize>,
    /// The same for the nearest of equal returns.
    returns: Vec<(sock_filter, usize)>,
}

impl<'program> Writer<'program> {
    fn new(program: &'program [sock_filter], nexts: &'program [Next]) -> Self {
        Writer {
            program,
            nexts,
            written: Vec::with_capacity(program.len()),
            places: vec![0; program.len()],
            returns: Vec::new(),
        }
    }

    /// Writes one, and before it what its jumps don't reach. Returns are written where they
    /// are jumped to.
    fn put(&mut self, at: usize) -> Option<()> {
        let mut step = self.program[at].clone();
        match self.nexts[at] {
            Next::Nowhere => return Some(()),
            Next::To(to) => {
                let place = self.near(to)?;
                let distance = self.written.len() - place;
                if distance > 0 {
                    self.jump(distance)?;
                }
            }
            Next::Either(yes, no) => {
                let (yes, no) = (self.near(yes)?, self.near(no)?);
                step.jt = u8::try_from(self.written.len() - yes).ok()?;
                step.jf = u8::try_from(self.written.len() - no).ok()?;
            }
        }
        self.written.push(step);
        self.places[at] = self.written.len();
        Some(())
    }

    /// The place of an instruction that does what this one does, and that the next one
    /// to be written reaches.
    fn near(&mut self, to: usize) -> Option<usize> {
        let Next::Nowhere = self.nexts[to] else {
            let distance = self.written.len() - self.places[to];
            if distance > REACH {
                self.jump(distance)?;
                self.places[to] = self.written.len();
            }
            return Some(self.places[to]);
        };
        let step = &self.program[to];
        let equal = self.returns.iter_mut().find(|(other, _)| other == step);
        let place = self.written.len() + 1;
        match equal {
            Some((_, known)) if place - *known <= REACH => return Some(*known),
            Some((_, known)) => *known = place,
            None => self.returns.push((step.clone(), place)),
        }
        self.written.push(step.clone());
        Some(place)
    }

    fn jump(&mut self, distance: usize) -> Option<()> {
        let distance = u32::try_from(distance).ok()?;
        self.written.push(instruction(JUMP, 0, 0, distance));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::compile::{IF_EQUAL, RETURN};
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
        for number in numbers {
            for args in [[0, 0], [1, 0], [0, 1], [1, 1]] {
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
        // And a test between, which all before it jump to.
        let mut program = vec![load(0)];
        program.extend((0..600).map(|number| equal(number, 0, 0)));
        program.extend([equal(5, 0, 1), answer(1), answer(2)]);
        same(&program, 0..8);
    }

    #[test]
    fn what_is_no_program_stays() {
        for program in [
            vec![],
            vec![load(0)],
            vec![jump(1), answer(0)],
            vec![load(0), equal(1, 0, 9), answer(0)],
        ] {
            assert_eq!(shorten(program.clone()), program);
        }
        assert_eq!(
            shorten(vec![answer(3), load(0)]),
            [answer(3), load(0)],
            "no end, though never reached"
        );
        assert_eq!(shorten(vec![jump(0), answer(3)]), [answer(3)]);
        let plain = vec![load(0), answer(3)];
        assert_eq!(shorten(plain.clone()), plain);
    }
}
