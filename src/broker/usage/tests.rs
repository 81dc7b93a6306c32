use super::*;
use crate::broker::key::tests::key;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

const ANTHROPIC: &str = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-x",
    "content":[{"type":"text","text":"a \"usage\": {\"input_tokens\": 1}"}],
    "stop_reason":"end_turn","usage":{"input_tokens":25,"cache_creation_input_tokens":7,
    "cache_read_input_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":7},
    "output_tokens":15,"service_tier":"standard"}}"#;
const ANTHROPIC_EVENTS: &str = concat!(
    "event: message_start\n",
    r#"data: {"type":"message_start","message":{"id":"msg_1","content":[],"model":"claude-x","#,
    r#""usage":{"input_tokens":25,"cache_creation_input_tokens":0,"#,
    "\"cache_read_input_tokens\":9,\"output_tokens\":1}}}\n\n",
    "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    "data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"\\\"usage\\\"\"}}\n\n",
    "event: message_delta\n",
    "data: {\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"output_tokens\":10}}\n\n",
    "data: {\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"output_tokens\":15}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);
const CHAT: &str = r#"{"id":"c","object":"chat.completion","model":"gpt-x","choices":[{"message":
    {"role":"assistant","content":"hi"}}],"usage":{"prompt_tokens":25,"completion_tokens":15,
    "total_tokens":40,"prompt_tokens_details":{"cached_tokens":9,"audio_tokens":0}}}"#;
const CHAT_EVENTS: &str = concat!(
    "data: {\"model\":\"gpt-x\",\"choices\":[{\"delta\":{}}],\"usage\":null}\n\n",
    r#"data: {"model":"gpt-x","choices":[],"usage":{"prompt_tokens":25,"completion_tokens":15,"#,
    "\"prompt_tokens_details\":{\"cached_tokens\":9}}}\n\n",
    "data: [DONE]\n\n",
);
const RESPONSE_EVENTS: &str = concat!(
    "event: response.created\r\n",
    r#"data: {"type":"response.created","response":{"model":"gpt-x","usage":null}}"#,
    "\r\n\r\nevent: response.completed\r\n",
    r#"data: {"type":"response.completed","response":{"model":"gpt-x","output":[],"usage":{"#,
    r#""input_tokens":25,"input_tokens_details":{"cached_tokens":9},"output_tokens":15,"#,
    r#""output_tokens_details":{"reasoning_tokens":3},"total_tokens":40}}}"#,
    "\r\n\r\n",
);
const GEMINI_ARRAY: &str = r#"[{"candidates":[{"content":{"parts":[{"text":"a"}]}}],
    "usageMetadata":{"promptTokenCount":25,"totalTokenCount":25},"modelVersion":"gemini-x"}
    ,
    {"candidates":[],"usageMetadata":{"promptTokenCount":25,"candidatesTokenCount":10,
    "thoughtsTokenCount":5,"cachedContentTokenCount":9,"totalTokenCount":40,
    "promptTokensDetails":[{"modality":"TEXT","tokenCount":25}]},"modelVersion":"gemini-x"}]"#;
const GEMINI_EVENTS: &str = concat!(
    "data: {\"usageMetadata\":{\"promptTokenCount\":25},\"modelVersion\":\"gemini-x\"}\n\n",
    r#"data: {"usageMetadata":{"promptTokenCount":25,"candidatesTokenCount":10,"#,
    r#""thoughtsTokenCount":5,"cachedContentTokenCount":9},"modelVersion":"gemini-x"}"#,
);

fn of<'a>(content_type: &str, pieces: impl IntoIterator<Item = &'a [u8]>) -> Reported {
    let mut sniffer = Sniffer::for_answer(Some(content_type.as_bytes()), &Budget::default());
    pieces.into_iter().for_each(|piece| sniffer.push(piece));
    sniffer.finish(&key(b"sk-12345"))
}

fn whole(content_type: &str, body: &str) -> Reported {
    of(content_type, [body.as_bytes()])
}

fn reported(model: &str, cache_creation: Option<u64>) -> Reported {
    Reported {
        model: Some(model.into()),
        input_tokens: Some(25),
        output_tokens: Some(15),
        cache_read_tokens: Some(9),
        cache_creation_tokens: cache_creation,
    }
}

#[test]
fn every_api_is_understood_however_its_answer_is_cut() {
    for (content_type, body, expected) in [
        (JSON, ANTHROPIC, reported("claude-x", Some(7))),
        (EVENTS, ANTHROPIC_EVENTS, reported("claude-x", Some(0))),
        (JSON, CHAT, reported("gpt-x", None)),
        (EVENTS, CHAT_EVENTS, reported("gpt-x", None)),
        (EVENTS, RESPONSE_EVENTS, reported("gpt-x", None)),
        (JSON, GEMINI_ARRAY, reported("gemini-x", None)),
        (EVENTS, GEMINI_EVENTS, reported("gemini-x", None)),
    ] {
        for length in [1, 2, 3, 7, 64, 1000, body.len()] {
            let pieces = body.as_bytes().chunks(length);
            assert_eq!(of(content_type, pieces), expected, "{length}: {body}");
        }
    }
}

#[test]
fn only_what_is_json_or_events_is_read() {
    let events = Some(15);
    for (content_type, expected) in [
        (Some("text/event-stream; charset=utf-8"), events),
        (Some(" Text/Event-Stream "), events),
        (Some("text/plain"), None),
        (Some("text/event-stream2"), None),
        (Some(""), None),
        (None, None),
    ] {
        let mut sniffer = Sniffer::for_answer(content_type.map(str::as_bytes), &Budget::default());
        sniffer.push(CHAT_EVENTS.as_bytes());
        let reported = sniffer.finish(&key(b"sk-12345"));
        assert_eq!(reported.output_tokens, expected, "{content_type:?}");
    }
    let json = whole("application/json;charset=UTF-8", CHAT);
    assert_eq!(json, reported("gpt-x", None));
}

#[test]
fn what_is_not_an_answer_reports_nothing() {
    let deep = "[".repeat(200_000) + "\"usage";
    let wrapped = r#"{"message":"#.repeat(100_000) + "\"usage";
    for body in [
        "",
        "\"usage",
        "{\"usage\":",
        "\"usage\"",
        "[[{\"usage\":{}}]]",
        r#"{"model":"m"}"#,
        r#"{"model":7,"usage":{"input_tokens":1}}"#,
        r#"{"usage":{"input_tokens":-1}}"#,
        r#"{"usage":{"input_tokens":1e99}}"#,
        r#"{"usage":{"input_tokens":18446744073709551616}}"#,
        r#"{"usage":{"input_tokens":1,"input_tokens":2}}"#,
        r#"{"usage":{"input_tokens":1}} {}"#,
        &deep,
        &wrapped,
    ] {
        assert_eq!(whole(JSON, body), Reported::default(), "{body:.60}");
        let event = format!("data: {body}\n");
        assert_eq!(whole(EVENTS, &event), Reported::default(), "{body:.60}");
    }
    let invalid = [&b"{\"model\":\"\xff\",\"usage\":{\"input_tokens\":1}}"[..]];
    assert_eq!(of(JSON, invalid), Reported::default());
    let largest = r#"{"usageMetadata":{"candidatesTokenCount":18446744073709551615,
        "thoughtsTokenCount":1}}"#;
    assert_eq!(whole(JSON, largest).output_tokens, Some(u64::MAX));
}

#[test]
fn what_is_too_long_is_skipped_and_what_follows_is_read() {
    let fill = |length: usize| {
        format!(
            "{{\"a\":\"{}\",\"usage\":{{\"input_tokens\":1}}}}",
            "x".repeat(length)
        )
    };
    for (content_type, most) in [(JSON, MAX_JSON), (EVENTS, MAX_LINE)] {
        for (length, expected) in [(most - 100, Some(1)), (most, None)] {
            let body = format!(
                "{}{}",
                if content_type == JSON { "" } else { "data:" },
                fill(length)
            );
            let got = of(content_type, body.as_bytes().chunks(1000));
            assert_eq!(got.input_tokens, expected, "{content_type}, {length}");
        }
    }
    let body = format!("data:{}\n{CHAT_EVENTS}", fill(3 * MAX_LINE));
    for piece in [10, 1000] {
        let got = of(EVENTS, body.as_bytes().chunks(piece));
        assert_eq!(got, reported("gpt-x", None));
    }
}

#[test]
fn memory_is_bounded_whatever_comes() {
    let piece = [b'x'; 10_000];
    for content_type in [JSON, EVENTS] {
        let mut sniffer = Sniffer::for_answer(Some(content_type.as_bytes()), &Budget::default());
        for _ in 0..500 {
            sniffer.push(&piece);
            let kept = match &sniffer.kind {
                Kind::Blind => 0,
                Kind::Json(body) => body.0.capacity(),
                Kind::Events(line) => line.begun.0.capacity(),
            };
            assert!(kept <= 2 * MAX_JSON, "{kept}");
        }
    }
}

#[test]
fn a_model_name_is_cut_and_never_has_the_key_in_it() {
    let body = |model: &str| format!(r#"{{"model":"{model}","usage":{{"input_tokens":1}}}}"#);
    let (exact, long) = ("é".repeat(MAX_MODEL), "é".repeat(MAX_MODEL + 1));
    let beyond = "x".repeat(MAX_MODEL - 4) + "sk-12345";
    for (model, expected) in [
        ("m\\u0031", Some("m1")),
        (&exact, Some(&exact)),
        (&long, Some(&exact)),
        ("a\\u0073k-12345b", None),
        (&beyond, None),
    ] {
        let got = whole(JSON, &body(model));
        assert_eq!(got.model.as_deref(), expected, "{model}");
        assert_eq!(got.input_tokens, Some(1));
    }
}

#[test]
fn names_of_two_apis_in_one_answer_are_no_error() {
    let body = r#"{"usage":{"prompt_tokens":3,"input_tokens":3,"completion_tokens":4,
        "output_tokens":4}}"#;
    let got = whole(JSON, body);
    assert_eq!((got.input_tokens, got.output_tokens), (Some(3), Some(4)));
}

#[test]
fn all_answers_together_are_bounded() {
    let budget = Budget::default();
    let long = [
        b"{\"model\":\"m\",\"usage\":{},\"x\":\"",
        &vec![b'x'; MAX_JSON - 100][..],
        b"\"}",
    ]
    .concat();
    let key = key(b"sk-12345678");
    let mut open: Vec<Sniffer> = Vec::new();
    let ask = |budget: &Budget| {
        let mut sniffer = Sniffer::for_answer(Some(b"application/json"), budget);
        sniffer.push(&long);
        sniffer
    };
    for _ in 0..MAX_KEPT / MAX_JSON {
        open.push(ask(&budget));
    }
    assert_eq!(ask(&budget).finish(&key).model, None, "over the budget");
    let first = open.remove(0);
    assert_eq!(first.finish(&key).model.as_deref(), Some("m"));
    assert_eq!(ask(&budget).finish(&key).model.as_deref(), Some("m"));
    drop(open);
    assert_eq!(budget.0.load(Ordering::Relaxed), 0);
}
