//! `BareMetalHost`: a host that the Bare Metal Operator manages.
