//! Finds out which of our calls an over-long answer was for, from its first bytes.
//!
//! The invariant here: only the top-level `id` of an answer counts, and only if the bytes show that
//! the message is an answer. An `id` inside of a result, in a string or in a request of the other
//! side names something else; ending a call for it would let one message end another's call. When
//! the first bytes do not tell, no call is ended by them.

/// The id of the answer that begins with `head`. Our own ids are integers.
pub(super) fn answered_id(head: &[u8]) -> Option<i64> {
    let mut scan = Scan { rest: head };
    scan.skip(b'{')?;
    let (mut id, mut is_answer) = (None, false);
    loop {
        let name = scan.string()?;
        scan.skip(b':')?;
        match name {
            b"id" => {
                // Given twice, it is not known which one was meant.
                let first = id.replace(scan.integer()?);
                if first.is_some() {
                    return None;
                }
            }
            b"result" | b"error" => is_answer = true,
            // A request or a notification.
            b"method" => return None,
            // An escape could spell any of the names above.
            name if name.contains(&b'\\') => return None,
            _ => {}
        }
        match id {
            Some(id) if is_answer => return Some(id),
            _ if name != b"id" => scan.value()?,
            _ => {}
        }
        scan.skip(b',')?;
    }
}

/// The bytes that are not read yet. Every step ends the scan where the bytes end.
struct Scan<'a> {
    rest: &'a [u8],
}

impl<'a> Scan<'a> {
    fn next(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    fn white_space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    /// Skips `byte` and the white space in front of it.
    fn skip(&mut self, byte: u8) -> Option<()> {
        self.white_space();
        (self.next()? == byte).then_some(())
    }

    /// A string with its escapes as they are, without its quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.skip(b'"')?;
        let begin = self.rest;
        loop {
            match self.next()? {
                b'"' => return begin.get(..begin.len() - self.rest.len() - 1),
                b'\\' => _ = self.next()?,
                _ => {}
            }
        }
    }

    fn integer(&mut self) -> Option<i64> {
        self.white_space();
        let end = self.rest.iter().position(|byte| !byte.is_ascii_digit())?;
        let (digits, rest) = self.rest.split_at(end);
        // A fraction, an exponent or a sign: none of our ids.
        if !matches!(rest.first()?, b',' | b'}') && !rest.first()?.is_ascii_whitespace() {
            return None;
        }
        self.rest = rest;
        str::from_utf8(digits).ok()?.parse().ok()
    }

    /// Skips a value, however deep it nests.
    fn value(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            self.white_space();
            match self.rest.first()? {
                b'"' => _ = self.string()?,
                b'{' | b'[' => {
                    depth += 1;
                    self.next()?;
                    continue;
                }
                b'}' | b']' => {
                    // The end of the message itself.
                    depth = depth.checked_sub(1)?;
                    self.next()?;
                }
                b',' | b':' if depth > 0 => {
                    self.next()?;
                    continue;
                }
                b',' | b':' => return None,
                _ => {
                    let ends = |byte: &u8| {
                        byte.is_ascii_whitespace() || matches!(byte, b',' | b':' | b'}' | b']')
                    };
                    let end = self.rest.iter().position(ends)?;
                    self.rest = &self.rest[end..];
                }
            }
            if depth == 0 {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_an_answer_is_found_in_its_first_bytes() {
        for (head, id) in [
            (r#"{"id":17,"result":{"data":"xxx"#, 17),
            (r#"{"jsonrpc":"2.0","id": 5 ,"result":"#, 5),
            (r#" { "id" : 5 , "error" : {"#, 5),
            (r#"{"result":{"id":7,"a":["]",{}]},"id":3,"x"#, 3),
            (r#"{"result":"\"id\":7","id":3}"#, 3),
            (r#"{"result":[1,-2.5e3,true,null,{"id":7}],"id":3,"#, 3),
        ] {
            assert_eq!(answered_id(head.as_bytes()), Some(id), "{head}");
        }
    }

    #[test]
    fn no_other_number_is_taken_for_the_id() {
        for head in [
            r#"{"result":{"id":7,"data":"xxxxxxxx"#,
            r#"{"result":"\"id\":7,"#,
            r#"{"result":[{"id":7}],"data":"xxx"#,
            r#"{"id":7,"method":"turn/start","params":{"#,
            r#"{"method":"turn/start","id":7,"params":{"#,
            r#"{"id":7,"params":{"id":8}"#,
            r#"{"id":7,"id":8,"result":"#,
            r#"{"\u0069d":8,"id":7,"result":"#,
            r#"{"id":"7","result":"#,
            r#"{"id":7.5,"result":"#,
            r#"{"id":-7,"result":"#,
            r#"{"id":99999999999999999999,"result":"#,
            r#"{"id":7"#,
            r#"{"id":1"#,
            r#"[{"id":7,"result":"#,
            r#"}"id":7,"result":"#,
            "nonsense",
            "",
        ] {
            assert_eq!(answered_id(head.as_bytes()), None, "{head}");
        }
        assert_eq!(answered_id(b"{\"\xff\":1,\"id\":7,\"res"), None);
    }
}
