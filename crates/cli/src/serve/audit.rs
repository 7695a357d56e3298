//! The audit of requests: arguments, and the files that they name.

mod webhook;

use std::path::{Path, PathBuf};
use std::time::Duration;

use insula_apiserver::pipeline::audit::{Audit, Policy, Rotation, Sink, Truncation};

use self::webhook::{AuditWebhookArgs, WebhookBackend};
use crate::certificate_file::read;
use crate::failure::Failure;

/// The arguments of the audit.
#[derive(clap::Args)]
pub struct AuditArgs {
    /// Audit log file, one JSON event per line; `-` is the standard output (default: no audit log)
    #[arg(long = "audit-log-path", value_name = "FILE")]
    pub audit_log_path: Option<PathBuf>,

    /// Audit policy, a Policy of audit.k8s.io/v1 (default: every request, without bodies)
    #[arg(long = "audit-policy-file", value_name = "FILE")]
    pub audit_policy_file: Option<PathBuf>,

    #[command(flatten)]
    pub log: AuditLogArgs,

    #[command(flatten)]
    pub webhook: AuditWebhookArgs,
}

/// The arguments of the audit log.
#[derive(clap::Args)]
pub struct AuditLogArgs {
    /// Size in megabytes at which the audit log is rotated; 0 never rotates it
    #[arg(long = "audit-log-maxsize", value_name = "MEGABYTES")]
    #[arg(default_value_t = 0)]
    pub log_maxsize: u32,

    /// Old audit logs to keep; 0 keeps all
    #[arg(long = "audit-log-maxbackup", value_name = "FILES")]
    #[arg(default_value_t = 0)]
    pub log_maxbackup: usize,

    /// Days to keep old audit logs, by the time in their names; 0 keeps them
    #[arg(long = "audit-log-maxage", value_name = "DAYS")]
    #[arg(default_value_t = 0)]
    pub log_maxage: u32,

    /// Compress old audit logs with gzip
    #[arg(long = "audit-log-compress")]
    pub log_compress: bool,

    /// Limit the size of events in the audit log
    #[arg(long = "audit-log-truncate-enabled")]
    pub log_truncate_enabled: bool,

    /// Bytes of an event above which it loses its bodies, and then all but user, object and code
    #[arg(long = "audit-log-truncate-max-event-size", value_name = "BYTES")]
    #[arg(default_value_t = 102_400)]
    pub log_truncate_max_event_size: usize,
}

/// The audit as the arguments describe it: files read, nothing opened.
pub struct AuditSettings {
    policy: Option<Policy>,
    log: Option<LogSettings>,
    webhook: Option<WebhookBackend>,
}

struct LogSettings {
    path: PathBuf,
    rotation: Rotation,
    truncation: Option<Truncation>,
}

/// The path that stands for the standard output.
const STANDARD_OUTPUT: &str = "-";

const DAY: Duration = Duration::from_secs(86_400);

impl AuditSettings {
    /// Reads the files that the arguments name. `None` without a backend.
    pub fn of(args: AuditArgs) -> Result<Option<Self>, Failure> {
        let policy = args
            .audit_policy_file
            .as_deref()
            .map(load_policy)
            .transpose()?;
        let webhook = WebhookBackend::of(&args.webhook)?;
        let records_received = policy.as_ref().is_some_and(Policy::records_received);
        if webhook.as_ref().is_some_and(WebhookBackend::is_strict) && !records_received {
            return Err(Failure::message(
                "--audit-webhook-mode blocking-strict needs a policy that logs RequestReceived",
            )
            .hint("add --audit-policy-file FILE without RequestReceived in its omitStages"));
        }
        let log = args.audit_log_path.map(|path| args.log.settings(path));
        if log.is_some() || webhook.is_some() {
            return Ok(Some(Self {
                policy,
                log,
                webhook,
            }));
        }
        match policy {
            None => Ok(None),
            Some(_) => Err(
                Failure::message("--audit-policy-file needs an audit backend")
                    .hint("add --audit-log-path FILE or --audit-webhook-config-file FILE"),
            ),
        }
    }

    /// Returns the audit log, if it is a file.
    pub fn log_file(&self) -> Option<&Path> {
        let path = self.log.as_ref().map(|log| log.path.as_path());
        path.filter(|path| *path != Path::new(STANDARD_OUTPUT))
    }

    /// Opens the backends.
    pub fn start(self) -> Result<Audit, Failure> {
        let mut audit = Audit::new(self.policy);
        if let Some(log) = self.log {
            let truncation = log.truncation;
            audit = audit.with_log(log.open()?, truncation);
        }
        if let Some(webhook) = self.webhook {
            audit = audit.with_webhook(webhook.start());
        }
        Ok(audit)
    }
}

impl AuditLogArgs {
    fn settings(&self, path: PathBuf) -> LogSettings {
        LogSettings {
            path,
            rotation: Rotation {
                max_bytes: u64::from(self.log_maxsize) << 20,
                max_backups: self.log_maxbackup,
                max_age: (self.log_maxage > 0).then(|| DAY * self.log_maxage),
                compress: self.log_compress,
            },
            truncation: self.log_truncate_enabled.then_some(Truncation {
                max_event_bytes: self.log_truncate_max_event_size,
                max_batch_bytes: usize::MAX,
            }),
        }
    }
}

impl LogSettings {
    fn open(self) -> Result<Sink, Failure> {
        let attempted = format!("cannot write the audit log {}", self.path.display());
        let opened = match self.path == Path::new(STANDARD_OUTPUT) {
            true => Sink::to(std::io::stdout()),
            false => Sink::to_file(&self.path, self.rotation),
        };
        opened.map_err(|error| {
            Failure::new(&attempted, error)
                .hint("--audit-log-path must be a file in an existing, writable folder")
        })
    }
}

fn load_policy(path: &Path) -> Result<Policy, Failure> {
    let unusable = |why: String| {
        let attempted = format!("cannot use the audit policy {}", path.display());
        Failure::new(&attempted, why)
            .hint("docs/audit.md describes the policy, which is that of Kubernetes")
    };
    let bytes = read(path)?;
    let text = str::from_utf8(&bytes).map_err(|error| unusable(error.to_string()))?;
    Policy::parse(text).map_err(|error| unusable(error.to_string()))
}
