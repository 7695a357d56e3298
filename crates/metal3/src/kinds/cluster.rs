//! `Metal3Cluster` and its template.
