//! Transient errors of API requests.

use std::time::Duration;

use kube::Error;
use tokio::time::Instant;

/// How long errors are tolerated during a wait: API servers fail over faster, and a client
/// that is cut off for good should learn it soon.
const MAX_OUTAGE: Duration = Duration::from_secs(2);

/// Tracks transient errors during a wait.
#[derive(Debug, Default)]
pub(crate) struct TransientErrors {
    since: Option<Instant>,
}

impl TransientErrors {
    /// Returns whether to retry after this error.
    pub(crate) fn tolerate(&mut self, error: &Error) -> bool {
        self.tolerate_at(error, Instant::now())
    }

    fn tolerate_at(&mut self, error: &Error, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        is_transient(error) && now.saturating_duration_since(since) < MAX_OUTAGE
    }

    /// Notes that the server has answered.
    pub(crate) fn reset(&mut self) {
        self.since = None;
    }
}

/// Returns whether a retry may succeed: the server could not be reached or is overloaded.
/// Every other refusal is final.
pub(crate) fn is_transient(error: &Error) -> bool {
    match error {
        Error::Api(status) => status.code == 429 || status.code >= 500,
        Error::HyperError(_) | Error::Service(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn answered(code: u16) -> Error {
        let status = Status::failure("no", "Reason").with_code(code);
        Error::Api(Box::new(status))
    }

    #[test]
    fn transient_errors_are_tolerated_for_a_limited_time() {
        let (mut transient, first) = (TransientErrors::default(), Instant::now());
        assert!(transient.tolerate_at(&answered(503), first));
        let reset = Error::Service("reset".into());
        assert!(transient.tolerate_at(&reset, first + MAX_OUTAGE / 2));
        let late = first + MAX_OUTAGE;
        assert!(
            !transient.tolerate_at(&reset, late),
            "it has lasted too long"
        );
        transient.reset();
        assert!(transient.tolerate_at(&answered(429), late));
        assert!(!transient.tolerate_at(&answered(403), late));
    }

    #[test]
    fn only_overload_and_server_errors_are_transient() {
        for (code, passes) in [
            (429, true),
            (500, true),
            (504, true),
            (403, false),
            (404, false),
        ] {
            assert_eq!(is_transient(&answered(code)), passes, "{code}");
        }
    }
}
