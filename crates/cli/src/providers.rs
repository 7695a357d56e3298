//! All providers. A new provider is added to each list here, and nowhere else in the commands.

use insula_azure::inspect::Azure;
use insula_capi::relocation::MoveRules;
use insula_metal3::inspect::Metal3;
use insula_operator::provider::explain::Inspect;
use insula_vsphere::inspect::VSphere;

/// Their objects' credentials, for `insula identity`.
pub const INSPECTED: &[&dyn Inspect] = &[&Metal3, &VSphere, &Azure];

/// Their rules for `insula move`.
pub const MOVE_RULES: &[&dyn MoveRules] = &[&Metal3, &VSphere];
