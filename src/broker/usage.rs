//! Model and token usage, where the API reports them: for the log, never for a decision.
//!
//! What an answer says is not trusted: it can't make this panic, grow or slow down, only
//! report nothing or a wrong number.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use memchr::{memchr, memmem, memrchr};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::key::Key;

/// In bytes. A longer JSON answer reports nothing.
const MAX_JSON: usize = 1024 * 1024;
/// In bytes. A longer line of an event stream is skipped.
const MAX_LINE: usize = 256 * 1024;
/// In bytes, kept of all answers under way together. What would be over it reports
/// nothing.
const MAX_KEPT: usize = 16 * 1024 * 1024;
/// In characters. A longer name is cut.
const MAX_MODEL: usize = 128;
/// How the name begins under which every API reports usage (`usage`, `usageMetadata`).
/// Made once: it is looked for in every event.
static MARK: LazyLock<memmem::Finder> = LazyLock::new(|| memmem::Finder::new(b"\"usage"));

/// What the API said of a request, in its own counting (Anthropic counts cached tokens
/// beside `input_tokens`, the others within).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reported {
    /// The model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens of the answer, thoughts included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Tokens of the prompt that came from the API's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Tokens of the prompt that went into it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_creation_tokens: Option<u64>,
}

/// Reads along while an answer's body is relayed.
pub struct Sniffer {
    kind: Kind,
    reported: Reported,
}

enum Kind {
    /// Nothing (more) is to be learnt from it.
    Blind,
    /// `application/json`, as far as it has come.
    Json(Kept),
    /// `text/event-stream` (WHATWG HTML, section 9.2).
    Events(Line),
}

impl Sniffer {
    /// For an answer with this Content-Type (RFC 9110, section 8.3).
    pub fn for_answer(content_type: Option<&[u8]>, budget: &Budget) -> Sniffer {
        let essence = content_type
            .unwrap_or_default()
            .split(|byte| *byte == b';')
            .next();
        let essence = essence.unwrap_or_default().trim_ascii();
        let kept = Kept(Vec::new(), budget.clone());
        let kind = if essence.eq_ignore_ascii_case(b"application/json") {
            Kind::Json(kept)
        } else if essence.eq_ignore_ascii_case(b"text/event-stream") {
            Kind::Events(Line {
                begun: kept,
                too_long: false,
            })
        } else {
            Kind::Blind
        };
        Sniffer {
            kind,
            reported: Reported::default(),
        }
    }

    /// Takes the next piece of the body.
    pub fn push(&mut self, piece: &[u8]) {
        match &mut self.kind {
            Kind::Blind => {}
            Kind::Json(body) => {
                if !body.add(piece, MAX_JSON) {
                    self.kind = Kind::Blind;
                }
            }
            Kind::Events(line) => line.push(piece, |lines| self.reported.read_events(lines)),
        }
    }

    /// The body has ended, or breaks off here. A model's name with the key in it (a
    /// JSON escape hides it from the scan of the answer) isn't reported.
    pub fn finish(mut self, key: &Key) -> Reported {
        match &self.kind {
            Kind::Blind => {}
            Kind::Json(body) => self.reported.read(&body.0),
            Kind::Events(line) => self.reported.read_events(&line.begun.0),
        }
        self.reported
            .model
            .take_if(|model| key.is_in(model.as_bytes()));
        // The cut comes after, or the key could be cut in two.
        let cut = |model: String| model.chars().take(MAX_MODEL).collect();
        self.reported.model = self.reported.model.map(cut);
        self.reported
    }
}

/// What is kept of all answers under way; a clone counts the same.
#[derive(Clone, Default)]
pub struct Budget(Arc<AtomicUsize>);

/// What is kept of one answer.
struct Kept(Vec<u8>, Budget);

impl Kept {
    /// Says whether there was room for it, here and among all; where not, all is forgotten.
    fn add(&mut self, piece: &[u8], most: usize) -> bool {
        let all = self.1.0.fetch_add(piece.len(), Ordering::Relaxed) + piece.len();
        self.0.extend_from_slice(piece);
        let fits = self.0.len() <= most && all <= MAX_KEPT;
        if !fits {
            self.clear();
        }
        fits
    }

    fn clear(&mut self) {
        self.1.0.fetch_sub(self.0.len(), Ordering::Relaxed);
        self.0 = Vec::new();
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Makes whole lines out of pieces.
struct Line {
    begun: Kept,
    too_long: bool,
}

impl Line {
    /// Calls `read` with one or more whole lines, borrowed from `piece` where they can be.
    fn push(&mut self, mut piece: &[u8], mut read: impl FnMut(&[u8])) {
        if !self.begun.0.is_empty() || self.too_long {
            let Some(end) = memchr(b'\n', piece) else {
                return self.keep(piece);
            };
            self.keep(&piece[..end]);
            read(&self.begun.0);
            self.begun.clear();
            self.too_long = false;
            piece = &piece[end + 1..];
        }
        let whole = memrchr(b'\n', piece).map_or(0, |end| end + 1);
        read(&piece[..whole]);
        self.keep(&piece[whole..]);
    }

    fn keep(&mut self, part: &[u8]) {
        if self.too_long {
            return;
        }
        self.too_long = !self.begun.add(part, MAX_LINE);
    }
}

impl Reported {
    fn read_events(&mut self, lines: &[u8]) {
        // Most events carry text alone: one search for all of their lines.
        if MARK.find(lines).is_none() {
            return;
        }
        for line in lines.split(|byte| *byte == b'\n') {
            if let Some(data) = line.strip_prefix(b"data:") {
                self.read(data);
            }
        }
    }

    fn read(&mut self, json: &[u8]) {
        if MARK.find(json).is_some()
            && let Ok(Answer(reported)) = serde_json::from_slice(json)
        {
            self.merge(reported);
        }
    }

    /// What comes later counts: usage in a stream is the sum so far.
    fn merge(&mut self, later: Reported) {
        let keep = |mine: &mut Option<u64>, later: Option<u64>| *mine = later.or(*mine);
        keep(&mut self.input_tokens, later.input_tokens);
        keep(&mut self.output_tokens, later.output_tokens);
        keep(&mut self.cache_read_tokens, later.cache_read_tokens);
        keep(&mut self.cache_creation_tokens, later.cache_creation_tokens);
        self.model = later.model.or(self.model.take());
    }
}

/// An answer of any of the APIs, or an array of them (Gemini's stream without `alt=sse`).
struct Answer(Reported);

impl<'de> Deserialize<'de> for Answer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Answer, D::Error> {
        deserializer.deserialize_any(AnswerVisitor)
    }
}

struct AnswerVisitor;

impl<'de> Visitor<'de> for AnswerVisitor {
    type Value = Answer;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an answer")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Answer, A::Error> {
        let object = Object::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Answer(object.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Answer, A::Error> {
        let mut all = Reported::default();
        // One at a time: a million of them take no memory.
        while let Some(object) = array.next_element::<Object>()? {
            all.merge(object.into());
        }
        Ok(Answer(all))
    }
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow, alias = "modelVersion")]
    model: Option<Cow<'a, str>>,
    #[serde(alias = "usageMetadata")]
    usage: Option<Usage>,
    /// Anthropic's `message_start` and OpenAI's `response.completed` wrap theirs.
    #[serde(borrow, alias = "response")]
    message: Option<Box<Object<'a>>>,
}

/// Each API's names, apart: a gateway may send those of two.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Usage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    input_tokens_details: Option<Details>,
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
    #[serde(rename = "promptTokenCount")]
    gemini_prompt: Option<u64>,
    #[serde(rename = "candidatesTokenCount")]
    gemini_text: Option<u64>,
    #[serde(rename = "thoughtsTokenCount")]
    gemini_thoughts: Option<u64>,
    #[serde(rename = "cachedContentTokenCount")]
    gemini_cached: Option<u64>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u64>,
}

impl Usage {
    fn input(&self) -> Option<u64> {
        self.input_tokens
            .or(self.prompt_tokens)
            .or(self.gemini_prompt)
    }

    fn output(&self) -> Option<u64> {
        let gemini = match (self.gemini_text, self.gemini_thoughts) {
            (Some(text), Some(thoughts)) => Some(text.saturating_add(thoughts)),
            (text, thoughts) => text.or(thoughts),
        };
        self.output_tokens.or(self.completion_tokens).or(gemini)
    }

    fn cache_read(&self) -> Option<u64> {
        let cached = |details: &Option<Details>| details.as_ref()?.cached_tokens;
        self.cache_read_input_tokens
            .or_else(|| cached(&self.input_tokens_details))
            .or_else(|| cached(&self.prompt_tokens_details))
            .or(self.gemini_cached)
    }
}

impl From<Object<'_>> for Reported {
    fn from(object: Object<'_>) -> Reported {
        let wrapped = object.message.map(|inner| (*inner).into());
        let mut reported: Reported = wrapped.unwrap_or_default();
        let usage = object.usage.unwrap_or_default();
        reported.merge(Reported {
            model: object.model.map(Cow::into_owned),
            input_tokens: usage.input(),
            output_tokens: usage.output(),
            cache_read_tokens: usage.cache_read(),
            cache_creation_tokens: usage.cache_creation_input_tokens,
        });
        reported
    }
}

#[cfg(test)]
mod tests;
