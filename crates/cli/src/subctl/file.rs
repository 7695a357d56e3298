//! The broker-info file that a tenant's administrator starts with.

use std::path::{Path, PathBuf};

use insula_broker::info::{self, BrokerInfo, Saved};
use insula_broker::names::TenantId;
use insula_broker::report::Report;
use jiff::Zoned;

use super::flag;
use super::progress::Progress;
use crate::failure::Failure;

/// The arguments of the file.
#[derive(clap::Args)]
pub struct FileArgs {
    /// Broker-info file to write; an existing one is backed up
    #[arg(long, value_name = "FILE", default_value = info::FILE)]
    output_file: PathBuf,

    /// Write to broker-info-ID-TIME.subm in the folder of --output-file
    #[arg(long)]
    unique_file: bool,

    /// URL of the server for the tenant (default: the URL in use)
    #[arg(long, value_name = "URL", value_parser = flag::broker_url)]
    broker_url: Option<String>,
}

impl FileArgs {
    /// Checks that the file can be written, as far as that can be known in advance.
    pub fn check(&self) -> Result<(), Failure> {
        let checked = match self.unique_file {
            false => info::check(&self.output_file),
            true => info::check(&self.output_file.with_file_name(info::FILE)),
        };
        Ok(checked.map_err(insula_broker::Error::from)?)
    }

    /// Returns the server URL for the tenant; warns if it is a loopback address.
    pub fn url(&self, context: &str, progress: &Progress) -> String {
        if let Some(url) = &self.broker_url {
            return url.clone();
        }
        if is_local(context) {
            let message = format!(
                "{context} can be reached from this machine only; pass another address as --broker-url"
            );
            progress.warn(&message);
        }
        context.to_owned()
    }

    /// Writes the file.
    pub fn write(
        &self,
        id: &TenantId,
        info: &BrokerInfo,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let path = self.path(id);
        let saved = info::save(&path, info).map_err(insula_broker::Error::from)?;
        report_saved(&path, &saved, progress);
        Ok(())
    }

    /// Returns the file to write now.
    pub fn path(&self, id: &TenantId) -> PathBuf {
        match self.unique_file {
            false => self.output_file.clone(),
            true => {
                let name = info::unique_name(id, &Zoned::now());
                self.output_file.with_file_name(name)
            }
        }
    }
}

/// Reports what was written.
pub fn report_saved(path: &Path, saved: &Saved, progress: &Progress) {
    if let Some(backup) = &saved.backup {
        progress.done(&format!("Backed up previous file {path:?} to {backup:?}"));
    }
    progress.done(&format!("Saved broker info to file {path:?}"));
}

fn is_local(url: &str) -> bool {
    let url: Option<http::Uri> = url.parse().ok();
    let host = url.as_ref().and_then(http::Uri::host).unwrap_or_default();
    let host = host.trim_matches(['[', ']']);
    match host.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_local() {
        for (url, local) in [
            ("https://127.0.0.1:6443", true),
            ("https://127.1.2.3", true),
            ("https://[::1]:6443", true),
            ("https://localhost:6443/a", true),
            ("https://10.0.0.1:6443", false),
            ("https://localhost.example", false),
        ] {
            assert_eq!(is_local(url), local, "{url}");
        }
    }
}
