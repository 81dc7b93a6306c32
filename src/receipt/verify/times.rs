//! Times as text: what a receipt's must be, among themselves and beside the clock.

use std::ops::Range;
use std::time::{Duration, SystemTime};

use super::Findings;
use crate::clock::Time;
use crate::receipt::format::Times;

/// Three times in their order, and durations that add up.
pub(super) fn judge(times: &Times, found: &mut Findings) {
    let command = times.command_started.as_deref();
    let mut earlier = None;
    for (name, time) in [
        ("started", Some(times.started.as_str())),
        ("command_started", command),
        ("ended", Some(times.ended.as_str())),
    ] {
        let what = format!("times.{name}");
        let shown = time.unwrap_or("none");
        found.must(time.is_some_and(is_time), &what, "a time", shown);
        if let (Some(earlier), Some(time)) = (earlier, time) {
            found.must(earlier <= time, &what, format!("{earlier} or later"), time);
        }
        earlier = time.or(earlier);
    }
    let parts = times.setup_ms.zip(times.command_ms);
    // Each is rounded to a microsecond.
    let adds_up = parts.is_some_and(|(setup, command)| {
        setup >= 0.0 && command >= 0.0 && (setup + command - times.total_ms).abs() < 0.01
    });
    found.must(
        adds_up,
        "times.total_ms",
        "the sum of both parts",
        times.total_ms,
    );
}

/// Whether the run ended within so many seconds before now. What lies in the future is
/// no time of a run that is over.
pub(super) fn age(ended: &str, most: u64, found: &mut Findings) {
    let now = SystemTime::now();
    let oldest = now.checked_sub(Duration::from_secs(most));
    let oldest = Time(oldest.unwrap_or(SystemTime::UNIX_EPOCH)).to_string();
    let now = Time(now).to_string();
    let is_young = is_time(ended) && (oldest.as_str()..=now.as_str()).contains(&ended);
    found.must(is_young, "times.ended", format!("{oldest} to {now}"), ended);
}

/// RFC 3339 as groom-ns writes it, which sorts as text, of a day that there is.
fn is_time(text: &str) -> bool {
    let form = b"0000-00-00T00:00:00.000Z";
    let has_form = text.len() == form.len()
        && text.bytes().zip(form).all(|(is, form)| match form {
            b'0' => is.is_ascii_digit(),
            _ => is == *form,
        });
    let number = |at: Range<usize>| text.get(at)?.parse::<u32>().ok();
    let is_within =
        |at, range: Range<u32>| number(at).is_some_and(|number| range.contains(&number));
    let month = number(0..4).zip(number(5..7));
    let days = month.map_or(0, |(year, month)| days_of(year, month));
    has_form
        && is_within(8..10, 1..days + 1)
        && is_within(11..13, 0..24)
        && is_within(14..16, 0..60)
        && is_within(17..19, 0..60)
}

/// How many days a month has; none is 0.
fn days_of(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_one_that_there_is() {
        for time in [
            "1970-01-01T00:00:00.000Z",
            "2024-02-29T23:59:59.999Z",
            "2000-02-29T00:00:00.000Z",
            "2026-12-31T12:30:00.500Z",
        ] {
            assert!(is_time(time), "{time}");
        }
        for time in [
            "2026-13-01T00:00:00.000Z",
            "2026-00-01T00:00:00.000Z",
            "2026-01-00T00:00:00.000Z",
            "2026-01-32T00:00:00.000Z",
            "2026-04-31T00:00:00.000Z",
            "2026-02-29T00:00:00.000Z",
            "2100-02-29T00:00:00.000Z",
            "2026-01-01T24:00:00.000Z",
            "2026-01-01T00:60:00.000Z",
            "2026-01-01T00:00:60.000Z",
            "9999-99-99T99:99:99.999Z",
            "2026-01-01T00:00:00.000+",
            "2026-01-01 00:00:00.000Z",
            "2026-01-01T00:00:00Z",
            "2026-1-1",
            "",
        ] {
            assert!(!is_time(time), "{time}");
        }
    }
}
