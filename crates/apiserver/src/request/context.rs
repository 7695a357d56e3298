//! The context of a request: its options, the warnings and audit annotations that are
//! collected while it is handled, and the seat that it holds.

use std::sync::{Mutex, MutexGuard, PoisonError};

use http::HeaderMap;
use insula_core::Space;
use insula_ownership::managers::agent;

use crate::flow_control::cpu_bound;
use crate::flow_control::{FlowControl, Seat, Work};
use crate::request::annotations::{Annotation, AnnotationOwner, Annotations};
use crate::request::negotiate;
use crate::request::query::Query;
use crate::status::Result;

/// The context of one request. It is created before the request is authorized and passed to
/// every layer below the handler, beside `Granted`.
#[derive(Debug, Default)]
pub struct RequestContext {
    field_manager: Option<String>,
    field_validation: Option<String>,
    user_agent: String,
    /// The credential of the request; `None` if the server itself acts.
    credential: Option<Box<dyn CredentialState>>,
    /// Written by webhooks that are called concurrently.
    notes: Mutex<Notes>,
    seat: tokio::sync::Mutex<Option<HeldSeat>>,
}

#[derive(Debug, Default)]
struct Notes {
    warnings: Vec<String>,
    annotations: Annotations,
}

/// The seat of a request, and what is needed to acquire it again.
#[derive(Debug)]
struct HeldSeat {
    flow_control: FlowControl,
    space: Space,
    work: Work,
    /// `None` while the request waits for a call that leaves the server.
    seat: Option<Seat>,
}

/// The most warnings that are kept of one request: a space may have any number of webhooks and
/// policies.
const MAX_WARNINGS: usize = 64;

/// Whether the credential of a request is still accepted, as the layer knows that authenticated
/// it.
#[async_trait::async_trait]
pub trait CredentialState: std::fmt::Debug + Send + Sync {
    /// Fails if the credential was taken away. Every change that this server acknowledged before
    /// is taken into account.
    async fn check(&self) -> Result<()>;

    /// Like [`check`](Self::check), from the cache and without waiting: for objects that were
    /// read from the same cache.
    fn check_cached(&self) -> Result<()>;
}

impl RequestContext {
    /// The context of a request with this query and these headers.
    pub fn new(query: &Query, headers: &HeaderMap) -> Self {
        Self {
            field_manager: query.get("fieldManager").map(str::to_owned),
            field_validation: query.get("fieldValidation").map(str::to_owned),
            user_agent: negotiate::agent(headers).to_owned(),
            ..Self::default()
        }
    }

    /// Sets the credential that the request was authenticated with.
    #[must_use]
    pub fn with_credential(mut self, credential: impl CredentialState + 'static) -> Self {
        self.credential = Some(Box::new(credential));
        self
    }

    /// The `fieldManager` of the query.
    pub fn requested_manager(&self) -> Option<&str> {
        self.field_manager.as_deref()
    }

    /// The `fieldValidation` of the query.
    pub fn field_validation(&self) -> Option<&str> {
        self.field_validation.as_deref()
    }

    /// The field manager of what the request sets: the requested one, or else the name of the
    /// client program.
    pub fn field_manager(&self) -> String {
        let requested = self.field_manager.clone().filter(|name| !name.is_empty());
        requested.unwrap_or_else(|| agent::name(&self.user_agent))
    }

    /// Adds warnings for the client. Each is sent once.
    pub fn warn(&self, warnings: impl IntoIterator<Item = String>) {
        let mut notes = self.notes();
        for warning in warnings {
            if notes.warnings.len() < MAX_WARNINGS && !notes.warnings.contains(&warning) {
                notes.warnings.push(warning);
            }
        }
    }

    /// Adds annotations of the audit event with keys that the server chose.
    pub fn annotate(
        &self,
        owner: AnnotationOwner,
        annotations: impl IntoIterator<Item = (String, String)>,
    ) {
        let mut notes = self.notes();
        for (key, value) in annotations {
            notes.annotations.add(Annotation { key, value, owner });
        }
    }

    /// Adds annotations of the audit event with keys that their owner chose. Those that only the
    /// server may have are left out.
    pub fn annotate_configured(
        &self,
        owner: AnnotationOwner,
        annotations: impl IntoIterator<Item = (String, String)>,
    ) {
        let mut notes = self.notes();
        for (key, value) in annotations {
            let annotation = Annotation { key, value, owner };
            notes.annotations.add_configured(annotation);
        }
    }

    /// Takes the warnings for the client.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.notes().warnings)
    }

    /// Takes the annotations of the audit event.
    pub fn take_annotations(&self) -> Vec<Annotation> {
        self.notes().annotations.take()
    }

    /// Acquires a seat for the work. It is held until [`release_seat`](Self::release_seat).
    ///
    /// # Errors
    ///
    /// If too many requests wait for one.
    pub async fn acquire_seat(
        &self,
        flow_control: &FlowControl,
        space: &Space,
        work: Work,
    ) -> Result<()> {
        let seat = flow_control.acquire(space, work).await?;
        *self.seat.lock().await = Some(HeldSeat {
            flow_control: flow_control.clone(),
            space: space.clone(),
            work,
            seat: Some(seat),
        });
        Ok(())
    }

    /// Releases the seat.
    pub async fn release_seat(&self) {
        *self.seat.lock().await = None;
    }

    /// Waits for a call that leaves the server. The peer decides how long that takes, so the
    /// seat is released meanwhile, and the caller's credential checked again afterwards.
    ///
    /// # Errors
    ///
    /// If too many requests wait for a seat afterwards, or the credential was taken away.
    pub async fn without_seat<T>(&self, call: impl Future<Output = T>) -> Result<T> {
        if let Some(held) = self.seat.lock().await.as_mut() {
            held.seat = None;
        }
        let result = call.await;
        if let Some(held) = self.seat.lock().await.as_mut()
            && held.seat.is_none()
        {
            held.seat = Some(held.flow_control.acquire(&held.space, held.work).await?);
        }
        self.check_credential().await?;
        Ok(result)
    }

    /// Fails if the credential of the request was taken away meanwhile.
    ///
    /// # Errors
    ///
    /// 401 if it was.
    pub async fn check_credential(&self) -> Result<()> {
        match &self.credential {
            Some(credential) => credential.check().await,
            None => Ok(()),
        }
    }

    /// Like [`check_credential`](Self::check_credential), without waiting for the cache: for
    /// objects that were read from it.
    ///
    /// # Errors
    ///
    /// 401 if the credential was taken away.
    pub fn check_credential_cached(&self) -> Result<()> {
        let credential = self.credential.as_ref();
        credential.map_or(Ok(()), |credential| credential.check_cached())
    }

    /// Runs CPU-bound work with a heavy seat of the space that the request is charged to.
    ///
    /// # Errors
    ///
    /// If too many requests wait for such a seat.
    pub async fn cpu_bound<T>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let held = self.seat.lock().await;
        // A request with a heavy seat must not wait for another: it could wait for itself.
        let payer = held
            .as_ref()
            .filter(|held| !held.work.is_heavy())
            .map(|held| (held.flow_control.clone(), held.space.clone()));
        drop(held);
        match payer {
            Some((flow_control, space)) => {
                cpu_bound::run_with_seat(&flow_control, &space, work).await
            }
            None => Ok(cpu_bound::run_blocking(work)),
        }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs CPU-bound work of a request, or of the server itself, which needs no seat.
///
/// # Errors
///
/// If too many requests wait for a seat.
pub async fn cpu_bound<T>(
    context: Option<&RequestContext>,
    work: impl FnOnce() -> T + Send,
) -> Result<T> {
    match context {
        Some(context) => context.cpu_bound(work).await,
        None => Ok(cpu_bound::run_blocking(work)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::flow_control::{LimitTable, Limits};

    #[tokio::test]
    async fn request_holds_no_seat_while_it_waits_for_a_call() {
        let flow_control = FlowControl::new(
            &Limits::default(),
            &Arc::new(LimitTable::new(&Limits::default())),
        );
        let used = || {
            let seat_stats = flow_control.seat_stats();
            let writes = seat_stats.iter().find(|(name, _)| *name == "write");
            writes.map(|(_, stats)| stats.used)
        };
        let context = RequestContext::default();
        let work = Work::Write { objects: 1 };
        context
            .acquire_seat(&flow_control, &Space::System, work)
            .await
            .unwrap();
        assert_eq!(used(), Some(1));
        let meanwhile = context.without_seat(async { used() }).await.unwrap();
        assert_eq!((meanwhile, used()), (Some(0), Some(1)));
        context.release_seat().await;
        assert_eq!(used(), Some(0));
    }

    #[test]
    fn warnings_are_kept_once() {
        let context = RequestContext::default();
        context.warn(["w".to_owned(), "w".to_owned()]);
        assert_eq!(context.take_warnings(), ["w"]);
    }
}
