//! What comes about on a request's way, beside its answer: what others want the caller and
//! the log to know, and the seat that is given back while somebody else is waited for.

use std::sync::{Mutex, PoisonError};

use insula_core::Space;
use insula_ownership::managers::agent;

use crate::flow_control::cpu_bound;
use crate::flow_control::{Seat, Shares, Work};
use crate::status::Result;

/// What comes about on a request's way.
#[derive(Debug, Default)]
pub struct Errand {
    noted: Mutex<Noted>,
    /// Taken again by one at a time.
    chair: tokio::sync::Mutex<Option<Chair>>,
}

#[derive(Debug, Default)]
struct Noted {
    warnings: Vec<String>,
    annotations: Vec<(String, String)>,
    manager: Option<String>,
    validation: Option<String>,
    agent: String,
}

/// The seat of a request, and where to get another.
#[derive(Debug)]
struct Chair {
    shares: Shares,
    space: Space,
    work: Work,
    seat: Option<Seat>,
}

/// How many warnings and annotations are kept of one request: those who write them are many,
/// and the caller and the log are one each.
const MOST: usize = 64;

impl Errand {
    /// Somebody wants the caller to know this.
    pub fn warn(&self, warnings: impl IntoIterator<Item = String>) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        for warning in warnings {
            // Nobody needs to be told twice.
            if noted.warnings.len() < MOST && !noted.warnings.contains(&warning) {
                noted.warnings.push(warning);
            }
        }
    }

    /// Somebody wants the log to know this. What was said first under a name stays.
    pub fn annotate(&self, annotations: impl IntoIterator<Item = (String, String)>) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, value) in annotations {
            let known = noted.annotations.iter().any(|(known, _)| *known == key);
            if noted.annotations.len() < MOST && !known {
                noted.annotations.push((key, value));
            }
        }
    }

    /// What the caller should know.
    pub fn take_warnings(&self) -> Vec<String> {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut noted.warnings)
    }

    /// What the log should know.
    pub fn take_annotations(&self) -> Vec<(String, String)> {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut noted.annotations)
    }

    /// The caller calls itself so, and wants unknown fields to be treated so.
    pub fn asked(&self, manager: Option<&str>, validation: Option<&str>) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.manager = manager.map(str::to_owned);
        noted.validation = validation.map(str::to_owned);
    }

    /// What the caller calls itself, and how it wants unknown fields to be treated.
    pub fn said(&self) -> (Option<String>, Option<String>) {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        (noted.manager.clone(), noted.validation.clone())
    }

    /// The program of the caller calls itself so.
    pub fn came_by(&self, agent: &str) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        agent.clone_into(&mut noted.agent);
    }

    /// Who owns the fields that the caller sets: whom it says, or else its program.
    pub fn manager(&self) -> String {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let named = noted.manager.clone().filter(|name| !name.is_empty());
        named.unwrap_or_else(|| agent::name(&noted.agent))
    }

    /// Takes a seat for the work, which is given back with this value.
    pub async fn sit(&self, shares: &Shares, space: &Space, work: Work) -> Result<()> {
        let seat = shares.enter(space, work).await?;
        *self.chair.lock().await = Some(Chair {
            shares: shares.clone(),
            space: space.clone(),
            work,
            seat: Some(seat),
        });
        Ok(())
    }

    /// Waits for somebody else, without a seat: how long that takes is not in our hands.
    pub async fn away<T>(&self, wait: impl Future<Output = T>) -> Result<T> {
        if let Some(chair) = self.chair.lock().await.as_mut() {
            chair.seat = None;
        }
        let waited = wait.await;
        if let Some(chair) = self.chair.lock().await.as_mut()
            && chair.seat.is_none()
        {
            chair.seat = Some(chair.shares.enter(&chair.space, chair.work).await?);
        }
        Ok(waited)
    }

    /// Does something that takes long, when it is the space's turn.
    pub async fn toil<T>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let chair = self.chair.lock().await;
        // Who has such a seat already must not wait for another.
        let payer = chair
            .as_ref()
            .filter(|chair| !chair.work.is_heavy())
            .map(|chair| (chair.shares.clone(), chair.space.clone()));
        drop(chair);
        match payer {
            Some((shares, space)) => cpu_bound::in_turn(&shares, &space, work).await,
            None => Ok(cpu_bound::aside(work)),
        }
    }

    /// Gives the seat back.
    pub async fn stand_up(&self) {
        *self.chair.lock().await = None;
    }
}

/// Runs CPU-bound work in the turn of the request's space. What the server does on its own
/// behalf needs no turn.
///
/// # Errors
///
/// If too many requests wait for a turn.
pub async fn cpu_bound<T>(context: Option<&Errand>, work: impl FnOnce() -> T + Send) -> Result<T> {
    match context {
        Some(context) => context.toil(work).await,
        None => Ok(cpu_bound::aside(work)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow_control::Limits;

    #[tokio::test]
    async fn who_waits_for_somebody_else_has_no_seat() {
        let shares = Shares::new(&Limits::default());
        let used = || {
            let glances = shares.glances();
            let writes = glances.iter().find(|(name, _)| *name == "write");
            writes.map(|(_, glance)| glance.used)
        };
        let errand = Errand::default();
        let work = Work::Write { objects: 1 };
        errand.sit(&shares, &Space::System, work).await.unwrap();
        assert_eq!(used(), Some(1));
        let away = errand.away(async { used() }).await.unwrap();
        assert_eq!((away, used()), (Some(0), Some(1)));
        errand.stand_up().await;
        assert_eq!(used(), Some(0));
    }

    #[test]
    fn what_was_said_first_under_a_name_stays() {
        let errand = Errand::default();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        errand.annotate([pair("a", "1"), pair("a", "2"), pair("b", "3")]);
        assert_eq!(errand.take_annotations(), [pair("a", "1"), pair("b", "3")]);
        errand.warn(["w".to_owned(), "w".to_owned()]);
        assert_eq!(errand.take_warnings(), ["w"]);
    }
}
