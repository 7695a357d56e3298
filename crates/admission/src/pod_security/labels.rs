//! The policy of a namespace, from its labels.

use insula_kinds::FieldError;

use super::level::{Level, LevelVersion, Version};

/// The labels of a namespace that set its policy: of each mode the level and the version.
pub const LABELS: [&str; 6] = [
    ENFORCE,
    ENFORCE_VERSION,
    AUDIT,
    AUDIT_VERSION,
    WARN,
    WARN_VERSION,
];

pub(super) const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
pub(super) const ENFORCE_VERSION: &str = "pod-security.kubernetes.io/enforce-version";
pub(super) const AUDIT: &str = "pod-security.kubernetes.io/audit";
pub(super) const AUDIT_VERSION: &str = "pod-security.kubernetes.io/audit-version";
pub(super) const WARN: &str = "pod-security.kubernetes.io/warn";
pub(super) const WARN_VERSION: &str = "pod-security.kubernetes.io/warn-version";

/// The levels that apply to the pods of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Pods that violate it are refused.
    pub enforce: LevelVersion,
    /// Writes that violate it are annotated in the audit log.
    pub audit: LevelVersion,
    /// Writes that violate it are answered with a warning.
    pub warn: LevelVersion,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            enforce: LevelVersion::PRIVILEGED,
            audit: LevelVersion::PRIVILEGED,
            warn: LevelVersion::PRIVILEGED,
        }
    }
}

impl Policy {
    /// Returns the policy of a namespace with these labels, and the errors of its labels. An
    /// invalid level is enforced as `restricted`, and neither audited nor warned about; an invalid
    /// version is `latest`.
    pub fn of_labels<'a>(
        defaults: Self,
        label: impl Fn(&str) -> Option<&'a str>,
    ) -> (Self, Vec<FieldError>) {
        let mut policy = defaults;
        let mut errors = Vec::new();
        let enforce = read_level(label(ENFORCE), ENFORCE, &mut errors);
        policy.enforce.level = match enforce {
            Parsed::Absent => defaults.enforce.level,
            Parsed::Valid(level) => level,
            Parsed::Invalid => Level::Restricted,
        };
        read_version(
            label(ENFORCE_VERSION),
            ENFORCE_VERSION,
            &mut policy.enforce,
            &mut errors,
        );
        let audit = read_level(label(AUDIT), AUDIT, &mut errors);
        policy.audit.level = audit.unless_invalid(defaults.audit.level);
        read_version(
            label(AUDIT_VERSION),
            AUDIT_VERSION,
            &mut policy.audit,
            &mut errors,
        );
        let warn = read_level(label(WARN), WARN, &mut errors);
        policy.warn.level = warn.unless_invalid(defaults.warn.level);
        let has_warn_version = read_version(
            label(WARN_VERSION),
            WARN_VERSION,
            &mut policy.warn,
            &mut errors,
        );
        // A namespace that only enforces a level warns about it too, so that controllers of pods
        // that would be refused are answered with a warning.
        if let (Parsed::Valid(enforced), Parsed::Absent) = (enforce, warn)
            && enforced > policy.warn.level
        {
            policy.warn.level = enforced;
            if !has_warn_version {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }

    /// Whether every pod is allowed without an annotation or a warning.
    pub fn is_privileged(&self) -> bool {
        self.modes().iter().all(|mode| mode.is_privileged())
    }

    /// Whether both policies have the same effect on every pod.
    pub fn is_equivalent(&self, other: &Self) -> bool {
        let pairs = self.modes().into_iter().zip(other.modes());
        pairs.into_iter().all(|(one, two)| one.is_equivalent(two))
    }

    const fn modes(&self) -> [LevelVersion; 3] {
        [self.enforce, self.audit, self.warn]
    }
}

#[derive(Clone, Copy)]
enum Parsed {
    Absent,
    Valid(Level),
    Invalid,
}

impl Parsed {
    /// The level of a mode that refuses nothing, and so fails open.
    const fn unless_invalid(self, default: Level) -> Level {
        match self {
            Self::Absent => default,
            Self::Valid(level) => level,
            Self::Invalid => Level::Privileged,
        }
    }
}

fn read_level(value: Option<&str>, label: &str, errors: &mut Vec<FieldError>) -> Parsed {
    let Some(value) = value else {
        return Parsed::Absent;
    };
    match Level::parse(value) {
        Ok(level) => Parsed::Valid(level),
        Err(why) => {
            errors.push(invalid_label(label, value, why));
            Parsed::Invalid
        }
    }
}

/// Sets the version, and returns whether the label is present.
fn read_version(
    value: Option<&str>,
    label: &str,
    mode: &mut LevelVersion,
    errors: &mut Vec<FieldError>,
) -> bool {
    let Some(value) = value else {
        return false;
    };
    mode.version = Version::parse(value).unwrap_or_else(|why| {
        errors.push(invalid_label(label, value, why));
        Version::Latest
    });
    true
}

fn invalid_label(label: &str, value: &str, why: &str) -> FieldError {
    FieldError::invalid_text(format!("metadata.labels[{label}]"), value, why)
}
