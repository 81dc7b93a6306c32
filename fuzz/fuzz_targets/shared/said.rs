//! What may be printed: names come from whoever typed them, or made them.

use groom_ns::plan::step::Plan;
use groom_ns::refusal::Refusal;

/// A refusal is one line, as text, as JSON, and for GitHub.
pub fn refusal(refusal: &Refusal) {
    let json = serde_json::to_string(refusal).unwrap();
    for text in [&refusal.to_string(), &json, &refusal.github_annotation()] {
        plain(text);
    }
    assert_eq!(&serde_json::from_str::<Refusal>(&json).unwrap(), refusal);
    assert!(
        !refusal.step.is_empty() && !refusal.remedy.is_empty(),
        "{refusal}"
    );
}

/// Lines without anything that a terminal obeys.
pub fn lines(text: &str) {
    text.split('\n').for_each(plain);
}

fn plain(text: &str) {
    assert!(!text.contains(char::is_control), "{text:?}");
    assert!(
        !text.contains(['\u{202e}', '\u{2028}', '\u{200b}', '\u{2066}']),
        "{text:?}"
    );
}

/// A plan as text, which a person reads, and as JSON, which a program does; JSON has
/// none of a path that isn't UTF-8.
pub fn plan(plan: &Plan) -> (String, Option<serde_json::Value>) {
    let text = plan.to_string();
    lines(&text);
    match plan.json() {
        Ok(json) => (text, Some(serde_json::from_str(&json).unwrap())),
        Err(error) => {
            refusal(&error);
            assert_eq!(error.reason.code(), "path");
            assert!(text.contains("\\x"), "{text}");
            (text, None)
        }
    }
}
