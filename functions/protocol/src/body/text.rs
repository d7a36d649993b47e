//! Which characters SQS takes, and percent-encoding for attribute values that have others.

/// Does SQS take this character in a body or an attribute value (its quotas page: the characters of XML 1.0)?
pub const fn is_allowed(c: char) -> bool {
    matches!(c, '\u{9}' | '\u{A}' | '\u{D}' | '\u{20}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..='\u{10FFFF}')
}

/// Text of which every character that SQS refuses, and every `%`, is `%XX` for each of its UTF-8 bytes; a lone `%` for
/// the empty text, which nothing else becomes.
pub(crate) fn percent_encode(text: &str) -> String {
    use std::fmt::Write as _;
    if text.is_empty() {
        return "%".to_owned();
    }
    let mut encoded = String::with_capacity(text.len());
    for c in text.chars() {
        if is_allowed(c) && c != '%' {
            encoded.push(c);
        } else {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a String cannot fail.
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

/// The text that became `encoded`; `None` where it is no such text.
pub fn percent_decode(encoded: &str) -> Option<String> {
    if encoded == "%" {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
