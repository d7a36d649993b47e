//! From pairs of name and value to checked settings.

use std::time::Duration;

use fencepost_protocol::ids::{Identity, InstanceName, Malformed};
use fencepost_protocol::lease::SourceMode;
use fencepost_protocol::timing::{Timing, TimingOverrides};

use super::table::{DefaultValue, Draft, Setting, table};
use super::values::shown;
use super::{Destination, Function, PREFIX, Settings, SettingsFaults, Tables, Topology};

/// Parses, fills in the defaults, and checks what concerns more than one setting.
pub(super) fn build(
    functions: &[Function],
    pairs: impl IntoIterator<Item = (String, String)>,
) -> Result<Settings, SettingsFaults> {
    let mut faults = Vec::new();
    let mut given = Vec::new();
    let mut region = None;
    for (name, value) in pairs {
        if value.is_empty() {
            continue;
        }
        if name == "AWS_REGION" {
            region = Some(value);
        } else if name.starts_with(PREFIX) {
            match table().iter().find(|setting| setting.name == name) {
                Some(setting) => given.push((setting, value)),
                None => faults.push(unknown(&name)),
            }
        }
    }
    let mut draft = Draft::default();
    for setting in table() {
        apply(setting, &given, functions, &mut draft, &mut faults);
    }
    default_instance(&mut draft, region, &given, &mut faults);
    check_together(&draft, functions, &mut faults);
    let timing = timing(&draft, &mut faults);
    match (timing, faults.is_empty()) {
        (Some(timing), true) => finish(draft, timing),
        _ => Err(SettingsFaults(faults)),
    }
}

fn unknown(name: &str) -> Malformed {
    // A name of any length may stand in an environment, and the distance takes time by both lengths.
    let head: String = name.chars().take(100).collect();
    let upper = head.to_uppercase();
    let nearest = table().iter().min_by_key(|setting| strsim::damerau_levenshtein(setting.name, &upper));
    let hint = nearest.map(|setting| format!("; did you mean {}?", setting.name)).unwrap_or_default();
    Malformed::new(head, format!("is no setting{hint}"))
}

/// Reads one setting's value, else its default; reports it where it is wrong, or missing and needed.
fn apply(
    setting: &'static Setting,
    given: &[(&'static Setting, String)],
    functions: &[Function],
    draft: &mut Draft,
    faults: &mut Vec<Malformed>,
) {
    let value = given.iter().rev().find(|(named, _)| named.name == setting.name).map(|(_, value)| value.as_str());
    let default = match setting.default {
        DefaultValue::Value(text) => Some(text),
        DefaultValue::None | DefaultValue::ByProfile { .. } | DefaultValue::Follows(_) => None,
    };
    match value.or(default) {
        Some(text) => {
            if let Err(problem) = (setting.apply)(draft, text) {
                faults.push(Malformed::new(setting.name, problem));
            }
        }
        None => {
            if let Some(function) = functions.iter().find(|function| setting.needed_by.contains(function)) {
                let who = function.as_str();
                faults.push(Malformed::new(
                    setting.name,
                    format!("is missing; the {who} function needs it: {} ({})", setting.what, setting.rule),
                ));
            }
        }
    }
}

fn default_instance(
    draft: &mut Draft,
    region: Option<String>,
    given: &[(&'static Setting, String)],
    faults: &mut Vec<Malformed>,
) {
    const NAME: &str = "FENCEPOST_INSTANCE";
    if draft.instance.is_some() || given.iter().any(|(setting, _)| setting.name == NAME) {
        return;
    }
    match region.map(InstanceName::new) {
        Some(Ok(name)) => draft.instance = Some(name),
        Some(Err(fault)) => faults.push(Malformed::new("AWS_REGION", fault.problem)),
        None => faults.push(Malformed::new(NAME, "is missing, and so is AWS_REGION, its default")),
    }
}

/// What one setting asks of another.
fn check_together(draft: &Draft, functions: &[Function], faults: &mut Vec<Malformed>) {
    let mut fault = |name: &str, problem: String| faults.push(Malformed::new(format!("{PREFIX}{name}"), problem));
    match (draft.topology, &draft.table_region) {
        (Topology::Home, None) => {
            fault("TABLE_REGION", "is missing; FENCEPOST_TOPOLOGY=home needs the region of the tables".to_owned());
        }
        (Topology::Single | Topology::Global, Some(region)) => fault(
            "TABLE_REGION",
            format!("is {}, but only FENCEPOST_TOPOLOGY=home has tables in another region: unset it", shown(region)),
        ),
        _ => {}
    }
    if let (Some(ordered), Some(url)) = (draft.ordered, &draft.queue_url) {
        let fifo = is_fifo(url);
        if ordered && !fifo {
            fault("ORDERED", format!("is true, but {} is no FIFO queue, which alone keeps an order", shown(url)));
        }
        if !ordered && fifo {
            fault("ORDERED", format!("is false, but {} is a FIFO queue: unset it", shown(url)));
        }
    }
    if draft.source == SourceMode::Gated && draft.topic_rule.is_none() && functions.contains(&Function::Lease) {
        fault("TOPIC_RULE", "is missing; FENCEPOST_SOURCE=gated needs the topic rule to switch".to_owned());
    }
    if draft.backoff_base > draft.backoff_max && !draft.backoff_max.is_zero() {
        fault("BACKOFF_BASE", "is above FENCEPOST_BACKOFF_MAX".to_owned());
    }
}

fn is_fifo(url: &str) -> bool {
    url.ends_with(".fifo")
}

/// The durations; faults in them bear the names of their variables.
fn timing(draft: &Draft, faults: &mut Vec<Malformed>) -> Option<Timing> {
    let mut overrides: TimingOverrides = draft.timing;
    if draft.topology == Topology::Global {
        // A strongly consistent global table has no TTL: a tombstone would stay for ever.
        overrides.dedupe_window = Some(Duration::ZERO);
    }
    match Timing::build(draft.profile, &overrides) {
        Ok(timing) => Some(timing),
        Err(broken) => {
            faults.extend(broken.into_iter().map(SettingsFaults::as_set));
            None
        }
    }
}

/// One call to the outbox is no longer than a page's claim budget leaves room for.
fn store_call_timeout(timing: &Timing) -> Duration {
    (timing.claim_budget / 2).min(Duration::from_secs(5)).max(Duration::from_millis(1))
}

/// Nothing is wrong any more: what is needed is there, and what has a default has it.
fn finish(draft: Draft, timing: Timing) -> Result<Settings, SettingsFaults> {
    let (Some(lease), Some(name), Some(stack)) = (draft.lease, draft.instance, draft.stack) else {
        return Err(SettingsFaults::missing("LEASE, FENCEPOST_INSTANCE or FENCEPOST_STACK"));
    };
    let (Some(lease_table), Some(outbox_table)) = (draft.lease_table, draft.outbox_table) else {
        return Err(SettingsFaults::missing("LEASE_TABLE or FENCEPOST_OUTBOX_TABLE"));
    };
    let Some(body_format) = draft.body_format else {
        return Err(SettingsFaults::missing("BODY_FORMAT"));
    };
    Ok(Settings {
        lease,
        identity: Identity { name, stack },
        profile: draft.profile,
        timing,
        shards: draft.shards,
        previous_shards: draft.previous_shards,
        shards_per_group: draft.shards_per_group,
        tables: Tables { lease: lease_table, outbox: outbox_table, region: draft.table_region },
        topology: draft.topology,
        batching: draft.batching && draft.topology != Topology::Global,
        destination: draft.queue_url.map(|url| Destination { ordered: is_fifo(&url), url }),
        body_format,
        source: draft.source,
        topic_rule: draft.topic_rule,
        max_attempts: draft.max_attempts,
        max_age: draft.max_age,
        backoff_base: draft.backoff_base,
        backoff_max: draft.backoff_max,
        page_rows: draft.page_rows,
        request_bytes_max: draft.request_bytes_max,
        stamp_cache: draft.stamp_cache,
        store_call_timeout: store_call_timeout(&timing),
        event_bus: draft.event_bus,
        log: draft.log,
    })
}
