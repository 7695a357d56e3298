//! The data directory, which only its owner may use.

use std::path::Path;

use insula_store::permissions::{create_folder, restrict, restrict_tree};

use crate::failure::Failure;

/// Creates the data directory, or takes the permissions of others from what the server keeps in
/// it. The store restricts its own folder. Other files are left as they are: the directory keeps
/// others out.
pub fn ensure_private(data_dir: &Path, audit_log: Option<&Path>) -> Result<(), Failure> {
    let ensure = || {
        create_folder(data_dir)?;
        restrict_tree(&data_dir.join("pki"))?;
        restrict_tree(&data_dir.join("encryption"))?;
        restrict(&data_dir.join("admin.kubeconfig"))?;
        match audit_log {
            Some(log) if is_within(log, data_dir) => restrict(log),
            // Elsewhere its permissions are the administrator's decision: a log shipper reads it.
            _ => Ok(()),
        }
    };
    ensure().map_err(|error: std::io::Error| {
        let attempted = format!("cannot use the data directory {}", data_dir.display());
        Failure::new(&attempted, error)
    })
}

fn is_within(file: &Path, folder: &Path) -> bool {
    match (file.canonicalize(), folder.canonicalize()) {
        (Ok(file), Ok(folder)) => file.starts_with(folder),
        _ => false,
    }
}
