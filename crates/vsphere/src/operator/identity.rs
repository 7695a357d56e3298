//! identity
use super::context::Context;
use super::key::Key;
use insula_operator::retry::Outcome;
pub(super) async fn reconcile(
    context: &Context,
    key: &Key,
    _failures: u32,
) -> Result<Outcome, kube::Error> {
    context.forget(key);
    Ok(Outcome::Gone)
}
