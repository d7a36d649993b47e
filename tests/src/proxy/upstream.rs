//! The service behind the proxy, over a few connections that are kept.

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderValue, TRANSFER_ENCODING};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::{Arrived, locked};

/// Where a tap looks on, one write at a time is applied, so none may wait for ever.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Where requests go.
pub(super) struct Upstream {
    addr: SocketAddr,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

impl Upstream {
    /// The service at `url`. Opens no connection.
    pub(super) fn new(url: &str) -> std::io::Result<Self> {
        let bad =
            || Error::new(ErrorKind::InvalidInput, format!("upstream: {url} is not http:// with address and port"));
        let addr = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/')).ok_or_else(bad)?;
        Ok(Self { addr: addr.parse().map_err(|_| bad())?, idle: Mutex::default() })
    }

    /// Sends the request and gives the whole reply; an error where the service is silent for [`SILENCE_MAX`].
    pub(super) async fn send(&self, request: &Arrived) -> std::io::Result<Response<Bytes>> {
        let silent = |_| Error::new(ErrorKind::TimedOut, "the service behind the proxy does not answer");
        tokio::time::timeout(SILENCE_MAX, self.exchange(request)).await.map_err(silent)?
    }

    async fn exchange(&self, request: &Arrived) -> std::io::Result<Response<Bytes>> {
        let mut connection = self.connection().await?;
        let reply = connection.send_request(self.outgoing(request)?).await.map_err(Error::other)?;
        let (mut head, body) = reply.into_parts();
        let body = body.collect().await.map_err(Error::other)?.to_bytes();
        for hop in [CONNECTION, TRANSFER_ENCODING, CONTENT_LENGTH] {
            head.headers.remove(hop);
        }
        locked(&self.idle).push(connection);
        Ok(Response::from_parts(head, body))
    }

    fn outgoing(&self, request: &Arrived) -> std::io::Result<Request<Full<Bytes>>> {
        let path = request.head.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut outgoing = Request::new(Full::new(request.body.clone()));
        *outgoing.method_mut() = request.head.method.clone();
        *outgoing.uri_mut() = path.parse().map_err(Error::other)?;
        *outgoing.headers_mut() = request.head.headers.clone();
        for hop in [CONNECTION, TRANSFER_ENCODING, CONTENT_LENGTH] {
            outgoing.headers_mut().remove(hop);
        }
        let host = HeaderValue::from_str(&self.addr.to_string()).map_err(Error::other)?;
        outgoing.headers_mut().insert(HOST, host);
        Ok(outgoing)
    }

    /// A connection that was kept and is still open, or a new one.
    async fn connection(&self) -> std::io::Result<SendRequest<Full<Bytes>>> {
        loop {
            let kept = locked(&self.idle).pop();
            let Some(mut kept) = kept else { break };
            if kept.ready().await.is_ok() {
                return Ok(kept);
            }
        }
        let stream = TcpStream::connect(self.addr).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(Error::other)?;
        drop(tokio::spawn(connection));
        Ok(sender)
    }
}
