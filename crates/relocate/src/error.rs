//! Why something was not moved, and what to do about it.

use std::time::Duration;

/// Why something was not moved. Nothing that is told has a secret in it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server did not do what it was asked.
    #[error("cannot {attempted}: {}", told(source))]
    Server {
        /// What was to be done, as it follows "cannot".
        attempted: String,
        /// What became of it.
        #[source]
        source: Box<kube::Error>,
    },
    /// Both clients lead to the same objects.
    #[error("the source and the target are the same")]
    SamePlace,
    /// There is nothing to move.
    #[error("there is {} in namespace {namespace}", missing(cluster.as_deref()))]
    Nothing {
        /// Where it was looked for.
        namespace: String,
        /// What was looked for, if not everything.
        cluster: Option<String>,
    },
    /// Clusters are not fit to be moved.
    #[error("not everything can be moved:{}", in_lines(.0))]
    Unfit(Vec<String>),
    /// The target has no such kinds. Nothing was written.
    #[error("the target does not serve:{}", in_lines(.0))]
    NoKinds(Vec<String>),
    /// Something else has these names at the target.
    #[error("the target has others of these names:{}", in_lines(.0))]
    Taken(Vec<String>),
    /// Copies that somebody deletes. Whatever takes them for the order to destroy what they
    /// stand for must not be let go.
    #[error("being deleted at the target:{}", in_lines(.0))]
    Doomed(Vec<String>),
    /// Objects own each other in a circle.
    #[error("these own each other:{}", in_lines(.0))]
    Circle(Vec<String>),
    /// Controllers did not say that they have paused.
    #[error("not paused by their controllers after {}:{}", seconds(*after), in_lines(waiting))]
    Unpaused {
        /// How long it was waited.
        after: Duration,
        /// For what.
        waiting: Vec<String>,
    },
    /// Somebody has something to do before.
    #[error("still not to be moved after {}:{}", seconds(*after), in_lines(waiting))]
    Blocked {
        /// How long it was waited.
        after: Duration,
        /// For what.
        waiting: Vec<String>,
    },
    /// An object changes faster than it can be copied or deleted.
    #[error("{what} changes all the time")]
    Restless {
        /// Which.
        what: String,
    },
    /// It went no further, and could not be undone.
    #[error("{error}\nstill paused at the source:{}", in_lines(paused))]
    Held {
        /// Why it went no further.
        error: Box<Error>,
        /// What waits for a move that ends.
        paused: Vec<String>,
    },
}

impl Error {
    /// What was to be done, for `map_err`.
    pub fn when(attempted: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let attempted = attempted.into();
        move |source| Self::Server {
            attempted,
            source: Box::new(source),
        }
    }

    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Server { source, .. } => match source.as_ref() {
                kube::Error::Api(status) if status.code == 403 => {
                    "a move reads and writes Cluster API's objects and Secrets at both ends, and reads their definitions"
                }
                kube::Error::Api(_) => "run it again: it goes on where it was",
                _ => "is the server there? run it again, and it goes on where it was",
            },
            Self::SamePlace => "name the target with --to-kubeconfig and --to-context",
            Self::Nothing { .. } => "choose the namespace with -n",
            Self::Unfit(_) => "mend what it says, or wait, and run it again",
            Self::NoKinds(_) => "install the same providers at the target, and run it again",
            Self::Taken(_) => "they are nobody's copies: delete or rename them at the target",
            Self::Doomed(_) => {
                "as soon as they go on, what they stand for is destroyed: keep what you need of them, take their finalizers off there, and run it again"
            }
            Self::Circle(_) => "take the owner references off that should not be there",
            Self::Unpaused { .. } => {
                "is the controller running? run it again, or with --assume-paused if none runs at the source"
            }
            Self::Blocked { .. } => "see what their controllers say, and run it again",
            Self::Restless { .. } => "find out who changes it, and run it again",
            Self::Held { error, .. } => return error.hint(),
        })
    }
}

/// What a server said, or why it could not.
fn told(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

fn missing(cluster: Option<&str>) -> String {
    cluster.map_or_else(
        || "nothing to move".to_owned(),
        |name| format!("no cluster {name}"),
    )
}

fn in_lines(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n  {line}")).collect()
}

fn seconds(length: Duration) -> String {
    format!("{} s", length.as_secs())
}
