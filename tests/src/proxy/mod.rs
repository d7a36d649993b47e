//! A reverse proxy on loopback that spoils traffic on purpose. It stands between an SDK client and the embedded DynamoDB
//! (`fencepost_local::table_server`) or the local SQS (`fencepost_local::queue`), speaks HTTP/1.1 and is meant for loopback
//! only.
//!
//! ```no_run
//! # async fn example(server: fencepost_local::table_server::TableServer) -> std::io::Result<()> {
//! use fencepost_tests::proxy::{Fault, Match, Proxy, Times};
//!
//! let proxy = Proxy::start("tables", &server.endpoint_url()).await?;
//! // An SDK client that is given `proxy.endpoint_url()` now talks through it, for example one built from
//! // `ClientOptions::loopback(proxy.endpoint_url(), "eu-west-1")`.
//!
//! // The second UpdateItem from now on is applied, and its reply is lost.
//! let lost = proxy.place(Match::operation("UpdateItem"), Times::Nth(2), Fault::DropAfter);
//! // Every batch that deletes rows (a commit) is throttled, until `clear`.
//! proxy.place(Match::operation("BatchExecuteStatement").containing("DELETE FROM"), Times::Always, Fault::Throttle);
//! // Of all requests that no placed fault takes, by a seeded dice: 2 % and 1 %.
//! proxy.set_rates(7, &[(Fault::DropBefore, 20), (Fault::FailAfter, 10)]);
//! // … calls …
//! assert_eq!(lost.hits(), 1);
//! assert_eq!(proxy.count("UpdateItem"), 3, "the SDK's own retries are requests like others");
//! # Ok(()) }
//! ```
//!
//! Guarantees:
//! - A fault says for certain whether the request was applied ([`Fault`]). What is forwarded reaches the service even if the
//!   client gives up, dies or is frozen meanwhile, as a packet in flight would.
//! - Faults are chosen in the order in which requests arrived. A placed fault goes before the dice, and of several placed
//!   ones that meet a request the one placed first is taken; the dice is thrown once for each request.
//! - With a [`Tap`], writes through every proxy that shares it are applied one after another, and the tap sees each with its
//!   true reply, in that order, before the client sees anything. Reads pass by it.
//!
//! What must stay out: what the traffic means, and TLS.

mod fault;
mod plan;
mod reply;
mod tap;
#[cfg(test)]
mod tests;
mod upstream;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

pub use fault::{Edit, Fault, Gate};
pub use plan::{Match, Placement, Times};
pub use tap::{Exchange, Tap};

use plan::Plan;
use upstream::Upstream;

/// A request that arrived, whole.
#[derive(Debug, Clone)]
pub struct Arrived {
    /// The last part of `X-Amz-Target`, for example `UpdateItem`; empty where there is no such header.
    pub operation: String,
    /// The body as it came.
    pub body: Bytes,
    target: String,
    head: hyper::http::request::Parts,
}

impl Arrived {
    async fn read(request: Request<Incoming>) -> Result<Self, hyper::Error> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let target = head.headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        Ok(Self { operation, body, target: target.to_owned(), head })
    }

    /// Is it anything but a read?
    fn may_write(&self) -> bool {
        let reads = ["Get", "BatchGet", "Query", "Scan", "Describe", "List"];
        !reads.iter().any(|read| self.operation.starts_with(read))
    }

    /// The body as JSON; null where it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// A request in the proxy's journal.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The request.
    pub request: Arrived,
    /// What was done to it; `None`: nothing.
    pub fault: Option<Fault>,
}

/// A running proxy. Dropping it closes its port and its connections; what it was told to apply late is still applied.
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Proxy")
            .field("name", &self.shared.name)
            .field("addr", &self.addr)
            .finish_non_exhaustive()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

struct Shared {
    name: String,
    upstream: Upstream,
    plan: Mutex<Plan>,
    faults: Mutex<BTreeMap<&'static str, u64>>,
    /// Kept only where nobody taps: a long run would fill the memory.
    journal: Option<Mutex<Vec<Seen>>>,
    tap: Option<Arc<Tap>>,
}

impl Proxy {
    /// Starts a proxy called `name` on a free loopback port before `upstream_url` (`http://127.0.0.1:8000`). It keeps a
    /// journal of every request.
    ///
    /// # Errors
    /// The URL is no `http://` and address, or there is no free port.
    pub async fn start(name: &str, upstream_url: &str) -> std::io::Result<Self> {
        Self::serve(name, upstream_url, None).await
    }

    /// The same with a tap in the place of the journal.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_tapped(name: &str, upstream_url: &str, tap: Arc<Tap>) -> std::io::Result<Self> {
        Self::serve(name, upstream_url, Some(tap)).await
    }

    async fn serve(name: &str, upstream_url: &str, tap: Option<Arc<Tap>>) -> std::io::Result<Self> {
        let upstream = Upstream::new(upstream_url)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            upstream,
            plan: Mutex::default(),
            faults: Mutex::default(),
            journal: tap.is_none().then(Mutex::default),
            tap,
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { addr, shared, accepting })
    }

    /// The URL for the SDK.
    #[must_use]
    pub fn endpoint_url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Places `fault` at the `times` of the requests that match, counted from now on. It tells how often it was hit.
    pub fn place(&self, matching: Match, times: Times, fault: Fault) -> Placement {
        locked(&self.shared.plan).place(matching, times, fault)
    }

    /// Spoils, of every thousand requests that no placed fault takes, about so many with each fault, by a dice with this
    /// seed. Rates above 1,000 in all leave the last ones out. Replaces earlier rates.
    pub fn set_rates(&self, seed: u64, rates: &[(Fault, u32)]) {
        locked(&self.shared.plan).set_rates(seed, rates);
    }

    /// Takes back every placed fault and all rates.
    pub fn clear(&self) {
        *locked(&self.shared.plan) = Plan::default();
    }

    /// How often each kind of fault was injected so far.
    #[must_use]
    pub fn faults(&self) -> BTreeMap<&'static str, u64> {
        locked(&self.shared.faults).clone()
    }

    /// Every request so far, in the order of arrival, unless the proxy is tapped.
    #[must_use]
    pub fn journal(&self) -> Vec<Seen> {
        self.shared.journal.as_ref().map(|journal| locked(journal).clone()).unwrap_or_default()
    }

    /// How many requests of `operation` there were so far, unless the proxy is tapped.
    #[must_use]
    pub fn count(&self, operation: &str) -> usize {
        self.journal().iter().filter(|seen| seen.request.operation == operation).count()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Owned by this task: aborting it closes every connection.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(converse(stream, Arc::clone(&shared)));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn converse(stream: TcpStream, shared: Arc<Shared>) {
    drop(stream.set_nodelay(true));
    let service = service_fn(move |request| {
        let answer = answer(Arc::clone(&shared), request);
        async move { answer.await.map(|reply| reply.map(Full::new)) }
    });
    // An error is a connection that we cut, or that the client did.
    drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

/// Closes the connection where an answer was due.
#[derive(Debug)]
struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the connection is cut on purpose")
    }
}

impl std::error::Error for Cut {}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Bytes>, Cut> {
    let request = Arrived::read(request).await.map_err(|_| Cut)?;
    let fault = locked(&shared.plan).choose(&request);
    if let Some(journal) = &shared.journal {
        locked(journal).push(Seen { request: request.clone(), fault: fault.clone() });
    }
    if let Some(fault) = &fault {
        *locked(&shared.faults).entry(fault.kind()).or_default() += 1;
        if let Some(tap) = &shared.tap {
            tap.count(fault);
        }
    }
    let target = request.target.clone();
    let apply = |due: Due| apply(Arc::clone(&shared), request, fault.clone(), due);
    match fault.clone() {
        None => apply(Due::Now).await,
        Some(Fault::DropBefore) => Err(Cut),
        Some(Fault::DropAfter) => apply(Due::Now).await.and(Err(Cut)),
        Some(Fault::DelayBefore(delay)) => apply(Due::After(delay)).await,
        Some(Fault::HoldUntil(gate)) => apply(Due::Opened(gate)).await,
        Some(Fault::DelayAfter(delay)) => {
            let reply = apply(Due::Now).await;
            tokio::time::sleep(delay).await;
            reply
        }
        Some(Fault::ApplyLate(delay)) => {
            // Begun here; a future that nobody waits for goes on, because the work is a task of its own.
            drop(tokio::spawn(apply(Due::After(delay))));
            Err(Cut)
        }
        Some(Fault::FailBefore) => Ok(reply::internal(&target)),
        Some(Fault::FailAfter) => apply(Due::Now).await.map(|_| reply::internal(&target)),
        Some(Fault::Throttle) => Ok(reply::throttled(&target)),
        Some(Fault::Deny) => Ok(reply::denied(&target)),
        Some(Fault::BlackHole) => never().await,
        Some(Fault::BlackHoleAfter) => {
            drop(apply(Due::Now).await);
            never().await
        }
        Some(Fault::Edit(edit)) => apply(Due::Now).await.map(|reply| edit.applied_to(reply)),
    }
}

async fn never<T>() -> Result<T, Cut> {
    match std::future::pending::<Infallible>().await {}
}

/// When a request is forwarded.
enum Due {
    Now,
    After(Duration),
    Opened(Gate),
}

impl Due {
    async fn come(self) {
        match self {
            Self::Now => {}
            Self::After(delay) => tokio::time::sleep(delay).await,
            Self::Opened(gate) => gate.opened().await,
        }
    }
}

/// Forwards the request when it is due, as a task that outlives the client's connection, and gives the service's reply.
async fn apply(shared: Arc<Shared>, request: Arrived, fault: Option<Fault>, due: Due) -> Result<Response<Bytes>, Cut> {
    let forwarding = tokio::spawn(async move {
        due.come().await;
        let Some(tap) = shared.tap.as_ref().filter(|_| request.may_write()) else {
            return shared.upstream.send(&request).await;
        };
        let turn = tap.turn().await;
        let reply = shared.upstream.send(&request).await.inspect_err(|error| tap.miss(&request.operation, error))?;
        tap.show(
            &turn,
            &Exchange {
                proxy: &shared.name,
                operation: &request.operation,
                request: &request.body,
                status: reply.status().as_u16(),
                reply: reply.body(),
                fault: fault.as_ref(),
            },
        );
        Ok(reply)
    });
    match forwarding.await {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(_)) | Err(_) => Err(Cut),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
