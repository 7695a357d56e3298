//! The broker-info file as the way to a broker.

use std::path::Path;

use insula_broker::Error;
use insula_broker::info::BrokerInfo;

use crate::failure::Failure;

/// A broker-info file with the address of a broker and credentials for it.
pub struct BrokerFile {
    /// The content, with the URL to use.
    pub info: BrokerInfo,
    /// The broker's namespace.
    pub namespace: String,
}

impl BrokerFile {
    /// Reads a file; another URL takes the place of its own.
    pub fn read(path: &Path, url: Option<&str>) -> Result<Self, Failure> {
        let mut info = BrokerInfo::read(path).map_err(Error::from)?;
        if let Some(url) = url {
            info.url = url.to_owned();
        }
        let namespace = info.namespace().map_err(Error::from)?;
        let lacks = || {
            let message = format!("{} names no namespace", path.display());
            Failure::message(message).hint("use the file of `subctl deploy broker`")
        };
        Ok(Self {
            namespace: namespace.ok_or_else(lacks)?,
            info,
        })
    }
}
