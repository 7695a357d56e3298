//! The bootstrap data of a machine: when it can be expected, and what its Secret contains.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;

use crate::kinds::{Cluster, Machine};

/// The reason of a machine that has no bootstrap data yet.
pub const WAITING: &str = "WaitingForBootstrapData";

/// The format of bootstrap data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The configuration of cloud-init, which is the default.
    CloudConfig,
    /// The configuration of Ignition.
    Ignition,
}

/// Returns why a machine cannot be provisioned yet, if there is a reason: infrastructure and
/// bootstrap data come first. It is a reason for a condition, and a message.
pub fn wait_reason(cluster: &Cluster, machine: &Machine) -> Option<(&'static str, &'static str)> {
    if !cluster.is_infrastructure_provisioned() {
        let message = "the infrastructure of its cluster is not ready yet";
        return Some(("WaitingForClusterInfrastructureReady", message));
    }
    if machine.bootstrap_secret().is_some() {
        return None;
    }
    let joins = !machine.is_control_plane();
    Some(match joins && !cluster.is_control_plane_initialized() {
        true => (
            "WaitingForControlPlaneInitialized",
            "the control plane of its cluster is not initialized yet",
        ),
        false => (WAITING, "its Machine has no bootstrap data yet"),
    })
}

/// Returns the format and the content of the bootstrap data in a Secret of this name.
///
/// # Errors
///
/// If the Secret has no content, or one of another format. The error is a message.
pub fn read<'a>(
    name: &str,
    data: &'a BTreeMap<String, ByteString>,
) -> Result<(Format, &'a [u8]), String> {
    let value = data.get("value").filter(|value| !value.0.is_empty());
    let value = value.ok_or_else(|| format!("Secret {name:?} has no key \"value\""))?;
    let format = data.get("format").map(|it| String::from_utf8_lossy(&it.0));
    let format = match format.as_deref().map(str::trim).unwrap_or_default() {
        "" | "cloud-config" => Format::CloudConfig,
        "ignition" => Format::Ignition,
        other => {
            return Err(format!(
                "the format {other:?} in Secret {name:?} is neither cloud-config nor ignition"
            ));
        }
    };
    Ok((format, &value.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_has_a_value_in_a_known_format() {
        let other = "the format \"butane\" in Secret \"b\" is neither cloud-config nor ignition";
        let none = "Secret \"b\" has no key \"value\"";
        for (value, format, expected) in [
            (Some("hi"), None, Ok(Format::CloudConfig)),
            (Some("hi"), Some("cloud-config\n"), Ok(Format::CloudConfig)),
            (Some("hi"), Some("ignition"), Ok(Format::Ignition)),
            (Some("hi"), Some("butane"), Err(other)),
            (Some(""), None, Err(none)),
            (None, Some("ignition"), Err(none)),
        ] {
            let data = [("value", value), ("format", format)].into_iter();
            let data = data.filter_map(|(key, text)| {
                let bytes = ByteString(text?.as_bytes().to_vec());
                Some((key.to_owned(), bytes))
            });
            let data = data.collect();
            let expected = expected.map(|format| (format, &b"hi"[..]));
            let expected = expected.map_err(str::to_owned);
            assert_eq!(read("b", &data), expected, "{value:?} {format:?}");
        }
    }
}
