//! PodSecurity without I/O: the Pod Security Standards, and what they mean for a request.
//!
//! ```text
//! level       privileged, baseline or restricted, in a version
//! labels      a namespace's labels -> the policy to enforce, audit and warn about
//! config      the cluster-wide defaults and exemptions
//! pod         an object -> the pod that it is, or the template of its pods
//! checks      a pod and a level -> its violations
//! review      a write of a pod or of its controller -> refusal, warnings, audit annotations
//! namespace   a write of a namespace -> errors of its labels, warnings about existing pods
//! ```

mod checks;
mod config;
mod labels;
mod level;
mod namespace;
mod pod;
mod review;
mod text;

pub use checks::{Violations, evaluate};
pub use config::{ConfigError, ConfigSource, Exemptions, PodSecurity};
pub use labels::{LABELS, Policy};
pub use level::{Level, LevelVersion, Version};
pub use namespace::{MAX_PODS_TO_CHECK, NamespaceReview, NamespaceWrite, POD_CHECK_TIMEOUT};
pub use pod::Pod;
pub use review::{PodWrite, Review, Written, is_evaluated, is_significant_update};
