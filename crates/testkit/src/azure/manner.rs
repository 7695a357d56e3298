//! How the resource provider of a type answers.

use std::collections::BTreeMap;

/// How a resource provider answers a PUT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutManner {
    /// 201 or 200 with `Succeeded` in the body.
    Done,
    /// 201 or 200 with neither a state nor a polling header.
    Stateless,
    /// 201 with a relative `Location`, or 200; no state.
    RelativeLocation,
    /// `Azure-AsyncOperation` with this status and the resource in the body.
    Async(u16),
    /// 202 with `Azure-AsyncOperation`, `Location` and the operation's name in the body.
    AsyncWithoutResource,
    /// 202 with `Location` and without a body.
    Location,
    /// This status with a state in the body that later GETs of the resource show changing.
    Body(u16),
}

/// How a resource provider answers a DELETE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteManner {
    /// This status, 200 or 204, and the resource is gone.
    Done(u16),
    /// 202 with `Azure-AsyncOperation` and `Location`.
    Async,
    /// 202 with `Location`.
    Location,
    /// 405: the type has no DELETE.
    NotAllowed,
}

/// How the resource provider of a type answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manner {
    /// The answer to the PUT of a new resource.
    pub create: PutManner,
    /// The answer to the PUT of an existing one.
    pub update: PutManner,
    /// The answer to a DELETE.
    pub delete: DeleteManner,
    /// The number of observations (polls, or GETs of the resource) of which an operation is still
    /// in progress; `None` is the default of the whole fake.
    pub polls: Option<u32>,
    /// The seconds of `Retry-After`; `None` is the default of the whole fake.
    pub retry_after: Option<u32>,
    /// The states of an operation in progress, one after the other; the last one repeats.
    pub in_progress: &'static [&'static str],
    /// The state of an operation that succeeded.
    pub succeeded: &'static str,
    /// The code of an error object beside the state of an operation in progress.
    pub error_in_progress: Option<&'static str>,
    /// Whether an operation that succeeded has that error object too.
    pub error_on_success: bool,
    /// The state of a resource that is being created.
    pub creating: &'static str,
    /// Whether ids are answered with `resourcegroups` in lower case.
    pub lower_case_groups: bool,
    /// The code of the 409 to a PUT while an operation is in progress; `None` accepts it, and
    /// the former operation is canceled.
    pub busy: Option<&'static str>,
    /// Whether errors have their fields at the top.
    pub bare_errors: bool,
    /// The last part of the path of operations, before the operation's id.
    pub operations: &'static str,
}

/// The manners of all types.
#[derive(Clone, Debug)]
pub(super) struct Manners {
    chosen: BTreeMap<String, Manner>,
    /// The default of [`Manner::polls`].
    pub polls: u32,
    /// The default of [`Manner::retry_after`]; `None` sends no header.
    pub retry_after: Option<u32>,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            create: PutManner::Async(201),
            update: PutManner::Async(200),
            delete: DeleteManner::Async,
            polls: None,
            retry_after: None,
            in_progress: &["InProgress"],
            succeeded: "Succeeded",
            error_in_progress: None,
            error_on_success: false,
            creating: "Creating",
            lower_case_groups: false,
            busy: None,
            bare_errors: false,
            operations: "operations",
        }
    }
}

impl Default for Manners {
    fn default() -> Self {
        Self {
            chosen: BTreeMap::new(),
            polls: 1,
            retry_after: Some(0),
        }
    }
}

impl Manners {
    /// The manner of a type.
    pub fn of(&self, resource_type: &str) -> Manner {
        let key = resource_type.to_ascii_lowercase();
        let chosen = self.chosen.get(&key).cloned();
        chosen.unwrap_or_else(|| usual(&key))
    }

    /// Changes the manner of a type.
    pub fn change(&mut self, resource_type: &str, change: impl FnOnce(&mut Manner)) {
        let mut manner = self.of(resource_type);
        change(&mut manner);
        self.chosen
            .insert(resource_type.to_ascii_lowercase(), manner);
    }

    /// The number of observations of which an operation is in progress.
    pub fn polls(&self, manner: &Manner) -> u32 {
        manner.polls.unwrap_or(self.polls)
    }

    /// The value of `Retry-After`.
    pub fn retry_after(&self, manner: &Manner) -> Option<String> {
        let seconds = manner.retry_after.or(self.retry_after);
        seconds.map(|seconds| seconds.to_string())
    }
}

/// The usual manner of a type, in lower case.
fn usual(key: &str) -> Manner {
    let (namespace, kind) = key.split_once('/').unwrap_or((key, ""));
    match (namespace, kind) {
        ("microsoft.resources", _) => Manner {
            delete: DeleteManner::Location,
            operations: "operationresults",
            ..synchronous(PutManner::Done)
        },
        ("microsoft.network", _) => Manner {
            creating: "Updating",
            ..Manner::default()
        },
        ("microsoft.storage", "storageaccounts") => Manner {
            create: PutManner::Location,
            update: PutManner::Done,
            delete: DeleteManner::Done(200),
            operations: "asyncoperations",
            ..Manner::default()
        },
        ("microsoft.storage" | "microsoft.authorization", _) => synchronous(PutManner::Stateless),
        ("microsoft.managedidentity", _) => Manner {
            lower_case_groups: true,
            ..synchronous(PutManner::RelativeLocation)
        },
        ("microsoft.subscription", _) => synchronous(PutManner::Done),
        ("microsoft.keyvault", "vaults") => Manner {
            create: PutManner::Body(200),
            creating: "RegisteringDns",
            ..synchronous(PutManner::Done)
        },
        ("microsoft.containerservice", _) => container_service(),
        ("microsoft.dbforpostgresql", kind) => postgresql(kind),
        ("microsoft.cache", _) => Manner {
            in_progress: &["Inprogress"],
            succeeded: "succeeded",
            operations: "asyncOperations",
            ..Manner::default()
        },
        ("microsoft.cdn", _) => Manner {
            error_in_progress: Some("None"),
            error_on_success: true,
            operations: "operationresults",
            ..Manner::default()
        },
        _ => Manner::default(),
    }
}

fn synchronous(put: PutManner) -> Manner {
    Manner {
        create: put,
        update: put,
        delete: DeleteManner::Done(200),
        ..Manner::default()
    }
}

fn container_service() -> Manner {
    Manner {
        in_progress: &[
            "InProgress",
            "ProvisioningControlPlane",
            "CreatingAgentPool: 0/1 nodes completed",
        ],
        error_in_progress: Some("NotLatestOperation"),
        lower_case_groups: true,
        busy: Some("OperationNotAllowed"),
        bare_errors: true,
        ..Manner::default()
    }
}

fn postgresql(kind: &str) -> Manner {
    Manner {
        create: PutManner::AsyncWithoutResource,
        update: PutManner::AsyncWithoutResource,
        delete: match kind {
            "flexibleservers/configurations" => DeleteManner::NotAllowed,
            _ => DeleteManner::Async,
        },
        busy: Some("ServerIsBusy"),
        operations: "azureAsyncOperation",
        ..Manner::default()
    }
}
