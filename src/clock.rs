//! Times as they are written down.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};

/// In milliseconds, rounded to microseconds.
pub fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// RFC 3339, in UTC, with milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Time(pub SystemTime);

impl Time {
    /// Its bytes, ASCII alone. By hand: every line of a log has one, and formatting costs
    /// ten times as much.
    fn text(self) -> [u8; 24] {
        let since = self.0.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        let (year, month, day) = civil(days);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        for (place, number) in [
            (0..4, year),
            (5..7, month),
            (8..10, day),
            (11..13, second / 3600),
            (14..16, second / 60 % 60),
            (17..19, second % 60),
            (20..23, since.subsec_millis().into()),
        ] {
            let mut left = number;
            for digit in text[place].iter_mut().rev() {
                *digit += u8::try_from(left % 10).unwrap_or_default();
                left /= 10;
            }
        }
        text
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.text()).unwrap_or_default())
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(str::from_utf8(&self.text()).unwrap_or_default())
    }
}

/// Year, month and day, `days` after 1970-01-01. Years are counted from March, so that
/// a leap day ends one, and in eras of 400 years, which all have 146 097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 0000-03-01
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month < 3), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc() {
        for (millisecond, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_001, "2000-02-29T00:00:00.001Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (1_735_689_599_000, "2024-12-31T23:59:59.000Z"),
            (1_735_689_600_000, "2025-01-01T00:00:00.000Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            let time = Time(UNIX_EPOCH + Duration::from_millis(millisecond));
            assert_eq!(time.to_string(), expected);
        }
        assert!(
            Time(UNIX_EPOCH - Duration::from_secs(1))
                .to_string()
                .starts_with("1970-01-01")
        );
    }
}
