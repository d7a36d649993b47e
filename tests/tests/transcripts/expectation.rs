//! What a script says must be so, at a moment of the run.

use fencepost_runtime::telemetry::Metric;
use fencepost_tests::simulation::{Sometimes, World};

use super::words::Words;

/// Something that must be so.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expectation {
    /// This instance stands in the lease row, perhaps under this token.
    Leader(String, Option<u64>),
    /// The lease row names no owner.
    NoLeader,
    /// The token of the lease row.
    Token(u64),
    /// The messages that the queue accepted, in order, second copies included.
    Queue(Vec<String>),
    /// How many messages the queue accepted.
    Delivered(usize),
    /// Outstanding rows.
    Outstanding(usize),
    /// Dead records.
    Dead(usize),
    /// Attempts that an outstanding row counts.
    Attempts(String, u32),
    /// The sum of a metric over all instances.
    MetricSum(Metric, u64),
    /// Something that happened at least once.
    Reached(Sometimes),
}

/// Reads an expectation up to the line's end, or up to `within` where it is awaited.
pub(crate) fn parse(words: &mut Words<'_>) -> Result<Expectation, String> {
    let expectation = match words.word("what is expected")? {
        "leader" => {
            let instance = words.instance()?;
            let token = if words.takes("token") { Some(words.number("the token")?) } else { None };
            Expectation::Leader(instance, token)
        }
        "no_leader" => Expectation::NoLeader,
        "token" => Expectation::Token(words.number("the token")?),
        "queue" => match words.until("within").as_slice() {
            [] => return Err("name the messages in order, or `empty`".to_owned()),
            ["empty"] => Expectation::Queue(Vec::new()),
            ids => Expectation::Queue(ids.iter().map(|id| (*id).to_owned()).collect()),
        },
        "delivered" => Expectation::Delivered(words.number("how many")?),
        "outstanding" => Expectation::Outstanding(words.number("how many")?),
        "dead" => Expectation::Dead(words.number("how many")?),
        "attempts" => Expectation::Attempts(words.word("a message")?.to_owned(), words.number("how many")?),
        "metric" => {
            let name = words.word("a metric")?;
            let metric = Metric::ALL.iter().find(|metric| metric.name() == name);
            let metric = metric.ok_or_else(|| format!("there is no metric `{name}`"))?;
            Expectation::MetricSum(*metric, words.number("its sum")?)
        }
        "reached" => {
            let name = words.until("within").join(" ");
            let what = Sometimes::ALL.iter().find(|what| what.name() == name);
            let known = || Sometimes::ALL.iter().map(|what| what.name()).collect::<Vec<_>>().join(", ");
            Expectation::Reached(*what.ok_or_else(|| format!("`{name}` is none of {}", known()))?)
        }
        other => {
            return Err(format!(
                "nothing is called `{other}`; expect leader, no_leader, token, queue, delivered, outstanding, dead, \
                 attempts, metric or reached"
            ));
        }
    };
    Ok(expectation)
}

impl Expectation {
    /// Says what is so instead, where it does not hold.
    pub(crate) fn check(&self, world: &World) -> Result<(), String> {
        let count = |expected: usize, found: usize| differs(expected == found, || format!("there are {found}"));
        match self {
            Self::Leader(instance, token) => {
                let leader = world.leader();
                let holds = leader.as_ref().is_some_and(|leader| {
                    leader.instance == *instance && token.is_none_or(|token| leader.token == token)
                });
                differs(holds, || match leader {
                    Some(leader) => format!("{} leads with token {}", leader.instance, leader.token),
                    None => "nobody leads".to_owned(),
                })
            }
            Self::NoLeader => match world.leader() {
                Some(leader) => Err(format!("{} leads with token {}", leader.instance, leader.token)),
                None => Ok(()),
            },
            Self::Token(token) => differs(world.token() == *token, || format!("it is {}", world.token())),
            Self::Queue(ids) => {
                let found = world.delivered();
                differs(found == *ids, || format!("it accepted {}", listed(&found)))
            }
            Self::Delivered(expected) => count(*expected, world.delivered().len()),
            Self::Outstanding(expected) => count(*expected, world.outstanding().len()),
            Self::Dead(expected) => count(*expected, world.dead().len()),
            Self::Attempts(id, expected) => {
                let rows = world.rows();
                let row = rows.iter().find(|row| row.id().as_str() == id);
                let row = row.ok_or_else(|| format!("{id} is not outstanding"))?;
                differs(row.attempts == *expected, || format!("it counts {}", row.attempts))
            }
            Self::MetricSum(metric, expected) => {
                let sum = world.metric_sum(*metric);
                differs(sum.to_string() == expected.to_string(), || format!("it came to {sum}"))
            }
            Self::Reached(what) => differs(world.reached().count(*what) > 0, || "it never happened".to_owned()),
        }
    }
}

fn differs(holds: bool, found: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(found()) }
}

fn listed(ids: &[String]) -> String {
    if ids.is_empty() { "nothing".to_owned() } else { ids.join(" ") }
}
