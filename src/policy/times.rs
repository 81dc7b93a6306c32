//! `--timeout` and `--grace`.

use super::limits::whole;
use crate::cli;
use crate::plan::step::Times;
use crate::refusal::{Reason, Refusal};

/// What a command has, between a TERM and the end of its jail, in milliseconds.
const GRACE: u64 = 10_000;

/// No run is meant to take longer, and a clock can count it.
const MOST: u64 = 365 * 86_400_000;

/// The units, largest first; each may be given once, in this order.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// Judges both. A limit of nothing is none: timeout(1) means "no limit" by it.
pub(crate) fn judge(run: &cli::Run) -> Result<Times, Refusal> {
    let read = |flag: &'static str, typed: &Option<String>| {
        let Some(typed) = typed else { return Ok(None) };
        let refusal = |remedy: &'static str| {
            Refusal::new(Reason::Usage, format!("read {flag}"))
                .about(typed.escape_default().to_string())
                .remedy(remedy)
        };
        let time = milliseconds(typed).ok_or_else(|| {
            refusal("give a time such as 10m, 90s, 1h30m or 500ms; a number alone is seconds")
        })?;
        if time > MOST {
            return Err(refusal("365d is the most"));
        }
        Ok(Some(time))
    };
    let timeout_ms = read("--timeout", &run.timeout)?;
    if timeout_ms == Some(0) {
        return Err(Refusal::new(Reason::Usage, "read --timeout")
            .about("0")
            .remedy("leave it out for no limit"));
    }
    Ok(Times {
        timeout_ms,
        grace_ms: read("--grace", &run.grace)?.unwrap_or(GRACE),
    })
}

/// `1h30m`, or a number of seconds, in milliseconds. None: it can't be read.
fn milliseconds(typed: &str) -> Option<u64> {
    if let Some(seconds) = whole(typed) {
        return seconds.checked_mul(1000);
    }
    let mut left = typed;
    let mut units = UNITS.iter();
    let mut sum: u64 = 0;
    while !left.is_empty() {
        let digits = left.find(|c: char| !c.is_ascii_digit())?;
        let (count, rest) = left.split_at(digits);
        let end = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        let (_, size) = units.find(|(unit, _)| *unit == name)?;
        sum = sum.checked_add(whole(count)?.checked_mul(*size)?)?;
        left = rest;
    }
    (!typed.is_empty()).then_some(sum)
}

/// Milliseconds as `--timeout` takes them.
pub(crate) fn shown(milliseconds: u64) -> String {
    let mut left = milliseconds;
    let mut text = String::new();
    for (unit, size) in UNITS {
        if left >= size {
            text += &(left / size).to_string();
            text += unit;
            left %= size;
        }
    }
    if text.is_empty() {
        text += "0s";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_people_write_them() {
        for (typed, wanted) in [
            ("0", 0),
            ("90", 90_000),
            ("500ms", 500),
            ("90s", 90_000),
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("1m1ms", 60_001),
            ("007s", 7000),
        ] {
            let time = milliseconds(typed).expect(typed);
            assert_eq!(time, wanted, "{typed}");
            assert_eq!(milliseconds(&shown(time)), Some(time), "{typed}");
        }
    }

    #[test]
    fn what_is_no_time() {
        for typed in [
            "",
            "s",
            "m10",
            "-1",
            "+1",
            "1.5s",
            "1 m",
            "10M",
            "1m1h",
            "1m1m",
            "1h30",
            "1week",
            "\u{0661}s",
            "18446744073709551616",
            "18446744073709551615d",
            "10m ",
        ] {
            assert_eq!(milliseconds(typed), None, "{typed}");
        }
    }
}
