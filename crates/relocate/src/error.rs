//! Why a move failed, and what to do about it.

use std::time::Duration;

/// Why a move failed. No message contains a secret.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request to a server failed.
    #[error("cannot {attempted}: {}", reason(source))]
    Request {
        /// What was attempted, as it follows "cannot".
        attempted: String,
        /// How the request failed.
        #[source]
        source: Box<kube::Error>,
    },
    /// Both clients lead to the same server and space.
    #[error("the source and the target are the same")]
    SameServer,
    /// There is nothing to move.
    #[error("there is {} in namespace {namespace}", missing(cluster.as_deref()))]
    NothingToMove {
        /// The namespace that was searched.
        namespace: String,
        /// The cluster that was searched for, if not all.
        cluster: Option<String>,
    },
    /// Objects are in no state to be moved.
    #[error("not everything can be moved:{}", in_lines(.0))]
    NotMovable(Vec<String>),
    /// The target does not serve some kinds. Nothing was written.
    #[error("the target does not serve:{}", in_lines(.0))]
    KindsNotServed(Vec<String>),
    /// The target has objects of these names that are no copies.
    #[error("names already taken at the target:{}", in_lines(.0))]
    NameTaken(Vec<String>),
    /// Copies that are being deleted. They must stay paused: their controllers would destroy what
    /// they represent.
    #[error("being deleted at the target:{}", in_lines(.0))]
    CopyTerminating(Vec<String>),
    /// Owner references form a cycle.
    #[error("owner references form a cycle:{}", in_lines(.0))]
    OwnerCycle(Vec<String>),
    /// Controllers did not confirm in time that they have paused.
    #[error("not paused by their controllers after {}:{}", seconds(*after), in_lines(waiting))]
    PauseTimeout {
        /// How long the move waited.
        after: Duration,
        /// The objects that it waited for.
        waiting: Vec<String>,
    },
    /// Objects still had the annotation that blocks a move when the time was up.
    #[error("move still blocked after {}:{}", seconds(*after), in_lines(waiting))]
    BlockTimeout {
        /// How long the move waited.
        after: Duration,
        /// The objects that it waited for.
        waiting: Vec<String>,
    },
    /// Writes to an object conflicted too often.
    #[error("{what} kept changing")]
    KeepsChanging {
        /// The object, or the namespace.
        what: String,
    },
    /// The move failed and could not be rolled back.
    #[error("{error}\nstill paused at the source:{}", in_lines(paused))]
    StillPaused {
        /// Why it failed.
        error: Box<Error>,
        /// The clusters and classes that stay paused until a move completes.
        paused: Vec<String>,
    },
}

impl Error {
    /// Returns a `map_err` function that adds what was attempted.
    pub(crate) fn failed_to(attempted: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let attempted = attempted.into();
        move |source| Self::Request {
            attempted,
            source: Box::new(source),
        }
    }

    /// Returns what to do about the error, where that is known.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Request { source, .. } => match source.as_ref() {
                kube::Error::Api(status) if status.code == 403 => {
                    "a move reads and writes Cluster API's objects and Secrets at both servers, and reads their definitions"
                }
                kube::Error::Api(_) => "run it again: it resumes where it stopped",
                _ => {
                    "check that the server is reachable and run it again: it resumes where it stopped"
                }
            },
            Self::SameServer => "name the target with --to-kubeconfig and --to-context",
            Self::NothingToMove { .. } => "choose the namespace with -n",
            Self::NotMovable(_) => "fix the listed objects, or wait, and run it again",
            Self::KindsNotServed(_) => "install the same providers at the target, and run it again",
            Self::NameTaken(_) => {
                "they are not copies made by a move: delete or rename them at the target"
            }
            Self::CopyTerminating(_) => {
                "once unpaused, their controllers destroy what they represent: save what you need of them, remove their finalizers there, and run it again"
            }
            Self::OwnerCycle(_) => "remove the owner references that should not be there",
            Self::PauseTimeout { .. } => {
                "check that the controllers run; run it again, or with --assume-paused if none runs at the source"
            }
            Self::BlockTimeout { .. } => {
                "check why their controllers block the move; if none does, remove the annotation clusterctl.cluster.x-k8s.io/block-move; then run it again"
            }
            Self::KeepsChanging { .. } => "find out what changes it, and run it again",
            Self::StillPaused { error, .. } => return error.hint(),
        })
    }
}

/// Returns the server's message, or why there was no answer.
fn reason(error: &kube::Error) -> String {
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
