//! One line about the settings, without secrets, for the log of the start.

use std::fmt;

use super::{CredentialMode, MODES, POLICIES, Settings, TLS_VERSIONS, credential};

impl fmt::Display for Settings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "namespace={} mode={} target-namespaces={}",
            self.pod_namespace,
            name(MODES, self.mode),
            self.target_namespaces
        )?;
        self.write_credential(out)?;
        let cloud = &self.cloud;
        write!(
            out,
            " authority={} resource-manager={} audience={} multiple-clouds={}",
            cloud.authority_host,
            cloud.resource_manager_endpoint,
            cloud.resource_manager_audience,
            self.multiple_clouds
        )?;
        match self.sync_period {
            Some(period) => write!(out, " sync-period={}s", period.as_secs_f64())?,
            None => out.write_str(" sync-period=never")?,
        }
        write!(out, " concurrent-reconciles={}", self.concurrent_reconciles)?;
        match self.rate_limit {
            Some(limit) => write!(
                out,
                " rate-limit={}/s,{}",
                limit.per_second, limit.bucket_size
            )?,
            None => out.write_str(" rate-limit=disabled")?,
        }
        write!(
            out,
            " default-policy={} min-tls={}",
            name(POLICIES, self.default_policy),
            name(TLS_VERSIONS, self.min_tls_version)
        )?;
        match &self.user_agent_suffix {
            Some(suffix) => write!(out, " user-agent-suffix={suffix:?}"),
            None => Ok(()),
        }
    }
}

impl Settings {
    fn write_credential(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let absent = "-";
        match &self.credential {
            Some(own) => write!(
                out,
                " credential={} subscription={} tenant={} client={}",
                own.proof.name(),
                own.subscription,
                own.tenant.as_deref().unwrap_or(absent),
                own.client.as_deref().unwrap_or(absent)
            )?,
            None => out.write_str(" credential=none")?,
        }
        write!(
            out,
            " credential-mode={} workload-identity-mode={}",
            self.credential_mode,
            name(
                credential::WORKLOAD_IDENTITY_MODES,
                self.workload_identity_mode
            )
        )
    }
}

impl fmt::Display for CredentialMode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(name(credential::MODES, *self))
    }
}

/// Returns the name of a choice.
fn name<T: PartialEq>(choices: &'static [(&'static str, T)], choice: T) -> &'static str {
    let found = choices.iter().find(|it| it.1 == choice);
    found.map_or("", |it| it.0)
}
