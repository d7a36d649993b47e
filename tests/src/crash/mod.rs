//! Crash reality: the compiled functions as processes, over the embedded DynamoDB and the local queue, under the shipped
//! state machines, while processes are killed and frozen and the network loses, delays and repeats.
//!
//! Three instances compete for one lease. Each invocation runs in a real process behind a stub of the Lambda Runtime API;
//! each process reaches the services through proxies of its own. A round publishes a few messages and does one thing to the
//! world. After the last round the faults end, everything is drained, and the books are compared: every acknowledged message
//! is in the queue with its exact bytes or dead, every row was committed at most once, tokens only grew.
//!
//! What happens is chosen by a seed; when it happens is up to the machine, so a seed repeats the plan and not the run. The
//! evidence of a run that failed (a history of every write and send, each process's output) stays in its folder.
//!
//! What must stay out: what the protocol decides. The judge is `fencepost_protocol::invariants`.

mod instance;
mod ledger;
mod publisher;
mod report;
mod sandbox;
mod trouble;
mod verdict;
mod wire;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fencepost_local::queue::{QueueServer, QueueStorage};
use fencepost_local::shipped::Machines;
use fencepost_local::table_server::{TableServer, TableStorage};
use fencepost_protocol::ids::RowKey;
use fencepost_runtime::clock::{Clock as _, SystemClock};
use fencepost_runtime::settings::Function;
use fencepost_storage::dynamodb::{TableNames, create_tables};
use fencepost_storage::{ClientOptions, Clients};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::chance::Chance;
use crate::proxy::{Fault, Tap};
use instance::{Instance, Rates, Site};
use ledger::Ledger;
pub use report::Report;
use sandbox::Launch;
use trouble::{Tally, Trouble};

/// The lease group.
const LEASE: &str = "crash";
/// The queue's name.
const QUEUE: &str = "drained";
/// Shards of the outbox.
const SHARDS: u16 = 4;
/// The region that everybody believes to be in.
const REGION: &str = "eu-west-1";
/// Short, and long enough for a machine that does other things beside.
const LEASE_TTL: Duration = Duration::from_secs(10);
/// How late a packet may come: later than a stale wait, so that its row was claimed again.
const LATE_PACKET: Duration = Duration::from_millis(13_500);
/// Between two rounds, at least, and what chance may add.
const PAUSE_MS: (u64, u64) = (900, 2_200);
/// How long the end may go on without one row fewer: a takeover, a stale wait or two, back-offs.
const PROGRESS_WITHIN: Duration = Duration::from_secs(90);
/// How long the end may take in all.
const DRAINED_WITHIN: Duration = Duration::from_secs(600);

/// Durations that are short and pass the rules, and what the functions run with beside them.
const SETTINGS: &[(&str, &str)] = &[
    ("FENCEPOST_LEASE", LEASE),
    ("FENCEPOST_LEASE_TABLE", "crash-lease"),
    ("FENCEPOST_OUTBOX_TABLE", "crash-outbox"),
    ("FENCEPOST_SHARDS", "4"),
    ("FENCEPOST_SHARDS_PER_GROUP", "2"),
    ("FENCEPOST_PROFILE", "fast"),
    ("FENCEPOST_LEASE_TTL", "10s"),
    ("FENCEPOST_RENEW_INTERVAL", "2500ms"),
    ("FENCEPOST_JITTER", "100ms"),
    ("FENCEPOST_RENEW_CALL_TIMEOUT", "3s"),
    ("FENCEPOST_TICK_INTERVAL", "1s"),
    ("FENCEPOST_CLAIM_BUDGET", "4s"),
    ("FENCEPOST_SEND_TIMEOUT", "1500ms"),
    ("FENCEPOST_STEP_DOWN_GRACE", "6s"),
    ("FENCEPOST_DRAINER_LIMIT", "8s"),
    ("FENCEPOST_STALE_CLAIM_DURATION", "13s"),
    ("FENCEPOST_BACKOFF_BASE", "200ms"),
    ("FENCEPOST_BACKOFF_MAX", "2s"),
    // A page is done quickly, so that each call gets some rows through on a slow machine too.
    ("FENCEPOST_PAGE_ROWS", "20"),
    ("FENCEPOST_LOG", "warn"),
    ("AWS_REGION", REGION),
    ("AWS_ACCESS_KEY_ID", "test"),
    ("AWS_SECRET_ACCESS_KEY", "test"),
    ("AWS_EC2_METADATA_DISABLED", "true"),
    ("AWS_CONFIG_FILE", "/dev/null"),
    ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null"),
    // Nobody listens there: a call to another service fails at once.
    ("AWS_ENDPOINT_URL", "http://127.0.0.1:9"),
];

/// The functions' own time limit.
const LIMIT: Duration = Duration::from_secs(8);

/// How many processes of a function an instance runs at once, those left out that are frozen.
const fn concurrency(function: Function) -> usize {
    match function {
        Function::Ingest => 2,
        Function::Lease | Function::Drainer => 3,
    }
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Rounds.
    pub rounds: u64,
    /// Chooses what is done.
    pub seed: u64,
    /// The folder of the compiled functions.
    pub functions: PathBuf,
    /// The folder for history and logs; removed again where nothing is wrong.
    pub evidence: PathBuf,
}

/// What went wrong before anything could be judged.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The services of a run, all in this process.
struct Services {
    tables: TableServer,
    queue: QueueServer,
    queue_url: String,
    clients: Clients,
}

impl Services {
    async fn start() -> Result<Self, Failure> {
        let loopback = "127.0.0.1:0".parse()?;
        let tables = TableServer::start(loopback, TableStorage::Memory)?;
        let clock = SystemClock::new();
        let queue = QueueServer::start(loopback, QueueStorage::Memory, Arc::new(move || clock.now().wall.as_ms()))?;
        let queue_url = queue.create_queue(QUEUE, &[])?;
        let clients = Clients::load(ClientOptions::loopback(tables.endpoint_url(), REGION)).await?;
        let names = TableNames { lease: "crash-lease".to_owned(), outbox: "crash-outbox".to_owned() };
        create_tables(&clients, &names).await?;
        Ok(Self { tables, queue, queue_url, clients })
    }

    fn launches(&self, instance: &str, options: &Options) -> Result<BTreeMap<&'static str, Launch>, Failure> {
        let mut launches = BTreeMap::new();
        for function in Function::ALL {
            let program = program(&options.functions, function)?;
            let mut settings: Vec<_> =
                SETTINGS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            settings.push(("FENCEPOST_INSTANCE".to_owned(), instance.to_owned()));
            settings.push(("FENCEPOST_STACK".to_owned(), format!("stack-{instance}")));
            settings.push(("FENCEPOST_QUEUE_URL".to_owned(), self.queue_url.clone()));
            let launch = Launch {
                program,
                settings,
                limit: LIMIT,
                tables_url: self.tables.endpoint_url(),
                queue_url: self.queue.endpoint_url(),
                logs: options.evidence.clone(),
            };
            launches.insert(function.as_str(), launch);
        }
        Ok(launches)
    }
}

/// The compiled function, which must be there: a run without it would prove nothing.
fn program(folder: &Path, function: Function) -> Result<PathBuf, Failure> {
    let path = folder.join(format!("fencepost-{}", function.as_str()));
    if path.is_file() {
        return Ok(path);
    }
    Err(format!("{} is missing: build it, or name its folder with --functions", path.display()).into())
}

/// How often each fault befalls a request, in thousandths, all through the rounds.
fn rates() -> Rates {
    let (short, long) = (Duration::from_millis(150), Duration::from_millis(900));
    let tables = vec![
        (Fault::DropBefore, 8),
        (Fault::DropAfter, 12),
        (Fault::DelayBefore(short), 12),
        (Fault::DelayAfter(short), 12),
        (Fault::DelayAfter(long), 4),
        (Fault::FailBefore, 8),
        (Fault::FailAfter, 12),
        (Fault::Throttle, 12),
        (Fault::Deny, 2),
        (Fault::BlackHole, 3),
        (Fault::BlackHoleAfter, 3),
        (Fault::ApplyLate(LATE_PACKET), 8),
    ];
    let queue = vec![
        (Fault::DropBefore, 20),
        (Fault::DropAfter, 40),
        (Fault::DelayAfter(short), 20),
        (Fault::FailBefore, 20),
        (Fault::FailAfter, 40),
        (Fault::Throttle, 20),
        (Fault::BlackHoleAfter, 10),
        (Fault::ApplyLate(LATE_PACKET), 10),
    ];
    Rates { tables, queue }
}

/// Runs all rounds and judges them. `say` is told of the progress.
///
/// # Errors
/// What keeps the run from being one: a program that is missing, a port or a folder that cannot be had. A broken promise is
/// no error but stands in the [`Report`].
pub async fn run(options: &Options, say: impl Fn(&str)) -> Result<Report, Failure> {
    let began = Instant::now();
    std::fs::create_dir_all(&options.evidence)?;
    let services = Services::start().await?;
    let (rows, new_rows) = mpsc::unbounded_channel();
    let ledger = Arc::new(Ledger::new(File::create(options.evidence.join("history.jsonl"))?, rows));
    let tap = Arc::new(Tap::new({
        let ledger = Arc::clone(&ledger);
        move |exchange| ledger.see(exchange)
    }));
    let site = Arc::new(Site {
        machines: Machines::parse()?,
        tap: Arc::clone(&tap),
        rates: Mutex::new(rates()),
        seed: options.seed,
        started: AtomicU64::new(1),
        failed: Mutex::default(),
    });
    let mut instances = Vec::new();
    for name in ["a", "b", "c"] {
        instances.push(Arc::new(Instance::new(name, Arc::clone(&site), services.launches(name, options)?)));
    }
    // Ends with this function, and with it every execution and process.
    let mut background = JoinSet::new();
    for instance in &instances {
        background.spawn(Arc::clone(instance).keep_schedules());
    }
    background.spawn(wake(instances.clone(), new_rows));

    let tally = Arc::new(Tally::default());
    let mut trouble = Trouble {
        dice: Chance::new(options.seed),
        instances: instances.clone(),
        ledger: Arc::clone(&ledger),
        tally: Arc::clone(&tally),
        pending: JoinSet::new(),
    };
    let mut publisher = publisher::Publisher::new(options.seed, instances.clone());
    for round in 1..=options.rounds {
        let pause = PAUSE_MS.0 + trouble.dice.below(PAUSE_MS.1);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        // Just before, so that there is work in flight for the trouble to meet.
        publisher.publish();
        trouble.strike().await;
        if round % 10 == 0 || round == options.rounds {
            say(&progress(round, options, &ledger, began));
        }
        if !ledger.violations().is_empty() {
            say(&format!("round {round}: a promise is broken, ending the rounds"));
            break;
        }
    }
    while trouble.pending.join_next().await.is_some() {}
    instances.iter().for_each(|instance| instance.calm());
    let published = publisher.finish().await;
    say("the faults are over; draining");
    let world = verdict::World { services: &services, ledger: &ledger, tap: &tap };
    let drained = world.wait_until_drained(LATE_PACKET).await?;
    let executions_failed = site.failed.lock().map(|failed| failed.clone()).unwrap_or_default();
    let processes = site.started.load(std::sync::atomic::Ordering::SeqCst) - 1;
    let violations = world.judge(&published, drained).await?;
    background.shutdown().await;
    Ok(report::gather(
        options,
        &ledger,
        &tally,
        &published,
        violations,
        report::Rest {
            faults: tap.faults(),
            queue_copies: services.queue.messages(QUEUE).len(),
            executions_failed,
            processes,
            took: began.elapsed(),
        },
    ))
}

fn progress(round: u64, options: &Options, ledger: &Ledger, began: Instant) -> String {
    let counts = ledger.counts();
    format!(
        "round {round} of {}: {} commits, {} takeovers, {} second sends, {}s",
        options.rounds,
        counts.commits,
        counts.takeovers,
        counts.second_sends,
        began.elapsed().as_secs(),
    )
}

/// The stream of the outbox: new rows wake the drainer of every instance, as its event source mapping would.
async fn wake(instances: Vec<Arc<Instance>>, mut rows: mpsc::UnboundedReceiver<RowKey>) {
    let mut batch = Vec::new();
    while rows.recv_many(&mut batch, 100).await > 0 {
        let records: Vec<Value> = batch.drain(..).map(|key| stream_record(&key)).collect();
        for instance in &instances {
            let (instance, event) = (Arc::clone(instance), json!({ "Records": records }));
            // What a failed wake leaves is the schedule's.
            drop(tokio::spawn(async move { instance.invoke(Function::Drainer, event).await }));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn stream_record(key: &RowKey) -> Value {
    json!({
        "eventName": "INSERT",
        "eventSource": "aws:dynamodb",
        "dynamodb": {
            "Keys": { "shard": { "S": key.shard.to_string() }, "position": { "S": key.position.to_string() } },
            "StreamViewType": "KEYS_ONLY",
        },
    })
}
