//! The restart of a host by annotations, which the Bare Metal Operator carries out.
//!
//! A host is switched off while it has an annotation with a suffix, and is switched on again when
//! that is removed. A host that must not be switched off would restart again and again with such an
//! annotation: it gets the one without a suffix, which the Bare Metal Operator removes, and a
//! record of the request.

use crate::kinds::host::{BareMetalHost, ProvisioningState};
use crate::names::{HOST_DETACHED, HOST_PAUSED, REBOOT, REBOOT_PREFIX, RESTART_RECORD};

/// The value of the annotations: the operating system is not asked, because it may not answer.
const HARD: &str = r#"{"mode":"hard"}"#;

/// The request of a remediation that its host restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartRequest<'a> {
    /// The UID of the remediation.
    pub uid: &'a str,
    /// The number of the attempt.
    pub attempt: i32,
}

impl RestartRequest<'_> {
    /// Requests that a host is switched off, or restarts if it must not be switched off.
    pub fn place(&self, host: &mut BareMetalHost) {
        let must_stay_on = must_stay_on(host);
        let annotations = host.metadata.annotations.get_or_insert_default();
        match must_stay_on {
            true => {
                annotations.remove(&self.name());
                annotations.insert(RESTART_RECORD.to_owned(), self.record());
                annotations.insert(REBOOT.to_owned(), HARD.to_owned());
            }
            false => drop(annotations.insert(self.name(), HARD.to_owned())),
        }
    }

    /// Returns whether the host has the request of this attempt.
    pub fn is_placed(&self, host: &BareMetalHost) -> bool {
        match must_stay_on(host) {
            true => annotation(host, RESTART_RECORD) == Some(&self.record()),
            false => annotation(host, &self.name()).is_some(),
        }
    }

    /// Returns whether a host that has the request is switched off, or has restarted if it must
    /// not be switched off.
    pub fn is_done(&self, host: &BareMetalHost) -> bool {
        match must_stay_on(host) {
            true => annotation(host, REBOOT).is_none(),
            false => !is_on(host),
        }
    }

    /// Returns whether the host has a request of any attempt of this remediation, or of one that
    /// does not exist: after a move to another management cluster, remediations have other UIDs.
    pub fn is_to_withdraw(&self, host: &BareMetalHost, exists: impl Fn(&str) -> bool) -> bool {
        let mut after = host.clone();
        self.withdraw(&mut after, exists);
        after != *host
    }

    /// Withdraws these requests.
    pub fn withdraw(&self, host: &mut BareMetalHost, exists: impl Fn(&str) -> bool) {
        let is_own = |uid: &str| uid == self.uid || !exists(uid);
        let Some(annotations) = &mut host.metadata.annotations else {
            return;
        };
        annotations.retain(|name, _| !name.strip_prefix(REBOOT_PREFIX).is_some_and(is_own));
        let record = annotations.get(RESTART_RECORD);
        let record = record.map(|record| record.rsplit_once('/').unwrap_or((record, "")));
        if record.is_some_and(|(uid, _)| is_own(uid)) {
            annotations.remove(RESTART_RECORD);
            annotations.remove(REBOOT);
        }
    }

    fn name(&self) -> String {
        format!("{REBOOT_PREFIX}{}", self.uid)
    }

    fn record(&self) -> String {
        format!("{}/{}", self.uid, self.attempt)
    }
}

/// Returns the UIDs of the remediations with requests on a host.
pub fn requested_by(host: &BareMetalHost) -> Vec<String> {
    let annotations = host.metadata.annotations.iter().flatten();
    let uids = annotations.filter_map(|(name, value)| match name.as_str() {
        RESTART_RECORD => value.rsplit_once('/').map(|(uid, _)| uid.to_owned()),
        name => name.strip_prefix(REBOOT_PREFIX).map(str::to_owned),
    });
    uids.collect()
}

/// Withdraws the requests of all remediations: they are about the machine that leaves the host,
/// and would switch the host off for the next one.
pub fn withdraw_all(host: &mut BareMetalHost) {
    let none = RestartRequest {
        uid: "",
        attempt: 0,
    };
    none.withdraw(host, |_| false);
}

/// Returns whether a host is switched on.
pub fn is_on(host: &BareMetalHost) -> bool {
    let status = host.status.as_ref();
    status.is_some_and(|status| status.powered_on)
}

/// Returns whether a host must not be switched off.
pub fn must_stay_on(host: &BareMetalHost) -> bool {
    host.spec.disable_power_off == Some(true)
}

/// Returns whether a host can restart: it runs something, and that is not being removed.
pub fn can_restart(host: &BareMetalHost) -> bool {
    let spec = &host.spec;
    match host.state() {
        ProvisioningState::Provisioned => spec.image.is_some() || spec.custom_deploy.is_some(),
        ProvisioningState::ExternallyProvisioned => true,
        _ => false,
    }
}

/// Returns whether the Bare Metal Operator leaves a host alone, so that requests have no effect.
pub fn is_left_alone(host: &BareMetalHost) -> bool {
    let names = [HOST_PAUSED, HOST_DETACHED];
    names.iter().any(|name| annotation(host, name).is_some())
}

fn annotation<'a>(host: &'a BareMetalHost, name: &str) -> Option<&'a String> {
    host.metadata.annotations.as_ref()?.get(name)
}
