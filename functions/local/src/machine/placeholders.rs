//! The `${Name}` placeholders that a SAM template fills in.
//!
//! Replacement is textual, as AWS does it, so a shipped file is valid JSON before and after. Only `${` + letters, digits, `_`
//! or `.` + `}` is a placeholder; any other `${` belongs to an expression and is left alone.

use std::collections::BTreeMap;

use super::DefinitionError;

/// `text` with each placeholder replaced by its substitution.
///
/// # Errors
/// [`DefinitionError::Placeholder`] names the first placeholder that has no substitution.
pub(super) fn substitute(text: &str, substitutions: &BTreeMap<String, String>) -> Result<String, DefinitionError> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        match name_at_start(from) {
            Some(name) => {
                let value = substitutions.get(name).ok_or_else(|| DefinitionError::Placeholder(name.to_owned()))?;
                filled.push_str(value);
                rest = &from[name.len() + "${}".len()..];
            }
            None => {
                filled.push_str("${");
                rest = &from["${".len()..];
            }
        }
    }
    filled.push_str(rest);
    Ok(filled)
}

/// The name of the placeholder that `text`, which begins with `${`, begins with.
fn name_at_start(text: &str) -> Option<&str> {
    let inner = text.get("${".len()..)?;
    let name = inner.split_once('}')?.0;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    (!name.is_empty() && name.chars().all(plain)).then_some(name)
}
