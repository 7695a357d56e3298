//! The shared state of all reconciliations.

use std::sync::atomic::{AtomicBool, Ordering};

use insula_operator::event::EventRateLimit;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;

use crate::error::Error;
use crate::mode;

/// The shared state of all reconciliations.
pub(super) struct Context {
    pub client: Client,
    pub identity: String,
    pub definitions: Vec<CustomResourceDefinition>,
    pub event_rate_limit: EventRateLimit,
    serves_spaces: AtomicBool,
}

impl Context {
    pub fn new(
        client: Client,
        identity: String,
        definitions: Vec<CustomResourceDefinition>,
    ) -> Self {
        Self {
            client,
            identity,
            definitions,
            event_rate_limit: EventRateLimit::default(),
            serves_spaces: AtomicBool::new(false),
        }
    }

    /// Returns whether the server is the system space of an Insula. A positive answer is cached,
    /// since it does not change.
    pub async fn serves_spaces(&self) -> Result<bool, Error> {
        if self.serves_spaces.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let serves = mode::has_spaces(&self.client).await?;
        self.serves_spaces.store(serves, Ordering::Relaxed);
        Ok(serves)
    }
}
