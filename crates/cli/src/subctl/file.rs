//! The broker-info file that a tenant's administrator begins with.

use std::path::{Path, PathBuf};

use insula_broker::info::{self, BrokerInfo, Saved};
use insula_broker::names::TenantId;
use insula_broker::report::Report;
use jiff::Zoned;

use super::flag;
use super::progress::Progress;
use crate::failure::Failure;

/// Where the file goes, and what it says of the server.
#[derive(clap::Args)]
pub struct FileArgs {
    /// Where to write the broker-info file; one that is there is kept under another name
    #[arg(long, value_name = "FILE", default_value = info::FILE)]
    output_file: PathBuf,

    /// Write it to broker-info-ID-TIME.subm, in the folder of --output-file
    #[arg(long)]
    unique_file: bool,

    /// The URL of the server as the tenant reaches it; default: as it is reached from here
    #[arg(long, value_name = "URL", value_parser = flag::broker_url)]
    broker_url: Option<String>,
}

impl FileArgs {
    /// Whether the file can be put there, as far as that can be known before there is anything
    /// to write.
    pub fn check(&self) -> Result<(), Failure> {
        let checked = match self.unique_file {
            false => info::check(&self.output_file),
            true => info::check(&self.output_file.with_file_name(info::FILE)),
        };
        Ok(checked.map_err(insula_broker::Error::from)?)
    }

    /// The server as the tenant reaches it. Nobody else reaches this machine's own address.
    pub fn url(&self, context: &str, progress: &Progress) -> String {
        if let Some(url) = &self.broker_url {
            return url.clone();
        }
        if is_local(context) {
            let said = format!(
                "{context} is reached from this machine only; --broker-url names another address"
            );
            progress.warn(&said);
        }
        context.to_owned()
    }

    /// Writes it.
    pub fn write(
        &self,
        id: &TenantId,
        info: &BrokerInfo,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let path = self.path(id);
        let saved = info::save(&path, info).map_err(insula_broker::Error::from)?;
        tell(&path, &saved, progress);
        Ok(())
    }

    fn path(&self, id: &TenantId) -> PathBuf {
        match self.unique_file {
            false => self.output_file.clone(),
            true => {
                let name = info::unique_name(id, &Zoned::now());
                self.output_file.with_file_name(name)
            }
        }
    }
}

/// Says what was written.
pub fn tell(path: &Path, saved: &Saved, progress: &Progress) {
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
    fn a_machines_own_address_is_nobody_elses() {
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
