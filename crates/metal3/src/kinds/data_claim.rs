//! `Metal3DataClaim`: the request of a machine for data.
