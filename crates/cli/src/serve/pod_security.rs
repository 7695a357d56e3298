//! The configuration file of PodSecurity.

use std::path::{Path, PathBuf};

use insula_apiserver::pod_security::{ConfigSource, PodSecurity};
use serde_json::Value;

use crate::certificate_file::read;
use crate::failure::Failure;

/// Reads the file, or the file that it names instead of a configuration.
pub fn load(path: &Path) -> Result<PodSecurity, Failure> {
    match load_source(path)? {
        ConfigSource::Inline(config) => Ok(*config),
        ConfigSource::File(named) => {
            let named = path
                .parent()
                .map_or_else(PathBuf::new, Path::to_owned)
                .join(named);
            match load_source(&named)? {
                ConfigSource::Inline(config) => Ok(*config),
                ConfigSource::File(_) => Err(unusable(&named, "it names another file")),
            }
        }
    }
}

fn load_source(path: &Path) -> Result<ConfigSource, Failure> {
    let bytes = read(path)?;
    let text = str::from_utf8(&bytes).map_err(|error| unusable(path, error))?;
    let config: Value = serde_saphyr::from_str(text).map_err(|error| unusable(path, error))?;
    PodSecurity::read(config).map_err(|error| unusable(path, error))
}

fn unusable(path: &Path, why: impl ToString) -> Failure {
    let attempted = format!(
        "cannot use the PodSecurity configuration {}",
        path.display()
    );
    Failure::new(&attempted, why.to_string())
        .hint("docs/admission.md describes the configuration, which is that of Kubernetes")
}

#[cfg(test)]
mod tests {
    use insula_apiserver::pod_security::Level;

    use super::*;

    #[test]
    fn configuration_is_read_itself_wrapped_or_from_the_named_file() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let config = "apiVersion: pod-security.admission.config.k8s.io/v1\n\
                      kind: PodSecurityConfiguration\n\
                      defaults:\n  enforce: baseline\n";
        let own = write("own.yaml", config);
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n";
        let named = format!("{head}plugins:\n- name: PodSecurity\n  path: own.yaml\n");
        let named = write("named.yaml", &named);
        let indented = config.replace('\n', "\n    ");
        let wrapped =
            format!("{head}plugins:\n- name: PodSecurity\n  configuration:\n    {indented}\n");
        let wrapped = write("wrapped.yaml", &wrapped);
        for path in [own, named, wrapped] {
            let read = load(&path).unwrap();
            assert_eq!(read.defaults.enforce.level, Level::Baseline, "{path:?}");
        }
        let looped = format!("{head}plugins:\n- name: PodSecurity\n  path: looped.yaml\n");
        let looped = write("looped.yaml", &looped);
        let failed = load(&looped).unwrap_err().to_string();
        assert!(failed.contains("it names another file"), "{failed}");
    }
}
