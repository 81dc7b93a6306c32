//! D-Bus messages: the two that are sent, and what matters of an answer
//! (D-Bus Specification, "Marshaling" and "Message Format").

/// What every message begins with: its first twelve bytes, and how long the fields
/// are that follow.
pub(super) const HEAD: usize = 16;

/// METHOD_CALL.
const CALL: u8 = 1;

// Header fields.
const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;
const DESTINATION: u8 = 6;
const SIGNATURE: u8 = 8;

/// A call, ready to be sent.
pub(super) struct Message {
    pub(super) member: &'static str,
    pub(super) serial: u32,
    pub(super) bytes: Vec<u8>,
}

impl Message {
    /// The first call of every client.
    pub(super) fn hello() -> Message {
        let bus = "org.freedesktop.DBus";
        let fields = [
            (PATH, "o", "/org/freedesktop/DBus"),
            (INTERFACE, "s", bus),
            (MEMBER, "s", "Hello"),
            (DESTINATION, "s", bus),
        ];
        call("Hello", 1, &fields, &[])
    }

    /// A scope with this process, which may make cgroups in it.
    pub(super) fn start_scope(name: &str) -> Message {
        let fields = [
            (PATH, "o", "/org/freedesktop/systemd1"),
            (INTERFACE, "s", "org.freedesktop.systemd1.Manager"),
            (MEMBER, "s", "StartTransientUnit"),
            (DESTINATION, "s", "org.freedesktop.systemd1"),
            (SIGNATURE, "g", "ssa(sv)a(sa(sv))"),
        ];
        let mut body = Marshal(Vec::new());
        body.string(name);
        body.string("fail"); // where there is a unit of this name
        body.array(8, |properties| {
            properties.property("Description", "s", |value| value.string("groom-ns run"));
            properties.property("Delegate", "b", |value| value.number(1));
            properties.property("PIDs", "au", |value| {
                // 0 is whoever sends this, as the bus knows it: by a number of its own
                // a process of another pid namespace would name some other one.
                value.array(4, |pids| pids.number(0));
            });
        });
        body.array(8, |_no_other_units| {});
        call("StartTransientUnit", 2, &fields, &body.0)
    }
}

fn call(member: &'static str, serial: u32, fields: &[(u8, &str, &str)], body: &[u8]) -> Message {
    let mut message = Marshal(vec![b'l', CALL, 0, 1]);
    message.number(length(body));
    message.number(serial);
    message.array(8, |array| {
        for (code, kind, value) in fields {
            array.align(8);
            array.0.push(*code);
            array.signature(kind);
            match *kind {
                "g" => array.signature(value),
                _ => array.string(value),
            }
        }
    });
    message.align(8);
    message.0.extend_from_slice(body);
    Message {
        member,
        serial,
        bytes: message.0,
    }
}

/// Values one after the other, little-endian, each at a multiple of its own alignment.
struct Marshal(Vec<u8>);

impl Marshal {
    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    fn number(&mut self, number: u32) {
        self.align(4);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn string(&mut self, text: &str) {
        self.number(length(text.as_bytes()));
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
    }

    /// At most 255 bytes, which those here are.
    fn signature(&mut self, text: &str) {
        self.0.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
    }

    fn property(&mut self, name: &str, kind: &str, value: impl FnOnce(&mut Marshal)) {
        self.align(8);
        self.string(name);
        self.signature(kind);
        value(self);
    }

    /// Its length doesn't count the gap before the first item.
    fn array(&mut self, alignment: usize, items: impl FnOnce(&mut Marshal)) {
        self.number(0);
        let count_at = self.0.len() - 4;
        self.align(alignment);
        let first = self.0.len();
        items(self);
        let count = length(self.0.get(first..).unwrap_or_default());
        if let Some(place) = self.0.get_mut(count_at..count_at + 4) {
            place.copy_from_slice(&count.to_le_bytes());
        }
    }
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// How many bytes follow a message's first [`HEAD`]; none if it isn't one. The bus
/// passes on a message in its sender's byte order.
pub(super) fn rest_of(head: &[u8; HEAD]) -> Option<usize> {
    let reader = Reader::new(head)?;
    let body = usize::try_from(reader.number_at(4)?).ok()?;
    let fields = usize::try_from(reader.number_at(12)?).ok()?;
    fields.checked_next_multiple_of(8)?.checked_add(body)
}

/// What matters of a message that came.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// The call that it answers; none if it is no answer.
    pub(super) to: Option<u32>,
    /// The error's name, if it is one.
    pub(super) error: Option<String>,
}

impl Reply {
    /// Reads the header fields of a whole message; none if one can't be read.
    pub(super) fn read(message: &[u8]) -> Option<Reply> {
        let mut reader = Reader::new(message)?;
        let end = HEAD.checked_add(usize::try_from(reader.number_at(12)?).ok()?)?;
        let mut reply = Reply {
            to: None,
            error: None,
        };
        reader.at = HEAD;
        while reader.at < end {
            reader.align(8)?;
            let code = *reader.take(1)?.first()?;
            let kind = reader.text_of(1)?;
            match (code, &kind[..]) {
                (REPLY_SERIAL, "u") => reply.to = Some(reader.number()?),
                (_, "u") => drop(reader.number()?),
                (ERROR_NAME, "s") => reply.error = Some(reader.text_of(4)?),
                (_, "s" | "o") => drop(reader.text_of(4)?),
                (_, "g") => drop(reader.text_of(1)?),
                _ => return None,
            }
        }
        Some(reply)
    }
}

struct Reader<'message> {
    bytes: &'message [u8],
    at: usize,
    is_little: bool,
}

impl<'message> Reader<'message> {
    fn new(bytes: &'message [u8]) -> Option<Reader<'message>> {
        let is_little = match bytes.first()? {
            b'l' => true,
            b'B' => false,
            _ => return None,
        };
        Some(Reader {
            bytes,
            at: 0,
            is_little,
        })
    }

    fn number_at(&self, at: usize) -> Option<u32> {
        let bytes = self.bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if self.is_little {
            u32::from_le_bytes(bytes)
        } else {
            u32::from_be_bytes(bytes)
        })
    }

    fn align(&mut self, to: usize) -> Option<()> {
        self.at = self.at.checked_next_multiple_of(to)?;
        Some(())
    }

    fn take(&mut self, count: usize) -> Option<&'message [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        self.align(4)?;
        let number = self.number_at(self.at)?;
        self.at += 4;
        Some(number)
    }

    /// A string (`of` 4) or a signature (1): its length, its bytes, and a NUL.
    fn text_of(&mut self, of: usize) -> Option<String> {
        let count = match of {
            1 => usize::from(*self.take(1)?.first()?),
            _ => usize::try_from(self.number()?).ok()?,
        };
        let text = String::from_utf8(self.take(count)?.to_vec()).ok()?;
        (self.take(1)? == [0]).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a bus answers: METHOD_RETURN (2) or ERROR (3), with a sender and a signature.
    fn answer(kind: u8, order: u8, fields: &[(u8, &str, &[u8])], body: &[u8]) -> Vec<u8> {
        let mut message = Marshal(vec![order, kind, 1, 1]);
        message.number(length(body));
        message.number(9);
        message.array(8, |array| {
            for (code, kind, value) in fields {
                array.align(8);
                array.0.push(*code);
                array.signature(kind);
                if *kind != "g" {
                    array.align(4);
                }
                array.0.extend_from_slice(value);
            }
        });
        message.align(8);
        message.0.extend_from_slice(body);
        message.0
    }

    fn head_of(message: &[u8]) -> [u8; HEAD] {
        message[..HEAD].try_into().expect("a head")
    }

    #[test]
    fn a_call_is_as_long_as_its_head_says() {
        for message in [Message::hello(), Message::start_scope("a.scope")] {
            let rest = rest_of(&head_of(&message.bytes)).expect("a length");
            assert_eq!(HEAD + rest, message.bytes.len(), "{}", message.member);
            let nothing = Reply {
                to: None,
                error: None,
            };
            assert_eq!(Reply::read(&message.bytes), Some(nothing));
        }
    }

    #[test]
    fn answers_and_errors() {
        let sender = (7, "s", &b"\x04\0\0\0:1.5\0"[..]);
        let to = (REPLY_SERIAL, "u", &b"\x02\0\0\0"[..]);
        let signature = (SIGNATURE, "g", &b"\x01o\0"[..]);
        let message = answer(2, b'l', &[to, sender, signature], b"\x02\0\0\0/x\0");
        let reply = Reply::read(&message).expect("an answer");
        assert_eq!((reply.to, reply.error), (Some(2), None));
        assert_eq!(rest_of(&head_of(&message)), Some(message.len() - HEAD));
        let error = (ERROR_NAME, "s", &b"\x03\0\0\0a.b\0"[..]);
        let reply = Reply::read(&answer(3, b'l', &[error, to], b"")).expect("an error");
        assert_eq!((reply.to, reply.error.as_deref()), (Some(2), Some("a.b")));
    }

    #[test]
    fn what_is_cut_short_or_too_long_is_no_answer() {
        let to = (REPLY_SERIAL, "u", &b"\x02\0\0\0"[..]);
        let error = (ERROR_NAME, "s", &b"\x03\0\0\0a.b\0"[..]);
        let message = answer(3, b'l', &[to, error], b"");
        for length in 0..HEAD + 16 {
            assert_eq!(Reply::read(&message[..length]), None, "{length}");
        }
        for (at, byte) in [
            (0, b'x'),
            (12, 0xff),
            (15, 0xff),
            (28, 0xff),
            (32, 0xff),
            (35, 1),
        ] {
            let mut bent = message.clone();
            bent[at] = byte;
            assert_eq!(Reply::read(&bent), None, "{at}");
        }
        let mut head = head_of(&message);
        head[4..8].fill(0xff);
        assert!(rest_of(&head).is_some_and(|rest| rest > 1 << 30));
        head[0] = 0;
        assert_eq!(rest_of(&head), None);
    }
}
