//! The topic filter of the rule, matched as MQTT and IoT Core match it.

/// A checked topic filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TopicFilter {
    levels: Vec<String>,
}

impl TopicFilter {
    /// Reads a filter; the error is a sentence about it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let levels: Vec<String> = text.split('/').map(str::to_owned).collect();
        if text.is_empty() {
            return Err("is empty; # takes every topic".to_owned());
        }
        for (index, level) in levels.iter().enumerate() {
            let last = index + 1 == levels.len();
            if level.contains('#') && (level != "#" || !last) {
                return Err(format!("is {text:?}; # stands alone in the last level, as in telemetry/#"));
            }
            if level.contains('+') && level != "+" {
                return Err(format!("is {text:?}; + stands alone in its level, as in telemetry/+/status"));
            }
        }
        Ok(Self { levels })
    }

    /// Does the rule take this topic? A wildcard in the first level takes no topic that begins with `$`.
    pub(super) fn matches(&self, topic: &str) -> bool {
        let wild_start = self.levels.first().is_some_and(|level| level == "#" || level == "+");
        if wild_start && topic.starts_with('$') {
            return false;
        }
        let mut topic_levels = topic.split('/');
        for level in &self.levels {
            if level == "#" {
                return true;
            }
            match topic_levels.next() {
                Some(topic_level) if level == "+" || level == topic_level => {}
                Some(_) | None => return false,
            }
        }
        topic_levels.next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::TopicFilter;

    fn takes(filter: &str, topic: &str) -> bool {
        TopicFilter::parse(filter).unwrap().matches(topic)
    }

    #[test]
    fn matches_as_mqtt_does() {
        assert!(takes("telemetry/#", "telemetry/plant/pump"));
        assert!(takes("telemetry/#", "telemetry"), "# stands for the parent level too");
        assert!(!takes("telemetry/#", "telemetry2/pump"));
        assert!(takes("a/+/c", "a/b/c"));
        assert!(takes("a/+/c", "a//c"), "an empty level is a level");
        assert!(!takes("a/+/c", "a/b/b/c"));
        assert!(!takes("a/b", "a/b/c"));
        assert!(!takes("a/b/c", "a/b"));
        assert!(takes("#", "anything/at/all"));
        assert!(!takes("#", "$SYS/broker"), "wildcards leave the broker's own topics alone");
        assert!(!takes("+/x", "$SYS/x"));
    }

    #[test]
    fn refuses_what_is_no_filter() {
        for wrong in ["", "a/#/b", "a#", "a/b+/c", "++"] {
            assert!(TopicFilter::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
