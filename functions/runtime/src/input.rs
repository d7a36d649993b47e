//! Reading what a function is asked. A refusal names the field by its whole path (`settled[0].claim`), which the decoder
//! alone does not do.
//!
//! What must stay out: what a request means; and payloads, since a refusal repeats a part of what it found.

use fencepost_protocol::ids::Malformed;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The field that names a command.
const COMMAND: &str = "command";

/// Reads `input`, which errors about the whole call `name`.
///
/// # Errors
/// [`Malformed`] with the path of the field that does not fit.
pub fn read<T: DeserializeOwned>(name: &str, input: Value) -> Result<T, Malformed> {
    serde_path_to_error::deserialize(input).map_err(|error| refusal(name, "", &error))
}

/// Reads the command that `command` names, one variant of `T`, from the other fields of `input`.
///
/// # Errors
/// [`Malformed`] with the path of the field that does not fit.
pub fn command<T: DeserializeOwned>(input: Value) -> Result<T, Malformed> {
    let Value::Object(mut fields) = input else {
        return Err(Malformed::new("input", "is no JSON object; it must be one with a field \"command\""));
    };
    let name = match fields.remove(COMMAND) {
        Some(Value::String(name)) => name,
        Some(_) => return Err(Malformed::new(COMMAND, "is no text; it must be a command's name")),
        None => return Err(Malformed::new(COMMAND, "is missing; it must be a command's name")),
    };
    // An enum's plain form, because the one with a tag among the fields loses their paths.
    let plain = Value::Object(Map::from_iter([(name.clone(), Value::Object(fields))]));
    serde_path_to_error::deserialize(plain).map_err(|error| refusal(COMMAND, &name, &error))
}

/// `within` is the part of the path that the caller put there.
fn refusal(whole: &str, within: &str, error: &serde_path_to_error::Error<serde_json::Error>) -> Malformed {
    let path = error.path().to_string();
    let inside = path.strip_prefix(within).unwrap_or(&path).trim_start_matches('.');
    let field = match inside {
        "" if !within.is_empty() && !path.starts_with('.') => "input",
        "" | "?" => whole,
        field => field,
    };
    Malformed::new(field, error.inner().to_string())
}

#[cfg(test)]
mod tests;
