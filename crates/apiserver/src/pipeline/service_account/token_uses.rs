//! When tokens that are kept in secrets were last used.
//!
//! The secret says so, by the day, in a label. Whoever verifies a token must not wait until
//! that is written: what is to be written is noted here, and a loop writes it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::registry::{Address, Registry};

/// The label with the day on which the token was last used.
pub const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";

/// Secrets whose tokens were used.
#[derive(Debug, Default)]
pub struct TokenUses {
    /// By where they are.
    waiting: Mutex<HashMap<String, TokenUse>>,
    noted: Notify,
}

/// A use that the secret does not know of.
#[derive(Clone, Debug)]
pub struct TokenUse {
    /// The secret.
    pub secret: Address,
    /// The day, as it is written.
    pub day: String,
}

/// The most secrets that wait to be written. One more is noted when it is used again.
const MAX_PENDING: usize = 1024;

const DAY_SECONDS: i64 = 86_400;

impl TokenUses {
    /// The token in the secret is used now.
    pub(super) fn note(&self, registry: &Registry, secret: Address, now: i64) {
        let days = [now, now.saturating_add(DAY_SECONDS)].map(day);
        let Some(found) = registry.cached(&secret) else {
            return;
        };
        // Clocks differ: one that is ahead need not be put back every time.
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

    /// Waits until there are some, and takes them.
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

/// The day, as `2026-01-31`.
pub fn day(seconds: i64) -> String {
    let time = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    let text = time.to_string();
    text.split('T').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::day;

    #[test]
    fn a_day_is_that_of_greenwich() {
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(1_767_225_599), "2025-12-31");
        assert_eq!(day(1_767_225_600), "2026-01-01");
        assert_eq!(day(i64::MAX), "1970-01-01", "no such time");
    }
}
