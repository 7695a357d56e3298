//! An operator that starts anew when its settings change.

use kube::Client;
use tokio::sync::watch;
use tracing::error;

use super::missing_rights;
use super::run::{NotStarted, Operator, check, run};
use crate::settings::Settings;

/// Runs an operator until the stop signal, with the newest settings that it can run with.
///
/// # Errors
///
/// If it cannot run with the first settings, or with the definitions of the server.
pub async fn run_reloading(
    client: Client,
    mut settings: watch::Receiver<Settings>,
    operator: impl Fn(Settings) -> Operator,
    stop: impl Future<Output = ()>,
) -> Result<(), NotStarted> {
    let mut stop = std::pin::pin!(stop);
    let mut current = operator(settings.borrow_and_update().clone());
    loop {
        let mut next = None;
        let until = async {
            tokio::select! {
                () = &mut stop => {}
                changed = next_valid(&client, &mut settings, &operator) => next = Some(changed),
            }
        };
        let namespaces = current.shell.namespaces.clone();
        let checking = tokio::spawn(missing_rights::report(client.clone(), namespaces));
        let ended = run(client.clone(), current, until).await;
        checking.abort();
        ended?;
        match next {
            Some(next) => current = next,
            None => return Ok(()),
        }
    }
}

/// Waits for settings that the operator can run with.
async fn next_valid(
    client: &Client,
    settings: &mut watch::Receiver<Settings>,
    operator: &impl Fn(Settings) -> Operator,
) -> Operator {
    while settings.changed().await.is_ok() {
        let next = operator(settings.borrow_and_update().clone());
        match check(client, &next) {
            Ok(()) => return next,
            Err(error) => error!(%error, "settings refused, the previous ones stay in use"),
        }
    }
    // Nothing changes them any more.
    std::future::pending().await
}
