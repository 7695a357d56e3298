//! Faults on request.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;

use super::Effect;

/// How often a fault applies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Times {
    /// At the first matching sync only.
    Once,
    /// At every matching sync.
    Always,
}

/// Decides by the path, relative to the disk's root, whether a fault applies. The root itself is
/// the empty path.
pub(super) type Matches = Box<dyn Fn(&Path) -> bool + Send>;

#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Fault>);

struct Fault {
    matches: Matches,
    kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Fail { errno: Errno, times: Times },
    Ignore,
    Slow(Duration),
}

/// The result of one sync.
pub(super) struct SyncResult {
    pub(super) effect: Effect,
    pub(super) answer: Result<(), Errno>,
}

impl Faults {
    pub(super) fn add(&mut self, matches: Matches, kind: Kind) {
        self.0.push(Fault { matches, kind });
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The extra delay of a sync of `path`.
    pub(super) fn delay(&self, path: &Path) -> Option<Duration> {
        let delay = |fault: &Fault| match fault.kind {
            Kind::Slow(delay) if (fault.matches)(path) => Some(delay),
            _ => None,
        };
        self.0.iter().filter_map(delay).max()
    }

    /// Failing takes precedence over ignoring, and uses up a fault that applies once.
    pub(super) fn decide(&mut self, path: &Path) -> SyncResult {
        if let Some(errno) = self.fail(path) {
            return SyncResult {
                effect: Effect::Dropped,
                answer: Err(errno),
            };
        }
        let ignores = |fault: &Fault| matches!(fault.kind, Kind::Ignore) && (fault.matches)(path);
        let effect = if self.0.iter().any(ignores) {
            Effect::Nothing
        } else {
            Effect::Durable
        };
        SyncResult {
            effect,
            answer: Ok(()),
        }
    }

    fn fail(&mut self, path: &Path) -> Option<Errno> {
        let errno = |fault: &Fault| match fault.kind {
            Kind::Fail { errno, times } if (fault.matches)(path) => Some((errno, times)),
            _ => None,
        };
        let mut found = self.0.iter().enumerate();
        let (at, (errno, times)) = found.find_map(|(at, fault)| Some((at, errno(fault)?)))?;
        if times == Times::Once {
            self.0.remove(at);
        }
        Some(errno)
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}
