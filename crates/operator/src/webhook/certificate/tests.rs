use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::rotation::{Material, rotate};
use super::*;

fn now() -> SystemTime {
    SystemTime::now()
}

fn material(now: SystemTime) -> Material {
    let names = ["localhost".to_owned()];
    let made = rotate(None, &names, now).expect("a certificate");
    made.expect("it is created")
}

fn write(folder: &Path, material: &Material) {
    fs::create_dir_all(folder).expect("a folder");
    fs::write(folder.join("tls.crt"), &material.certificate).expect("a file");
    fs::write(folder.join("tls.key"), &material.key).expect("a file");
}

fn served(certificates: &Certificates) -> Option<String> {
    let current = certificates.current()?;
    let der = current.cert.first()?;
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    let block = pem::Pem::new("CERTIFICATE", der.to_vec());
    Some(pem::encode_config(&block, config))
}

#[test]
fn folder_is_loaded_again_when_the_symbolic_link_is_swapped() {
    let root = tempfile::tempdir().expect("a folder");
    let mount = root.path();
    let (first, second) = (material(now()), material(now()));
    // As the kubelet mounts a Secret: files lead through one link, which is swapped.
    write(&mount.join("..one"), &first);
    write(&mount.join("..two"), &second);
    symlink("..one", mount.join("..data")).expect("a link");
    for name in ["tls.crt", "tls.key"] {
        symlink(format!("..data/{name}"), mount.join(name)).expect("a link");
    }
    let certificates = Certificates::default();
    assert!(!certificates.is_loaded());
    let mut folder = CertificateFolder::new(mount);
    assert_eq!(folder.refresh(&certificates).expect("it is loaded"), None);
    assert_eq!(served(&certificates), Some(first.certificate.clone()));
    symlink("..two", mount.join("..next")).expect("a link");
    fs::rename(mount.join("..next"), mount.join("..data")).expect("a swap");
    fs::write(mount.join("ca.crt"), &second.ca_bundle).expect("a file");
    let bundle = folder.refresh(&certificates).expect("it is loaded");
    assert_eq!(served(&certificates), Some(second.certificate));
    assert_eq!(bundle, Some(second.ca_bundle));
}

#[test]
fn unusable_files_leave_the_last_certificate_in_use() {
    let root = tempfile::tempdir().expect("a folder");
    let (first, second) = (material(now()), material(now()));
    let expired = material(now() - SERVING_LIFETIME * 2);
    let certificates = Certificates::default();
    let mut folder = CertificateFolder::new(root.path());
    let missing = folder.refresh(&certificates).expect_err("there is no file");
    assert!(missing.to_string().starts_with("cannot read "), "{missing}");
    write(root.path(), &first);
    folder.refresh(&certificates).expect("it is loaded");
    let mixed = Material {
        key: second.key.clone(),
        ..first.clone()
    };
    let text = |certificate: &str, key: &str| Material {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        ..first.clone()
    };
    for (broken, message) in [
        (
            &mixed,
            "the certificate or its key is unusable: keys may not be consistent: KeyMismatch",
        ),
        (&text("", &first.key), "there is no certificate in PEM"),
        (
            &text(&first.certificate, "no"),
            "the key is not a private key in PEM",
        ),
        (&expired, "the certificate has expired"),
    ] {
        write(root.path(), broken);
        let error = folder.refresh(&certificates).expect_err("it is unusable");
        assert_eq!(error.to_string(), message);
        assert_eq!(served(&certificates).as_ref(), Some(&first.certificate));
    }
    fs::remove_file(root.path().join("tls.key")).expect("a file");
    folder
        .refresh(&certificates)
        .expect_err("a file is missing");
    assert_eq!(served(&certificates).as_ref(), Some(&first.certificate));
    write(root.path(), &second);
    folder.refresh(&certificates).expect("it is loaded");
    assert_eq!(served(&certificates), Some(second.certificate));
}

#[test]
fn certificates_show_no_key() {
    let material = material(now());
    let certificates = Certificates::default();
    let replaced = certificates.replace(&material.certificate, &material.key, now());
    replaced.expect("it is usable");
    assert_eq!(format!("{certificates:?}"), "Certificates { loaded: true }");
    assert!(!format!("{material:?}").contains("PRIVATE"));
}
