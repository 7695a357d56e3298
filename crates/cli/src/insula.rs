//! Insula: a multi-tenant Kubernetes control plane in one binary.

fn main() {}
