//! The tables as the real SDK client sees them: an embedded DynamoDB, and before it a proxy that spoils chosen requests.
//!
//! The SDK waits in real time, in which nothing is decided. So its calls are given more of it than any machine needs
//! ([`patient`]), unless a test is about the time-outs themselves.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fencepost_local::table_server::{TableServer, TableStorage};
use fencepost_runtime::settings::Settings;
use fencepost_runtime::wiring::Stores;
use fencepost_storage::dynamodb::{TableNames, create_tables};
use fencepost_storage::{ClientOptions, Clients};

use crate::proxy::Proxy;

/// The region of every service.
pub const REGION: &str = "eu-west-1";
/// A free port on loopback.
pub const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// The tables' names as settings: longer than the harness's own, because DynamoDB wants three characters.
pub const TABLE_SETTINGS: [(&str, &str); 2] =
    [("FENCEPOST_LEASE_TABLE", "lease-table"), ("FENCEPOST_OUTBOX_TABLE", "outbox-table")];
/// How long a patient call waits; each of its tries a third of it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Both tables, and the proxy before them.
pub struct RealTables {
    /// The tables themselves.
    pub server: TableServer,
    /// What stands between the SDK and the tables.
    pub proxy: Proxy,
}

impl RealTables {
    /// Empty tables.
    ///
    /// # Panics
    /// There is no free port.
    pub async fn start() -> Self {
        let server = TableServer::start(ANY_PORT, TableStorage::Memory).expect("a table server");
        let proxy = Proxy::start("tables", &server.endpoint_url()).await.expect("a proxy");
        let tables = Self { server, proxy };
        tables.create_missing().await;
        tables
    }

    /// Makes the tables that are missing.
    ///
    /// # Panics
    /// They cannot be made.
    pub async fn create_missing(&self) {
        let clients = Clients::load(loopback(&self.server.endpoint_url())).await.expect("clients");
        let [(_, lease), (_, outbox)] = TABLE_SETTINGS.map(|(setting, name)| (setting, name.to_owned()));
        create_tables(&clients, &TableNames { lease, outbox }).await.expect("tables");
    }

    /// The adapters through the proxy, with the call time-outs of `settings`.
    ///
    /// # Panics
    /// The settings name no tables of these.
    pub async fn open(&self, settings: &Settings) -> Stores {
        Self::open_at(&self.proxy.endpoint_url(), settings).await
    }

    /// The adapters past the proxy, patient.
    ///
    /// # Panics
    /// The settings name no tables of these.
    pub async fn open_past_the_proxy(&self, settings: &Settings) -> Stores {
        Self::open_at(&self.server.endpoint_url(), &patient(settings)).await
    }

    async fn open_at(url: &str, settings: &Settings) -> Stores {
        let stores = Stores::open(settings, loopback(url), None).await.expect("adapters");
        // A reader who had rather not know than wait would make what is stamped a matter of the machine's speed.
        Stores { hasty_leases: Arc::clone(&stores.leases), ..stores }
    }
}

/// The same settings, under which calls to the services wait as long as it takes. For adapters only: who decides has the
/// settings themselves.
pub fn patient(settings: &Settings) -> Settings {
    let mut patient = settings.clone();
    patient.store_call_timeout = PATIENCE;
    patient.timing.renew_call_timeout = PATIENCE;
    patient.timing.send_timeout = PATIENCE;
    patient
}

/// One service at this address.
pub fn loopback(url: &str) -> ClientOptions {
    ClientOptions::loopback(url, REGION)
}
