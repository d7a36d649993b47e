//! Building the SDK's configuration and its clients, once, in the init phase of a function.
//!
//! Region, credentials and endpoints come from where the SDK looks for them (`AWS_REGION`, `AWS_ENDPOINT_URL` and
//! `AWS_ENDPOINT_URL_<SERVICE>`, the credential chain), unless [`ClientOptions`] states them: the one-machine world does.
//! The instance metadata service is asked once and briefly for credentials, and never for a region: a laptop without
//! either learns so at once.

use std::time::Duration;

use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::imds;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::ProfileFileRegionProvider;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::Credentials;
use fencepost_protocol::failure::FailureKind;

use crate::StoreError;

/// How the product shows in AWS' own logs (the user agent).
const APP_NAME: &str = "fencepost";
/// A connection that is not made within this time is not made at all; the call's own time-outs bound the rest.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the instance metadata service may take; where there is one, it is on the same host.
const METADATA_TIMEOUT: Duration = Duration::from_millis(300);

/// What to use instead of the environment. The default uses the environment for everything.
#[derive(Clone, Default)]
pub struct ClientOptions {
    /// The region, for example `eu-west-1`.
    pub region: Option<String>,
    /// One endpoint for every service, for example `http://127.0.0.1:8000`. Wins over `AWS_ENDPOINT_URL` and over
    /// `AWS_ENDPOINT_URL_<SERVICE>`.
    pub endpoint_url: Option<String>,
    /// Fixed keys, for a world that takes any.
    pub credentials: Option<FixedCredentials>,
}

/// An access key that stands in the program: only for worlds that do not check it.
#[derive(Clone)]
pub struct FixedCredentials {
    /// The access key id.
    pub access_key_id: String,
    /// The secret access key.
    pub secret_access_key: String,
}

impl std::fmt::Debug for ClientOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ClientOptions")
            .field("region", &self.region)
            .field("endpoint_url", &self.endpoint_url)
            .field("credentials", &self.credentials.as_ref().map(|_| "fixed"))
            .finish()
    }
}

impl std::fmt::Debug for FixedCredentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("FixedCredentials").finish_non_exhaustive()
    }
}

impl ClientOptions {
    /// Everything on one loopback endpoint, with keys that nobody checks.
    pub fn loopback(endpoint_url: impl Into<String>, region: impl Into<String>) -> Self {
        Self {
            region: Some(region.into()),
            endpoint_url: Some(endpoint_url.into()),
            credentials: Some(FixedCredentials {
                access_key_id: "loopback".to_owned(),
                secret_access_key: "loopback".to_owned(),
            }),
        }
    }
}

/// The SDK's configuration, from which every adapter builds its client. Cheap to clone.
///
/// The DynamoDB client is built here and shared by the adapters, so that they share its connections: one TLS handshake at
/// a cold start, not one for each table.
#[derive(Clone)]
pub struct Clients {
    config: SdkConfig,
    dynamodb: aws_sdk_dynamodb::Client,
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Clients")
            .field("region", &self.config.region())
            .field("endpoint_url", &self.config.endpoint_url())
            .finish_non_exhaustive()
    }
}

impl Clients {
    /// Loads the configuration. Opens no connection.
    ///
    /// # Errors
    /// [`FailureKind::Invalid`] where neither the options, `AWS_REGION` nor the profile name a region.
    pub async fn load(options: ClientOptions) -> Result<Self, StoreError> {
        let invalid = |detail: String| StoreError::new(FailureKind::Invalid, "client configuration", detail);
        let region = RegionProviderChain::first_try(options.region.map(Region::new))
            .or_else(EnvironmentVariableRegionProvider::new())
            .or_else(ProfileFileRegionProvider::new())
            .region()
            .await
            .ok_or_else(|| invalid("no region: set AWS_REGION, or a region in the AWS profile".to_owned()))?;
        let app_name = AppName::new(APP_NAME).map_err(|error| invalid(error.to_string()))?;
        // Every call is small, buffered and bounded by a time-out for each try, which is stricter than a watch on the flow
        // of bytes.
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .region(region.clone())
            .app_name(app_name)
            .timeout_config(TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT).build())
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
        if let Some(url) = options.endpoint_url {
            loader = loader.endpoint_url(url);
        }
        loader = match options.credentials {
            Some(keys) => loader.credentials_provider(Credentials::new(
                keys.access_key_id,
                keys.secret_access_key,
                None,
                None,
                "fixed",
            )),
            None => loader.credentials_provider(credential_chain(region).await),
        };
        let config = loader.load().await;
        let dynamodb = aws_sdk_dynamodb::Client::new(&config);
        Ok(Self { config, dynamodb })
    }

    /// For tests: the same without anything to sign with.
    #[cfg(test)]
    pub(crate) fn without_credentials(self) -> Self {
        use aws_credential_types::provider::error::CredentialsError;
        use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};

        #[derive(Debug)]
        struct Nothing;
        impl ProvideCredentials for Nothing {
            fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
            where
                Self: 'a,
            {
                future::ProvideCredentials::ready(Err(CredentialsError::not_loaded("this provider has none")))
            }
        }

        let provider = SharedCredentialsProvider::new(Nothing);
        let config = self.config.to_builder().credentials_provider(provider).build();
        let dynamodb = aws_sdk_dynamodb::Client::new(&config);
        Self { config, dynamodb }
    }

    pub(crate) fn config(&self) -> &SdkConfig {
        &self.config
    }

    pub(crate) fn dynamodb(&self) -> &aws_sdk_dynamodb::Client {
        &self.dynamodb
    }
}

/// The SDK's own chain, except that it does not wait long for an instance metadata service that is not there.
async fn credential_chain(region: Region) -> DefaultCredentialsChain {
    let metadata = imds::Client::builder()
        .max_attempts(1)
        .connect_timeout(METADATA_TIMEOUT)
        .read_timeout(METADATA_TIMEOUT)
        .operation_timeout(METADATA_TIMEOUT)
        .build();
    DefaultCredentialsChain::builder().region(region).imds_client(metadata).build().await
}
