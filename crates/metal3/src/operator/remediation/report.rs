//! Events about a remediation, which has no conditions.

use insula_operator::event::NewEvent;

use super::RemediationReconciler;

impl RemediationReconciler<'_> {
    /// Records an event about the remediation.
    pub(super) async fn note(&self, reason: &'static str, note: impl Into<String>) {
        self.record(false, reason, note.into()).await;
    }

    /// Records an event about a problem.
    pub(super) async fn warn(&self, reason: &'static str, note: impl Into<String>) {
        self.record(true, reason, note.into()).await;
    }

    async fn record(&self, warning: bool, reason: &'static str, note: String) {
        let event = NewEvent {
            warning,
            reason,
            note,
        };
        self.of.record_event(&self.remediation.stored, event).await;
    }
}
