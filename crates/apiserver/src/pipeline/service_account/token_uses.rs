//! The last uses of legacy tokens, which are recorded by day in a label of their Secret.
//!
//! Verification must not wait for that write, so uses are queued here for a controller.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::registry::{Address, Registry};

/// The label with the day on which the token was last used.
pub const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";

/// The Secrets of recently used tokens.
#[derive(Debug, Default)]
pub struct TokenUses {
    /// By space and key.
    waiting: Mutex<HashMap<String, TokenUse>>,
    noted: Notify,
}

/// A use that is yet to be recorded in the Secret.
#[derive(Clone, Debug)]
pub struct TokenUse {
    /// The address of the Secret.
    pub secret: Address,
    /// The day, as the value of the label.
    pub day: String,
}

/// The most queued Secrets. Another is queued at its next use.
const MAX_PENDING: usize = 1024;

const DAY_SECONDS: i64 = 86_400;

impl TokenUses {
    /// Queues the use of a Secret's token.
    pub(super) fn note(&self, registry: &Registry, secret: Address, now: i64) {
        let days = [now, now.saturating_add(DAY_SECONDS)].map(day);
        let Some(found) = registry.cached(&secret) else {
            return;
        };
        // Clocks of servers differ: a label of tomorrow is not set back.
        let said = found.label(LAST_USED);
        if said.is_some_and(|said| days.iter().any(|day| day == said)) {
            return;
        }
        let [day, _] = days;
        let key = format!("{}/{}", secret.space, secret.within());
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MAX_PENDING || waiting.contains_key(&key) {
            waiting.insert(key, TokenUse { secret, day });
            self.noted.notify_one();
        }
    }

    /// Waits for uses and takes all of them.
    pub async fn take(&self) -> Vec<TokenUse> {
        loop {
            let noted = self.noted.notified();
            let taken: Vec<TokenUse> = {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut *waiting).into_values().collect()
            };
            if !taken.is_empty() {
                return taken;
            }
            noted.await;
        }
    }
}

/// Formats a day in UTC, as `2026-01-31`.
pub fn day(seconds: i64) -> String {
    let time = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    let text = time.to_string();
    text.split('T').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::day;

    #[test]
    fn day_is_in_utc() {
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(1_767_225_599), "2025-12-31");
        assert_eq!(day(1_767_225_600), "2026-01-01");
        assert_eq!(day(i64::MAX), "1970-01-01", "no such time");
    }
}
