//! The words of a script's line, taken one after the other.

use std::str::FromStr;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The words of one line that are still to be read, and the instances that it may name.
#[derive(Debug)]
pub(crate) struct Words<'l> {
    rest: Vec<&'l str>,
    regions: &'l [String],
}

impl<'l> Words<'l> {
    pub(crate) fn of(line: &'l str, regions: &'l [String]) -> Self {
        let mut rest: Vec<&str> = line.split_whitespace().collect();
        rest.reverse();
        Self { rest, regions }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next word; `what` says what it should be.
    pub(crate) fn word(&mut self, what: &str) -> Result<&'l str, String> {
        self.rest.pop().ok_or_else(|| format!("{what} is missing at the end"))
    }

    /// Takes the next word where it is this one.
    pub(crate) fn takes(&mut self, word: &str) -> bool {
        let is_next = self.rest.last() == Some(&word);
        if is_next {
            self.rest.pop();
        }
        is_next
    }

    /// The next word as a number, where it is one.
    pub(crate) fn maybe_number<T: FromStr>(&mut self) -> Option<T> {
        let number = self.rest.last()?.parse().ok()?;
        self.rest.pop();
        Some(number)
    }

    /// The next word as a number.
    pub(crate) fn number<T: FromStr>(&mut self, what: &str) -> Result<T, String> {
        let word = self.word(what)?;
        word.parse().map_err(|_| format!("`{word}` is no number: {what} is wanted"))
    }

    /// The next word as a time: `500ms`, `10s`, `2m`.
    pub(crate) fn duration(&mut self, what: &str) -> Result<Duration, String> {
        let word = self.word(what)?;
        duration(word).ok_or_else(|| format!("`{word}` is no time such as 500ms, 10s or 2m: {what} is wanted"))
    }

    /// The next word as one of the script's instances.
    pub(crate) fn instance(&mut self) -> Result<String, String> {
        let word = self.word("an instance")?;
        if self.regions.iter().any(|name| name == word) {
            return Ok(word.to_owned());
        }
        Err(format!("there is no instance `{word}`; there are {}", self.regions.join(", ")))
    }

    /// The next word as one of the instances, where another word follows.
    pub(crate) fn maybe_instance(&mut self) -> Result<Option<String>, String> {
        if self.is_empty() { Ok(None) } else { self.instance().map(Some) }
    }

    /// The next word as a name of something that has names in JSON, too.
    pub(crate) fn named<T: DeserializeOwned>(&mut self, what: &str) -> Result<T, String> {
        let word = self.word(what)?;
        serde_json::from_value(Value::String(word.to_owned())).map_err(|error| format!("{what}: {error}"))
    }

    /// All words that are left, as they stand.
    pub(crate) fn all(&mut self) -> Vec<&'l str> {
        std::iter::from_fn(|| self.rest.pop()).collect()
    }

    /// All words before `end`, which stays; all where it does not come.
    pub(crate) fn until(&mut self, end: &str) -> Vec<&'l str> {
        std::iter::from_fn(|| self.rest.pop_if(|word| *word != end)).collect()
    }

    /// Nothing may be left.
    pub(crate) fn end(&self) -> Result<(), String> {
        match self.rest.last() {
            None => Ok(()),
            Some(word) => Err(format!("`{word}` is one word too many")),
        }
    }
}

fn duration(word: &str) -> Option<Duration> {
    let unit_at = word.find(|character: char| !character.is_ascii_digit())?;
    let (number, unit) = word.split_at(unit_at);
    let number: u64 = number.parse().ok()?;
    let ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return None,
    };
    number.checked_mul(ms).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_number_and_a_unit() {
        assert_eq!(duration("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(duration("10s"), Some(Duration::from_secs(10)));
        assert_eq!(duration("2m"), Some(Duration::from_secs(120)));
        for wrong in ["10", "s", "1.5s", "-1s", "10h", "", "99999999999999999999s", "18446744073709551615m"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn words_are_taken_in_order_and_none_may_be_left() {
        let regions = ["east".to_owned()];
        let mut words = Words::of("  east 3  within 10s more", &regions);
        assert_eq!(words.instance().unwrap(), "east");
        assert_eq!(words.maybe_number::<u32>(), Some(3));
        assert_eq!(words.maybe_number::<u32>(), None);
        assert!(words.until("within").is_empty() && !words.takes("without") && words.takes("within"));
        assert_eq!(words.duration("a time").unwrap(), Duration::from_secs(10));
        assert_eq!(words.end().unwrap_err(), "`more` is one word too many");
        assert_eq!(words.instance().unwrap_err(), "there is no instance `more`; there are east");
        assert_eq!(words.number::<u32>("a count").unwrap_err(), "a count is missing at the end");
        let mut words = Words::of("stale re-claim within 30s", &regions);
        assert_eq!(words.until("within"), ["stale", "re-claim"]);
        assert_eq!(words.all(), ["within", "30s"]);
    }
}
