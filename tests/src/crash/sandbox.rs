//! One process of one function, as the platform runs it: the shipped program, its environment, and the Lambda Runtime API
//! that hands it invocations and takes its answers. It reaches the services through proxies of its own.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fencepost_local::machine::TaskError;
use fencepost_runtime::clock::{Clock as _, SystemClock};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::proxy::{Fault, Proxy, Tap};

const PREFIX: &str = "/2018-06-01/runtime/";

/// What a process is started with.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    /// The compiled function.
    pub(super) program: PathBuf,
    /// Its settings.
    pub(super) settings: Vec<(String, String)>,
    /// The function's time limit.
    pub(super) limit: Duration,
    /// The true endpoints.
    pub(super) tables_url: String,
    /// The true endpoints.
    pub(super) queue_url: String,
    /// Where stdout and stderr go.
    pub(super) logs: PathBuf,
}

type Answer = Result<Value, TaskError>;

struct Order {
    input: Value,
    limit: Duration,
    answer: oneshot::Sender<Answer>,
}

/// A running process. Dropping it kills it.
pub(super) struct Sandbox {
    /// `<instance>/<function>/<number>`.
    pub(super) name: String,
    /// Between it and the tables.
    pub(super) tables: Proxy,
    /// Between it and the queue.
    pub(super) queue: Proxy,
    limit: Duration,
    orders: mpsc::Sender<Order>,
    signals: mpsc::UnboundedSender<Signal>,
    gone: watch::Receiver<bool>,
    busy: AtomicBool,
    frozen: AtomicBool,
    api: JoinHandle<()>,
    keeper: JoinHandle<()>,
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.api.abort();
        // The keeper owns the child, which is killed when it is dropped.
        self.keeper.abort();
    }
}

impl Sandbox {
    /// Starts the process called `name`.
    pub(super) async fn start(name: String, launch: &Launch, tap: &Arc<Tap>) -> std::io::Result<Self> {
        let tables = Proxy::start_tapped(&format!("{name}/tables"), &launch.tables_url, Arc::clone(tap)).await?;
        let queue = Proxy::start_tapped(&format!("{name}/queue"), &launch.queue_url, Arc::clone(tap)).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let file = name.replace('/', "-");
        let child = Command::new(&launch.program)
            .env_clear()
            .envs(launch.settings.iter().cloned())
            .env("AWS_LAMBDA_RUNTIME_API", listener.local_addr()?.to_string())
            .env("AWS_LAMBDA_FUNCTION_NAME", &file)
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "1")
            .env("AWS_ENDPOINT_URL_DYNAMODB", tables.endpoint_url())
            .env("AWS_ENDPOINT_URL_SQS", queue.endpoint_url())
            .stdin(Stdio::null())
            .stdout(File::create(launch.logs.join(format!("{file}.stdout")))?)
            .stderr(File::create(launch.logs.join(format!("{file}.stderr")))?)
            .kill_on_drop(true)
            // A group of its own: should the driver itself be killed, the kernel ends what is stopped in an orphaned group
            // (SIGHUP, SIGCONT); what runs ends by itself when the Runtime API is gone.
            .process_group(0)
            .spawn()?;
        let (orders, taken) = mpsc::channel(1);
        let (signals, signalled) = mpsc::unbounded_channel();
        let (went, gone) = watch::channel(false);
        let api = tokio::spawn(serve(
            listener,
            Arc::new(Api { taken: tokio::sync::Mutex::new(taken), open: Mutex::default() }),
        ));
        Ok(Self {
            name,
            tables,
            queue,
            limit: launch.limit,
            orders,
            signals,
            gone,
            busy: AtomicBool::new(false),
            frozen: AtomicBool::new(false),
            api,
            keeper: tokio::spawn(keep(child, signalled, went)),
        })
    }

    /// Hands it an invocation and waits for the answer, its death, or the function's time limit.
    pub(super) async fn invoke(&self, input: Value) -> Answer {
        self.busy.store(true, Ordering::SeqCst);
        let (answer, answered) = oneshot::channel();
        let order = Order { input, limit: self.limit, answer };
        let mut gone = self.gone.clone();
        let work = async {
            self.orders.send(order).await.map_err(|_| ()).ok()?;
            answered.await.ok()
        };
        let outcome = tokio::select! {
            biased;
            outcome = work => outcome.unwrap_or_else(|| Err(died())),
            _ = gone.wait_for(|gone| *gone) => Err(died()),
            () = tokio::time::sleep(self.limit) => Err(TaskError::new("Sandbox.Timedout", "the function's time limit is over")),
        };
        self.busy.store(false, Ordering::SeqCst);
        outcome
    }

    /// Is it in an invocation?
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst)
    }

    /// May it be given an invocation?
    pub(super) fn is_usable(&self) -> bool {
        self.is_alive() && !self.frozen.load(Ordering::SeqCst)
    }

    /// Does it exist still?
    pub(super) fn is_alive(&self) -> bool {
        !*self.gone.borrow()
    }

    /// SIGKILL.
    pub(super) fn kill(&self) {
        let _ = self.signals.send(Signal::KILL);
    }

    /// SIGSTOP. It is given no invocation any more.
    pub(super) fn stop(&self) {
        self.frozen.store(true, Ordering::SeqCst);
        let _ = self.signals.send(Signal::STOP);
    }

    /// SIGCONT. It ends what it had begun and is given nothing more.
    pub(super) fn go_on(&self) {
        let _ = self.signals.send(Signal::CONT);
    }

    /// Spoils its traffic at these rates, and takes back what was placed.
    pub(super) fn spoil(&self, seed: u64, tables: &[(Fault, u32)], queue: &[(Fault, u32)]) {
        self.tables.clear();
        self.queue.clear();
        self.tables.set_rates(seed, tables);
        self.queue.set_rates(seed ^ 1, queue);
    }
}

fn died() -> TaskError {
    TaskError::new("Runtime.ExitError", "the process ended")
}

/// Signals the process and waits for its end, in one task: a signal never meets a process that was waited for.
async fn keep(mut child: Child, mut signals: mpsc::UnboundedReceiver<Signal>, went: watch::Sender<bool>) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    loop {
        tokio::select! {
            _ = child.wait() => {
                let _ = went.send(true);
                return;
            }
            Some(signal) = signals.recv() => if let Some(pid) = pid {
                // It may have ended by itself; the wait above tells.
                let _ = kill_process(pid, signal);
            },
        }
    }
}

/// The Runtime API of one process.
struct Api {
    taken: tokio::sync::Mutex<mpsc::Receiver<Order>>,
    open: Mutex<HashMap<String, oneshot::Sender<Answer>>>,
}

async fn serve(listener: TcpListener, api: Arc<Api>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(converse(stream, Arc::clone(&api)));
    }
}

async fn converse(stream: TcpStream, api: Arc<Api>) {
    let service = service_fn(move |request| {
        let api = Arc::clone(&api);
        async move { Ok::<_, Infallible>(api.answer(request).await) }
    });
    drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

impl Api {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().strip_prefix(PREFIX).unwrap_or_default().to_owned();
        if path == "invocation/next" {
            return self.next().await;
        }
        let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let value: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let mut parts = path.split('/').skip(1);
        let (id, verb) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if let Some(waiting) = self.open().remove(id) {
            let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
            let answer = if verb == "response" {
                Ok(value)
            } else {
                Err(TaskError::new(text("errorType"), text("errorMessage")))
            };
            // Nobody waits where the time limit is over.
            drop(waiting.send(answer));
        }
        reply(StatusCode::ACCEPTED, Bytes::new())
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<Answer>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next invocation; a process without one waits, as in the pauses of the platform.
    async fn next(&self) -> Response<Full<Bytes>> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let Some(order) = self.taken.lock().await.recv().await else {
            return reply(StatusCode::GONE, Bytes::new());
        };
        let id = format!("r-{}", NUMBER.fetch_add(1, Ordering::SeqCst));
        let deadline = SystemClock::new().now().wall.plus(order.limit).as_ms().to_string();
        self.open().insert(id.clone(), order.answer);
        let mut next = reply(StatusCode::OK, Bytes::from(order.input.to_string()));
        let arn = "arn:aws:lambda:eu-west-1:000000000000:function:crash".to_owned();
        let headers = [
            ("lambda-runtime-aws-request-id", id),
            ("lambda-runtime-deadline-ms", deadline),
            ("lambda-runtime-invoked-function-arn", arn),
        ];
        for (name, value) in headers {
            if let Ok(value) = value.parse() {
                next.headers_mut().insert(name, value);
            }
        }
        next
    }
}

fn reply(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut reply = Response::new(Full::new(body));
    *reply.status_mut() = status;
    reply
}
